"""Layers on float16 add in float32 on every processor: sums that would overflow, or lose what cancels."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow


@pytest.mark.parametrize("depth", [8, 128, 1024])
@pytest.mark.parametrize("op", ["Conv", "MatMul"])
@pytest.mark.parametrize(("low", "high"), [(200, 210), (150, 160), (0, 1)])
def test_sums(op: str, low: float, high: float, depth: int) -> None:
    """Products of +-10, the negative ones last, beside sums in float64."""
    rng = np.random.default_rng(0)
    x = rng.uniform(low, high, (16, depth)).astype(np.float16)
    w = np.full((depth, 32), 10, np.float16)
    w[depth // 2 :] = -10
    want = x.astype(np.float64) @ w.astype(np.float64)
    if op == "Conv":  # a pixel a row
        x, w = x.T.reshape(1, depth, 4, 4), w.T.reshape(32, depth, 1, 1)
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
        [numpy_helper.from_array(np.ascontiguousarray(w), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    got = glow.compile(model).run({"x": np.ascontiguousarray(x)})["y"].astype(np.float64)
    if op == "Conv":
        got = got.reshape(32, 16).T
    assert np.abs(got - want).max() < 6e-4 * np.abs(want).max()
