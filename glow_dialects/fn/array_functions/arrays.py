"""Array functions with NumPy's names, built from operators when shapes are known.

Each builder takes the `Unit` it builds with, the arrays, and the options that `signatures` lists.
VerifyException says what does not fit. Their gradients are those of the operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import f64, i1, i8, i64
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.extent import Extent
from glow_dialects.core.types import (
    dtype_of,
    element_of,
    element_type,
    is_float,
    shape_of,
)

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit

Axes = int | Sequence[int] | None
Maker = Callable[..., SSAValue]


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from 0; VerifyException where there is none."""
    if not -rank <= axis < rank:
        raise VerifyException(
            f"axis {axis} of an array of {rank} ax{'is' if rank == 1 else 'es'}; axes count from 0"
        )
    return axis % rank


def axes_of(axis: Axes, rank: int) -> tuple[int, ...]:
    """Axes counted from 0, in order; None is all of them."""
    chosen = range(rank) if axis is None else [axis] if isinstance(axis, int) else axis
    return tuple(sorted(axis_of(a, rank) for a in chosen))


def real(u: Unit, x: SSAValue) -> SSAValue:
    """The array as floats."""
    return x if is_float(element_of(x)) else u.cast(x, f64)


def counted(u: Unit, x: SSAValue) -> SSAValue:
    """Booleans as ints."""
    return u.cast(x, i64) if element_of(x) == i1 else x


def summands(u: Unit, x: SSAValue) -> SSAValue:
    """Ints as those of 64 bits, in which NumPy adds and multiplies them."""
    kind = dtype_of(x.type)
    if kind.kind not in "biu":
        return x
    return u.cast(x, element_type(np.dtype(np.uint64 if kind.kind == "u" else np.int64)))


def truth(u: Unit, x: SSAValue) -> SSAValue:
    """The array as booleans."""
    return x if element_of(x) == i1 else u.op("cmp_ne", x, u.b.scalar(0, x))


def permuted(u: Unit, x: SSAValue, order: Sequence[int]) -> SSAValue:
    """The axes in another order."""
    return x if tuple(order) == tuple(range(len(order))) else u.op("transpose", x, permutation=tuple(order))


def reduced(u: Unit, kind: str, x: SSAValue, axis: Axes, keepdims: bool = False) -> SSAValue:
    """A reduction over axes."""
    axes = axes_of(axis, len(shape_of(x)))
    return u.op(f"reduce_{kind}", x, axes=axes, keepdims=keepdims) if axes else x


def window(u: Unit, x: SSAValue, axis: int, start: int, end: int) -> SSAValue:
    """Part of one axis."""
    shape = shape_of(x)
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    ends = tuple(end if i == axis else n for i, n in enumerate(shape))
    return u.op("slice", x, starts=starts, ends=ends, steps=(1,) * len(shape))


def joined(u: Unit, parts: Sequence[SSAValue], axis: int) -> SSAValue:
    """Arrays one after another."""
    same = u.common(parts, [False] * len(parts))
    axis = axis_of(axis, len(shape_of(same[0])))
    return same[0] if len(same) == 1 else u.op("concat", same, axis=axis)


def pair(u: Unit, a: SSAValue, b: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Two arrays of one element type."""
    left, right = u.common([a, b], [False, False])
    return left, right


def _mean(u: Unit, a: SSAValue, axis: Axes = None, keepdims: bool = False) -> SSAValue:
    return reduced(u, "mean", real(u, a), axis, keepdims)


def _var(u: Unit, a: SSAValue, axis: Axes = None, ddof: int = 0, keepdims: bool = False) -> SSAValue:
    x = real(u, a)
    axes = axes_of(axis, len(shape_of(x)))
    count = math.prod(shape_of(x)[i] for i in axes)
    d = u.op("sub", x, reduced(u, "mean", x, axes, True))
    if not ddof:
        return reduced(u, "mean", u.op("mul", d, d), axes, keepdims)
    total = reduced(u, "sum", u.op("mul", d, d), axes, keepdims)
    return u.op("div", total, u.cast(u.size(max(count - ddof, 0)), element_of(total)))


def _std(u: Unit, a: SSAValue, axis: Axes = None, ddof: int = 0, keepdims: bool = False) -> SSAValue:
    return root(u, _var(u, a, axis, ddof, keepdims))


def root(u: Unit, x: SSAValue, exponent: float = 0.5) -> SSAValue:
    """x^exponent of x >= 0, whose gradient is 0 at 0: of a norm, or where all elements are equal."""
    zero, none = u.op("cmp_eq", x, u.b.scalar(0, x)), u.b.scalar(0, x)
    some = u.op("select", zero, u.b.scalar(1, x), x)
    power = u.op("sqrt", some) if exponent == 0.5 else u.op("pow", some, u.b.scalar(exponent, x))
    return u.op("select", zero, none, power)


def _round(u: Unit, a: SSAValue, decimals: int = 0) -> SSAValue:
    if element_of(a) == i1:
        if decimals:
            raise VerifyException("booleans are rounded to no decimals; use astype(int)")
        return u.real(a)
    if not is_float(element_of(a)) and decimals >= 0:
        return a
    x, scale = real(u, a), 10.0 ** abs(decimals)
    if not decimals:
        return u.op("round", x)
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    rounded = u.op(back, u.op("round", u.op(there, x, u.b.scalar(scale, x))), u.b.scalar(scale, x))
    return u.cast(rounded, element_of(a))


def _total(kind: str) -> Maker:
    def make(u: Unit, a: SSAValue, axis: Axes = None, keepdims: bool = False) -> SSAValue:
        return reduced(u, kind, summands(u, a), axis, keepdims)

    return make


def _extreme(kind: str) -> Maker:
    def make(u: Unit, a: SSAValue, axis: Axes = None, keepdims: bool = False) -> SSAValue:
        return u.cast(reduced(u, kind, counted(u, a), axis, keepdims), element_of(a))

    return make


def _any(u: Unit, a: SSAValue, axis: Axes = None, keepdims: bool = False) -> SSAValue:
    return u.cast(reduced(u, "max", u.cast(truth(u, a), i64), axis, keepdims), i1)


def _all(u: Unit, a: SSAValue, axis: Axes = None, keepdims: bool = False) -> SSAValue:
    return u.cast(reduced(u, "min", u.cast(truth(u, a), i64), axis, keepdims), i1)


def count_nonzero(u: Unit, a: SSAValue, axis: Axes = None, keepdims: bool = False) -> SSAValue:
    return reduced(u, "sum", u.cast(truth(u, a), i64), axis, keepdims)


def _ptp(u: Unit, a: SSAValue, axis: Axes = None, keepdims: bool = False) -> SSAValue:
    return u.op("sub", reduced(u, "max", a, axis, keepdims), reduced(u, "min", a, axis, keepdims))


def _arg(name: str) -> Maker:
    def make(u: Unit, a: SSAValue, axis: int | None = None, keepdims: bool = False) -> SSAValue:
        rank = len(shape_of(a))
        if axis is not None:
            return u.op(name, counted(u, a), axis=axis_of(axis, rank), keepdims=keepdims)
        result = u.op(name, counted(u, ravel(u, a)), axis=0, keepdims=False)
        return u.reshape(result, (1,) * rank) if keepdims else result

    return make


def accumulated(name: str) -> Maker:
    def make(u: Unit, a: SSAValue, axis: int | None = None) -> SSAValue:
        flat = ravel(u, a) if axis is None else a
        return u.op(name, summands(u, flat), axis=axis_of(axis or 0, len(shape_of(flat))))

    return make


def ordered(u: Unit, a: SSAValue, axis: int | None) -> tuple[SSAValue, SSAValue]:
    """The elements of an axis from the smallest on, and where they stood."""
    from glow_dialects.ops.top_k import TopKOp

    x = counted(u, ravel(u, a) if axis is None else a)
    at = axis_of(0 if axis is None else axis, len(shape_of(x)))
    sorting = u.b.insert(TopKOp(x, k=shape_of(x)[at], axis=at, largest=False, sorted=True))
    return sorting.results[0], sorting.results[1]


def sort(u: Unit, a: SSAValue, axis: int | None = None) -> SSAValue:
    return u.cast(ordered(u, a, axis)[0], element_of(a))


def _argsort(u: Unit, a: SSAValue, axis: int | None = None) -> SSAValue:
    return ordered(u, a, axis)[1]


def ravel(u: Unit, a: SSAValue) -> SSAValue:
    return u.reshape(a, (math.prod(shape_of(a)),))


def _squeeze(u: Unit, a: SSAValue, axis: Axes = None) -> SSAValue:
    shape = shape_of(a)
    gone = [i for i, n in enumerate(shape) if n == 1] if axis is None else axes_of(axis, len(shape))
    if any(shape[i] != 1 for i in gone):
        raise VerifyException(
            f"squeeze of an axis of {next(shape[i] for i in gone if shape[i] != 1)}; only axes of 1 go"
        )
    return u.reshape(a, [n for i, n in enumerate(shape) if i not in gone])


def _expand_dims(u: Unit, a: SSAValue, axis: Axes = 0) -> SSAValue:
    rank = len(shape_of(a)) + (1 if axis is None or isinstance(axis, int) else len(axis))
    new, old = axes_of(axis, rank), iter(shape_of(a))
    return u.reshape(a, [1 if i in new else next(old) for i in range(rank)])


def at_least(rank: int) -> Maker:
    def make(u: Unit, a: SSAValue) -> SSAValue:
        shape = shape_of(a)
        return u.reshape(a, (*(1,) * (rank - len(shape)), *shape))

    return make


def _swapaxes(u: Unit, a: SSAValue, axis1: int = 0, axis2: int = 1) -> SSAValue:
    order = list(range(len(shape_of(a))))
    i, j = axis_of(axis1, len(order)), axis_of(axis2, len(order))
    order[i], order[j] = order[j], order[i]
    return permuted(u, a, order)


def _moveaxis(u: Unit, a: SSAValue, source: Axes = 0, destination: Axes = 0) -> SSAValue:
    rank = len(shape_of(a))
    lists = [[x] if isinstance(x, int) else list(x or ()) for x in (source, destination)]
    old, new = ([axis_of(i, rank) for i in axes] for axes in lists)
    if len(old) != len(new):
        raise VerifyException(
            f"moveaxis of {len(old)} axes to {len(new)} positions; give one position per axis"
        )
    order = [i for i in range(rank) if i not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return permuted(u, a, order)


def _flip(u: Unit, m: SSAValue, axis: Axes = None) -> SSAValue:
    axes = axes_of(axis, len(shape_of(m)))
    return u.op("flip", m, axes=axes) if axes else m


def roll(u: Unit, a: SSAValue, shift: Axes = 0, axis: Axes = None) -> SSAValue:
    if axis is None:
        return u.reshape(roll(u, ravel(u, a), shift, 0), shape_of(a))
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = [shift] * len(axes) if isinstance(shift, int) else list(shift or ())
    if len(shifts) != len(axes):
        raise VerifyException(f"{len(shifts)} shifts for {len(axes)} axes; give one per axis")
    for by, raw in zip(shifts, axes, strict=True):
        at = axis_of(raw, len(shape_of(a)))
        size = shape_of(a)[at]
        by = by % size if size else 0
        if by:
            a = joined(u, [window(u, a, at, size - by, size), window(u, a, at, 0, size - by)], at)
    return a


def _repeat(u: Unit, a: SSAValue, repeats: int | Sequence[int] = 1, axis: int | None = None) -> SSAValue:
    if axis is None:
        return _repeat(u, ravel(u, a), repeats, 0)
    at = axis_of(axis, len(shape_of(a)))
    shape = shape_of(a)
    if isinstance(shape[at], Extent) and isinstance(repeats, int):
        apart, rest = (*shape[: at + 1], repeats), shape[at + 1 :]
        wide = u.expand(u.reshape(a, (*shape[: at + 1], 1, *rest)), (*apart, *rest))
        return u.reshape(wide, (*shape[:at], shape[at] * repeats, *rest))
    places = np.repeat(np.arange(shape_of(a)[at]), repeats)
    return u.op("gather", a, u.b.constant(places), axis=at)


def _tile(u: Unit, A: SSAValue, reps: Axes = 1) -> SSAValue:
    counts = [reps] if isinstance(reps, int) else list(reps or ())
    rank = max(len(counts), len(shape_of(A)))
    wide = u.reshape(A, (*(1,) * (rank - len(shape_of(A))), *shape_of(A)))
    return u.op("tile", wide, repeats=(*(1,) * (rank - len(counts)), *counts))


def _pad(
    u: Unit, a: SSAValue, pad_width: Any = 0, mode: str = "constant", constant_values: float = 0
) -> SSAValue:
    rank = len(shape_of(a))
    width = pad_width
    if isinstance(width, int):
        pairs = [(width, width)] * rank
    elif all(isinstance(w, int) for w in width):
        pairs = [(width[0], width[-1])] * rank
    else:
        pairs = [(w[0], w[-1]) for w in width] * (rank if len(width) == 1 else 1)
    if len(pairs) != rank:
        raise VerifyException(f"pad of {len(pairs)} axes, the array has {rank}; give a pair per axis")
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise VerifyException(f"there is no mode '{mode}' of pad; use constant, edge, reflect or wrap")
    pads = (*(b for b, _ in pairs), *(e for _, e in pairs))
    return u.op("pad", a, pads=pads, mode=mode, value=float(constant_values))


def _diff(u: Unit, a: SSAValue, n: int = 1, axis: int = -1) -> SSAValue:
    at = axis_of(axis, len(shape_of(a)))
    for _ in range(n):
        size = shape_of(a)[at]
        if size < 1:
            break
        a = u.op("sub", window(u, a, at, 1, size), window(u, a, at, 0, size - 1))
    return a


# --- element by element ------------------------------------------------------------------------------------
def _reciprocal(u: Unit, x: SSAValue) -> SSAValue:
    if is_float(element_of(x)):
        return u.op("div", u.b.scalar(1, x), x)
    whole = u.cast(x, i8) if element_of(x) == i1 else x
    size = whole if dtype_of(whole.type).kind == "u" else u.op("abs", whole)
    return u.op("select", u.op("cmp_eq", size, u.b.scalar(1, whole)), whole, u.b.splat(0, whole))


# --- indices -----------------------------------------------------------------------------------------------
def _take(u: Unit, a: SSAValue, indices: SSAValue, axis: int | None = None) -> SSAValue:
    source = ravel(u, a) if axis is None else a
    return u.op("gather", source, u.cast(indices, i64), axis=axis_of(axis or 0, len(shape_of(source))))


def _take_along_axis(u: Unit, arr: SSAValue, indices: SSAValue, axis: int | None = None) -> SSAValue:
    if axis is None:
        arr, axis = ravel(u, arr), 0
    return u.op("gather_elements", arr, u.cast(indices, i64), axis=axis_of(axis, len(shape_of(arr))))


def _searchsorted(u: Unit, a: SSAValue, v: SSAValue, side: str = "left") -> SSAValue:
    row, wanted = pair(u, a, v)
    if len(shape_of(row)) != 1 or side not in ("left", "right"):
        raise VerifyException("searchsorted takes one sorted row, and side='left' or 'right'")
    column = u.reshape(wanted, (*shape_of(wanted), 1))
    below = u.op("cmp_lt" if side == "left" else "cmp_le", row, column)
    if is_float(element_of(row)):  # NaN is the largest
        last, known = u.op("is_nan", column), u.op("not", u.op("is_nan", row))
        below = u.op("or", below, u.op("and", last, known) if side == "left" else last)
    return reduced(u, "sum", u.cast(below, i64), -1)


#: Functions by name; those of other families are beside them.
ARRAYS: dict[str, Maker] = {
    "all": _all, "any": _any, "argmax": _arg("arg_max"), "argmin": _arg("arg_min"),
    "argsort": _argsort, "atleast_1d": at_least(1), "atleast_2d": at_least(2),
    "count_nonzero": count_nonzero, "cumprod": accumulated("cumprod"), "cumsum": accumulated("cumsum"),
    "diff": _diff, "expand_dims": _expand_dims, "flip": _flip,
    "max": _extreme("max"), "mean": _mean,
    "min": _extreme("min"), "moveaxis": _moveaxis, "pad": _pad, "prod": _total("prod"), "ptp": _ptp,
    "ravel": ravel,
    "reciprocal": _reciprocal, "repeat": _repeat, "roll": roll, "round": _round,
    "searchsorted": _searchsorted, "sort": sort, "squeeze": _squeeze, "std": _std, "sum": _total("sum"),
    "swapaxes": _swapaxes,
    "take": _take, "take_along_axis": _take_along_axis, "tile": _tile, "var": _var,
}  # fmt: skip
