"""What only the run tells to lie outside its range: an error that names the node, as of indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import glow_compiler as glow
from glow_dialects.core.errors import GlowError

KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
X = np.arange(4, dtype=np.float32)


def model(op: str, inputs: dict[str, np.ndarray], opset: int = 17, **attributes: Any) -> ModelProto:
    """One node named `it`, all of whose inputs are the model's."""
    kinds = {n: KINDS.get(a.dtype, TensorProto.INT32) for n, a in inputs.items()}
    outputs = ["y", "i"] if op == "TopK" else ["y"]
    result = TensorProto.INT64 if op in ("Div", "Mod") else TensorProto.FLOAT
    node = helper.make_node(
        op, [*inputs] if op != "LSTM" else ["x", "w", "r", "", "n"], outputs, "it", **attributes
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", result, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def ints(*values: int) -> np.ndarray:
    """A vector of int64."""
    return np.array(values, np.int64)


LSTM = {
    "x": np.ones((2, 1, 2), np.float32),
    "w": np.ones((1, 8, 2), np.float32),
    "r": np.ones((1, 8, 2), np.float32),
}
CASES: list[tuple[str, dict[str, np.ndarray], dict[str, Any], str, list[int]]] = [
    ("MaxUnpool", {"x": X[:1].reshape(1, 1, 1, 1), "i": ints(0).reshape(1, 1, 1, 1)},
     {"kernel_shape": [2, 2], "strides": [2, 2]}, "i", [4, 99, -1, -99, 2**63 - 1]),
    ("RoiAlign", {"x": np.ones((2, 1, 4, 4), np.float32), "r": np.ones((1, 4), np.float32), "b": ints(1)},
     {"output_height": 2, "output_width": 2, "sampling_ratio": 2}, "b", [2, -1, 99]),
    ("ReverseSequence", {"x": X.reshape(4, 1), "n": ints(4)}, {}, "n", [5, -1, -2**63]),
    ("LSTM", {**LSTM, "n": np.array([2], np.int32)}, {"hidden_size": 2}, "n", [3, -1, 77]),
    ("TopK", {"x": X, "k": ints(4)}, {}, "k", [5, -1, 2**62]),
    ("Div", {"x": ints(3, 4), "d": ints(1)}, {}, "d", [0]),
    ("Mod", {"x": ints(3, 4), "d": ints(-1)}, {}, "d", [0]),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(("op", "inputs", "attributes", "name", "bad"), CASES, ids=[c[0] for c in CASES])
def test_refused(
    op: str,
    inputs: dict[str, np.ndarray],
    attributes: dict[str, Any],
    name: str,
    bad: list[int],
    backend: str,
) -> None:
    """The last value that fits runs, others are refused, and the program runs on."""
    net = glow.compile(model(op, inputs, **attributes), backend=backend)
    good = net.run(inputs)["y"]
    for value in bad:
        array = np.full_like(inputs[name], value)
        with pytest.raises(GlowError, match="'it'.*(is not within|a divisor is 0|largest of 4)"):
            net.run({**inputs, name: array})
        np.testing.assert_array_equal(net.run(inputs)["y"], good)


def test_what_is_known_is_refused_when_imported() -> None:
    """A constant k of more than there are, a constant divisor 0."""
    for op, name, value in (("TopK", "k", ints(9)), ("Div", "d", ints(0))):
        inputs = {"x": X if op == "TopK" else ints(3, 4), name: value}
        made = model(op, inputs)
        made.graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [1], value))
        del made.graph.input[1]
        with pytest.raises(glow.ImportProblems, match=f"{op}.*(the 9 largest of 4|divisor is 0)"):
            glow.compile(made)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_places_that_are_not_there(backend: str) -> None:
    """Of what a NonZero found: a place behind the last one is refused, though the memory has it."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"], "find"),
        helper.make_node("Gather", ["found", "i"], ["y"], "pick", axis=1),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
        helper.make_tensor_value_info("i", TensorProto.INT64, [1]),
    ]
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.INT64, None)]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    net = glow.compile(made, backend=backend)
    x = np.array([0, 1, 0, 1], np.float32)
    assert [int(net.run({"x": x, "i": ints(i)})["y"].item()) for i in (0, 1, -1, -2)] == [1, 3, 3, 1]
    for bad in (2, 3, 4, -3, 99):
        with pytest.raises(GlowError, match=r"Gather 'pick': an index is out of range"):
            net.run({"x": x, "i": ints(bad)})


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_node_of_a_body_is_named_by_the_node_around_it(backend: str) -> None:
    """NegativeLogLikelihoodLoss is defined by nodes without names, one of which gathers."""
    targets = {"x": np.ones((2, 3), np.float32), "t": ints(0, 7)}
    net = glow.compile(model("NegativeLogLikelihoodLoss", targets), backend=backend)
    with pytest.raises(GlowError, match=r"GatherElements within 'it': index 7 is out of range for 3"):
        net.run(targets)
