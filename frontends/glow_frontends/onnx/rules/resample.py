"""Rules of Resize and Upsample: target sizes from scales or sizes; the card does the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import SSAValue

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
from glow_frontends.onnx.emitter import Emitter, check_size
from glow_frontends.onnx.errors import NeedsValue, RuleError
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.cast import cast_to
from glow_frontends.onnx.rules.rule import Versions, axes_of
from glow_frontends.onnx.rules.run_time_slices import component
from glow_frontends.onnx.values import Value, dtype_of_value, rank, shape

FLOAT, REAL = np.dtype(np.float32), np.dtype(np.float64)
#: How much larger an axis becomes: a number, or two sizes of which only the run knows the quotient.
Ratio: TypeAlias = "float | tuple[int, int]"


def resize(g: Emitter, n: Node) -> Value:
    """Resize of every version."""
    x = n[0]
    if n.opset < 11:
        return _simple(g, n, g.known(n[1], "the scales of Resize"))
    axes = axes_of(n.integers("axes") or range(rank(x)), rank(x))
    cropped = n.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    given_roi = n.get(1) if cropped else None
    scales = None if n.get(2) is None else g.known(n[2], "the scales of Resize").astype(np.float64)
    if scales is not None and scales.size == 0:
        scales = None
    sizes = None if n.get(3) is None else g.ints(n[3], "the sizes of Resize")
    if (scales is None) == (not sizes):
        raise RuleError("either scales or sizes are expected")
    whole = list(shape(x))
    ratios: list[Ratio] = [1.0] * rank(x)
    factors = scales if scales is not None else sizes
    assert factors is not None
    if len(factors) != len(axes):
        raise RuleError(f"{len(factors)} scales or sizes for {len(axes)} axes")
    if sizes:
        chosen, sizes = _from_sizes(n, [whole[a] for a in axes], sizes)
    else:
        assert scales is not None
        chosen = [float(s) for s in scales]
        sizes = [_size(whole[a], s) for a, s in zip(axes, chosen, strict=True)]
    for axis, ratio, size in zip(axes, chosen, sizes, strict=True):
        ratios[axis], whole[axis] = ratio, size
    properties: dict[str, Any] = {
        "mode": _mode(n),
        "coordinate_transformation_mode": n.text("coordinate_transformation_mode", "half_pixel"),
        "nearest_mode": n.text("nearest_mode", "round_prefer_floor"),
        "cubic_coeff_a": n.number("cubic_coeff_a", -0.75),
        "exclude_outside": n.flag("exclude_outside"),
        "antialias": n.flag("antialias"),
        "extrapolation_value": n.number("extrapolation_value", 0.0),
    }
    roi = given_roi
    if isinstance(roi, SSAValue) or (roi is not None and is_open((*shape(x), *sizes))):
        return _cropped(g, x, roi, axes, sizes, properties)
    if roi is not None and roi.size == 2 * len(axes):
        begins, ends = [0.0] * rank(x), [1.0] * rank(x)
        for index, axis in enumerate(axes):
            begins[axis], ends[axis] = float(roi[index]), float(roi[index + len(axes)])
        properties["roi"] = (*begins, *ends)
    return sized(g, x, whole, ratios, **properties)


def _cropped(
    g: Emitter, x: Value, roi: Value, axes: Sequence[int], sizes: Sequence[int], options: dict[str, Any]
) -> Value:
    """tf_crop_and_resize of a region or of sizes that only the run tells, axis by axis."""
    nearest = options["mode"] == "nearest" and options["nearest_mode"] not in ROUNDINGS
    if nearest or options["antialias"] or len(set(axes)) < len(axes):
        raise NeedsValue(roi if isinstance(roi, SSAValue) else None, "the region of Resize")
    inside: Value = np.array(True)
    for index, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        begin, end = (cast_to(g, component(g, roi, i), FLOAT) for i in (index, index + len(axes)))
        known = isinstance(begin, np.ndarray) and isinstance(end, np.ndarray)
        if known and (begin, end) == (0, 1) and are_equal(size, shape(x)[axis]):
            continue
        last = g.size(shape(x)[axis] - 1, FLOAT)
        places = _places(g, begin, end, size, last)
        along = (size, *(1,) * (rank(x) - axis - 1))
        fits = g(AndOp, g(CmpGeOp, places, _real(0)), g(CmpLeOp, places, last))
        inside = g(AndOp, inside, g.reshape(fits, along))
        x = _between(g, x, axis, places, last, options)
    return g(SelectOp, inside, x, g.like(options["extrapolation_value"], x))


def _places(g: Emitter, begin: Value, end: Value, size: int, last: Value) -> Value:
    """Where `size` places of a region from `begin` to `end` lie on an axis up to `last`."""
    if size == 1:
        return g.reshape(g(MulOp, g(AddOp, begin, end), g(MulOp, last, _real(0.5))), (1,))
    step = g(DivOp, cast_to(g, last, REAL), g.size(size - 1, REAL))
    steps = cast_to(g, g(MulOp, g.numbers(size, REAL), step), FLOAT)
    return g(AddOp, g(MulOp, begin, last), g(MulOp, steps, g(SubOp, end, begin)))


def _between(
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


def _real(number: float) -> np.ndarray:
    return np.array(number, np.float32)


#: Whole numbers for `nearest_mode`.
ROUNDINGS: dict[str, Callable[[Emitter, Value], Value]] = {
    "ceil": lambda g, x: g(CeilOp, x),
    "floor": lambda g, x: g(FloorOp, x),
    "round_prefer_ceil": lambda g, x: g(FloorOp, g(AddOp, x, g.like(0.5, x))),
    "round_prefer_floor": lambda g, x: g(CeilOp, g(SubOp, x, g.like(0.5, x))),
}


def _size(size: int, scale: float) -> int:
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
    return _between(g, x, axis, places, last, options, shrink)


def _mode(n: Node) -> str:
    mode: str = n.text("mode", "nearest")
    return {"bilinear": "linear", "trilinear": "linear"}.get(mode, mode)


def _from_sizes(n: Node, dims: Sequence[int], sizes: Sequence[int]) -> tuple[Sequence[Ratio], list[int]]:
    """Scales and final sizes under the node's policy on the aspect ratio."""
    ratios = [ratio_of(s, d) for s, d in zip(sizes, dims, strict=True)]
    policy = n.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return ratios, list(sizes)
    if not is_open((*sizes, *dims)):
        known = [r for r in ratios if not isinstance(r, tuple)]
        ratio = min(known) if policy == "not_larger" else max(known)
        return [ratio] * len(dims), [int(np.floor(ratio * d + 0.5)) for d in dims]
    top, bottom = sizes[0], dims[0]
    for size, before in zip(sizes[1:], dims[1:], strict=True):
        smaller = size * bottom < top * before
        if smaller == (policy == "not_larger"):
            top, bottom = size, before
    ratio = (top, bottom) if is_open((top, bottom)) else top / bottom
    return [ratio] * len(dims), [
        top if are_equal(d, bottom) else (2 * top * d + bottom) // (2 * bottom) for d in dims
    ]


def ratio_of(size: int, before: int) -> Ratio:
    """A number, or what only the run divides: open sizes of which neither is a multiple of the other."""
    if before == 0:
        return 1.0
    if not is_open((size, before)):
        return size / before
    up, down = estimate(size) // estimate(before), estimate(before) // max(1, estimate(size))
    if up and are_equal(size, up * before):
        return float(up)
    return 1 / down if down and are_equal(before, down * size) else (size, before)


def _simple(g: Emitter, n: Node, scales: np.ndarray) -> Value:
    """Before opset 11: places are index / scale, rounded down."""
    x = n[0]
    if scales.size != rank(x):
        raise RuleError(f"{scales.size} scales for {rank(x)} axes")
    sizes = [_size(d, float(s)) for d, s in zip(shape(x), scales.reshape(-1), strict=True)]
    return sized(
        g,
        x,
        sizes,
        [float(s) for s in scales.reshape(-1)],
        mode=_mode(n),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def upsample(g: Emitter, n: Node) -> Value:
    """Upsample: Resize before it had a name; version 1 scales height and width."""
    if n.has("height_scale"):
        return _simple(g, n, np.array([1.0, 1.0, n.number("height_scale"), n.number("width_scale")]))
    scales = np.array(n.numbers("scales")) if n.opset < 9 else g.known(n[1], "the scales of Upsample")
    return _simple(g, n, scales)


RULES: dict[str, Versions] = {"Resize": resize, "Upsample": upsample}
