"""What exporters write for sizes that the run tells: one program serves many, by NumPy or onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array

RNG = np.random.default_rng(0)


def _model(nodes: list[Any], dims: dict[str, list[Any]], weights: dict[str, Array]) -> ModelProto:
    """A model of float inputs with an output y."""
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in dims.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, [output], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _programs(model: ModelProto, feeds: list[dict[str, Array]], want: Callable[..., Array]) -> int:
    """How many programs serve all feeds, whose answers are those of `want`."""
    net = glow.compile(model, specialize="never")
    programs: list[Any] = []
    for feed in feeds:
        np.testing.assert_allclose(net.run(feed)["y"], want(**feed), rtol=1e-4, atol=1e-5)
        if all(p is not net.program for p in programs):
            programs.append(net.program)
    assert "not any" not in str(net.report().notes.get("sizes"))
    return len(programs)


def test_counting_down() -> None:
    """Range with a negative step, from a length less one down to 0."""
    nodes = [
        helper.make_node("Shape", ["x"], ["length"], start=1, end=2),
        helper.make_node("Squeeze", ["length"], ["count"]),
        helper.make_node("Sub", ["count", "one"], ["last"]),
        helper.make_node("Range", ["last", "minus", "minus"], ["down"]),
        helper.make_node("Gather", ["x", "down"], ["y"], axis=1),
    ]
    weights = {"one": np.array(1), "minus": np.array(-1)}
    feeds = [{"x": RNG.standard_normal((2, n)).astype(np.float32)} for n in (3, 7, 40, 129)]
    assert _programs(_model(nodes, {"x": [2, "n"]}, weights), feeds, lambda x: x[:, ::-1]) == 1


def test_heads_that_are_repeated_for_any_batch() -> None:
    """Expand to a shape that holds four heads beside a batch of less and of more."""
    nodes = [
        helper.make_node("Shape", ["x"], ["batch"], start=0, end=1),
        helper.make_node("Shape", ["x"], ["length"], start=2, end=3),
        helper.make_node("Concat", ["batch", "heads", "length"], ["wanted"], axis=0),
        helper.make_node("Expand", ["x", "wanted"], ["wide"]),
        helper.make_node("Mul", ["wide", "factor"], ["y"]),
    ]
    weights = {"heads": np.array([4]), "factor": np.arange(4, dtype=np.float32).reshape(4, 1)}
    feeds = [{"x": RNG.standard_normal((b, 1, 9)).astype(np.float32)} for b in (2, 3, 5, 8)]
    model = _model(nodes, {"x": ["b", 1, "n"]}, weights)
    assert _programs(model, feeds, lambda x: np.repeat(x, 4, 1) * weights["factor"]) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_short_rows_of_any_number(threads: int) -> None:
    """Rows of four numbers lie behind each other in vectors, the last of which are partly filled."""
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shift"], ["y"]),
    ]
    shift = np.arange(4, dtype=np.float32)
    model = _model(nodes, {"x": ["n", 4], "scale": ["n", 1]}, {"shift": shift})
    net = glow.compile(model, specialize="never", threads=threads)
    served: dict[int, Any] = {}
    for n in (33, *range(64, 84), 200, 201):
        x, scale = (RNG.standard_normal((n, k)).astype(np.float32) for k in (4, 1))
        np.testing.assert_allclose(
            net.run({"x": x, "scale": scale})["y"], x * scale + shift, rtol=1e-5, atol=1e-6
        )
        served[id(net.program)] = net.program
    assert len(served) == 1


def test_convolutions_of_few_channels_on_any_width() -> None:
    """Blocks of pixels are for a least width, not for a range of widths."""
    weights = {"w": RNG.standard_normal((3, 3, 5, 5)).astype(np.float32) / 8}
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[2] * 4)]
    model = _model(nodes, {"x": ["b", 3, "h", "w_"]}, weights)
    session = ort.InferenceSession(model.SerializeToString())
    sizes = ((20, 300), (31, 207), (64, 555), (40, 160), (33, 129))
    feeds = [{"x": RNG.standard_normal((1, 3, *size)).astype(np.float32)} for size in sizes]
    assert _programs(model, feeds, lambda x: np.asarray(session.run(None, {"x": x})[0])) == 1
