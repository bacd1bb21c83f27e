"""Winograd along a line, F(m, r) at m + r - 1 points: the transforms of rows, columns and squares of taps.

The points are 0, +-p for the p of `POINTS`, and infinity. With P(x) the product of (x - q) over the points
q but infinity, a tile d of inputs has the values sum_j c_j d_j at point q, c the coefficients of
P(x) / (x - q); a filter w has w(q) / P'(q), and output k is the sum of q^k times the products. Infinity
has the coefficients of P, the last tap, and counts for the last output.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit.builder import KernelBuilder
from glow_dialects.core.types import Array

POINTS = {4: (1.0,), 6: (0.5**0.5, 2.0**0.5), 8: (0.5, 1.0, 2.0)}
"""The positive points by the number of all: of those tried these have about the least error in float32."""


def line_tiles(taps: int, most: int) -> tuple[int, ...]:
    """The numbers of outputs that tiles can have for a filter of some taps, at no more than `most` points."""
    return tuple(count + 1 - taps for count in POINTS if taps < count <= most)


def line_filter(taps: int, tile: int) -> Array:
    """The transform of a filter, (points, taps)."""
    positive = POINTS[tile + taps - 1]
    finite = [0.0, *(sign * p for p in positive for sign in (1, -1))]
    rows = [[q**t / prod(q - o for o in finite if o != q) for t in range(taps)] for q in finite]
    return np.array([*rows, [0.0] * (taps - 1) + [1.0]])


def _squares(positive: Sequence[float]) -> list[float]:
    """The coefficients of the product of (x^2 - p^2) in powers of x^2, the lowest first."""
    return np.poly([p * p for p in positive])[::-1].tolist() if positive else [1.0]


def _combined(
    k: KernelBuilder, factors: Sequence[float], vectors: Sequence[ir.Value], total: ir.Value | None = None
) -> ir.Value:
    """total + the sum of factors times vectors; a factor of 1 costs a sum only."""
    for factor, value in sorted(zip(factors, vectors, strict=True), key=lambda pair: pair[0] != 1):
        if factor == 1:
            total = value if total is None else k.b.fadd(total, value)
            continue
        scale = k.splat(factor, k.target.lanes)
        total = k.b.fmul(value, scale) if total is None else k.fma(value, scale, total)
    assert total is not None
    return total


def line_points(k: KernelBuilder, d: Sequence[ir.Value]) -> list[ir.Value]:
    """The values of a tile of inputs at the points: those of +-p share their even and odd parts."""
    positive, even, odd = POINTS[len(d)], d[::2], d[1::2]
    every = _squares(positive)
    points = [_combined(k, every, even)]
    for p in positive:
        others = _squares([q for q in positive if q != p])
        low, high = _combined(k, others, even[1:]), _combined(k, others, odd[:-1])
        points += [_combined(k, [sign * p], [high], low) for sign in (1, -1)]
    return [*points, _combined(k, every, odd)]


def line_outputs(k: KernelBuilder, m: Sequence[ir.Value], tile: int) -> list[ir.Value]:
    """`tile` outputs from their products at the points."""
    positive, pairs = POINTS[len(m)], list(zip(m[1:-1:2], m[2:-1:2], strict=True))
    sums = [k.b.fadd(plus, minus) for plus, minus in pairs]
    differences = [k.b.fsub(plus, minus) for plus, minus in pairs]
    outputs: list[ir.Value] = []
    for power in range(tile):
        total = m[0] if power == 0 else m[-1] if power == tile - 1 else None
        powers = [p**power for p in positive]
        outputs.append(_combined(k, powers, differences if power % 2 else sums, total))
    return outputs
