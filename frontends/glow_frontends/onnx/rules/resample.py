"""Rules of Resize and Upsample: target sizes from scales or sizes; the card does the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.errors import OpenSizes
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import are_equal, is_open
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MinOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpLeOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.resize import ResizeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import CeilOp, FloorOp
from glow_frontends.onnx.emitter import Emitter, check_size
from glow_frontends.onnx.errors import NeedsValue, RuleError
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.cast import cast_to
from glow_frontends.onnx.rules.rule import Versions, axes_of
from glow_frontends.onnx.rules.run_time_slices import component
from glow_frontends.onnx.sizes import objects
from glow_frontends.onnx.values import Value, dtype_of_value, rank, shape

FLOAT = np.dtype(np.float32)


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
    ratios: list[float | None] = [1.0] * rank(x)
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
    if isinstance(given_roi, SSAValue):
        return _cropped(g, n, x, given_roi, axes, [whole[a] for a in axes])
    roi = given_roi
    properties: dict[str, Any] = {
        "mode": _mode(n),
        "coordinate_transformation_mode": n.text("coordinate_transformation_mode", "half_pixel"),
        "nearest_mode": n.text("nearest_mode", "round_prefer_floor"),
        "cubic_coeff_a": n.number("cubic_coeff_a", -0.75),
        "exclude_outside": n.flag("exclude_outside"),
        "antialias": n.flag("antialias"),
        "extrapolation_value": n.number("extrapolation_value", 0.0),
    }
    if roi is not None and roi.size == 2 * len(axes):
        begins, ends = [0.0] * rank(x), [1.0] * rank(x)
        for index, axis in enumerate(axes):
            begins[axis], ends[axis] = float(roi[index]), float(roi[index + len(axes)])
        properties["roi"] = (*begins, *ends)
    return _sized(g, x, whole, ratios, **properties)


def _cropped(g: Emitter, n: Node, x: Value, roi: Value, axes: Sequence[int], sizes: Sequence[int]) -> Value:
    """tf_crop_and_resize of a region that only the run tells, linear or nearest, axis by axis."""
    mode, outside = _mode(n), n.number("extrapolation_value", 0.0)
    nearest = n.text("nearest_mode", "round_prefer_floor")
    if mode == "cubic" or (mode == "nearest" and nearest not in ROUNDINGS) or len(set(axes)) < len(axes):
        raise NeedsValue(None, "the region of Resize")
    inside: Value = np.array(True)
    for index, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        begin, end = (cast_to(g, component(g, roi, i), FLOAT) for i in (index, index + len(axes)))
        last = shape(x)[axis] - 1
        known = isinstance(begin, np.ndarray) and isinstance(end, np.ndarray)
        if known and (begin, end, size) == (0, 1, last + 1):
            continue
        places = _places(g, begin, end, size, last)
        along = (size, *(1,) * (rank(x) - axis - 1))
        fits = g(AndOp, g(CmpGeOp, places, _real(0)), g(CmpLeOp, places, _real(last)))
        inside = g(AndOp, inside, g.reshape(fits, along))
        x = _between(g, x, axis, places, _real(last), nearest if mode == "nearest" else None)
    return g(SelectOp, inside, x, g.like(outside, x))


def _places(g: Emitter, begin: Value, end: Value, size: int, last: int) -> Value:
    """Where `size` places of a region from `begin` to `end` lie on an axis up to `last`."""
    if size == 1:
        return g.reshape(g(MulOp, g(AddOp, begin, end), _real(0.5 * last)), (1,))
    steps = (np.arange(size) * (last / (size - 1))).astype(np.float32)
    return g(AddOp, g(MulOp, begin, _real(last)), g(MulOp, steps, g(SubOp, end, begin)))


def _between(g: Emitter, x: Value, axis: int, places: Value, last: Value, nearest: str | None) -> Value:
    """Elements of an axis at places, where those outside are its ends: the nearest, or between two."""
    places = g(MinOp, g(MaxOp, places, g.like(0, places)), last)
    if nearest is not None:
        return _taken(g, x, ROUNDINGS[nearest](g, places), axis)
    low = g(FloorOp, places)
    high = g(MinOp, g(AddOp, low, g.like(1, low)), last)
    left, right = _taken(g, x, low, axis), _taken(g, x, high, axis)
    along = (shape(places)[0], *(1,) * (rank(x) - axis - 1))
    share = cast_to(g, g.reshape(g(SubOp, places, low), along), dtype_of_value(x))
    return g(AddOp, left, g(MulOp, g(SubOp, right, left), share))


def _taken(g: Emitter, x: Value, places: Value, axis: int) -> Value:
    return g(GatherOp, x, cast_to(g, places, np.dtype(np.int64)), axis=axis)


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
    # Scales are float32 ratios of sizes: just below a whole number is that number.
    exact = Fraction(scale)
    above = Fraction(0) if exact.denominator <= _EXACT else Fraction(1, 10**6)
    top = (size * exact.numerator * above.denominator) + exact.denominator * above.numerator
    return top // (exact.denominator * above.denominator)


_EXACT = 64
"""Ratios of numbers up to it are what is meant."""


def _sized(g: Emitter, x: Value, sizes: Sequence[int], scales: Sequence[float | None], **more: Any) -> Value:
    check_size(sizes)
    cropped = more.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if tuple(sizes) == shape(x) and all(s == 1.0 for s in scales) and not cropped:
        return x
    known: list[float] = []
    for axis, (size, before, scale) in enumerate(zip(sizes, shape(x), scales, strict=True)):
        if is_open((size, before)) and not (are_equal(size, before) and scale == 1.0):
            if _can_be_sampled(x, scale, more):
                x, scale = _sampled(g, x, axis, size, scale, more), 1.0
            elif scale is None:
                raise OpenSizes(f"{before} elements become {size}")
        known.append(1.0 if scale is None else float(scale))
    if all(map(are_equal, sizes, shape(x))) and not cropped:
        return x
    return g(ResizeOp, x, sizes=tuple(sizes), scales=tuple(known), **more)


def _can_be_sampled(x: Value, scale: float | None, options: dict[str, Any]) -> bool:
    """Whether places of an open axis are the run's to work out; elements that are repeated need none."""
    if options.get("antialias") or options["coordinate_transformation_mode"] not in _OPEN_PLACES:
        return False
    if options["mode"] == "nearest":
        return (scale is None or scale != int(scale)) and options["nearest_mode"] in ROUNDINGS
    return bool(options["mode"] == "linear" and dtype_of_value(x).kind == "f")


_OPEN_PLACES = frozenset({"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"})


def _sampled(
    g: Emitter, x: Value, axis: int, size: int, scale: float | None, options: dict[str, Any]
) -> Value:
    """An axis of as many elements as only the run knows, linear or nearest, at places that it works out."""
    before, mode = shape(x)[axis], options["coordinate_transformation_mode"]
    real = np.dtype(np.float64)
    places = cast_to(g, g.numbers(size), real)

    def run_time(number: int) -> Value:
        return cast_to(g, g.sizes(objects([number]), np.dtype(np.int64)), real)

    last = run_time(before - 1)
    ratio = g(DivOp, run_time(size), run_time(before)) if scale is None else np.full(1, scale)
    if mode == "align_corners":
        length = g(SubOp, g(MulOp, run_time(before), ratio), np.ones(1))
        step = g(DivOp, last, g(SelectOp, g(CmpEqOp, length, np.zeros(1)), np.ones(1), length))
        places = g(MulOp, places, step)
    else:
        half = np.full(1, 0.0 if mode == "asymmetric" else 0.5)
        places = g(SubOp, g(DivOp, g(AddOp, places, half), ratio), half)
        if mode == "pytorch_half_pixel" and size == 1:
            places = np.zeros(1)
    return _between(
        g, x, axis, places, last, options["nearest_mode"] if options["mode"] == "nearest" else None
    )


def _mode(n: Node) -> str:
    mode: str = n.text("mode", "nearest")
    return {"bilinear": "linear", "trilinear": "linear"}.get(mode, mode)


def _from_sizes(
    n: Node, dims: Sequence[int], sizes: Sequence[int]
) -> tuple[Sequence[float | None], list[int]]:
    """Scales and final sizes under the node's policy on the aspect ratio."""
    ratios = [_ratio(s, d) for s, d in zip(sizes, dims, strict=True)]
    policy = n.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return ratios, list(sizes)
    known = [r for r in ratios if r is not None]
    if len(known) < len(ratios):
        raise OpenSizes("sizes of Resize follow from ratios that only the run tells")
    ratio = min(known) if policy == "not_larger" else max(known)
    return [ratio] * len(dims), [int(np.floor(ratio * d + 0.5)) for d in dims]


def _ratio(size: int, before: int) -> float | None:
    """None where only the run tells it: of open sizes of which neither is a multiple of the other."""
    if before == 0:
        return 1.0
    up, down = estimate(size) // estimate(before), estimate(before) // max(1, estimate(size))
    if is_open((size, before)) and up and size == up * before:
        return float(up)
    if is_open((size, before)) and down and before == down * size:
        return 1 / down
    return None if is_open((size, before)) else size / before


def _simple(g: Emitter, n: Node, scales: np.ndarray) -> Value:
    """Before opset 11: places are index / scale, rounded down."""
    x = n[0]
    if scales.size != rank(x):
        raise RuleError(f"{scales.size} scales for {rank(x)} axes")
    sizes = [_size(d, float(s)) for d, s in zip(shape(x), scales.reshape(-1), strict=True)]
    return _sized(
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
