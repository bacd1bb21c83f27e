"""Samples at computed positions: weighted sums of the elements around them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

import numpy as np

from glow_dialects.core.extent import is_open
from glow_dialects.core.types import tensor
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MinOp, ModOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpGeOp, CmpGtOp, CmpLeOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import AbsOp, FloorOp, RoundOp
from glow_frontends.graph.cast import cast_to
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.errors import RuleError
from glow_frontends.graph.movement import element
from glow_frontends.graph.values import Value, dtype_of_value, rank, shape, type_of

INT64 = np.dtype(np.int64)
#: One axis of a sample: positions and weights (None = 1), each like the coordinates.
Taps = list[tuple[Value, "Value | None"]]


def gather_points(g: Emitter, x: Value, taps: Sequence[Taps], fill: bool) -> Value:
    """Sums of weighted elements: x [N, C, *S], taps of positions [N, P] for each axis of S -> [N, C, P].

    Positions are floats that hold integers; outside ones read 0 where `fill`, else the border.
    """
    count, channels = shape(x)[:2]
    sizes = shape(x)[2:]
    flat = g.reshape(x, (count, channels, prod(sizes)))
    total: Value | None = None
    for combination in itertools.product(*taps):
        index: Value | None = None
        weight: Value | None = None
        for size, (position, factor) in zip(sizes, combination, strict=True):
            place = cast_to(g, clipped(g, position, size), INT64)
            index = place if index is None else g(AddOp, g(MulOp, index, g.size(size, INT64)), place)
            if factor is not None:
                weight = factor if weight is None else g(MulOp, weight, factor)
            if fill:
                inside = within(g, position, 0, size - 1)
                kept = cast_to(g, inside, dtype_of_value(x))
                weight = kept if weight is None else g(MulOp, weight, kept)
        assert index is not None
        points = shape(index)[1]
        wide = g.reshape(index, (count, 1, points))
        wide = g(ExpandOp, wide, results=tensor((count, channels, points), type_of(wide).element_type))
        part = g(GatherElementsOp, flat, wide, axis=2)
        if weight is not None:
            part = g(MulOp, part, g.reshape(weight, (count, 1, points)))
        total = part if total is None else g(AddOp, total, part)
    assert total is not None
    return total


def within(g: Emitter, x: Value, low: int, high: int) -> Value:
    """Whether each element lies in [low, high]."""
    return g(AndOp, g(CmpGeOp, x, g.like(low, x)), g(CmpLeOp, x, g.size(high, dtype_of_value(x))))


def clipped(g: Emitter, x: Value, size: int) -> Value:
    """The nearest coordinates that lie on an axis."""
    if not is_open((size,)):
        return g(ClipOp, x, min=0.0, max=float(size - 1))
    return g(MinOp, g(MaxOp, x, g.like(0, x)), g.size(size - 1, dtype_of_value(x)))


def nearest_tap(g: Emitter, x: Value) -> Taps:
    """The nearest place of each coordinate."""
    return [(g(RoundOp, x), None)]


def linear_taps(g: Emitter, x: Value) -> Taps:
    """The two neighbours of each coordinate."""
    low = g(FloorOp, x)
    upper = g(SubOp, x, low)
    one = g.like(1, x)
    return [(low, g(SubOp, one, upper)), (g(AddOp, low, one), upper)]


def cubic_taps(g: Emitter, x: Value, a: float = -0.75) -> Taps:
    """The four neighbours of each coordinate, weighted by Keys' kernel."""
    low = g(FloorOp, x)
    t = g(SubOp, x, low)
    out: Taps = []
    for offset in (-1, 0, 1, 2):
        d = g(AbsOp, g(SubOp, t, g.like(offset, t)))
        coefficients = (a + 2, -(a + 3), 0.0, 1.0) if offset in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
        weight: Value = g.like(coefficients[0], d)
        for c in coefficients[1:]:
            weight = g(AddOp, g(MulOp, weight, d), g.like(c, d))
        out.append((g(AddOp, low, g.like(offset, low)), weight))
    return out


def grid_sampled(g: Emitter, x: Value, grid: Value, mode: str, padding: str, aligned: bool) -> Value:
    """Linear, nearest or cubic samples at the places of a grid, with zeros, border or reflection outside."""
    dtype = dtype_of_value(x)
    grid = cast_to(g, grid, dtype)
    sizes, axes = shape(x)[2:], rank(x) - 2
    if axes < 1 or rank(grid) != rank(x) or shape(grid)[-1] != axes or shape(grid)[0] != shape(x)[0]:
        raise RuleError(f"a grid of shape {shape(grid)} for a tensor of shape {shape(x)}")
    points = shape(grid)[1:-1]
    flat = g.reshape(grid, (shape(grid)[0], prod(points), axes))
    taps: list[Taps] = []
    for axis in range(axes):
        size = sizes[axis]
        where = _pixels(g, element(g, flat, -1, axes - 1 - axis), size, aligned)
        if padding == "reflection" and mode != "cubic":
            where = _reflected(g, where, size, aligned)
        if padding in ("border", "reflection") and mode != "cubic":
            where = clipped(g, where, size)
        taps.append(_taps(g, where, mode))
        if padding == "reflection" and mode == "cubic":
            taps[-1] = [(g(RoundOp, _reflected(g, p, size, aligned)), w) for p, w in taps[-1]]
    y = gather_points(g, x, taps, padding == "zeros")
    return g.reshape(y, (*shape(x)[:2], *points))


def _taps(g: Emitter, where: Value, mode: str) -> Taps:
    if mode == "nearest":
        return nearest_tap(g, where)
    if mode == "linear":
        return linear_taps(g, where)
    if mode == "cubic":
        return cubic_taps(g, where)
    raise RuleError(f"mode '{mode}' is unknown")


def _pixels(g: Emitter, x: Value, size: int, aligned: bool) -> Value:
    """Pixel coordinates of [-1, 1]."""
    up, half = g(AddOp, x, g.like(1, x)), g.like(0.5, x)
    places = g(MulOp, up, g(MulOp, g.size(size - 1 if aligned else size, dtype_of_value(x)), half))
    return places if aligned else g(SubOp, places, half)


def _reflected(g: Emitter, x: Value, size: int, aligned: bool) -> Value:
    """x mirrored at the centres of the first and the last pixel, or at their outer edges, until it lies
    between."""
    low, width = (0.0, size - 1) if aligned else (-0.5, size)
    if width <= 0:
        return g(MulOp, x, g.like(0, x))
    span, twice = (g.size(n, dtype_of_value(x)) for n in (width, 2 * width))
    away = g(AbsOp, g(SubOp, x, g.like(low, x)))
    rest = g(ModOp, away, twice)
    folded = g(SelectOp, g(CmpGtOp, rest, span), g(SubOp, twice, rest), rest)
    return g(AddOp, folded, g.like(low, x))
