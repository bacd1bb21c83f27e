"""Arrays with other elements: `a[key] = v` as a new value, and arrays of indices as subscripts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.types import element_of, shape_of
from glow_passes.fn.getitem import MASKED, tuples
from glow_passes.fn.tensor_shapes import At, Entry, padded_key, positions

if TYPE_CHECKING:
    from glow_passes.fn.tensors import Unit

Attributes = Mapping[str, Attribute]


def setitem(u: Unit, key: Sequence[Entry], values: Sequence[SSAValue]) -> SSAValue:
    """The first of `values` with the second at `key`; entries `At(k)` are the further values."""
    x, v, *rest = values
    v = u.cast(v, element_of(x))
    found = {e.place: rest[e.place - 2] for e in key if isinstance(e, At)}
    arrays = [w for w in found.values() if shape_of(w) not in ((), (1,)) or element_of(w) == i1]
    if not arrays:
        return _block(u, x, v, padded_key(key, len(shape_of(x))), found)
    if len(key) == 1 and element_of(arrays[0]) == i1:
        return _masked(u, x, v, arrays[0])
    if any(not isinstance(e, int | At) for e in key) or any(element_of(w) == i1 for w in arrays):
        raise VerifyException("assignment to arrays of indices beside slices; use np.where, or one axis")
    return u.op("scatter_nd", x, *_scattered(u, x, v, key, found))


def _scattered(
    u: Unit, x: SSAValue, v: SSAValue, key: Sequence[Entry], found: dict[int, SSAValue]
) -> tuple[SSAValue, SSAValue]:
    places = [found[e.place] if isinstance(e, At) else u.b.constant(np.array(e)) for e in key]
    places = [u.reshape(p, ()) if shape_of(p) == (1,) else p for p in places]
    indices = tuples(u, places)
    return indices, u.expand(v, (*shape_of(indices)[:-1], *shape_of(x)[len(key) :]))


def _masked(u: Unit, x: SSAValue, v: SSAValue, mask: SSAValue) -> SSAValue:
    shape, rank = shape_of(mask), len(shape_of(x))
    if shape != shape_of(x)[: len(shape)]:
        raise VerifyException(f"a mask of shape {tuple(shape)} for an array of shape {tuple(shape_of(x))}")
    if len(shape_of(v)) > rank - len(shape) and math.prod(shape_of(v)) != 1:
        raise VerifyException("assignment of an array to what a mask picks; use np.where(mask, values, x)")
    value = u.reshape(v, ()) if math.prod(shape_of(v)) == 1 else v
    return u.op("select", u.reshape(mask, (*shape, *(1,) * (rank - len(shape)))), value, x)


def _block(u: Unit, x: SSAValue, v: SSAValue, key: Sequence[Entry], found: dict[int, SSAValue]) -> SSAValue:
    """A block of slices and numbers; along axes of numbers that the run tells, only their row is taken."""
    shape = shape_of(x)
    starts: list[int] = []
    steps: list[int] = []
    sizes: list[int] = []
    turned: list[int] = []
    seen: list[int] = []
    masks: list[SSAValue] = []
    axis = 0
    for entry in key:
        if entry is None:
            seen.append(1)
            continue
        if isinstance(entry, At):
            first, step, count = 0, 1, 1
            masks.append(_row_mask(u, found[entry.place], axis, shape))
        else:
            assert isinstance(entry, int | slice)
            run = positions(entry, shape[axis])
            first, step, count = (run[0] if run else 0), run.step, len(run)
            if isinstance(entry, slice):
                seen.append(count)
            if step < 0 and count:
                first, step = run[-1], -step
                turned.append(axis)
        starts, steps, sizes = [*starts, first], [*steps, step], [*sizes, count]
        axis += 1
    if 0 in sizes:
        return x
    small = u.reshape(u.expand(_trimmed(u, v, len(seen)), seen), sizes)
    if turned:
        small = u.op("flip", small, axes=tuple(turned))
    if not masks:
        return u.op("insert", x, small, starts=tuple(starts), steps=tuple(steps))
    moving = {i for i, e in enumerate(e for e in key if e is not None) if isinstance(e, At)}
    wide = [shape[i] if i in moving else n for i, n in enumerate(sizes)]
    made = u.expand(small, wide)
    if tuple(wide) != tuple(shape):
        made = u.op("insert", x, made, starts=tuple(starts), steps=tuple(steps))
    mask = masks[0]
    for other in masks[1:]:
        mask = u.op("and", mask, other)
    return u.op("select", mask, made, x)


def _trimmed(u: Unit, v: SSAValue, rank: int) -> SSAValue:
    """A value without axes of one element in front of those that there are places for."""
    shape = shape_of(v)
    spare = len(shape) - rank
    return u.reshape(v, shape[spare:]) if spare > 0 and set(shape[:spare]) == {1} else v


def _row_mask(u: Unit, index: SSAValue, axis: int, shape: Sequence[int]) -> SSAValue:
    around = [1] * len(shape)
    around[axis] = shape[axis]
    places = u.b.constant(np.arange(shape[axis]).reshape(around))
    at = u.reshape(u.cast(index, i64), ())
    wrapped = u.op(
        "select",
        u.op("cmp_lt", at, u.b.scalar(0, at)),
        u.op("add", at, u.b.constant(np.array(shape[axis]))),
        at,
    )
    return u.op("cmp_eq", places, wrapped)


# --- rows ---------------------------------------------------------------------------------------------------
def item(u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]) -> SSAValue:
    """x[index]: a row, or the rows of an array of indices."""
    index = values[1]
    if element_of(index) == i1:
        raise VerifyException(MASKED)
    return u.op("gather", values[0], u.cast(index, i64), axis=0)


def item_put(
    u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]
) -> SSAValue:
    """The cotangent of x where `d` is that of x[index]."""
    whole, index, d = values
    if shape_of(index):
        places = u.reshape(u.cast(index, i64), (*shape_of(index), 1))
        zeros = u.b.splat(0, whole)
        return u.op("scatter_nd", zeros, places, u.cast(d, element_of(whole)), reduction="add")
    mask = _row_mask(u, index, 0, shape_of(whole))
    row = u.reshape(u.cast(d, element_of(whole)), (1, *shape_of(whole)[1:]))
    return u.op("select", mask, row, u.b.scalar(0, whole))


def rows(u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]) -> SSAValue:
    """The rows from an index on."""
    first = u.reshape(u.cast(values[1], i64), (1,))
    return u.op("gather", values[0], u.op("add", first, u.b.constant(np.arange(options["count"]))), axis=0)


def rows_put(
    u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]
) -> SSAValue:
    """The cotangent of x where `d` is that of its rows from an index on."""
    whole, index, d = values
    count, size, rank = options["count"], shape_of(whole)[0], len(shape_of(whole))
    at = u.op("sub", u.b.constant(np.arange(size)), u.reshape(u.cast(index, i64), (1,)))
    low, high = u.b.constant(np.array([0])), u.b.constant(np.array([count - 1]))
    inside = u.op("and", u.op("cmp_ge", at, low), u.op("cmp_le", at, high))
    rows = u.op("gather", u.cast(d, element_of(whole)), u.op("min", u.op("max", at, low), high), axis=0)
    return u.op("select", u.reshape(inside, (size, *[1] * (rank - 1))), rows, u.b.scalar(0, whole))


def with_item(
    u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]
) -> SSAValue:
    """x with another row at an index, or others where a mask or an array of indices points."""
    whole, index, value = values
    if shape_of(index) or element_of(index) == i1:
        return setitem(u, (At(2),), (whole, value, index))
    row = u.expand(
        _trimmed(u, u.cast(value, element_of(whole)), len(shape_of(whole)) - 1), shape_of(whole)[1:]
    )
    return u.op("select", _row_mask(u, index, 0, shape_of(whole)), u.reshape(row, (1, *shape_of(row))), whole)


def taken(u: Unit, options: dict[str, Any], attributes: Attributes, values: Sequence[SSAValue]) -> SSAValue:
    """The cotangent of what was assigned to an index: `with_item` backwards."""
    d, index, value = values
    if element_of(index) == i1:
        rank = len(shape_of(d)) - len(shape_of(index))
        mask = u.reshape(index, (*shape_of(index), *(1,) * rank))
        found = u.op("select", mask, d, u.b.scalar(0, d))
    else:
        found = u.op("gather", d, u.cast(index, i64), axis=0)
    return u.summed(u.cast(found, element_of(value)), shape_of(value))
