"""Quantised operators on channel blocks: the CPU's integers are the interpreter's, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph

import glow_compiler as glow
from glow_dialects.core.types import QuantizedArray, UniformQuantizedType, shape_of, tensor
from glow_dialects.ops.arithmetic import MaxOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.lookup import LookupOp
from glow_dialects.ops.quantized_arithmetic import QuantizedAddOp
from glow_dialects.ops.quantized_avg_pool import QuantizedAvgPoolOp
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp

pytestmark = pytest.mark.slow

X = UniformQuantizedType.of(8, 0.05, -3)
UNSIGNED = UniformQuantizedType.of(8, 0.05, 125, signed=False)


def stored(kind: UniformQuantizedType, *shape: int, seed: int = 0) -> QuantizedArray:
    """Random stored integers of a type."""
    low = -128 if kind.signed else 0
    rng = np.random.default_rng(seed + sum(shape))
    return QuantizedArray.of(rng.integers(low, low + 256, shape), kind)


def agree(g: Graph) -> None:
    """Both backends give the same outputs."""
    want = glow.compile(g.module, backend="interpreter").run(g.inputs)
    have = glow.compile(g.module).run(g.inputs)
    for name, expected in want.items():
        np.testing.assert_array_equal(have[name], expected)


@pytest.mark.parametrize("kind", [X, UNSIGNED], ids=["signed", "unsigned"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("group", "inner", "out", "options"),
    [
        (1, 16, 24, {}),
        (32, 32, 32, {}),
        (20, 20, 20, {"low": 5}),
        (2, 32, 64, {"real": True}),
        (8, 32, 40, {}),
        (3, 9, 6, {"low": 5}),
        (32, 32, 32, {"bias": 1 << 28}),
    ],
)
def test_convolution(
    kind: UniformQuantizedType, layout: str, group: int, inner: int, out: int, options: dict[str, Any]
) -> None:
    """Groups, padding with a zero point, real results, limits, biases that float32 would round."""
    last, size = layout == "NHWC", 7
    g, rng = Graph(), np.random.default_rng(out)
    image = (1, size, size, inner) if last else (1, inner, size, size)
    filter = (out, 3, 3, inner // group) if last else (out, inner // group, 3, 3)
    weights = UniformQuantizedType.of(8, [0.01 * (i + 1) for i in range(out)], axis=0)
    largest = options.get("bias", 900)
    bias = rng.integers(-largest, largest, out).astype(np.int32)
    shape = (1, size, size, out) if last else (1, out, size, size)
    to = UniformQuantizedType.of(8, 0.9 * largest / 900, 5)
    result = tensor(shape) if options.get("real") else tensor(shape, to)
    operands = (g.input(stored(kind, *image)), g.constant(stored_weights(weights, *filter)))
    limits = {"low": options["low"]} if "low" in options else {}
    window = {"pads": (1, 1, 1, 1), "group": group, "layout": layout}
    g.save(g.b(QuantizedConvOp(*operands, g.constant(bias), results=result, **window, **limits)))
    agree(g)


def stored_weights(kind: UniformQuantizedType, *shape: int) -> QuantizedArray:
    """Weights without the smallest integer."""
    return QuantizedArray.of(np.maximum(stored(kind, *shape), -127), kind)


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ((9, 9), {}),
        ((3, 2), {"strides": (3, 2)}),
        ((3, 3), {"strides": (2, 2), "pads": (1, 1, 1, 1), "count_include_pad": True}),
        ((3, 3), {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
    ],
)
def test_average(kernel: tuple[int, int], options: dict[str, Any]) -> None:
    """Whole images, windows of one size, and windows cut off by the border."""
    g = Graph()
    x = g.input(stored(X, 1, 24, 9, 9))
    pads, strides = options.get("pads", (0,) * 4), options.get("strides", (1, 1))
    sizes = [(9 + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1 for i in (0, 1)]
    result = tensor((1, 24, *sizes), UniformQuantizedType.of(8, 0.03, 7))
    g.save(g.b(QuantizedAvgPoolOp(x, results=result, kernel=kernel, **options)))
    agree(g)
    assert glow.compile(g.module).report().notes["host instructions"] == 0


def test_parts_of_different_makers_join() -> None:
    """A convolution's result, a table's and a sum, joined: all stored alike on blocks."""
    g = Graph()
    x = g.input(stored(X, 1, 16, 5, 5))
    w = g.constant(stored_weights(UniformQuantizedType.of(8, 0.01), 16, 16, 1, 1))
    y = g.b(QuantizedConvOp(x, w, None, results=tensor((1, 16, 5, 5), X)))
    table = g.constant(stored(X, 256))
    total = g.b(QuantizedAddOp(x, y, results=tensor((1, 16, 5, 5), X)))
    joined = g.b(ConcatOp([y, g.b(LookupOp(y, table)), total], axis=1))
    assert shape_of(joined) == (1, 48, 5, 5)
    g.save(g.b(LookupOp(joined, table)))
    agree(g)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("group", "real"), [(1, False), (1, True), (4, False), (20, False)])
def test_layers_of_16_bits(layout: str, group: int, real: bool) -> None:
    """Convolutions and products of 16-bit integers, whose sums pass 32 bits, by the kernels of bytes."""
    last, g, rng = layout == "NHWC", Graph(), np.random.default_rng(5)
    wide, to = UniformQuantizedType.of(16, 1e-3, 300), UniformQuantizedType.of(16, 2e-2, -7)
    image = (1, 7, 6, 20) if last else (1, 20, 7, 6)
    filter = (40, 3, 3, 20 // group) if last else (40, 20 // group, 3, 3)
    x = g.input(QuantizedArray.of(rng.integers(-(1 << 15), 1 << 15, image), wide))
    w = g.constant(stored_weights(UniformQuantizedType.of(8, 0.01), *filter))
    bias = g.constant(rng.integers(-90000, 90000, 40).astype(np.int32))
    shape = (1, 7, 6, 40) if last else (1, 40, 7, 6)
    window: dict[str, Any] = {"pads": (1, 1, 1, 1), "group": group, "layout": layout, "low": -9000}
    made = tensor(shape) if real else tensor(shape, to)
    g.save(g.b(QuantizedConvOp(x, w, bias, results=made, **window)))
    rows = g.input(QuantizedArray.of(rng.integers(-(1 << 15), 1 << 15, (3, 700)), wide))
    columns = g.constant(stored_weights(UniformQuantizedType.of(8, 0.01), 700, 9))
    made = tensor((3, 9)) if real else tensor((3, 9), to)
    g.save(g.b(QuantizedFullyConnectedOp(rows, columns, None, results=made)))
    agree(g)


@pytest.mark.parametrize(("depth", "weight"), [(500, -128), (507, -128), (700, 127)])
@pytest.mark.parametrize("bias", [0, 30_000_000])
def test_largest_sums_of_16_bits(depth: int, weight: int, bias: int) -> None:
    """Sums at the border of 32 bits, and beyond: all inputs and weights are as large as they get."""
    g, wide = Graph(), UniformQuantizedType.of(16, 1e-3)
    values = np.full((3, depth), -(1 << 15))
    values[1], values[2, ::2] = (1 << 15) - 1, 0
    kind = UniformQuantizedType.of(8, 0.01)
    rows = g.input(QuantizedArray.of(values, wide))
    columns = g.constant(QuantizedArray.of(np.full((depth, 2), weight), kind))
    added = g.constant(np.full(2, bias if weight > 0 else -bias, np.int32)) if bias else None
    g.save(g.b(QuantizedFullyConnectedOp(rows, columns, added, results=tensor((3, 2)))))
    agree(g)


def test_islands_of_16_bits() -> None:
    """Convolutions, sums and activations on 16 bits, one after another on channel blocks."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    weights = (g.constant((rng.standard_normal((20, 20, k, k)) / 10).astype(np.float32)) for k in (3, 1, 3))
    y = g.relu(g.conv(g.placeholder("x", (1, 20, 9, 9)), next(weights), pads=(1, 1, 1, 1)))
    y = g.add(g.conv(y, next(weights)), y)
    y = g.conv(g.hard_swish(y), next(weights), pads=(1, 1, 1, 1))
    g.save(g.max_pool(y, kernel=(2, 2), strides=(2, 2)), "y")
    feed = {"x": rng.standard_normal((1, 20, 9, 9)).astype(np.float32)}
    module = glow.quantize(g, [feed], precision="int16", everything=True)
    assert "quantized_add" in str(module)
    want, have = (glow.compile(module, backend=b).run(feed)["y"] for b in ("interpreter", "cpu"))
    # hard_swish is computed on floats: at the border of two stored numbers processors round either way.
    np.testing.assert_allclose(have, want, rtol=0, atol=2 * np.ptp(want) / (1 << 15))
    assert np.mean(have != want) < 0.02


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_a_token_joins_patches(precision: str) -> None:
    """Stored constants join what a convolution made, as in front of a vision transformer."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (2, 32, 6, 6))
    w, token, v = (
        g.constant(rng.standard_normal(shape).astype(np.float32))
        for shape in ((32, 32, 1, 1), (2, 1, 32), (32, 16))
    )
    patches = g.transpose(g.reshape(g.conv(x, w), (2, 32, 36)), (0, 2, 1))
    joined = g.concat([token, patches], axis=1)
    g.save(g.matmul(g.reshape(joined, (74, 32)), v), "y")
    feed = {"x": rng.standard_normal((2, 32, 6, 6)).astype(np.float32)}
    module = glow.quantize(g, [feed], precision=precision, everything=True)
    assert "quantized_conv" in str(module)
    want, have = (glow.compile(module, backend=b).run(feed)["y"] for b in ("interpreter", "cpu"))
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("everything", [True, False])
def test_maximum_of_bytes_joins(everything: bool) -> None:
    """Bytes of a maximum are stored as those beside them: both go into one concatenation."""
    rng = np.random.default_rng(0)
    g = glow.GraphBuilder()
    x = g.placeholder("x", (1, 16, 16, 16))
    shapes = ((16, 16, 3, 3), (16, 16, 3, 3), (8, 32, 3, 3))
    first, second, last = (
        g.constant((rng.standard_normal(shape) / 12).astype(np.float32), f"w{i}")
        for i, shape in enumerate(shapes)
    )
    a, b = g.relu(g.conv(x, first, pads=(1, 1, 1, 1))), g.conv(x, second, pads=(1, 1, 1, 1))
    g.save(g.conv(g.concat([a, g.max(a, b)], axis=1), last, pads=(1, 1, 1, 1)), "y")
    data = [{"x": rng.standard_normal((1, 16, 16, 16)).astype(np.float32)} for _ in range(4)]
    module = glow.quantize(g, data, schema="symmetric_power2", everything=everything)
    want = glow.compile(module, backend="interpreter").run(data[0])["y"]
    have = glow.compile(module).run(data[0])["y"]
    np.testing.assert_allclose(have, want, atol=0.02 * np.abs(want).max())


@pytest.mark.parametrize("shape", [(1, 1, 7, 7), (1, 1, 1, 1), (1, 32, 1, 1), (1, 32, 7, 7)])
def test_bytes_that_broadcast(shape: tuple[int, ...]) -> None:
    """The larger of two bytes, where one of the operands has one channel for all, or one pixel."""
    g, weights = Graph(), UniformQuantizedType.of(8, 0.01, 0)
    w, window = g.constant(stored(weights, 32, 16, 1, 1)), {"strides": (1, 1), "dilations": (1, 1)}
    y = QuantizedConvOp(
        g.input(stored(X, 1, 16, 7, 7)), w, None, results=tensor((1, 32, 7, 7), X), pads=(0,) * 4, **window
    )
    g.save(g.b(MaxOp(g.b(y), g.input(stored(X, *shape)))))
    agree(g)
