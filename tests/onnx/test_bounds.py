"""Selections by data under an upper bound: native, one program for every length, onnxruntime's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.types import Array
from glow_frontends.onnx import ModelPlan
from glow_runtime.compile import compile_module

F, I = TensorProto.FLOAT, TensorProto.INT64
RNG = np.random.default_rng(0)


def model(
    nodes: list[onnx.NodeProto], feed: dict[str, Array], outputs: dict[str, int], weights: dict[str, Any]
) -> onnx.ModelProto:
    """Nodes from what is fed to outputs of some types and any shape."""
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feed.items()
    ]
    results = [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()]
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items()]
    graph = helper.make_graph(nodes, "test", inputs, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def programs(m: onnx.ModelProto, feeds: list[dict[str, Array]], backend: str = "cpu") -> int:
    """How many programs gave onnxruntime's answers; none ran on the host."""
    built: list[ModuleOp] = []

    def build(module: ModuleOp) -> Any:
        built.append(module)
        program = compile_module(module, backend)
        assert not program.report.notes.get("host instructions")
        return program

    session = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    plan = ModelPlan(m, None, build)
    for feed in feeds:
        got = plan.run(feed, {})
        wanted: Any = session.run(None, feed)
        for output, want in zip(m.graph.output, wanted, strict=True):
            value = got[output.name]
            assert (value.shape, value.dtype) == (want.shape, want.dtype), output.name
            np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-6)
    assert plan.hosted == set()
    return len(built)


def boxes(count: int) -> Array:
    """Boxes of a picture."""
    corners = RNG.random((2, 1, count, 2)).astype(np.float32)
    return np.concatenate([corners.min(0), corners.max(0)], -1)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_detection(backend: str) -> None:
    """Boxes kept, their coordinates, scores, labels and number."""
    nodes = [
        helper.make_node("Sigmoid", ["logits"], ["scores"]),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["kept"]),
        helper.make_node("Slice", ["kept", "from", "to", "first"], ["best"]),
        helper.make_node("Gather", ["best", "two"], ["places"], axis=1),
        helper.make_node("Squeeze", ["boxes", "first"], ["flat"]),
        helper.make_node("Gather", ["flat", "places"], ["chosen"], axis=0),
        helper.make_node("Mul", ["chosen", "size"], ["y"]),
        helper.make_node("GatherND", ["scores", "best"], ["confidence"]),
        helper.make_node("Unsqueeze", ["confidence", "last"], ["column"]),
        helper.make_node("Concat", ["y", "column"], ["rows"], axis=1),
        helper.make_node("ReduceMax", ["y", "last"], ["far"], keepdims=0),
        helper.make_node("Slice", ["best", "one", "two_", "last"], ["labels"]),
        helper.make_node("Reshape", ["labels", "last"], ["label"]),
        helper.make_node("Shape", ["label"], ["number"]),
    ]
    weights = {
        "most": [9],
        "iou": np.array([0.5], np.float32),
        "least": np.array([0.5], np.float32),
        "two": 2,
        "one": [1],
        "two_": [2],
        "from": [0],
        "to": [12],
        "first": [0],
        "last": [-1],
        "size": np.float32(320),
    }
    feeds = [
        {"boxes": boxes(30), "logits": RNG.normal(shift, 1, (1, 2, 30)).astype(np.float32)}
        for shift in (0, -1, 3, 0.5)
    ]
    m = model(nodes, feeds[0], {"rows": F, "label": I, "number": I, "far": F}, weights)
    assert programs(m, feeds, backend) == 1


@pytest.mark.parametrize("centred", [0, 1])
def test_suppression_of_many(centred: int) -> None:
    """Ties, many boxes, and thresholds that keep all or nothing."""
    node = helper.make_node(
        "NonMaxSuppression", ["b", "s", "most", "iou", "least"], ["y"], center_point_box=centred
    )
    scores = np.round(RNG.random((1, 3, 700)) * 50).astype(np.float32)
    for most, overlap, least in ((700, 0.3, -1), (5, 0.0, 20), (3, 0.9, 99), (0, 0.5, 0)):
        weights = {
            "most": [most],
            "iou": np.array([overlap], np.float32),
            "least": np.array([least], np.float32),
        }
        feed = {"b": boxes(700), "s": scores}
        assert programs(model([node], feed, {"y": I}, weights), [feed]) <= 1


def test_masks() -> None:
    """x[mask] of every form, and arithmetic with what was selected."""
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["mask"]),
        helper.make_node("NonZero", ["mask"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("GatherND", ["x", "rows"], ["values"]),
        helper.make_node("Div", ["one", "values"], ["inverse"]),
        helper.make_node("Where", ["yes", "values", "inverse"], ["y"]),
        helper.make_node("Compress", ["x", "columns"], ["c"], axis=1),
        helper.make_node("Neg", ["c"], ["n"]),
    ]
    weights = {"zero": np.float32(0), "one": np.float32(1), "yes": True}
    feeds = [
        {"x": RNG.normal(shift, 1, (5, 7)).astype(np.float32), "columns": RNG.random(7) < 0.5}
        for shift in (0, -9, 1, 9)
    ]
    assert programs(model(nodes, feeds[0], {"y": F, "places": I, "n": F}, weights), feeds) == 1


def test_top_k_of_a_computed_k() -> None:
    """Everything is sorted once; as many as the run says are the result."""
    nodes = [
        helper.make_node("ReduceMax", ["c"], ["k"], keepdims=1),
        helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=0),
        helper.make_node("Exp", ["values"], ["y"]),
    ]
    feeds = [
        {"x": RNG.normal(size=(9, 2)).astype(np.float32), "c": np.array([k, 1], np.int64)} for k in (3, 9, 1)
    ]
    assert programs(model(nodes, feeds[0], {"y": F, "places": I}, {}), feeds) == 1


def test_what_needs_the_length_is_specialised() -> None:
    """A maximum over the selected elements: one program before, one for each length behind."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Cast", ["places"], ["f"], to=F),
        helper.make_node("Hardmax", ["f"], ["s"], axis=1),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    feeds = [{"x": np.arange(6, dtype=np.float32) % k} for k in (2, 3, 4, 2)]
    assert programs(model(nodes, feeds[0], {"y": F}, {}), feeds) == 3


def test_candidates_of_classes() -> None:
    """The post-processing of detectors: the best of each class, joined, suppressed across classes, cut."""
    nodes = [helper.make_node("Split", ["s"], [f"s{i}" for i in range(3)], axis=0, num_outputs=3)]
    for i in range(3):
        nodes += [
            helper.make_node("Reshape", [f"s{i}", "all"], [f"row{i}"]),
            helper.make_node("Greater", [f"row{i}", "half"], [f"mask{i}"]),
            helper.make_node("NonZero", [f"mask{i}"], [f"places{i}"]),
            helper.make_node("Transpose", [f"places{i}"], [f"rows{i}"]),
            helper.make_node("GatherND", [f"row{i}", f"rows{i}"], [f"score{i}"]),
            helper.make_node("GatherND", ["b", f"rows{i}"], [f"box{i}"]),
            helper.make_node("Shape", [f"score{i}"], [f"many{i}"]),
            helper.make_node("Concat", [f"many{i}", "most"], [f"both{i}"], axis=0),
            helper.make_node("ReduceMin", [f"both{i}"], [f"k{i}"], keepdims=1),
            helper.make_node("TopK", [f"score{i}", f"k{i}"], [f"best{i}", f"order{i}"]),
            helper.make_node("Gather", [f"box{i}", f"order{i}"], [f"found{i}"]),
            helper.make_node("Shape", [f"best{i}"], [f"count{i}"]),
            helper.make_node(
                "ConstantOfShape", [f"count{i}"], [f"label{i}"], value=numpy_helper.from_array(np.array([i]))
            ),
        ]
    for what in ("best", "found", "label"):
        nodes.append(helper.make_node("Concat", [f"{what}{i}" for i in range(3)], [what], axis=0))
    empty = helper.make_graph(
        [helper.make_node("Constant", [], ["none"], value=numpy_helper.from_array(np.zeros(0, np.int64)))],
        "then",
        [],
        [helper.make_tensor_value_info("none", I, [0])],
    )
    suppressed = helper.make_graph(
        [
            helper.make_node("ReduceMax", ["found"], ["far"], keepdims=0),
            helper.make_node("Cast", ["label"], ["class"], to=F),
            helper.make_node("Mul", ["class", "far"], ["shift"]),
            helper.make_node("Unsqueeze", ["shift", "one"], ["column"]),
            helper.make_node("Add", ["found", "column"], ["apart"]),
            helper.make_node("Unsqueeze", ["apart", "zero"], ["bb"]),
            helper.make_node("Unsqueeze", ["best", "two"], ["ss"]),
            helper.make_node("NonMaxSuppression", ["bb", "ss", "most", "iou"], ["kept"]),
            helper.make_node("Gather", ["kept", "last"], ["keep"], axis=1),
        ],
        "else",
        [],
        [helper.make_tensor_value_info("keep", I, [None])],
    )
    nodes += [
        helper.make_node("Size", ["found"], ["size"]),
        helper.make_node("Equal", ["size", "nothing"], ["is_empty"]),
        helper.make_node("If", ["is_empty"], ["keep_"], then_branch=empty, else_branch=suppressed),
        helper.make_node("Slice", ["keep_", "zero", "five", "zero"], ["top"]),
        helper.make_node("Gather", ["found", "top"], ["boxes"]),
        helper.make_node("Gather", ["best", "top"], ["scores"]),
        helper.make_node("Gather", ["label", "top"], ["labels"]),
    ]
    weights = {
        "half": np.float32(0.5),
        "all": [-1],
        "most": [6],
        "zero": [0],
        "one": [1],
        "two": [0, 1],
        "five": [5],
        "last": 2,
        "nothing": 0,
        "iou": np.array([0.5], np.float32),
    }
    feeds = [
        {"b": boxes(40)[0], "s": RNG.random((3, 40)).astype(np.float32) * top} for top in (1, 0.6, 0.51, 0.1)
    ]
    m = model(nodes, feeds[0], {"boxes": F, "scores": F, "labels": I}, weights)
    assert programs(m, feeds) == 1


def test_what_looks_along_the_length() -> None:
    """Reductions, normalisations, ranges and expansions of what was selected."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Squeeze", ["places", "zero"], ["flat"]),
        helper.make_node("Gather", ["x", "flat"], ["v"]),
        helper.make_node("Softmax", ["v"], ["soft"], axis=0),
        helper.make_node("ReduceSum", ["v"], ["sum"], keepdims=0),
        helper.make_node("ReduceMin", ["v"], ["min"], keepdims=1),
        helper.make_node("ReduceL2", ["v"], ["norm"], keepdims=0),
        helper.make_node("ArgMax", ["v"], ["where"], keepdims=0),
        helper.make_node("Shape", ["v"], ["shape"]),
        helper.make_node("Squeeze", ["shape", "zero"], ["number"]),
        helper.make_node("Range", ["start", "number", "step"], ["steps"]),
        helper.make_node("Mul", ["steps", "flat"], ["product"]),
        helper.make_node("Expand", ["seven", "shape"], ["sevens"]),
        helper.make_node("Concat", ["v", "sevens", "x"], ["joined"], axis=0),
        helper.make_node("Gather", ["v", "ends"], ["ends_"]),
    ]
    weights = {"zero": [0], "start": 0, "step": 1, "seven": np.array([7], np.float32), "ends": [0, -1]}
    feeds = [
        {"x": (RNG.integers(-3, 4, 11) * (RNG.random(11) < p)).astype(np.float32)} for p in (0.9, 0.5, 1)
    ]
    kinds = {"soft": F, "sum": F, "min": F, "norm": F, "where": I, "product": I, "joined": F, "ends_": F}
    assert programs(model(nodes, feeds[0], kinds, weights), feeds) == 1
