"""Tensors without elements in operators that are rewritten as others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow

BACKENDS = pytest.mark.parametrize("backend", ["cpu", "interpreter"])
F = TensorProto.FLOAT


def _model(op: str, inputs: dict[str, Any], outputs: list[str], **attributes: Any) -> onnx.ModelProto:
    """One node; inputs are arrays by name, empty names absent ones."""
    node = helper.make_node(op, list(inputs), outputs, **attributes)
    infos = [helper.make_tensor_value_info(n, F, a.shape) for n, a in inputs.items() if a is not None]
    results = [helper.make_tensor_value_info(n, F, None) for n in outputs]
    graph = helper.make_graph([node], "g", infos, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@BACKENDS
@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("ij,jk->ik", (0, 3), (3, 2)),
        ("ij,jk->ik", (2, 0), (0, 2)),
        ("bij,bjk->bik", (1, 2, 3), (0, 3, 2)),
        ("i,j->ij", (0,), (2,)),
        ("...ij,...jk->...ik", (2, 0, 3), (3, 2)),
        ("ij,ij->", (0, 2), (0, 2)),
    ],
)
def test_einsum(equation: str, left: tuple[int, ...], right: tuple[int, ...], backend: str) -> None:
    feed = {"a": np.ones(left, np.float32), "b": np.ones(right, np.float32)}
    found = glow.compile(_model("Einsum", feed, ["y"], equation=equation), backend=backend).run(feed)["y"]
    wanted = np.einsum(equation, *feed.values())
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


@BACKENDS
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize(("op", "gates", "states"), [("LSTM", 4, 2), ("GRU", 3, 1), ("RNN", 1, 1)])
def test_sequences_of_no_steps_leave_the_states(
    op: str, gates: int, states: int, layout: int, backend: str
) -> None:
    rng = np.random.default_rng(0)
    hidden, batch = 4, 2
    state = (batch, 1, hidden) if layout else (1, batch, hidden)
    feed: dict[str, Any] = {
        "x": np.zeros((batch, 0, 3) if layout else (0, batch, 3), np.float32),
        "w": rng.standard_normal((1, gates * hidden, 3)).astype(np.float32),
        "r": rng.standard_normal((1, gates * hidden, hidden)).astype(np.float32),
    }
    given = {f"s{i}": rng.standard_normal(state).astype(np.float32) for i in range(states)}
    outputs = ["y", "h", "c"][: 1 + states]
    steps = (batch, 0, 1, hidden) if layout else (0, 1, batch, hidden)
    for first in (False, True):
        node = helper.make_node(
            op,
            ["x", "w", "r", *(["", "", *given] if first else [])],
            outputs,
            hidden_size=hidden,
            layout=layout,
        )
        names = {**feed, **(given if first else {})}
        model = _model("Identity", names, outputs)
        model.graph.node[0].CopyFrom(node)
        found = glow.compile(model, backend=backend).run(names)
        assert found["y"].shape == steps
        for name, wanted in zip(outputs[1:], given.values(), strict=True):
            np.testing.assert_array_equal(found[name], wanted if first else np.zeros(state))


@BACKENDS
def test_slices_that_leave_nothing(backend: str) -> None:
    """Of several images: nothing is no size to share out."""
    x = np.ones((2, 4, 25), np.float32)
    bounds = {"a": (7,), "b": (16,), "last": (2,), "back": (-1,), "zero": (0,), "two": (2,), "one": (1,)}
    nodes = [
        helper.make_node("Slice", ["x", "a", "b", "last", "back"], ["v"]),
        helper.make_node("Slice", ["v", "zero", "two", "one", "one"], ["y"]),
    ]
    constants = [numpy_helper.from_array(np.array(v), n) for n, v in bounds.items()]
    infos = [helper.make_tensor_value_info(n, F, s) for n, s in (("x", x.shape), ("y", None))]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    assert glow.compile(model, backend=backend).run({"x": x})["y"].shape == (2, 2, 0)


@BACKENDS
@pytest.mark.parametrize(
    ("op", "weights", "attributes", "shape"),
    [
        ("Resize", [None, np.array([1, 1, 1.25, 1], np.float32)], {"mode": "cubic"}, (0, 3, 5 << 33, 1)),
        ("Resize", [None, np.array([1, 1, 1.25, 1], np.float32)], {"mode": "linear"}, (0, 3, 5 << 33, 1)),
        ("Conv", [np.ones((2, 3, 3, 1), np.float32)], {"pads": [1, 0, 1, 0]}, (0, 2, 1 << 35, 1)),
        ("ConvTranspose", [np.ones((3, 2, 2, 1), np.float32)], {"strides": [2, 1]}, (0, 2, 1 << 36, 1)),
        ("Pad", [np.array([0, 0, 1, 0, 0, 0, 1, 0])], {"mode": "edge"}, (0, 3, (1 << 35) + 2, 1)),
        ("AveragePool", [], {"kernel_shape": [3, 1], "pads": [1, 0, 1, 0]}, (0, 3, 1 << 35, 1)),
    ],
)
def test_large_axes_beside_none(
    op: str, weights: list[Any], attributes: dict[str, Any], shape: tuple[int, ...], backend: str
) -> None:
    """No table is made for an axis of 2^35 where there is nothing to compute."""
    names = [f"w{n}" if w is not None else "" for n, w in enumerate(weights)]
    known = [numpy_helper.from_array(w, n) for n, w in zip(names, weights, strict=True) if n]
    x = helper.make_tensor_value_info("x", F, ["n", 3, "h", 1])
    y = helper.make_tensor_value_info("y", F, None)
    node = helper.make_node(op, ["x", *names], ["y"], **attributes)
    made = helper.make_model(
        helper.make_graph([node], "g", [x], [y], known),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    found = glow.compile(made, backend=backend).run({"x": np.zeros((0, 3, 1 << 35, 1), np.float32)})["y"]
    assert found.shape == shape
