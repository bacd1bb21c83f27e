"""Arguments of the Python API and options of passes: what is wrong is refused with a message."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import refused, run

import glow_compiler as glow
from glow_backends.interpreter.backend import InterpreterBackend
from glow_tools import opt

BACKENDS = ("cpu", "interpreter")


def doubling() -> glow.GraphBuilder:
    """A graph from x [2, 3] to y."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (2, 3))
    g.save(g.add(x, x), "y")
    return g


def test_bytes_of_no_model() -> None:
    """Bytes are those of an ONNX model."""
    with pytest.raises(glow.GlowError, match="a model of 5 bytes: not an ONNX model, or truncated"):
        glow.compile(b"bytes")


@pytest.mark.parametrize("model", [None, 3, {"set"}, ["list"], ("a", "b", "c")])
def test_no_model(model: Any) -> None:
    """A model is one of a few kinds of things."""
    with pytest.raises(TypeError, match=r"a model is a path .*not"):
        glow.compile(model)
    with pytest.raises(TypeError, match=r"a model is a path .*not"):
        glow.load(model)


def test_the_module_shows_its_names() -> None:
    """Names that are imported on first use are listed before."""
    assert set(glow.__all__) <= set(dir(glow))
    assert all(hasattr(glow, name) for name in (*glow.__all__, "__version__"))
    assert not hasattr(glow, "compiel")


def test_a_folder(tmp_path: Path) -> None:
    """A folder is named as what it is."""
    with pytest.raises(glow.GlowError, match="expected a graph, found a folder"):
        glow.compile(tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("threads", [0, -1, 100_000, 2.5, "2"])
def test_counts_of_threads(backend: str, threads: Any) -> None:
    """There is a least and a largest number of threads."""
    with pytest.raises(glow.UnsupportedError, match=f"threads={threads}"):
        glow.compile(doubling(), backend=backend, threads=threads)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"z": (1,)}, "no input or dimension 'z'"),
        ({"x": (2,)}, "has 2 dimensions"),
        ({"x": (4, 3)}, r"is \(2, 3\)"),
        ({"x": 6}, "given 6, expected a tuple"),
        ("x", "not str"),
    ],
)
def test_shapes_of_a_module(shapes: Any, words: str) -> None:
    """A module's shapes are fixed; others are not passed over."""
    with pytest.raises(glow.ShapeError, match=words):
        glow.compile(doubling(), backend="interpreter", shapes=shapes)
    glow.compile(doubling(), backend="interpreter", shapes={"x": (2, 3)})


def test_unknown_cpu() -> None:
    """The names there are, in the API and in a pass's option."""
    with pytest.raises(glow.UnsupportedError, match="host, .*haswell"):
        glow.compile(doubling(), cpu="abacus")
    refused(run(opt.main, "-", "-p", "glow-cpu-layout{cpu=abacus}", text=str(doubling().module)), "haswell")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("glow-schedule{by=size}", "pass glow-schedule: by=size is not one of memory, order"),
        ("glow-schedule{of=order}", "pass glow-schedule has no option 'of'; there are: by"),
        ("glow-dce{deep=true}", "pass glow-dce has no option 'deep'; there are: none"),
        ("glow-simplify{recognize=3}", "pass glow-simplify: "),
    ],
)
def test_options_of_passes(text: str, words: str) -> None:
    """What there is instead."""
    refused(run(opt.main, "-", "-p", text, text=str(doubling().module)), words)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_of_other_forms(backend: str) -> None:
    """Any memory order, stride and byte order; a dict by name and nothing else."""
    net = glow.compile(doubling(), backend=backend)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    unaligned = np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3)
    for form in (np.asfortranarray(x), x[::-1].copy()[::-1], x.astype(">f4"), unaligned):
        np.testing.assert_array_equal(net(form), 2 * x)
    with pytest.raises(
        glow.BindingError, match=r"numpy\.matrix, not an ordinary array; give np\.asarray\(x\)"
    ):
        net(x.view(np.matrix))
    for wrong in (x, None, [x]):
        with pytest.raises(glow.BindingError, match="dict"):
            net.run(wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(glow.BindingError, match="input 'x' is a list with rows of different lengths"):
        net([[1, 2, 3], [4]])


def test_an_executable_is_shown_and_not_copied() -> None:
    """Its signature; what it holds is of this process."""
    net = glow.compile(doubling(), backend="interpreter")
    assert repr(net) == "Executable(x: float32[2, 3] -> y: float32[2, 3])"
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="machine code of this process"):
            copied(net)


def test_buffers_without_places() -> None:
    """Code is made of planned buffers; the message says what plans them."""
    done = run(opt.main, "-", "-p", "lower,convert-glow-instr-to-llvm", text=str(doubling().module))
    refused(done, "glow-plan-memory")


@pytest.mark.parametrize("name", ["glow-make-trainable", "glow-freeze-placeholders"])
def test_weights_of_instructions_stay(name: str) -> None:
    """What instructions read as constant cannot become something else."""
    refused(
        run(opt.main, "-", "-p", f"lower,{name}", text=str(doubling().module)), "works on graphs (glow.func)"
    )


@pytest.mark.parametrize(
    "backend,known",
    [
        ("cpu", "threads, cpu, winograd, search, debug_info, precision"),
        ("interpreter", "threads, planned, late"),
    ],
)
def test_unknown_options_of_a_backend(backend: str, known: str) -> None:
    """The options there are."""
    with pytest.raises(
        glow.UnsupportedError, match=f"backend {backend} has no option 'winograde'.*: {known}$"
    ):
        glow.compile(doubling(), backend=backend, winograde=True)


def test_a_backend_that_was_made() -> None:
    """A backend is named or given; options go with a name."""
    backend = InterpreterBackend()
    np.testing.assert_array_equal(glow.compile(doubling(), backend=backend)(np.ones((2, 3), np.float32)), 2)
    with pytest.raises(glow.UnsupportedError, match="options"):
        glow.compile(doubling(), backend=backend, winograd=False)
    with pytest.raises(TypeError, match="a backend is a name or"):
        glow.compile(doubling(), backend=InterpreterBackend)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_module_without_a_function(backend: str) -> None:
    """A program is made of the function main."""
    module = glow.GraphBuilder("other").module
    with pytest.raises(glow.CompileError, match="no function @main, neither a glow.func nor"):
        glow.compile(module, backend=backend)


def test_tensors_that_cannot_be() -> None:
    """The builder refuses them where they are written."""
    g = doubling()
    with pytest.raises(glow.ShapeError, match=r"'n': shape \(2, -1\)"):
        g.placeholder("n", (2, -1))
    with pytest.raises(glow.UnsupportedError, match="dtype object"):
        g.placeholder("o", (2,), object)
    with pytest.raises(glow.UnsupportedError, match="dtype str"):
        g.add(g.placeholder("z", (2,)), "text")  # pyright: ignore[reportArgumentType]


def test_dialects_of_backends_are_read(tmp_path: Path) -> None:
    """A program in a target dialect is a model like others."""
    g = glow.GraphBuilder()
    w = g.constant(np.full((4, 4, 3, 3), 0.1, np.float32), "w")
    g.save(g.relu(g.conv(g.placeholder("x", (1, 4, 8, 8)), w, pads=(1, 1, 1, 1))), "y")
    path = tmp_path / "net.mlir"
    path.write_text(run(opt.main, "-", "-p", "glow-cpu-layout", text=str(g.module)).output)
    assert "glow_cpu." in path.read_text()
    glow.load(path).verify()


class _Exported:
    """What another tool gives: it has a graph, which is none of ONNX."""

    graph = object()


def test_no_models() -> None:
    """Other objects with a graph are none, and the message says what is one."""
    with pytest.raises(TypeError, match="a model is a path .* not _Exported$"):
        glow.compile(_Exported())


@pytest.mark.parametrize("size", [None, -1, "-1", 2.0, "2 N", ""])
def test_sizes_of_placeholders(size: Any) -> None:
    """Whole numbers, names, or text of names."""
    with pytest.raises(glow.ShapeError, match="placeholder 'x': .*(sizes are not negative|is not a size)"):
        glow.GraphBuilder().placeholder("x", (size, 3))


def test_inputs_by_name() -> None:
    """Calls take inputs in order, by name, or both."""
    g = glow.GraphBuilder()
    g.save(g.sub(g.placeholder("a", (2,)), g.placeholder("b", (2,))), "y")
    net = glow.compile(g, backend="interpreter")
    a, b = np.array([5, 7], np.float32), np.array([1, 2], np.float32)
    for result in (net(a, b), net(a, b=b), net(b=b, a=a)):
        np.testing.assert_array_equal(result, a - b)
    with pytest.raises(glow.BindingError, match="input 'a' is given twice"):
        net(a, a=b)
    with pytest.raises(glow.BindingError, match="1 inputs given, 2 expected: a, b"):
        net(a)
    with pytest.raises(glow.BindingError, match="c"):
        net(a=a, c=b)


@pytest.mark.parametrize(
    "shapes",
    [
        (2,),
        5,
        [(2, 3)],
        [5],
        [{"x": (2, 3)}, None],
        {"x": (2, "a")},
        {"x": (2.0, 3)},
        {1: (2, 3)},
        {"x": "a"},
    ],
)
def test_shapes_that_are_none(shapes: Any) -> None:
    """Of `compile` and `load`: a dict of texts and sizes, or a list of these."""
    with pytest.raises(glow.ShapeError, match="shapes: "):
        glow.compile(doubling(), shapes=shapes)
    with pytest.raises(glow.ShapeError, match="shapes: "):
        glow.load(doubling(), shapes=shapes)


@pytest.mark.parametrize(
    "shapes", [5, None, {"x": "a"}, {"x": (5,)}, {"zz": (2, 3)}, {"x": (2, None)}, {"x": (2.5, 3)}]
)
def test_shapes_of_specialize(shapes: Any) -> None:
    """The executable's inputs, each with its axes."""
    net = glow.compile(doubling(), backend="interpreter")
    with pytest.raises(
        glow.ShapeError, match="shapes: |no input 'zz'; the inputs are x|has 2 dimensions|is open"
    ):
        net.specialize(shapes)


@pytest.mark.parametrize(
    "option", [{"pipeline": "cpu"}, {"pipeline": []}, {"progress": 5}, {"exact": "yes"}, {"verify": 3}]
)
def test_options_of_another_kind(option: dict[str, Any]) -> None:
    """The message names the option and what it takes."""
    with pytest.raises(TypeError, match=f"^{next(iter(option))} is "):
        glow.compile(doubling(), **option)


def test_positions_and_axes_of_another_kind() -> None:
    """argnums of gradients, in_axes of maps, patterns of trainable weights."""
    for argnums in (1.5, None, "a", (), (0, "b")):
        for made in (glow.grad, glow.jacobian, glow.hessian, glow.value_and_grad):
            with pytest.raises(glow.UnsupportedError, match="argnums is a number or a tuple of numbers"):
                made(np.sin, argnums)  # pyright: ignore
    with pytest.raises(glow.GlowError, match="no axis {}"):
        glow.vmap(abs_of, in_axes={})(np.ones((2, 3)))
    g = doubling()
    with pytest.raises(glow.GlowError, match="trainable: patterns of the names of weights"):
        glow.Trainer(g, loss="mse", trainable=5)  # pyright: ignore


def abs_of(x: Any) -> Any:
    """A function to map."""
    return np.abs(x)


@pytest.mark.parametrize("name", ["pow", "add", "relu", "conv", "select", "prelu", "atan2"])
def test_operands_of_the_builder(name: str) -> None:
    """Too few or too many: the message names what the operator takes."""
    for count in (0, 9) if name == "relu" else (0, 1, 9):
        g = glow.GraphBuilder()
        x = g.placeholder("x", (2, 3))
        with pytest.raises((glow.ShapeError, TypeError), match="operands are|argument"):
            getattr(g, name)(*[x] * count)
    with pytest.raises(glow.ShapeError, match="needs results=, the type of what it makes"):
        g.quantize(g.placeholder("z", (2,)))


def test_a_file_is_read_once(tmp_path: Path) -> None:
    """To tell what it is, to read it, and to digest it; not again for each question about its kind."""
    import os
    import subprocess
    import sys

    path = tmp_path / "m.onnx"
    path.write_bytes(graph_of_relu())
    text = f"""
import sys
import glow_compiler as glow
opened = []
sys.addaudithook(lambda event, a: opened.append(event) if str(a[:1]) == "({str(path)!r},)" else None)
glow.compile({str(path)!r}, shapes={{"x": (2, 3)}})
print(opened.count("open"))
"""
    environment = {**os.environ, "GLOW_CACHE_DIR": str(tmp_path / "cache")}
    made = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True
    )
    assert int(made.stdout) <= 3


def graph_of_relu() -> bytes:
    """A model with an open size."""
    import onnx.parser

    text = '<ir_version: 8, opset_import: ["": 17]> g (float[n,3] x) => (float[n,3] y) { y = Relu(x) }'
    return onnx.parser.parse_model(text).SerializeToString()
