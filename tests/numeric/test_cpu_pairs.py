"""Which layers on bytes multiply pairs of 16-bit numbers; the results stay as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph

from glow_backends.cpu.kernels.conv.quantized_ops import QuantizedConvOp
from glow_backends.cpu.passes.cpu_fuse_sums import CpuFuseSumsPass
from glow_backends.cpu.passes.cpu_pairs import FEW_ROWS, CpuPairsPass
from glow_dialects.core.types import QuantizedArray, UniformQuantizedType, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.quantized_arithmetic import QuantizedAddOp
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp

R = np.random.default_rng(0)
BYTE = UniformQuantizedType.of(8, 0.5, 3, signed=False)
SIGNED = UniformQuantizedType.of(8, 0.5, 3)
W, WIDE = UniformQuantizedType.of(8, 0.25), UniformQuantizedType.of(16, 0.25)
CONV: dict[str, Any] = {"lanes": 8, "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
PAIRS, FOUR = "haswell", "znver4"
"""Processors that multiply pairs of 16-bit numbers, and four bytes."""


def stored(kind: UniformQuantizedType, *shape: int) -> QuantizedArray:
    """Stored integers of a byte's range."""
    low = -128 if kind.signed else 0
    return QuantizedArray.of(R.integers(low, low + 256, shape), kind)


def after(g: Graph, *passes: Any) -> list[str]:
    """The operators after passes, which leave the results as they were."""
    before = g.run()
    for item in passes:
        item.apply(context(), g.module)
    g.module.verify()
    for have, want in zip(g.run(), before, strict=True):
        np.testing.assert_array_equal(have, want)
    return [op.removeprefix("glow_cpu.") for op in g.ops()]


def conv(g: Graph, weights: UniformQuantizedType = W, inner: int = 8, group: int = 1, **more: Any) -> Any:
    """A convolution of eight channels in a block."""
    x, w = g.input(stored(BYTE, 1, 1, 3, 3, 8)), g.constant(stored(weights, 8, inner, 1, 1))
    result = tensor((1, 1, 3, 3, 8), BYTE)
    return g.b(QuantizedConvOp(x, w, None, None, results=result, group=group, **CONV, **more))


@pytest.mark.parametrize(
    ("cpu", "case", "pairs"),
    [
        (PAIRS, {}, True),
        (FOUR, {}, False),
        (FOUR, {"weights": WIDE}, True),
        (PAIRS, {"inner": 4, "group": 2}, True),
        (PAIRS, {"inner": 1, "group": 8}, False),  # waits for its weights
    ],
)
def test_convolutions(cpu: str, case: dict[str, Any], pairs: bool) -> None:
    """Those that do not wait for their weights, and wide weights everywhere."""
    g = Graph()
    g.save(conv(g, **case))
    assert ("pairs_conv" in after(g, CpuPairsPass(cpu))) == pairs


def test_one_channel() -> None:
    """One group of one channel is no depthwise convolution."""
    g = Graph()
    x, w = g.input(stored(BYTE, 1, 1, 3, 3, 8)), g.constant(stored(W, 1, 1, 1, 1))
    g.save(g.b(QuantizedConvOp(x, w, None, None, results=tensor((1, 1, 3, 3, 8), BYTE), **CONV)))
    assert "pairs_conv" in after(g, CpuPairsPass(PAIRS))


def test_several_outputs_of_each_channel() -> None:
    """Groups of one channel with several filters."""
    g = Graph()
    x, w = g.input(stored(BYTE, 1, 1, 3, 3, 8)), g.constant(stored(W, 16, 1, 1, 1))
    result = tensor((1, 2, 3, 3, 8), BYTE)
    g.save(g.b(QuantizedConvOp(x, w, None, None, results=result, group=8, **CONV)))
    assert "pairs_conv" in after(g, CpuPairsPass(PAIRS))


@pytest.mark.parametrize(
    ("cpu", "rows", "weights", "pairs"),
    [
        (PAIRS, FEW_ROWS, W, True),
        (PAIRS, FEW_ROWS - 1, W, False),
        (FOUR, FEW_ROWS, W, False),
        (FOUR, 1, WIDE, True),
        (PAIRS, FEW_ROWS, UniformQuantizedType.of(8, 0.25, signed=False), False),
    ],
)
def test_products(cpu: str, rows: int, weights: UniformQuantizedType, pairs: bool) -> None:
    """Of as many rows, or of wide weights; unsigned weights have other kernels."""
    g = Graph()
    operands = g.input(stored(SIGNED, rows, 6)), g.constant(stored(weights, 6, 2)), None
    g.save(g.b(QuantizedFullyConnectedOp(*operands, results=tensor((rows, 2), SIGNED))))
    assert ("pairs_fully_connected" in after(g, CpuPairsPass(cpu))) == pairs


@pytest.mark.parametrize("name", ["weights", "bias", "input", "predicate"])
def test_products_that_stay(name: str) -> None:
    """What is not known when the program is compiled, or no byte."""
    g = Graph()
    kind = UniformQuantizedType.of(16, 0.5, 3) if name == "input" else SIGNED
    w = (g.input if name == "weights" else g.constant)(stored(W, 6, 2))
    bias = g.input(np.array([1, 2], np.int32)) if name == "bias" else None
    more: dict[str, Any] = {"predicate": g.input(np.array(True))} if name == "predicate" else {}
    operands = g.input(stored(kind, FEW_ROWS, 6)), w, bias
    g.save(g.b(QuantizedFullyConnectedOp(*operands, results=tensor((FEW_ROWS, 2), SIGNED), **more)))
    assert after(g, CpuPairsPass(PAIRS)) == ["quantized_fully_connected"]


@pytest.mark.parametrize(
    ("kind", "fused"),
    [("left", 1), ("right", 1), ("read", 0), ("wider", 0), ("twice", 1), ("inputs", 0), ("predicate", 0)],
)
def test_residual_sums(kind: str, fused: int) -> None:
    """A convolution adds one residual of its shape that nobody else needs first."""
    g = Graph()
    to = UniformQuantizedType.of(8, 0.75, 9, signed=False)
    y = conv(g) if kind != "inputs" else g.input(stored(BYTE, 1, 1, 3, 3, 8))
    other = g.input(stored(BYTE, 2 if kind == "wider" else 1, 1, 3, 3, 8))
    more: dict[str, Any] = {"predicate": g.input(np.array(True))} if kind == "predicate" else {}

    def add(lhs: Any, rhs: Any) -> Any:
        shape = (2 if kind == "wider" else 1, 1, 3, 3, 8)
        return g.b(QuantizedAddOp(lhs, rhs, results=tensor(shape, to), low=5, high=200, **more))

    total = add(other, y) if kind == "right" else add(y, other)
    g.save(add(total, other) if kind == "twice" else total)
    if kind == "read":
        g.save(y)
    names = after(g, CpuFuseSumsPass())
    assert names.count("quantized_add") == 1 - fused + (kind == "twice")
