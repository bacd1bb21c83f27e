"""Functions with NumPy's names on fixed indices: splits, rotations, insertions, deletions; see `arrays`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.extent import is_open
from glow_dialects.core.types import broadcast_shapes, element_of, shape_of
from glow_dialects.fn.array_functions.arrays import (
    Maker,
    at_least,
    axis_of,
    joined,
    permuted,
    ravel,
    window,
)

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


def _split_part(
    u: Unit,
    a: SSAValue,
    sections: int | Sequence[int] = 1,
    index: int = 0,
    axis: int | None = None,
    uneven: bool = False,
) -> SSAValue:
    """One of so many parts, or between places; axis None: of columns; `uneven`: first ones may be longer."""
    rank = len(shape_of(a))
    at = axis_of(min(rank - 1, 1) if axis is None else axis, rank)
    size = shape_of(a)[at]
    if not isinstance(sections, int):
        start, end, _ = slice(*[None, *sections, None][index : index + 2]).indices(size)
        return window(u, a, at, start, max(start, end))
    if not uneven and size % sections:
        raise VerifyException(
            f"an axis of {size} is not divided into {sections} equal parts; give a divisor, the "
            "positions to split at, or use np.array_split"
        )
    step, longer = size // sections, size % sections
    return window(u, a, at, *(i * step + min(i, longer) for i in (index, index + 1)))


def _rot90(u: Unit, m: SSAValue, k: int = 1, axes: Sequence[int] = (0, 1)) -> SSAValue:
    rank = len(shape_of(m))
    first, second = (axis_of(a, rank) for a in axes)
    if first == second:
        raise VerifyException("rot90 rotates two axes; give two different ones")
    order = list(range(rank))
    order[first], order[second] = second, first
    match k % 4:
        case 0:
            return m
        case 1:
            return permuted(u, u.op("flip", m, axes=(second,)), order)
        case 2:
            return u.op("flip", m, axes=tuple(sorted((first, second))))
        case _:
            return u.op("flip", permuted(u, m, order), axes=(second,))


def _rollaxis(u: Unit, a: SSAValue, axis: int = 0, start: int = 0) -> SSAValue:
    rank = len(shape_of(a))
    if not -rank <= start <= rank:
        raise VerifyException(f"rollaxis to position {start} of {rank} axes; positions are 0 to {rank}")
    old, new = axis_of(axis, rank), start + rank if start < 0 else start
    order = [i for i in range(rank) if i != old]
    order.insert(new - (old < new), old)
    return permuted(u, a, order)


def _atleast_3d(u: Unit, a: SSAValue) -> SSAValue:
    wide = at_least(2)(u, a)
    return u.reshape(wide, (*shape_of(wide), 1)) if len(shape_of(wide)) == 2 else wide


def _at_least(u: Unit, a: SSAValue, rank: int = 1) -> SSAValue:
    return at_least(rank)(u, a)


def _broadcast_part(u: Unit, *arrays: SSAValue, index: int = 0) -> SSAValue:
    return u.expand(arrays[index], broadcast_shapes(*map(shape_of, arrays)))


def _line(u: Unit, a: SSAValue, axis: int | None) -> tuple[SSAValue, int]:
    """An array and the axis that elements of it are put in or left out along; None is of all elements."""
    return (ravel(u, a), 0) if axis is None else (a, axis_of(axis, len(shape_of(a))))


def _delete(u: Unit, arr: SSAValue, obj: int | Sequence[int] = 0, axis: int | None = None) -> SSAValue:
    whole, at = _line(u, arr, axis)
    try:
        kept = np.delete(np.arange(shape_of(whole)[at]), obj)
    except (IndexError, ValueError) as error:
        raise VerifyException(f"np.delete: {error}; give indices inside the axis") from None
    return u.op("gather", whole, u.b.constant(kept), axis=at)


def _insert(
    u: Unit, arr: SSAValue, values: SSAValue, obj: int | Sequence[int] = 0, axis: int | None = None
) -> SSAValue:
    whole, at = _line(u, arr, axis)
    shape = shape_of(whole)
    new = at_least(len(shape))(u, u.cast(values, element_of(whole)))
    if isinstance(obj, int):  # its axes are those of the array without this one, and rows before them
        new = permuted(u, new, [*range(1, at + 1), 0, *range(at + 1, len(shape))])
    count = shape_of(new)[at] if isinstance(obj, int) or len(obj) == 1 else len(obj)
    new = u.expand(new, [count if i == at else n for i, n in enumerate(shape)])
    size = shape[at]
    try:
        places = np.insert(np.arange(size), obj, np.arange(size, size + count))
    except (IndexError, ValueError) as error:
        raise VerifyException(
            f"np.insert: {error}; give indices inside the axis, and one value for each"
        ) from None
    return u.op("gather", joined(u, [whole, new], at), u.b.constant(places), axis=at)


def _triangle_part(
    u: Unit, upper: bool = False, index: int = 0, n: int = 1, k: int = 0, m: int | None = None
) -> SSAValue:
    """The rows or the columns of the elements of a triangle."""
    if is_open((n, k, n if m is None else m)):
        raise VerifyException("the indices of a triangle need sizes known at compile time; use np.tril")
    return u.b.constant((np.triu_indices if upper else np.tril_indices)(n, k, m)[index].astype(np.int64))


#: Functions by name.
PLACES: dict[str, Maker] = {
    "at_least": _at_least, "atleast_3d": _atleast_3d, "broadcast_part": _broadcast_part, "delete": _delete,
    "insert": _insert, "rollaxis": _rollaxis, "rot90": _rot90, "split_part": _split_part,
    "triangle_part": _triangle_part,
}  # fmt: skip
