"""Order statistics with NumPy's names, also without NaN; see `arrays`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import f64, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.types import element_of, is_float, shape_of
from glow_dialects.fn.array_functions.arrays import (
    Axes,
    Maker,
    accumulated,
    axes_of,
    counted,
    joined,
    permuted,
    real,
    reduced,
    root,
    sort,
    summands,
    window,
)

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit

#: Ranks of quantiles: a number, or lists of some.
Ranks = float | Sequence[Any]


def _rows(u: Unit, a: SSAValue, axes: Sequence[int]) -> SSAValue:
    """The elements of axes as one axis, the last."""
    shape = shape_of(a)
    rest = [i for i in range(len(shape)) if i not in axes]
    count = math.prod(shape[i] for i in axes)
    if not count:
        raise VerifyException("a quantile of no elements; give at least one")
    return u.reshape(permuted(u, a, [*rest, *axes]), (*[shape[i] for i in rest], count))


def _quantile(
    u: Unit,
    a: SSAValue,
    q: Ranks = 0.5,
    axis: Axes = None,
    keepdims: bool = False,
    *,
    mean: bool = False,
    nan: bool = False,
) -> SSAValue:
    """Elements at places of their order, or on the line between two; of several places, along axes before.

    `mean`: the mean of the two, of which infinities are no NaN; `nan`: of the elements that are no NaN.
    """
    ranks = np.asarray(q)
    if ranks.size and not (ranks.min() >= 0 and ranks.max() <= 1):
        raise VerifyException(f"the quantile {q} must be between 0 and 1")
    on_elements = not mean and ranks.dtype.kind in "biu"
    wide = ranks.ndim and not on_elements  # doubles are strong in an array of them
    x = a if on_elements else real(u, a)
    element = f64 if wide else element_of(x)
    axes, shape = axes_of(axis, len(shape_of(a))), shape_of(a)
    rows = _rows(u, x, axes)
    floats = is_float(element_of(x))
    bad = u.op("is_nan", rows) if floats else None
    at = _at_places_of_rest if nan and bad is not None else _at_places
    ranked = sort(u, filled(u, rows, math.inf) if nan else rows, -1)
    kept = _kept(u, rows, -1) if nan and bad is not None else None
    parts = [at(u, ranked, rank, mean, kept, element) for rank in ranks.ravel().tolist()]
    if bad is not None:
        reduction = "min" if nan else "max"  # where all are NaN, or where one is
        none = u.cast(reduced(u, reduction, u.cast(bad, i64), -1, True), i1)
        parts = [u.op("select", none, u.b.scalar(math.nan, p), p) for p in parts]
    rest = [1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes]
    made = [u.reshape(p, (1, *rest)) for p in parts]
    return u.reshape(joined(u, made, 0), (*ranks.shape, *rest))


def _at_places(
    u: Unit, ranked: SSAValue, q: float, mean: bool, _: SSAValue | None, element: Attribute
) -> SSAValue:
    last, count = len(shape_of(ranked)) - 1, shape_of(ranked)[-1]
    place = q * (count - 1)
    low, part = int(place), place - int(place)
    below = window(u, ranked, last, low, low + 1)
    above = window(u, ranked, last, min(low + 1, count - 1), min(low + 2, count))
    if mean and part:
        half = u.b.scalar(0.5, below)
        return u.op("add", u.op("mul", below, half), u.op("mul", above, half))
    if mean or not isinstance(q, float):
        return below
    # From the nearer end, as NumPy does: beside an infinity that is NaN, at an element's very place, too.
    difference = u.cast(u.op("sub", above, below), element)
    below, above = (u.cast(v, element) for v in (below, above))
    step = u.op("mul", difference, u.b.scalar(min(part, 1 - part), below))
    return u.op("add", below, step) if part < 0.5 else u.op("sub", above, step)


def _at_places_of_rest(
    u: Unit, ranked: SSAValue, q: float, mean: bool, kept: SSAValue | None, element: Attribute
) -> SSAValue:
    """The same where the run tells how many elements are no NaN: these are the first ones."""
    assert kept is not None
    last = len(shape_of(ranked)) - 1
    end = u.op("max", u.op("sub", kept, u.b.scalar(1, kept)), u.b.splat(0, kept))
    end = u.cast(end, f64)
    place = u.op("mul", end, u.b.scalar(q, end))
    low = u.op("floor", place)

    def taken(where: SSAValue) -> SSAValue:
        return u.op("gather_elements", ranked, u.cast(where, i64), axis=last)

    below, above = taken(low), taken(u.op("min", u.op("add", low, u.b.scalar(1, low)), end))
    part = u.cast(u.op("sub", place, low), element)
    if mean:
        half = u.b.scalar(0.5, below)
        middle = u.op("add", u.op("mul", below, half), u.op("mul", above, half))
        return u.op("select", u.op("cmp_eq", part, u.b.scalar(0, part)), below, middle)
    if not isinstance(q, float):
        return below
    difference = u.cast(u.op("sub", above, below), element)
    below, above = (u.cast(v, element) for v in (below, above))
    far = u.op("sub", above, u.op("mul", difference, u.op("sub", u.b.scalar(1, part), part)))
    near = u.op("add", below, u.op("mul", difference, part))
    return u.op("select", u.op("cmp_lt", part, u.b.scalar(0.5, part)), near, far)


def _percent(nan: bool) -> Maker:
    def make(u: Unit, a: SSAValue, q: Ranks = 50, axis: Axes = None, keepdims: bool = False) -> SSAValue:
        return _quantile(u, a, (np.asarray(q) / 100).tolist(), axis, keepdims, nan=nan)

    return make


def _of_rest(u: Unit, a: SSAValue, q: Ranks = 0.5, axis: Axes = None, keepdims: bool = False) -> SSAValue:
    return _quantile(u, a, q, axis, keepdims, nan=True)


def _median(nan: bool) -> Maker:
    def make(u: Unit, a: SSAValue, axis: Axes = None, keepdims: bool = False) -> SSAValue:
        return _quantile(u, a, 0.5, axis, keepdims, mean=True, nan=nan)

    return make


# --- without NaN -------------------------------------------------------------------------------------------
def filled(u: Unit, x: SSAValue, value: float) -> SSAValue:
    """The array with a number in place of each NaN."""
    if not is_float(element_of(x)):
        return x
    return u.op("select", u.op("is_nan", x), u.b.scalar(value, x), x)


def _nan_to_num(
    u: Unit, x: SSAValue, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> SSAValue:
    return u.op("nan_to_num", x, nan=nan, posinf=posinf, neginf=neginf) if is_float(element_of(x)) else x


def _nan_reduced(kind: str, value: float) -> Maker:
    def make(u: Unit, a: SSAValue, axis: Axes = None, keepdims: bool = False) -> SSAValue:
        extreme = kind in ("max", "min")
        whole = counted(u, a) if extreme else summands(u, a)
        result = reduced(u, kind, filled(u, whole, value), axis, keepdims)
        if extreme and is_float(element_of(a)):
            kept = _kept(u, a, axis, keepdims)
            nothing = u.op("cmp_eq", kept, u.b.scalar(0, kept))
            return u.op("select", nothing, u.b.scalar(math.nan, result), result)
        return u.cast(result, i1) if whole is not a and extreme else result

    return make


def _kept(u: Unit, a: SSAValue, axis: Axes, keepdims: bool = True) -> SSAValue:
    """How many elements are no NaN."""
    ones = u.op("select", u.op("is_nan", a), u.b.scalar(0, a), u.b.splat(1, a))
    return reduced(u, "sum", ones, axis, keepdims)


def _nan_mean(u: Unit, a: SSAValue, axis: Axes = None, keepdims: bool = False) -> SSAValue:
    x = real(u, a)
    mean = u.op("div", reduced(u, "sum", filled(u, x, 0.0), axis, True), _kept(u, x, axis))
    return mean if keepdims else reduced(u, "sum", mean, axis)


def _nan_var(u: Unit, a: SSAValue, axis: Axes = None, ddof: int = 0, keepdims: bool = False) -> SSAValue:
    x = real(u, a)
    d = filled(u, u.op("sub", x, _nan_mean(u, x, axis, True)), 0.0)
    count = u.op("sub", _kept(u, x, axis), u.b.scalar(ddof, x))
    variance = u.op("div", reduced(u, "sum", u.op("mul", d, d), axis, True), count)
    return variance if keepdims else reduced(u, "sum", variance, axis)


def _nan_std(u: Unit, a: SSAValue, axis: Axes = None, ddof: int = 0, keepdims: bool = False) -> SSAValue:
    return root(u, _nan_var(u, a, axis, ddof, keepdims))


def _nan_accumulated(kind: str, value: float) -> Maker:
    def make(u: Unit, a: SSAValue, axis: int | None = None) -> SSAValue:
        return accumulated(kind)(u, filled(u, a, value), axis)

    return make


#: Functions by name.
QUANTILES: dict[str, Maker] = {
    "median": _median(False), "nancumprod": _nan_accumulated("cumprod", 1.0),
    "nancumsum": _nan_accumulated("cumsum", 0.0), "nanmax": _nan_reduced("max", -math.inf),
    "nanmean": _nan_mean, "nanmedian": _median(True), "nanmin": _nan_reduced("min", math.inf),
    "nanpercentile": _percent(True), "nanprod": _nan_reduced("prod", 1.0), "nanquantile": _of_rest,
    "nanstd": _nan_std, "nansum": _nan_reduced("sum", 0.0), "nanvar": _nan_var,
    "nan_to_num": _nan_to_num, "percentile": _percent(False), "quantile": _quantile,
}  # fmt: skip
