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


def _node(
    op: str, inputs: dict[str, np.ndarray], known: dict[str, np.ndarray], **attributes: object
) -> bytes:
    """A model of one node."""
    kind = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [helper.make_node(op, [*inputs, *known], ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info(n, kind(v.dtype), v.shape) for n, v in inputs.items()],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(v, n) for n, v in known.items()],
    )
    opset = helper.make_opsetid("", 20)
    return helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString()


@pytest.mark.parametrize("scale", [1e3, 1e-3])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("op", ["LpPool", "GlobalLpPool", "MeanVarianceNormalization"])
def test_squares(op: str, backend: str, scale: float) -> None:
    """Squares of numbers in float16 that neither overflow nor vanish, as in onnxruntime."""
    runtime = pytest.importorskip("onnxruntime")
    x = (np.random.default_rng(0).standard_normal((2, 3, 4, 4)) * scale).astype(np.float16)
    model = _node(op, {"x": x}, {}, **({"kernel_shape": [2, 2]} if op == "LpPool" else {}))
    (want,) = runtime.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_allclose(glow.compile(model, backend).run({"x": x})["y"], want, rtol=4e-3, atol=1e-3)


def test_halves_of_regions() -> None:
    """MaxRoiPool rounds corners between two pixels away from 0, as C++ does."""
    runtime = pytest.importorskip("onnxruntime")
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    rois = [
        [0, 0.5, 1.5, 4.5, 5.5],
        [1, 2.5, 2.5, 3.5, 3.5],
        [0, -0.5, -1.5, 2.5, 3.5],
        [1, 0, 0.49, 7, 6.51],
    ]
    regions = np.array(rois, np.float32)
    model = _node("MaxRoiPool", {"x": x}, {"r": regions}, pooled_shape=[2, 2])
    (want,) = runtime.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_array_equal(glow.compile(model).run({"x": x})["y"], want)
