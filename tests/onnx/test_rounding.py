"""Answers that rounding decides are told from wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from rounding import moved_answers, rounding_decides

from glow_tools.reduce_onnx import OnnxCase

STEP = 0.25


def case(x: float) -> OnnxCase:
    """The sum of x and 0.1, stored in steps of 0.25 and read again."""
    constants = {"c": np.float32(0.1), "s": np.float32(STEP), "z": np.uint8(7)}
    nodes = [
        helper.make_node("Add", ["x", "c"], ["sum"]),
        helper.make_node("QuantizeLinear", ["sum", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy"]
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return OnnxCase(model, {"x": np.array([x], np.float32)})


@pytest.mark.parametrize(
    ("x", "answer", "decides"),
    [
        (4.5 * STEP - 0.1, 4 * STEP, True),
        (4.5 * STEP - 0.1, 5 * STEP, True),
        (4.5 * STEP - 0.1, 6 * STEP, False),
        (4.3 * STEP - 0.1, 4 * STEP, True),
        (4.3 * STEP - 0.1, 5 * STEP, False),
    ],
)
def test_halfway_between_two_steps(x: float, answer: float, decides: bool) -> None:
    assert rounding_decides(case(x), "y", np.array([answer], np.float32)) == decides


def test_another_shape_or_type_is_no_matter_of_rounding() -> None:
    right = next(moved_answers(case(1.0), "y"))
    assert rounding_decides(case(1.0), "y", right)
    assert not rounding_decides(case(1.0), "y", right[None])
    assert not rounding_decides(case(1.0), "y", right.astype(np.float64))
