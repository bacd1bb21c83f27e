"""Layers on 16-bit integers as layers on their bytes: the same numbers, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from glow_backends.cpu.passes.cpu_halves import CpuHalvesPass
from glow_dialects.core.types import Array, QuantizedArray, UniformQuantizedType, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp

R = np.random.default_rng(0)
X = UniformQuantizedType.of(16, 0.5, 300)
W = UniformQuantizedType.of(8, 0.25)
SHORT = UniformQuantizedType.of(16, 900.0, -5)
BYTE = UniformQuantizedType.of(8, 90000.0, 3)
UNSIGNED = UniformQuantizedType.of(8, 90000.0, 130, signed=False)


def stored(kind: UniformQuantizedType, *shape: int) -> QuantizedArray:
    """Stored integers of the whole range of a type."""
    width, low = kind.storage.width.data, 0
    if kind.signed:
        low = -(1 << width - 1)
    return QuantizedArray.of(R.integers(low, low + (1 << width), shape), kind)


def halved(g: Graph) -> list[str]:
    """The operators after the pass, which leaves the results as they were."""
    before = g.run()
    CpuHalvesPass().apply(context(), g.module)
    g.module.verify()
    for have, want in zip(g.run(), before, strict=True):
        np.testing.assert_array_equal(have, want)
    return g.ops()


def product(
    g: Graph, kind: UniformQuantizedType = X, weights: Any = W, bias: Any = None, to: Any = SHORT, **more: Any
) -> None:
    """A product of three rows with two columns of weights, which may be a value."""
    given = g.constant(stored(weights, 6, 2)) if isinstance(weights, UniformQuantizedType) else weights
    operands = (g.input(stored(kind, 3, 6)), given, bias)
    result = tensor((3, 2), to)
    g.save(g.b(QuantizedFullyConnectedOp(*operands, results=result, **more)))


@pytest.mark.parametrize("low", [None, -100])
@pytest.mark.parametrize("bias", [None, 9, 1 << 30])
@pytest.mark.parametrize("to", [SHORT, BYTE, UNSIGNED, tensor(()).element_type], ids=str)
def test_products(to: Any, bias: int | None, low: int | None) -> None:
    """Results of 16 bits, of bytes and real ones, with bias, limits, and sums that 32 bits do not hold."""
    g = Graph()
    given = None if bias is None else g.constant(np.array([bias, -7], np.int32))
    limits: dict[str, Any] = (
        {} if low is None or not isinstance(to, UniformQuantizedType) else {"low": low, "high": 100}
    )
    product(g, bias=given, to=to, **limits)
    names = halved(g)
    assert names.count("quantized_fully_connected") == 2
    assert ("shift_left" in names) == (bias != 1 << 30 or bias + 6 * 128 * 33068 < 1 << 31)


@pytest.mark.parametrize(
    ("layout", "image", "filter", "result"),
    [
        ("NCHW", (1, 2, 5, 4), (3, 2, 2, 2), (1, 3, 4, 3)),
        ("NHWC", (1, 5, 4, 2), (3, 2, 2, 2), (1, 4, 3, 3)),
        ("NCHW", (2, 2, 5), (3, 2, 2), (2, 3, 4)),
    ],
)
def test_convolutions(layout: str, image: Any, filter: Any, result: Any) -> None:
    """Along one and two axes, the bias beside the channels."""
    g = Graph()
    axes = len(image) - 2
    window: dict[str, Any] = {
        "strides": (1,) * axes,
        "pads": (0,) * 2 * axes,
        "dilations": (1,) * axes,
        "layout": layout,
    }
    bias = g.constant(np.array([100, -100000, 7], np.int32))
    operands = g.input(stored(X, *image)), g.constant(stored(W, *filter)), bias
    g.save(g.b(QuantizedConvOp(*operands, results=tensor(result, SHORT), **window)))
    assert halved(g).count("quantized_conv") == 2


@pytest.mark.parametrize("above", [0, 1])
@pytest.mark.parametrize("zero", [0, 5, -5])
@pytest.mark.parametrize("kind", ["conv", "fully connected"])
def test_sums_of_32_bits(kind: str, zero: int, above: int) -> None:
    """The sums of an output stay in 32 bits as long as the largest one and the bias fit."""
    g, furthest = Graph(), 32768 + zero if zero > 0 else 32768 - (zero + 1 if zero else 0)
    whole, rest = divmod((1 << 31) - 1, furthest)
    column = np.full(-(-whole // 127), -127, np.int8)
    column[0] = whole - 127 * (len(column) - 1)
    weights = np.stack([np.ones(len(column), np.int8), column])
    bias = g.constant(np.array([0, -rest - above], np.int32))
    x = R.integers(-(1 << 15), 1 << 15, (1, len(column)))
    source = UniformQuantizedType.of(16, 0.5, zero)

    def given(array: Array, *shape: int) -> SSAValue:
        return g.constant(QuantizedArray.of(array.reshape(shape), W))

    if kind == "conv":
        window: dict[str, Any] = {"strides": (1,), "pads": (0, 0), "dilations": (1,)}
        operands = (
            g.input(QuantizedArray.of(x[..., None], source)),
            given(weights, 2, -1, 1),
            bias,
        )
        g.save(g.b(QuantizedConvOp(*operands, results=tensor((1, 2, 1), SHORT), **window)))
    else:
        operands = g.input(QuantizedArray.of(x, source)), given(weights.T.copy(), -1, 2), bias
        g.save(g.b(QuantizedFullyConnectedOp(*operands, results=tensor((1, 2), SHORT))))
    assert ("shift_left" in halved(g)) == (above == 0)


@pytest.mark.parametrize(
    "name", ["bytes", "wide weights", "unsigned", "weights", "bias", "sums", "volume", "predicate"]
)
def test_stays(name: str) -> None:
    """What has kernels of its own, or is not known when the program is compiled."""
    g = Graph()
    match name:
        case "bytes":
            product(g, UniformQuantizedType.of(8, 0.5, 3))
        case "wide weights":
            product(g, weights=UniformQuantizedType.of(16, 0.25))
        case "unsigned":
            product(g, UniformQuantizedType.of(16, 0.5, 300, signed=False))
        case "weights":
            product(g, weights=g.input(stored(W, 6, 2)))
        case "bias":
            product(g, bias=g.input(np.array([9, -7], np.int32)))
        case "sums":
            product(g, to=i32)
        case "predicate":
            product(g, predicate=g.input(np.array(True)))
        case _:
            window: dict[str, Any] = {"strides": (1,) * 3, "pads": (0,) * 6, "dilations": (1,) * 3}
            operands = g.input(stored(X, 1, 2, 2, 2, 2)), g.constant(stored(W, 3, 2, 2, 2, 2)), None
            g.save(g.b(QuantizedConvOp(*operands, results=tensor((1, 3, 1, 1, 1), SHORT), **window)))
    assert len(halved(g)) == 1
