"""Loops that stack what their turns compute, and long Scans, against onnxruntime: native programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RNG = np.random.default_rng(0)
node = helper.make_node
info = helper.make_tensor_value_info


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any], **weights: Any) -> onnx.GraphProto:
    """A graph whose weights are given by name."""
    values = [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items()]
    return helper.make_graph(nodes, "body", inputs, outputs, values)


def agree(main: onnx.GraphProto, *inputs: Array) -> None:
    """One native program gives what onnxruntime gives, for each input."""
    made = helper.make_model(main, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(made, backend="cpu")
    for x in inputs:
        got = net.run({"x": x})
        wanted: list[Any] = session.run(None, {"x": x})  # pyright: ignore[reportAssignmentType]
        for output, want in zip(session.get_outputs(), wanted, strict=True):
            assert got[output.name].shape == want.shape
            np.testing.assert_allclose(got[output.name], want, rtol=1e-4, atol=1e-5)
        assert not net.report().notes.get("host")


def recurrence(ends: bool) -> onnx.GraphProto:
    """h = tanh(W h + v), stacked; with `ends` until h is large."""
    nodes = [
        node("MatMul", ["w", "h"], ["t"]),
        node("Add", ["t", "x"], ["s"]),
        node("Tanh", ["s"], ["h2"]),
        node("ReduceSum", ["h2"], ["sum"], keepdims=0),
        node("Less" if ends else "Identity", ["sum", "most"] if ends else ["on"], ["on2"]),
        node("Mul", ["h2", "two"], ["y"]),
    ]
    state = [info("i", I, []), info("on", B, []), info("h", F, [6])]
    return graph(
        nodes,
        state,
        [info("on2", B, []), info("h2", F, [6]), info("y", F, [6]), info("sum", F, [])],
        most=np.float32(1.2),
        two=np.float32(2),
    )


@pytest.mark.slow
@pytest.mark.parametrize("turns", [150, 1500])
@pytest.mark.parametrize("ends", [False, True])
def test_stacks(turns: int, ends: bool) -> None:
    """Rows of each turn, of one block and of several; as many as there were turns where data end the loop."""
    loop = node("Loop", ["n", "go", "x"], ["last", "rows", "sums"], body=recurrence(ends))
    outputs = [info("last", F, [6]), info("rows", F, [None, 6]), info("sums", F, [None])]
    w = RNG.standard_normal((6, 6)).astype(np.float32) * 0.4
    main = graph([loop], [info("x", F, [6])], outputs, w=w, n=np.int64(turns), go=np.array(True))
    agree(main, *(np.full(6, v, np.float32) for v in (0.01, 0.05, 0.3, 2.0)))


def test_no_turn() -> None:
    """A loop whose first condition is false has no rows."""
    loop = node("Loop", ["n", "go", "x"], ["last", "rows", "sums"], body=recurrence(True))
    first = [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Less", ["m", "bound"], ["go"])]
    outputs = [info("last", F, [6]), info("rows", F, [None, 6])]
    weights: dict[str, Any] = {
        "w": np.eye(6, dtype=np.float32) * 0.5,
        "n": np.int64(200),
        "bound": np.float32(1),
    }
    main = graph([*first, loop], [info("x", F, [6])], outputs, **weights)
    agree(main, np.full(6, 0.1, np.float32), np.full(6, 3.0, np.float32))


@pytest.mark.parametrize("rows", [90, 700])
def test_while_of_tensorflow(rows: int) -> None:
    """No trip count: the condition compares a counter, by which rows are taken with a slice of length one."""
    body = graph(
        [
            node("Add", ["k", "one"], ["k2"]),
            node("Cast", ["k2"], ["k3"], to=TensorProto.INT32),
            node("Less", ["k3", "size"], ["on2"]),
            node("Unsqueeze", ["k", "zero"], ["u"]),
            node("Unsqueeze", ["k2", "zero"], ["u2"]),
            node("Concat", ["u", "zero"], ["begin"], axis=0),
            node("Concat", ["u2", "far"], ["end"], axis=0),
            node("Slice", ["x", "begin", "end", "axes", "steps"], ["part"]),
            node("Squeeze", ["part", "zero"], ["row"]),
            node("Mul", ["s", "decay"], ["d"]),
            node("Add", ["d", "row"], ["s2"]),
            node("Sigmoid", ["s2"], ["y"]),
        ],
        [info("i", I, []), info("on", B, []), info("k", I, []), info("s", F, [4])],
        [info("on2", B, []), info("k2", I, []), info("s2", F, [4]), info("y", F, [4])],
        one=np.int64(1),
        size=np.int32(rows),
        zero=np.array([0]),
        far=np.array([1 << 30]),
        axes=np.array([0, 1]),
        steps=np.array([1 << 30, 1]),
        decay=np.float32(0.9),
    )
    loop = node("Loop", ["", "go", "first", "start"], ["turns", "last", "y"], body=body)
    outputs = [info("turns", I, []), info("last", F, [4]), info("y", F, [None, 4])]
    weights: dict[str, Any] = {"go": np.array(True), "first": np.int64(0), "start": np.zeros(4, np.float32)}
    main = graph([loop], [info("x", F, [rows, 4])], outputs, **weights)
    agree(main, RNG.standard_normal((rows, 4)).astype(np.float32))


@pytest.mark.parametrize("length", [130, 1300])
def test_long_scan(length: int) -> None:
    """Scans with axes and directions of their own."""
    body = graph(
        [
            node("Mul", ["s", "decay"], ["d"]),
            node("Add", ["d", "a"], ["s2"]),
            node("Sub", ["s2", "b"], ["y"]),
            node("Exp", ["y"], ["e"]),
            node("Tanh", ["e"], ["z"]),
        ],
        [info("s", F, [3]), info("a", F, [3]), info("b", F, [3])],
        [info("s2", F, [3]), info("y", F, [3]), info("z", F, [3])],
        decay=np.float32(0.8),
    )
    scan = node(
        "Scan",
        ["start", "x", "turned"],
        ["last", "ys", "zs"],
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[0, 1],
        scan_input_directions=[1, 0],
        scan_output_axes=[1, 0],
        scan_output_directions=[0, 1],
    )
    outputs = [info("last", F, [3]), info("ys", F, [3, length]), info("zs", F, [length, 3])]
    first = node("Transpose", ["x"], ["turned"])
    main = graph([first, scan], [info("x", F, [length, 3])], outputs, start=np.ones(3, np.float32))
    agree(main, RNG.standard_normal((length, 3)).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("boxes", [3, 200])
def test_crops_of_boxes(mode: str, boxes: int) -> None:
    """TensorFlow's crop_and_resize: a loop over rows of boxes, each the region of a Resize."""
    body = graph(
        [
            node("Add", ["i", "one"], ["i2"]),
            node("Slice", ["x", "i", "i2", "zero"], ["row"]),
            node("Reshape", ["row", "four"], ["box"]),
            node("Slice", ["box", "zero", "two"], ["begin"]),
            node("Slice", ["box", "two", "four"], ["end"]),
            node("Concat", ["whole0", "begin", "whole1", "end"], ["roi"], axis=0),
            node(
                "Resize",
                ["image", "roi", "", "sizes"],
                ["crop"],
                mode=mode,
                coordinate_transformation_mode="tf_crop_and_resize",
                extrapolation_value=7.0,
            ),
            node("Identity", ["on"], ["on2"]),
        ],
        [info("i", I, [1]), info("on", B, [])],
        [info("on2", B, []), info("crop", F, [1, 2, 4, 3])],
        one=np.array([1]),
        zero=np.array([0]),
        two=np.array([2]),
        four=np.array([4]),
        whole0=np.zeros(2, np.float32),
        whole1=np.ones(2, np.float32),
        sizes=np.array([1, 2, 4, 3]),
    )
    loop = node("Loop", ["n", "go"], ["crops"], body=body)
    weights: dict[str, Any] = {"n": np.int64(boxes), "go": np.array(True)}
    weights["image"] = RNG.standard_normal((1, 2, 9, 8)).astype(np.float32)
    outputs = [info("crops", F, [boxes, 1, 2, 4, 3])]
    main = graph([loop], [info("x", F, [boxes, 4])], outputs, **weights)
    agree(main, (RNG.random((boxes, 4)) * 1.3 - 0.1).astype(np.float32))
