"""Models that leave sizes open run at once: with sizes that their graphs take, and a line that says which."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from commands import refused, run
from onnx import TensorProto, helper, numpy_helper

from glow_compiler.settle import settle
from glow_dialects.core.errors import BindingError
from glow_tools import bench, compile, opt, profile
from glow_tools import run as run_command

Dims = Sequence[int | str | None]


def saved(
    path: Path, nodes: list[Any], inputs: dict[str, Any], weights: dict[str, Any] | None = None
) -> Path:
    """A model of inputs (shape, or shape and type) whose output is `y`."""
    ports = [
        helper.make_tensor_value_info(n, *((s[1], s[0]) if isinstance(s, tuple) else (TensorProto.FLOAT, s)))
        for n, s in inputs.items()
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    tensors = [numpy_helper.from_array(np.asarray(v), n) for n, v in (weights or {}).items()]
    graph = helper.make_graph(nodes, "open", ports, [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def noise(*shape: int) -> np.ndarray:
    """Weights."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def images(path: Path) -> Path:
    """A convolution of stride 2 whose result, enlarged, is added to the image: sides must be even."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Resize", ["c", "", "s"], ["u"], mode="nearest"),
        helper.make_node("Add", ["u", "x"], ["y"]),
    ]
    weights = {"w": noise(3, 3, 3, 3), "s": np.array([1, 1, 2, 2], np.float32)}
    return saved(path, nodes, {"x": ["N", 3, None, None]}, weights)


def flat(path: Path) -> Path:
    """A product whose weights say how long its rows are."""
    return saved(
        path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [None, None]}, {"w": noise(77, 5)}
    )


def lines(path: Path) -> Path:
    """Lines of text: behind two pools of 16 and 3 rows one must be left."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[48, 8], strides=[48, 8]),
        helper.make_node("Squeeze", ["a", "axes"], ["y"]),
    ]
    return saved(path, nodes, {"x": [None, 1, None, "width"]}, {"axes": np.array([2])})


def recurrent(path: Path) -> Path:
    """An LSTM with its state."""
    node = helper.make_node("LSTM", ["x", "w", "r", "", "", "h", "c"], ["y"], hidden_size=4)
    weights = {"w": noise(1, 16, 6), "r": noise(1, 16, 4)}
    return saved(path, [node], {"x": [None, None, 6], "h": [1, None, 4], "c": [1, None, 4]}, weights)


def rates(path: Path) -> Path:
    """A rate that chooses a branch, of which only one takes small windows."""
    branches = [
        helper.make_graph(
            [helper.make_node("MatMul", ["x", w], [f"{w}y"])],
            w,
            [],
            [helper.make_tensor_value_info(f"{w}y", TensorProto.FLOAT, None)],
        )
        for w in "ab"
    ]
    nodes = [
        helper.make_node("Equal", ["sr", "k"], ["is"]),
        helper.make_node("If", ["is"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    weights = {"k": np.array(16000), "a": noise(64, 3), "b": noise(100, 3)}
    return saved(path, nodes, {"x": ["N", "window"], "sr": ([], TensorProto.INT64)}, weights)


def cached(path: Path) -> Path:
    """Keys behind those of the past, masked by a mask as long as both."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["k"], axis=1),
        helper.make_node("ReduceSum", ["k", "axes"], ["s"], keepdims=0),
        helper.make_node("Mul", ["s", "mask"], ["y"]),
    ]
    inputs = {"x": ["batch", "seq", 4], "past": ["batch", "past", 4], "mask": ["batch", "past + seq"]}
    return saved(path, nodes, inputs, {"axes": np.array([2])})


def any_rank(path: Path) -> Path:
    """An input of which not even the rank is said."""
    return saved(path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": None}, {"w": noise(224, 2)})


@pytest.mark.parametrize(
    "made, told",
    [
        (images, "--shape x=1x3x224x224"),
        (flat, "--shape x=1x77"),
        (lines, "--shape x=1x1x48x48"),
        (recurrent, "--shape x=1x8x6 --shape h=1x8x4"),
        (rates, "--shape N=1 --shape window=64 --input sr=16000"),
        (cached, "--shape batch=1 --shape seq=8 --shape past=1x8x4 --shape mask=1x16"),
        (any_rank, "--shape x=1x3x224x224"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_runs_at_once(made: Any, told: str, tmp_path: Path) -> None:
    """Without a word about sizes; the result is onnxruntime's, and the line of the note repeats the run."""
    path = made(tmp_path / "model.onnx")
    if made is recurrent:  # the sequence is the first axis here: batches of 1 fit as well
        told = "--shape x="
    done = run(run_command.main, path, "--random", "0", "--output", tmp_path / "out.npz")
    assert done.status == 0, done
    (line,) = done.messages.splitlines()
    assert line.startswith("note: ") and told in line, line
    options = line.partition(" taken as ")[2].split()
    again = run(run_command.main, path, "--random", "0", *options, "--compare", "onnxruntime")
    assert again.status == 0 and "note: " not in again.messages, again
    assert run(run_command.main, path).messages.count("note: ") == 2  # that inputs are random is another


def test_every_command(tmp_path: Path) -> None:
    """The commands that need sizes take the same ones."""
    path = rates(tmp_path / "model.onnx")
    told = "--shape N=1 --shape window=64 --input sr=16000"
    makes = {
        profile: (path, "--random", "0", "-o", tmp_path / "p.yaml"),
        compile: (path, "-o", tmp_path / "out", "--check", "onnxruntime"),
        bench: (path, "--peers", "none", "--rounds", "1", "--seconds", "0.01"),
        opt: (path, "-p", "lower"),
    }
    for module, arguments in makes.items():
        done = run(module.main, *arguments)
        assert done.status == 0 and told in done.messages, done
    done = run(compile.main, path, "-o", tmp_path / "out", "--input", "sr=8000", "--check", "onnxruntime")
    assert done.status == 0 and "--shape window=100" in done.messages, done


def test_what_is_given_is_kept(tmp_path: Path) -> None:
    """Sizes by input or by name, arrays and numbers; the rest follows."""
    path = cached(tmp_path / "model.onnx")
    made = settle(path, {"seq": (3,)}, {"past": np.zeros((2, 5, 4), np.float32)})
    assert made.shapes == {"x": (2, 3, 4), "past": (2, 5, 4), "mask": (2, 8)} and made.chosen == ()
    path = rates(tmp_path / "rates.onnx")
    made = settle(path, {}, {"sr": np.array(8000)})
    assert made.shapes["x"] == (1, 100) and made.values["sr"] == 8000
    assert settle(path, {}, {"sr": np.array(8000)}) == made


def test_where_nothing_fits(tmp_path: Path) -> None:
    """One message with every open input, the model's names of dimensions, and the reason of the graph."""
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
        helper.make_node("Add", ["b", "z"], ["y"]),
    ]
    weights = {"s": np.array([-1, 1201]), "w": noise(1203, 7)}
    path = saved(tmp_path / "m.onnx", nodes, {"x": ["batch", "frames"], "z": ["batch", None]}, weights)
    with pytest.raises(BindingError) as caught:
        settle(path)
    for word in ("x: float32(batch, frames)", "z: float32(batch, ?)", "--shape frames=", "Reshape"):
        assert word in str(caught.value), caught.value
    refused(run(run_command.main, path, "--random", "0"), "x: float32(batch, frames)", "z: float32(batch, ?)")


def test_an_operator_that_is_unknown_is_the_message(tmp_path: Path) -> None:
    """Sizes are not what is wrong."""
    path = saved(tmp_path / "m.onnx", [helper.make_node("Frob", ["x"], ["y"])], {"x": ["N", None]})
    refused(run(run_command.main, path, "--random", "0"), "1 problem", "Frob")


def test_values(tmp_path: Path) -> None:
    """Numbers, lists, fills and pictures as values of inputs; what is none is refused by a message."""
    inputs = {"x": ["N", 3, "h", "w"], "n": ([2], TensorProto.INT64), "s": []}
    nodes = [
        helper.make_node("ReduceSum", ["n"], ["t"], keepdims=0),
        helper.make_node("Cast", ["t"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "s"], ["a"]),
        helper.make_node("Add", ["a", "f"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, inputs)
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (5, 7, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "p.png")
    out = tmp_path / "out.npz"
    given = ("--input", "s=2", "--input", "n=1,2", "--output", out)
    done = run(run_command.main, path, "--input", f"x={tmp_path / 'p.png'}", *given)
    assert done.status == 0, done
    want = (pixels / 255).astype(np.float32).transpose(2, 0, 1)[None] * 2 + 3
    np.testing.assert_allclose(np.load(out)["y"], want, rtol=1e-6)
    done = run(run_command.main, path, "--input", "x=ones", "--shape", "x=2x3x4x4", *given)
    assert done.status == 0 and np.load(out)["y"].tolist() == np.full((2, 3, 4, 4), 5.0).tolist()
    refused(
        run(run_command.main, path, "--input", "s=2"),
        "2 inputs have no value",
        "x: float32(N, 3, h, w)",
        "n: ",
    )
    for wrong, word in {"n=1.5,2": "int64", "n=1,2,3": "3 numbers", "s=none.txt": "No such file"}.items():
        refused(run(run_command.main, path, "--random", "0", "--input", wrong), word)
    refused(
        run(run_command.main, path, "--random", "0", "--input", f"n={tmp_path / 'p.png'}"), "takes no picture"
    )


def test_texts(tmp_path: Path) -> None:
    """Inputs of texts have random letters, or one text."""
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_strings=["a", "b"])
    node.attribute.append(helper.make_attribute("values_floats", [1.0, 2.0]))
    x = helper.make_tensor_value_info("x", TensorProto.STRING, ["N", 2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    graph = helper.make_graph([node], "texts", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    assert run(run_command.main, tmp_path / "m.onnx", "--random", "0").status == 0
    done = run(run_command.main, tmp_path / "m.onnx", "--input", "x=b")
    assert "min 2 mean 2" in done.output, done


MODELS = [
    path
    for package in (
        "silero_vad",
        "rapidocr_onnxruntime",
        "magika",
        "nudenet",
        "arabic_name_romanizer",
        "basic_pitch",
    )
    for path in sorted((Path(onnx.__file__).parents[1] / package).rglob("*.onnx"))
]


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.name)
def test_models_of_packages(path: Path) -> None:
    """onnxruntime takes the sizes and values that are chosen, too."""
    made = settle(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    types = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": bool}
    feed = {
        i.name: made.values.get(i.name, rng.random(made.shapes[i.name])).astype(types.get(i.type, np.float32))
        for i in session.get_inputs()
    }
    assert session.run(None, feed)
