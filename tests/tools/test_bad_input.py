"""Bad input to the commands: one clear message, exit status 1 (2 for usage), nothing half-written."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import refused, run
from onnx import TensorProto, helper, numpy_helper

from glow_passes.watch.dot import to_svg
from glow_tools import bench, opt, translate
from glow_tools import compile as compile_command
from glow_tools import run as run_command

NET = """
glow.placeholder @x input : tensor<2x3xf32>
glow.placeholder @out output : tensor<2x3xf32>
glow.func @main {
  %x = glow.get @x : tensor<2x3xf32>
  %y = glow.relu %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  glow.save %y to @out : tensor<2x3xf32>
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A small program in a file."""
    path = tmp_path / "net.mlir"
    path.write_text(NET)
    return path


def model(*nodes: onnx.NodeProto, batch: str | int = 2, weights: tuple[onnx.TensorProto, ...] = ()) -> bytes:
    """A model from x[batch, 3] to y[batch, 3]."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 3])],
        list(weights),
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return made.SerializeToString()


RELU = helper.make_node("Relu", ["x"], ["y"])


def files(folder: Path) -> set[str]:
    """What lies in a folder, hidden files too."""
    return {p.name for p in folder.iterdir()}


# --- glow-opt -------------------------------------------------------------------------------------

NORM = """glow.placeholder @x input : tensor<2x3xf32>
glow.constant @s = dense<2.0> : tensor<3xf32>
glow.func @main {
  %x = glow.get @x : tensor<2x3xf32>
  %s = glow.get @s : tensor<3xf32>
  %y = glow.layer_norm OPERANDS {axis = 1 : i64} : (tensor<2x3xf32>, TYPES) -> tensor<2x3xf32>
}
"""


def test_operands_that_may_be_absent() -> None:
    """The first ones are there; too many are told at the operation, not at what follows it."""
    some = NORM.replace("OPERANDS", "%x, %s, %s").replace("TYPES", "tensor<3xf32>, tensor<3xf32>")
    done = run(opt.main, text=some)
    assert done.status == 0 and "operandSegmentSizes = array<i32: 1, 1, 1, 0>" in done.output, done
    many = NORM.replace("OPERANDS", "%x, %s, %s, %s").replace("TYPES", ", ".join(["tensor<3xf32>"] * 3))
    refused(run(opt.main, text=many), ":6:", "glow.layer_norm takes 1 to 3 operands, got 4")


def test_missing_file(tmp_path: Path) -> None:
    """The file is named."""
    refused(run(opt.main, tmp_path / "none.mlir"), "No such file", "none.mlir")
    refused(run(opt.main, tmp_path / "none.onnx"), "none.onnx")


def test_folder_for_file(tmp_path: Path) -> None:
    """A folder is no program."""
    refused(run(opt.main, tmp_path), f"{tmp_path}: expected a graph, found a folder")


def test_pipe_for_file(tmp_path: Path) -> None:
    """Reading it would wait for somebody to write."""
    for name in ("model.onnx", "net.mlir"):
        os.mkfifo(tmp_path / name)
        refused(run(opt.main, tmp_path / name), f"{tmp_path / name}: this is a pipe")


def test_text_is_not_written_over_a_model(net: Path, tmp_path: Path) -> None:
    """The extension says that somebody expects ONNX."""
    target = tmp_path / "model.onnx"
    target.write_bytes(b"kept")
    refused(run(opt.main, net, "-o", target), f"{target}: ", "glow-translate writes ONNX models")
    assert target.read_bytes() == b"kept"


def test_binary_file(tmp_path: Path) -> None:
    """Bytes that are no text."""
    path = tmp_path / "net.mlir"
    path.write_bytes(b"\xff\xfe\x00\x01")
    refused(run(opt.main, path), "expected a graph, found a file that is neither text nor a model")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("glow.func @main {", ("<stdin>:",)),
        ("glow.relu", ("<stdin>:",)),
        ("glow.placeholder @x input : tensor<2x3xf33>", ("f33",)),
        ("glow.placeholder @x input : tensor<-2xf32>", ("<stdin>:",)),
        ("glow.placeholder @x input : tensor<?xf32>", ("static",)),
        ("glow.constant @w = dense<[1.0, 2.0]> : tensor<3xf32>", ("<stdin>:",)),
        ('glow.constant @w = #glow.resource<"w"> : f32', ("tensor",)),
        ("}", ("<stdin>:",)),
        ("\0", ("<stdin>:",)),
        ('"unterminated' + "x" * 200, ("<stdin>:", "closing string literal")),
        ("(" * 3000, ()),
        ("nothing.here", ("nothing.here",)),
        ("", ("empty",)),
    ],
)
def test_malformed_text(text: str, words: tuple[str, ...]) -> None:
    """The place and what is wrong with it."""
    refused(run(opt.main, "-", text=text), *words)


@pytest.mark.parametrize(
    ("passes", "words"),
    [
        ("glow-schedul", ("unknown pass or pipeline 'glow-schedul'", "did you mean glow-schedule")),
        ("nothing-like-it", ("unknown pass or pipeline 'nothing-like-it'", "--list-passes")),
        ("glow-schedule{by=chance}", ("glow-schedule",)),
        ("glow-schedule{speed=1}", ("glow-schedule", "speed")),
        ("glow-schedule{", ("cannot be read",)),
        ("{}", ("cannot be read",)),
        ("optimize{foo=1}", ("pipeline optimize takes no options, got foo",)),
        ("glow-decompose{ops=nonexistent}", ("there is no operator 'nonexistent'",)),
        ("lower,glow-plan-memory{alignment=0}", ("glow-plan-memory: alignment must be positive, got 0",)),
    ],
)
def test_bad_pipeline(net: Path, passes: str, words: tuple[str, ...]) -> None:
    """Unknown passes and options, and pipelines that are no pipelines."""
    refused(run(opt.main, net, "-p", passes), *words)


@pytest.mark.parametrize(
    "arguments",
    [
        ("-t", "wasm"),
        ("--no-such-option",),
        ("--shape", "x"),
        ("--shape", "x=1xtwo"),
        ("--bisect-limit", "many"),
    ],
)
def test_usage(net: Path, arguments: tuple[str, ...]) -> None:
    """Wrong options end with status 2 and the usage line."""
    refused(run(opt.main, net, *arguments), "usage: glow-opt", status=2)


@pytest.mark.parametrize("target", ["llvm-ir", "asm"])
def test_target_needs_instructions(net: Path, target: str) -> None:
    """What to do is said."""
    refused(run(opt.main, net, "-t", target), "-p cpu")


def test_unknown_cpu(net: Path) -> None:
    """The CPU is named."""
    refused(run(opt.main, net, "-p", "cpu", "-t", "asm", "--mcpu", "z80"), "z80")


def test_svg_without_graphviz(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Graphviz is not installed, that is said."""
    monkeypatch.setenv("PATH", "")
    refused(run(opt.main, net, "-t", "svg"), "Graphviz")


@pytest.mark.parametrize(
    ("program", "message"), [("sleep 30", "does not draw these"), ("exit 3", "Graphviz failed")]
)
def test_svg_with_a_graphviz_that_fails(
    program: str, message: str, net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture that takes too long, or fails, is a message that says what else there is."""
    dot = tmp_path / "dot"
    dot.write_text(f"#!/bin/sh\necho no picture >&2\nexec {program}\n".replace("exec exit", "exit"))
    dot.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(to_svg, "__defaults__", (0.4,))
    start = time.monotonic()
    refused(run(opt.main, net, "-t", "svg"), message)
    assert time.monotonic() - start < 20


def test_output_is_whole_or_not_there(tmp_path: Path) -> None:
    """A failing command leaves an existing output as it was, and no other file."""
    output = tmp_path / "out.mlir"
    output.write_text("before")
    refused(run(opt.main, "-", "-o", output, "-p", "nothing", text=NET), "nothing")
    assert output.read_text() == "before"
    assert files(tmp_path) == {"out.mlir"}


def test_output_in_missing_folder(net: Path, tmp_path: Path) -> None:
    """The folder must be there; the message names the file that was asked for."""
    path = tmp_path / "none/out.mlir"
    refused(run(opt.main, net, "-o", path), f"cannot write {path}: No such file or directory")


def test_output_to_what_is_no_file(net: Path, tmp_path: Path) -> None:
    """Devices and pipes are written to, a link stays a link, permissions stay; a folder is refused."""
    assert run(opt.main, net, "-o", "/dev/null").status == 0
    assert Path("/dev/null").is_char_device()
    refused(run(opt.main, net, "-o", "/dev/full"), "cannot write /dev/full: No space left")
    assert Path("/dev/full").is_char_device()
    refused(run(opt.main, net, "-o", tmp_path), "Is a directory")
    real, link = tmp_path / "real.mlir", tmp_path / "link.mlir"
    real.touch(mode=0o640)
    link.symlink_to(real)
    assert run(opt.main, net, "-o", link).status == 0
    assert link.is_symlink()
    assert "glow.func" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


# --- models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 1, 10, 40, 0.5, 0.9])
def test_truncated_model(tmp_path: Path, kept: float) -> None:
    """A file that ends too early."""
    data = model(RELU)
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: int(kept * len(data)) if isinstance(kept, float) else kept])
    refused(run(opt.main, path), "cut.onnx")


def test_unknown_operators_are_all_named(tmp_path: Path) -> None:
    """Every problem of a model at once."""
    path = tmp_path / "odd.onnx"
    path.write_bytes(
        model(
            helper.make_node("Frobnicate", ["x"], ["a"], name="first"),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Transmogrify", ["b"], ["y"], name="second"),
        )
    )
    done = run(opt.main, path)
    refused(done, "2 problems", "first", "Frobnicate", "second", "Transmogrify")


def test_wrong_shapes(tmp_path: Path) -> None:
    """Shapes that do not fit are the node's problem."""
    weights = numpy_helper.from_array(np.zeros(5, np.float32), "w")
    path = tmp_path / "shapes.onnx"
    path.write_bytes(model(helper.make_node("Add", ["x", "w"], ["y"], name="sum"), weights=(weights,)))
    refused(run(opt.main, path), "sum", "Add")


def test_unbound_dimension(tmp_path: Path) -> None:
    """It stays open under its name; where its size is needed, the message says how to bind it."""
    path = tmp_path / "symbolic.onnx"
    path.write_bytes(model(RELU, batch="N"))
    assert "tensor<[N]x3xf32>" in run(opt.main, path).output
    text = tmp_path / "symbolic.mlir"
    text.write_text(run(opt.main, path).output)
    for file in (path, text):
        refused(run(compile_command.main, file, "-o", tmp_path / "out"), "input 'x' is ?x3", "--shape x=1x3")
    assert run(opt.main, text, "--shape", "x=2x3").status == 0
    refused(run(opt.main, text, "--shape", "x=2x4"), "x (2, 4)")
    assert run(opt.main, path, "--shape", "x=2x3").status == 0
    refused(run(opt.main, path, "--shape", "z=2x3"), "z")
    refused(run(opt.main, path, "--shape", "x=2x3x4"), "x")
    refused(run(opt.main, path, "--shape", "x=2x4"), "x")


def test_unsorted_graph_is_sorted(tmp_path: Path) -> None:
    """Nodes in any order, as onnxruntime takes them."""
    path = tmp_path / "unsorted.onnx"
    path.write_bytes(model(helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Neg", ["x"], ["a"])))
    done = run(opt.main, path)
    assert done.status == 0, done
    assert done.output.index("glow.neg") < done.output.index("glow.relu")


def test_cyclic_graph(tmp_path: Path) -> None:
    """A cycle has no order."""
    path = tmp_path / "cycle.onnx"
    path.write_bytes(
        model(
            helper.make_node("Add", ["x", "b"], ["a"], name="one"),
            helper.make_node("Relu", ["a"], ["b"], name="two"),
            helper.make_node("Relu", ["b"], ["y"]),
        )
    )
    refused(run(opt.main, path), "cycl")


def test_nan_weights_flow(tmp_path: Path) -> None:
    """NaN weights are weights: the result is NaN, and the comparison with onnxruntime agrees."""
    weights = numpy_helper.from_array(np.array([np.nan, 1, 2], np.float32), "w")
    path = tmp_path / "nan.onnx"
    path.write_bytes(model(helper.make_node("Add", ["x", "w"], ["y"]), weights=(weights,)))
    done = run(run_command.main, path, "--random", "0", "--compare", "onnxruntime")
    assert done.status == 0, done


# --- glow-run -------------------------------------------------------------------------------------


def saved(folder: Path, array: np.ndarray) -> Path:
    """An array in a file."""
    path = folder / "value.npy"
    np.save(path, array)
    return path


def test_run_standard_input(net: Path) -> None:
    """A program comes from a pipe as well."""
    for other in ("onnxruntime", "interpreter"):
        done = run(run_command.main, "-", "--random", "0", "--compare", other, text=net.read_text())
        assert f"agrees with {other}" in done.output, done


def test_run_wrong_inputs(net: Path, tmp_path: Path) -> None:
    """Name, dtype and shape of a wrong input, and what was expected."""
    good = saved(tmp_path, np.zeros((2, 3), np.float32))
    assert run(run_command.main, net, "--input", f"x={good}").status == 0
    refused(run(run_command.main, net), "input 'x' has no value", "--random")
    refused(run(run_command.main, net, "--input", f"z={good}", "--random", "0"), "unknown input 'z'", "x")
    refused(run(run_command.main, net, "--input", "x"), "No such file")
    refused(run(run_command.main, net, "--input", f"x={tmp_path}/none.npy"), "No such file")
    long = saved(tmp_path, np.zeros((3, 3), np.float32))
    refused(run(run_command.main, net, "--input", f"x={long}"), "(3, 3)", "(2, 3)")
    double = saved(tmp_path, np.zeros((2, 3)))
    refused(run(run_command.main, net, "--input", f"x={double}"), "float64", "float32")


def test_run_open_rank(tmp_path: Path) -> None:
    """An input of any rank needs a shape and then runs; one that is no tensor is refused."""
    made = {
        "x": (helper.make_node("Relu", ["x"], ["y"]), helper.make_tensor_value_info("x", 1, None)),
        "s": (
            helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
            helper.make_tensor_sequence_value_info("s", 1, None),
        ),
    }
    for name, (node, given) in made.items():
        graph = helper.make_graph([node], name, [given], [helper.make_tensor_value_info("y", 1, None)])
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / f"{name}.onnx"
        )
    one = tmp_path / "x.onnx"
    refused(run(run_command.main, one, "--random", "0"), "input 'x' may have any rank", "--shape x=")
    assert run(run_command.main, one, "--random", "0", "--shape", "x=2x3").status == 0
    refused(run(run_command.main, tmp_path / "s.onnx", "--random", "0"), "input 's' is not a tensor")


def test_run_compares_ir_text(net: Path) -> None:
    """onnxruntime runs a program in IR text as the model that it is in ONNX."""
    done = run(run_command.main, net, "--random", "0", "--compare", "onnxruntime")
    assert done.status == 0
    assert "agrees with onnxruntime" in done.output


def test_run_no_array(net: Path, tmp_path: Path) -> None:
    """A file that holds no array, or objects."""
    path = tmp_path / "value.npy"
    path.write_text("not an array")
    refused(run(run_command.main, net, "--input", f"x={path}"), "value.npy", "not a .npy")
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    refused(run(run_command.main, net, "--input", f"x={path}"), "value.npy", "not a .npy")


def test_run_unknown_backend(net: Path) -> None:
    """The backends there are."""
    refused(run(run_command.main, net, "--random", "0", "--backend", "abacus"), "abacus", "cpu, interpreter")


def test_run_usage(net: Path) -> None:
    """Options that are no numbers."""
    refused(run(run_command.main, net, "--iterations", "-1"), "usage", status=2)
    refused(run(run_command.main, net, "--random", "x"), "usage", status=2)


def test_run_writes_whole_files(net: Path, tmp_path: Path) -> None:
    """Outputs in one archive, under their names."""
    target = tmp_path / "out.npz"
    value = saved(tmp_path, np.full((2, 3), -1, np.float32))
    assert run(run_command.main, net, "--input", f"x={value}", "--output", target).status == 0
    with np.load(target) as archive:
        np.testing.assert_array_equal(archive["out"], np.zeros((2, 3), np.float32))
    assert files(tmp_path) == {"net.mlir", "out.npz", "value.npy"}


# --- glow-translate and weights -------------------------------------------------------------------


def big(tmp_path: Path) -> Path:
    """A translated model whose weights are in a file beside it."""
    rng = np.random.default_rng(0)
    wide = numpy_helper.from_array(rng.standard_normal((3, 100)).astype(np.float32), "wide")
    tall = numpy_helper.from_array(rng.standard_normal((100, 3)).astype(np.float32), "tall")
    nodes = (
        helper.make_node("MatMul", ["x", "wide"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "tall"], ["y"]),
    )
    path = tmp_path / "big.onnx"
    path.write_bytes(model(*nodes, weights=(wide, tall)))
    assert run(translate.main, path, tmp_path / "big.mlir").status == 0
    return tmp_path / "big.mlir"


def test_weights_round_trip(tmp_path: Path) -> None:
    """ONNX to IR and weights, and back: the same results."""
    path = big(tmp_path)
    assert files(tmp_path) == {"big.onnx", "big.mlir", "big.weights.safetensors"}
    assert run(translate.main, path, tmp_path / "again.onnx").status == 0
    done = run(run_command.main, tmp_path / "again.onnx", "--random", "0", "--compare", "onnxruntime")
    assert done.status == 0, done


def test_nothing_is_written_beside_a_device(tmp_path: Path) -> None:
    """Weights lie beside a file; where the program goes to nobody, they do, too."""
    assert run(opt.main, big(tmp_path), "-o", os.devnull).status == 0
    assert not Path(os.devnull).with_suffix(".weights.safetensors").exists()


def test_weights_missing_or_wrong(tmp_path: Path) -> None:
    """A program without its weights cannot run; a file that is not its own is refused."""
    path = big(tmp_path)
    weights = tmp_path / "big.weights.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:20])
    refused(run(opt.main, path), "not a weights file", "big.weights.safetensors")
    weights.unlink()
    refused(run(run_command.main, path, "--random", "0"), "wide", "weights file")
    assert run(opt.main, path).status == 0, "the program alone can be read"


def test_files_that_belong_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program cannot be written, its weights are not left alone."""
    path = big(tmp_path).with_suffix(".onnx")
    before = files(tmp_path)

    def full(self: Path, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_text", full)
    refused(run(translate.main, path, tmp_path / "new.mlir"), "cannot write", "new.mlir", "No space left")
    assert files(tmp_path) == before


def test_translate_to_an_option(net: Path, tmp_path: Path) -> None:
    """-o names the target as the second file does; both at once are a mistake of use."""
    assert run(translate.main, net, "-o", tmp_path / "net.mlir").status == 0
    assert (tmp_path / "net.mlir").exists()
    refused(run(translate.main, net, tmp_path / "a.mlir", "-o", tmp_path / "b.mlir"), "two outputs", status=2)


def test_translate_unknown_form(net: Path, tmp_path: Path) -> None:
    """Extensions that are no form."""
    refused(run(translate.main, net, tmp_path / "net.pdf"), ".pdf", ".onnx", status=2)
    assert files(tmp_path) == {"net.mlir"}


# --- glow-bench -----------------------------------------------------------------------------------


def test_bench_bad_input(net: Path, tmp_path: Path) -> None:
    """Peers and cores that are not there, models that peers do not read."""
    path = tmp_path / "relu.onnx"
    path.write_bytes(model(RELU))
    refused(run(bench.main, net), "expected an ONNX model")
    refused(run(bench.main, path, "--peers", "abacus"), "abacus", "onnxruntime")
    refused(run(bench.main, path, "--cores", "one"), "--cores")
    refused(run(bench.main, path, "--cores", "4096"), "4096")
    refused(run(bench.main, path, "--rounds", "0"), "usage", status=2)
    refused(run(bench.main, path, "--shape", "z=1", "--peers", "none"), "no input or dimension 'z'")
