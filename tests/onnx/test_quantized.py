"""Quantised ONNX models: exact integers, and integer operators where the parameters are known."""

from __future__ import annotations

from typing import Any

import exact_peer
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.ops.windows import convolve
from glow_passes.pipeline import PassRunner, match_integers

RNG = np.random.default_rng(0)


def model(
    nodes: list[onnx.NodeProto], inputs: dict[str, Array], output: int, weights: dict[str, Array]
) -> onnx.ModelProto:
    """A model of opset 21 with one output y."""
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape))
        for n, a in inputs.items()
    ]
    made = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    y = helper.make_tensor_value_info("y", output, None)
    graph = helper.make_graph(nodes, "test", infos, [y], made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def results(m: onnx.ModelProto, inputs: dict[str, Array]) -> tuple[Array, Any]:
    """Ours on the interpreter, and onnxruntime's."""
    session = exact_peer.session(m)
    return glow.compile(m, backend="interpreter").run(inputs)["y"], session.run(None, inputs)[0]


def operators(m: onnx.ModelProto) -> set[str]:
    """Operators of the graph after conversions are matched."""
    module = glow.load(m)
    PassRunner(context()).run(module, match_integers())
    return {op.name for op in module.walk()}


def byte_weights(*shape: int) -> Array:
    return RNG.integers(-127, 128, shape).astype(np.int8)


@pytest.mark.parametrize("channels", [3, 40, 100])
@pytest.mark.parametrize("known", [True, False])
def test_qlinear_conv(channels: int, known: bool) -> None:
    weights: dict[str, Array] = {
        "x_scale": np.array(0.05, np.float32),
        "x_zero": np.array(120, np.uint8),
        "w": byte_weights(6, channels, 3, 3),
        "w_scale": (RNG.random(6) * 0.01 + 0.001).astype(np.float32),
        "w_zero": np.zeros(6, np.int8),
        "y_scale": np.array(2.0, np.float32),
        "y_zero": np.array(128, np.uint8),
        "b": RNG.integers(-900, 900, 6).astype(np.int32),
    }
    names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b"]
    inputs = {"x": RNG.integers(0, 256, (1, channels, 7, 7)).astype(np.uint8)}
    if not known:
        inputs["x_scale"] = weights.pop("x_scale")
    node = helper.make_node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1])
    m = model([node], inputs, TensorProto.UINT8, weights)
    got, want = results(m, inputs)
    # Two roundings of a half may differ where the scales are inputs; nothing else does.
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
    assert (got != want).mean() <= (0 if known else 0.01)
    assert ("glow.quantized_conv" in operators(m)) == known


@pytest.mark.skipif(not exact_peer.is_exact(), reason=exact_peer.SATURATES)
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_sums_next_to_halfway_between_two_integers(backend: str) -> None:
    """The factor of the sums is onnxruntime's to the last bit: of 32 convolutions every byte."""
    rng = np.random.default_rng(0)
    inputs = {"x": rng.integers(0, 256, (1, 8, 40, 40)).astype(np.uint8)}
    names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"]
    for _ in range(32):
        scales = rng.uniform(0.01, 0.05), rng.uniform(0.001, 0.006)
        weights: dict[str, Array] = {
            "x_scale": np.array(scales[0], np.float32),
            "x_zero": np.array(128, np.uint8),
            "w": byte_weights(32, 8, 3, 3),
            "w_scale": np.array(scales[1], np.float32),
            "w_zero": np.array(0, np.int8),
            "y_scale": np.array(scales[0] * scales[1] * rng.uniform(900, 1800), np.float32),
            "y_zero": np.array(120, np.uint8),
        }
        m = model([helper.make_node("QLinearConv", names, ["y"])], inputs, TensorProto.UINT8, weights)
        want = exact_peer.session(m).run(None, inputs)[0]
        np.testing.assert_array_equal(glow.compile(m, backend=backend).run(inputs)["y"], want)


@pytest.mark.parametrize("depth", [5, 256, 700])
@pytest.mark.parametrize("known", [True, False])
def test_qlinear_matmul(depth: int, known: bool) -> None:
    weights: dict[str, Array] = {
        "a_scale": np.array(0.02, np.float32),
        "a_zero": np.array(3, np.int8),
        "b": byte_weights(depth, 8),
        "b_scale": np.array(0.01, np.float32),
        "b_zero": np.array(0, np.int8),
        "y_scale": np.array(0.7, np.float32),
        "y_zero": np.array(-5, np.int8),
    }
    names = ["a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"]
    inputs = {"a": byte_weights(4, depth)}
    if not known:
        inputs["a_scale"] = weights.pop("a_scale")
    m = model([helper.make_node("QLinearMatMul", names, ["y"])], inputs, TensorProto.INT8, weights)
    got, want = results(m, inputs)
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
    assert (got != want).mean() < 0.1
    assert "glow.quantized_fully_connected" in operators(m)


@pytest.mark.skipif(not exact_peer.is_exact(), reason=exact_peer.SATURATES)
@pytest.mark.parametrize("depth", [7, 1000])
def test_integer_products_are_exact(depth: int) -> None:
    inputs = {
        "a": RNG.integers(0, 256, (3, depth)).astype(np.uint8),
        "b": byte_weights(depth, 5),
        "zero": np.array(255, np.uint8),
    }
    node = helper.make_node("MatMulInteger", ["a", "b", "zero"], ["y"])
    got, want = results(model([node], inputs, TensorProto.INT32, {}), inputs)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("zero", [None, 0, 7])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("size", [(3, 5), (2, 9, 1030)])
def test_integer_products_by_weights(
    size: tuple[int, ...], dtype: str, zero: int | None, backend: str
) -> None:
    """Exact on integer kernels; the input's zero point comes at run time."""
    info = np.iinfo(dtype)
    inputs = {
        "a": RNG.integers(info.min, info.max + 1, size).astype(dtype),
        "a_zero": np.array(3, dtype),
    }
    b = RNG.integers(-128, 128, (size[-1], 37)) if zero is None else RNG.integers(0, 100, (size[-1], 37))
    weights: dict[str, Array] = {"b": b.astype(np.int8 if zero is None else np.uint8)}
    if zero is not None:
        weights["b_zero"] = np.array(zero, np.uint8)
    node = helper.make_node(
        "MatMulInteger", ["a", "b", "a_zero", *(["b_zero"] if zero is not None else [])], ["y"]
    )
    m = model([node], inputs, TensorProto.INT32, weights)
    assert "glow.quantized_fully_connected" in operators(m)
    want = (inputs["a"].astype(np.int64) - 3) @ (b - (zero or 0))
    np.testing.assert_array_equal(glow.compile(m, backend=backend).run(inputs)["y"], want)


@pytest.mark.parametrize("channels", [2, 60])
def test_integer_convolutions_are_exact(channels: int) -> None:
    inputs = {"x": RNG.integers(0, 256, (1, channels, 6, 6)).astype(np.uint8)}
    weights: dict[str, Array] = {"w": byte_weights(4, channels, 3, 3), "zero": np.array(200, np.uint8)}
    node = helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], strides=[2, 2])
    m = model([node], inputs, TensorProto.INT32, weights)
    x = inputs["x"].astype(np.int64) - 200
    w = weights["w"].astype(np.int64)
    got = glow.compile(m, backend="interpreter").run(inputs)["y"]
    views = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2]
    np.testing.assert_array_equal(got, np.einsum("nchwij,ocij->nohw", views, w))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("group", [1, 8])
@pytest.mark.parametrize("known", [True, False])
def test_conv_integer_is_exact(dtype: type, group: int, known: bool) -> None:
    """Weights of either sign, zero points of channels, an input's zero point that only a run knows."""
    rng = np.random.default_rng(3)
    w = rng.integers(0, 256, (24, 16 // group, 3, 3)).astype(np.uint8).view(dtype)
    zeros = rng.integers(100, 140, 24).astype(np.uint8) if dtype == np.uint8 else np.zeros(24, np.int8)
    x, zero = rng.integers(0, 256, (2, 16, 9, 8)).astype(np.uint8), np.array(117, np.uint8)
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)]
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(zeros, "wz")]
    if known:
        constants.append(numpy_helper.from_array(zero, "z"))
    else:
        inputs.append(helper.make_tensor_value_info("z", TensorProto.UINT8, ()))
    window: dict[str, Any] = {"pads": [1, 0, 1, 1], "strides": [1, 2], "group": group}
    node = helper.make_node("ConvInteger", ["x", "w", "z", "wz"], ["y"], **window)
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT32, None)]
    graph = helper.make_graph([node], "g", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    centred = w.astype(np.float64) - zeros.astype(np.float64).reshape(-1, 1, 1, 1)
    want = convolve(x.astype(np.float64) - 117, centred, (1, 2), (1, 0, 1, 1), (1, 1), group)
    feed = {"x": x} if known else {"x": x, "z": zero}
    np.testing.assert_array_equal(glow.compile(model).run(feed)["y"], want)


def test_numbers_that_decide_about_the_graph_come_from_the_data() -> None:
    """A dimension that only a run knows is that of the calibration data."""
    rng = np.random.default_rng(4)
    w = rng.standard_normal((12, 8)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Concat", ["n", "rest"], ["dims"], axis=0),
        helper.make_node("Reshape", ["p", "dims"], ["y"]),
    ]
    feed = {"x": rng.standard_normal((3, 12)).astype(np.float32), "n": np.array([6])}
    made = model(nodes, feed, TensorProto.FLOAT, {"w": w, "rest": np.array([-1])})
    have = glow.compile(glow.quantize(made, [feed], everything=True)).run(feed)["y"]
    np.testing.assert_allclose(have, (feed["x"] @ w).reshape(6, 4), atol=0.1)


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize(
    ("zero", "dtype"), [(128, np.uint8), (93, np.uint8), (140, np.uint8), (-20, np.int8)]
)
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_convolutions_by_weights_of_any_zero_point(
    backend: str, zero: int, dtype: type, axis: int | None
) -> None:
    """Weights that are no signed bytes without their zero points stay on integers all the same."""
    rng, span = np.random.default_rng(0), np.iinfo(dtype)
    stored = rng.integers(span.min, span.max + 1, (24, 20, 3, 3)).astype(dtype)
    count = () if axis is None else (24,)
    around = zero + rng.integers(-3, 4, count) if count else np.array(zero)
    weights: dict[str, Array] = {
        "w": stored,
        "w_scale": np.asarray(rng.uniform(0.001, 0.004, count), np.float32),
        "w_zero": np.asarray(around, dtype),
        "x_scale": np.array(0.02, np.float32),
        "x_zero": np.array(117, np.uint8),
        "b": rng.standard_normal(24).astype(np.float32),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "x_scale", "x_zero"], ["r"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["v"], axis=axis or 0),
        helper.make_node("Conv", ["r", "v", "b"], ["y"], pads=[1, 0, 1, 2], strides=[2, 1]),
    ]
    x = rng.uniform(-2, 2, (2, 20, 9, 7)).astype(np.float32)
    made = model(nodes, {"x": x}, TensorProto.FLOAT, weights)
    assert "glow.quantized_conv" in operators(made) and "glow.conv" not in operators(made)
    _, want = results(made, {"x": x})
    have = glow.compile(made, backend=backend).run({"x": x})["y"]
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-3)


def dynamic(*shape: int) -> onnx.ModelProto:
    """DynamicQuantizeLinear with all its results: bytes, scale y, zero."""
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["bytes", "y", "zero"])
    m = model([node], {"x": np.zeros(shape, np.float32)}, TensorProto.FLOAT, {})
    m.graph.output.extend(
        helper.make_tensor_value_info(n, TensorProto.UINT8, None) for n in ("bytes", "zero")
    )
    return m


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("shape", [(3, 70), (1,), (16,), (2, 3, 7, 25), (4, 1029)], ids=str)
def test_dynamic_scales_are_exact(shape: tuple[int, ...], backend: str) -> None:
    """A scale that is off in its last digit moves values that lie between two bytes."""
    m = dynamic(*shape)
    session, net = exact_peer.session(m), glow.compile(m, backend=backend)
    for low, high in [*((-0.2, h) for h in np.linspace(0.3, 9, 20)), (-5, -1), (2, 3)]:
        x = {"x": RNG.uniform(low, high, shape).astype(np.float32)}
        for name, want in zip(("y", "bytes", "zero"), session.run(None, x), strict=True):
            np.testing.assert_array_equal(net.run(x)[name], want)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("odd", [np.nan, -np.inf])
@pytest.mark.parametrize("place", [0, 63, 64, 77])
def test_dynamic_bytes_of_odd_numbers(place: int, odd: float, backend: str) -> None:
    """Where a NaN or -inf stands anywhere, all bytes are 0."""
    x = RNG.uniform(1, 2, 78).astype(np.float32)
    x[place] = odd
    have = glow.compile(dynamic(78), backend=backend).run({"x": x})
    assert not have["bytes"].any() and have["zero"] == 0 and not np.isfinite(have["y"])
