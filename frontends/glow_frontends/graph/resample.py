"""Resampling along axes, with sizes and ratios that may be dynamic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from glow_dialects.core.errors import OpenSizes
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import are_equal, is_open
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MinOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpLeOp, CmpLtOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.resize import ResizeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import AbsOp, CeilOp, FloorOp
from glow_frontends.graph.cast import cast_to
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.errors import RuleError
from glow_frontends.graph.module import check_size
from glow_frontends.graph.values import Value, dtype_of_value, rank, shape

FLOAT, REAL = np.dtype(np.float32), np.dtype(np.float64)
#: How much larger an axis becomes: a number, or two sizes of which only the run knows the quotient.
Ratio: TypeAlias = "float | tuple[int, int]"


def between(
    g: Emitter, x: Value, axis: int, places: Value, last: Value, options: dict[str, Any], shrink: float = 1.0
) -> Value:
    """Elements of an axis at places: the nearest, or sums of those around, of more of them for an axis that
    shrinks; its ends are repeated outside."""

    def taken(place: Value) -> Value:
        inside = g(MinOp, g(MaxOp, place, g.like(0, place)), last)
        return g(GatherOp, x, cast_to(g, inside, np.dtype(np.int64)), axis=axis)

    if options["mode"] == "nearest":
        return taken(ROUNDINGS[options["nearest_mode"]](g, places))
    first = int(np.floor((-2 if options["mode"] == "cubic" else -1) / shrink)) + 1
    # the distance to the element on the left is in (0, 1], as ONNX counts it
    left = g(SubOp, g(CeilOp, places), g.like(1, places))
    share = g(SubOp, places, left)
    around: list[tuple[Value, Value]] = []
    for step in range(first, 2 - first):
        place = g(AddOp, left, g.like(step, left))
        distance = g(MulOp, g(AbsOp, g(SubOp, g.like(step, share), share)), g.like(shrink, share))
        weight = _weight(g, distance, options)
        if options["exclude_outside"]:
            there = g(AndOp, g(CmpGeOp, place, g.like(0, place)), g(CmpLeOp, place, last))
            weight = g(SelectOp, there, weight, g.like(0, weight))
        around.append((place, weight))
    if options["exclude_outside"] or options["antialias"]:
        total = reduce(lambda v, w: g(AddOp, v, w), (w for _, w in around))
        around = [(place, g(DivOp, weight, total)) for place, weight in around]
    along = (shape(places)[0], *(1,) * (rank(x) - axis - 1))
    parts = (
        g(MulOp, taken(place), g.reshape(cast_to(g, weight, dtype_of_value(x)), along))
        for place, weight in around
    )
    return reduce(lambda v, w: g(AddOp, v, w), parts)


def _weight(g: Emitter, distance: Value, options: dict[str, Any]) -> Value:
    """How much elements at a distance count: Keys' cubic kernel, or less and less up to 1."""
    if options["mode"] == "linear":
        return g(MaxOp, g(SubOp, g.like(1, distance), distance), g.like(0, distance))
    a = options["cubic_coeff_a"]
    near, far = (_polynomial(g, distance, c) for c in ((a + 2, -(a + 3), 0, 1), (a, -5 * a, 8 * a, -4 * a)))
    far = g(SelectOp, g(CmpLtOp, distance, g.like(2, distance)), far, g.like(0, distance))
    return g(SelectOp, g(CmpLeOp, distance, g.like(1, distance)), near, far)


def _polynomial(g: Emitter, x: Value, coefficients: Sequence[float]) -> Value:
    total: Value = g.like(coefficients[0], x)
    for c in coefficients[1:]:
        total = g(AddOp, g(MulOp, total, x), g.like(c, x))
    return total


#: Whole numbers for `nearest_mode`.
ROUNDINGS: dict[str, Callable[[Emitter, Value], Value]] = {
    "ceil": lambda g, x: g(CeilOp, x),
    "floor": lambda g, x: g(FloorOp, x),
    "round_prefer_ceil": lambda g, x: g(FloorOp, g(AddOp, x, g.like(0.5, x))),
    "round_prefer_floor": lambda g, x: g(CeilOp, g(SubOp, x, g.like(0.5, x))),
}


def scaled_size(size: int, scale: float) -> int:
    if not scale > 0:
        raise RuleError("scales must be positive")
    exact = Fraction(scale)
    if exact.denominator > _EXACT:  # products of float32 just below a whole number are rounded to it
        exact *= 1 + Fraction(1, 1 << 25)
    return size * exact.numerator // exact.denominator


_EXACT = 64
"""Ratios of numbers up to it are what is meant."""


def sized(g: Emitter, x: Value, sizes: Sequence[int], scales: Sequence[Ratio], **more: Any) -> Value:
    """`x` resampled to other sizes, by ratios that need not be the sizes' own; `more` is as in the card."""
    check_size(sizes)
    cropped = more.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if all(map(are_equal, sizes, shape(x))) and all(s == 1.0 for s in scales) and not cropped:
        return x
    more = {**_PLAIN, **more}
    kind = dtype_of_value(x)
    if more["mode"] != "nearest" and kind not in (FLOAT, REAL) and is_open((*sizes, *shape(x))):
        wide = cast_to(g, x, REAL if kind.kind in "iub" else FLOAT)
        cut = more["mode"] == "linear" and not more["antialias"]
        return _narrowed(g, sized(g, wide, sizes, scales, **more), kind, cut)
    known: list[float] = []
    for axis, (size, before, scale) in enumerate(zip(sizes, shape(x), scales, strict=True)):
        opened = isinstance(scale, tuple) or is_open((size, before))
        if opened and not (are_equal(size, before) and scale == 1.0):
            if _can_be_sampled(scale, more):
                x, scale = _sampled(g, x, axis, size, scale, more), 1.0
            elif isinstance(scale, tuple):
                raise OpenSizes(f"{before} elements become {size}")
        known.append(1.0 if isinstance(scale, tuple) else scale)
    if all(map(are_equal, sizes, shape(x))) and not cropped:
        return x
    return g(ResizeOp, x, sizes=tuple(sizes), scales=tuple(known), **more)


_PLAIN: dict[str, Any] = {"exclude_outside": False, "antialias": False}
"""Options of which older versions have none."""


def _narrowed(g: Emitter, x: Value, kind: np.dtype, cut: bool) -> Value:
    """Reals as another type: as ints those that there are, cut or rounded (see `ResizeOp`)."""
    if kind.kind in "iu":
        x = x if cut else g(FloorOp, g(AddOp, x, g.like(0.5, x)))
        limits = np.iinfo(kind)
        x = g(MinOp, g(MaxOp, x, g.like(limits.min, x)), g.like(limits.max, x))
    return cast_to(g, x, kind)


def _can_be_sampled(scale: Ratio, options: dict[str, Any]) -> bool:
    """Whether places of an open axis are the run's to work out; elements that are repeated need none."""
    if options["mode"] == "nearest":
        repeated = not isinstance(scale, tuple) and scale == int(scale)
        return not repeated and options["nearest_mode"] in ROUNDINGS
    # How many elements an axis that shrinks by any ratio is made of is not known.
    return not (isinstance(scale, tuple) and options["antialias"])


def _sampled(g: Emitter, x: Value, axis: int, size: int, scale: Ratio, options: dict[str, Any]) -> Value:
    """An axis of as many elements as only the run knows, at places that it works out."""
    before, mode = shape(x)[axis], options["coordinate_transformation_mode"]
    places, last = g.numbers(size, REAL), g.size(before - 1, REAL)
    ratio: Value
    if isinstance(scale, tuple):
        ratio = g(DivOp, *(g.size(n, REAL) for n in scale))
    else:
        ratio = np.full((), scale)
    length = g(MulOp, g.size(before, REAL), ratio)  # of the result before it was made whole
    if mode == "align_corners":
        less = g(SubOp, length, np.ones(()))
        step = g(DivOp, last, g(SelectOp, g(CmpEqOp, less, np.zeros(())), np.ones(()), less))
        places = g(MulOp, places, step)
    else:
        half = np.full((), 0.0 if mode == "asymmetric" else 0.5)
        places = g(DivOp, g(AddOp, places, half), ratio)
        if mode != "tf_half_pixel_for_nn":
            places = g(SubOp, places, half)
        if mode == "half_pixel_symmetric":
            lost = g(SubOp, np.ones(()), g(DivOp, g.size(size, REAL), length))
            places = g(AddOp, places, g(MulOp, g(MulOp, g.size(before, REAL), half), lost))
        if mode == "pytorch_half_pixel" and size == 1:
            places = np.zeros(1)
    shrink = min(scale, 1.0) if options["antialias"] and not isinstance(scale, tuple) else 1.0
    return between(g, x, axis, places, last, options, shrink)


def ratio_of(size: int, before: int) -> Ratio:
    """A known number, or a ratio of dynamic sizes that is computed at run time."""
    if before == 0:
        return 1.0
    if not is_open((size, before)):
        return size / before
    up, down = estimate(size) // estimate(before), estimate(before) // max(1, estimate(size))
    if up and are_equal(size, up * before):
        return float(up)
    return 1 / down if down and are_equal(before, down * size) else (size, before)
