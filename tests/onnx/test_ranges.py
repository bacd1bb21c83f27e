"""Indices out of range at run time: an error that names node and index, never another answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.parse import parse_module
from glow_tools.context import tool_context

F, I = TensorProto.FLOAT, TensorProto.INT64
X = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
RUNS = pytest.mark.parametrize(("backend", "threads"), [("interpreter", 1), ("cpu", 1), ("cpu", 2)])


def _model(
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Any]],
    output: Any = None,
    weights: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(n, kind, dims) for n, (kind, dims) in inputs.items()]
    outputs = [helper.make_tensor_value_info("y", F, output)]
    given = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", infos, outputs, given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _one(
    op: str, indices: Any, updates: Any = None, **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model of one node, and inputs for it."""
    feed = {"x": X, "i": np.array(indices)}
    if updates is not None:
        feed["u"] = np.ones(updates, np.float32)
    kinds = {n: (I if n == "i" else F, a.shape) for n, a in feed.items()}
    return _model([helper.make_node(op, list(feed), ["y"], name="here", **attributes)], kinds), feed


CASES = {
    "gather": (_one("Gather", [0, -5, 4]), {(1,): 5, (2,): -6}),
    "gather columns": (_one("Gather", [[0, -6], [5, 1]], axis=1), {(0, 1): 6, (1, 1): -7}),
    "gather elements": (_one("GatherElements", [[0, 1], [-5, 2], [4, 3]]), {(1, 0): 5, (2, 1): -9}),
    "gather tuples": (_one("GatherND", [[0, 1], [-5, 2], [4, -6]]), {(0, 1): 6, (2, 0): 2**40}),
    "scatter rows": (_one("ScatterND", [[0], [-5], [4]], (3, 6)), {(1, 0): 5, (0, 0): -(2**62)}),
    "add rows": (_one("ScatterND", [[0], [-5], [4]], (3, 6), reduction="add"), {(2, 0): -6}),
    "scatter elements": (_one("ScatterElements", [[0, 1], [-4, 2], [4, 3]], (3, 2)), {(0, 0): 7}),
}


@RUNS
@pytest.mark.parametrize("case", CASES)
def test_an_index_out_of_range_is_an_error_with_node_and_index(case: str, backend: str, threads: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    (model, feed), mistakes = CASES[case]
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.compile(model, backend=backend, threads=threads)
    bound = net.bind(feed)
    expected = peer.run(None, feed)[0]
    for place, index in mistakes.items():
        bad = feed["i"].copy()
        bad[place] = index
        with pytest.raises(
            GlowError, match=rf"{model.graph.node[0].op_type} 'here': index {index} is out of"
        ):
            net.run({**feed, "i": bad})
        bound.inputs["i"][...] = bad
        with pytest.raises(GlowError, match=f"index {index} is out of range"):
            bound()
        bound.inputs["i"][...] = feed["i"]
        np.testing.assert_array_equal(net.run(feed)["y"], expected)
        np.testing.assert_array_equal(bound()["y"], expected)


def _branches(condition: str) -> onnx.ModelProto:
    """y = x[i] if i < 5 else 0, with a condition that is computed or an input."""
    out = [helper.make_tensor_value_info("z", F, [6])]
    taken = helper.make_graph([helper.make_node("Gather", ["x", "i"], ["z"], name="row")], "t", [], out)
    zero = helper.make_node("ConstantOfShape", ["six"], ["z"])
    other = helper.make_graph([zero], "e", [], out)
    nodes = [
        helper.make_node("Less", ["i", "five"], ["below"]),
        helper.make_node("If", [condition], ["y"], then_branch=taken, else_branch=other),
    ]
    weights = {"five": np.array(5), "six": np.array([6])}
    inputs: dict[str, tuple[int, Any]] = {"x": (F, [5, 6]), "i": (I, [])}
    if condition != "below":
        inputs[condition] = (TensorProto.BOOL, [])
    return _model(nodes, inputs, [6], weights)


@RUNS
def test_a_branch_that_is_not_taken_makes_no_error(backend: str, threads: int) -> None:
    net = glow.compile(_branches("below"), backend=backend, threads=threads)
    for i in (2, 7, -1, 5):
        expected = X[i] if i < 5 else np.zeros(6, np.float32)
        np.testing.assert_array_equal(net.run({"x": X, "i": np.array(i)})["y"], expected)


@RUNS
@pytest.mark.parametrize("turns", [3, 600])
def test_rows_of_a_loop_are_checked(turns: int, backend: str, threads: int) -> None:
    """Sums of rows whose numbers are data: the shorter loop is written out, the longer one stays a loop."""
    values = [("n", I, []), ("c", TensorProto.BOOL, []), ("s", F, [6])]
    body = helper.make_graph(
        [
            helper.make_node("Gather", ["i", "n"], ["one"], name="number"),
            helper.make_node("Gather", ["x", "one"], ["row"], name="row"),
            helper.make_node("Add", ["s", "row"], ["t"]),
            helper.make_node("Identity", ["c"], ["d"]),
        ],
        "body",
        [helper.make_tensor_value_info(*v) for v in values],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", F, [6]),
        ],
    )
    inputs = {"x": (F, [5, 6]), "i": (I, [turns])}
    start = {"zero": np.zeros(6, np.float32), "yes": np.array(True), "m": np.array(turns)}
    model = _model([helper.make_node("Loop", ["m", "yes", "zero"], ["y"], body=body)], inputs, [6], start)
    net = glow.compile(model, backend=backend, threads=threads)
    rows = np.arange(turns) % 10 - 5
    bad = rows.copy()
    bad[turns // 2] = 9
    for _ in range(2):
        found = net.run({"x": X, "i": rows})["y"]
        np.testing.assert_allclose(found, X[rows].sum(0), rtol=1e-4, atol=1e-4)
        with pytest.raises(GlowError, match="Gather 'row': index 9 is out of range for 5 elements"):
            net.run({"x": X, "i": bad})


def test_known_indices_cost_nothing_and_are_checked_at_once() -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="here")
    inputs = {"x": (F, [5, 6])}
    good = glow.load(_model([node], inputs, [2, 6], {"i": np.array([1, -1])}))
    assert "checked" not in str(good)
    with pytest.raises(GlowError, match="index 5 is out of range for 5 elements"):
        glow.load(_model([node], inputs, [2, 6], {"i": np.array([1, 5])}))


def test_a_program_from_the_cache_names_the_node(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOW_CACHE_DIR", str(tmp_path / "cache"))
    (model, feed), _ = CASES["gather"]
    onnx.save(model, str(tmp_path / "m.onnx"))
    for _ in range(2):
        net = glow.compile(str(tmp_path / "m.onnx"))
        with pytest.raises(GlowError, match="Gather 'here': index 5"):
            net.run({**feed, "i": np.array([0, 5, 0])})


@pytest.mark.parametrize("name", ["词/嵌入", 'a "b" \\ c\n', "é"])
def test_the_name_survives_as_text(name: str) -> None:
    """Names of any alphabet come back from the printed module."""
    model = _model([helper.make_node("Gather", ["x", "i"], ["y"], name=name)], {"x": (F, [5]), "i": (I, [2])})
    text = str(glow.load(model))
    module = parse_module(text, "module", tool_context())
    assert str(module) == text
    with pytest.raises(GlowError) as caught:
        glow.compile(module).run({"x": X[:, 0].copy(), "i": np.array([0, 9])})
    assert str(caught.value) == f"Gather '{name}': index 9 is out of range for 5 elements"
