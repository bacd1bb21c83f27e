"""Assignment to elements, `a[key] = v`, as a new value; index arrays as subscripts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.extent import Extent
from glow_dialects.core.types import element_of, shape_of
from glow_dialects.fn.array_functions.getitem import tuples
from glow_dialects.fn.array_keys import At, Entry, padded_key, positions

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit

Attributes = Mapping[str, Attribute]


def setitem(u: Unit, key: Sequence[Entry], values: Sequence[SSAValue]) -> SSAValue:
    """The first of `values` with the second at `key`; entries `At(k)` are the further values."""
    x, v, *rest = values
    v = u.cast(v, element_of(x))
    indices = {e.place: rest[e.place - 2] for e in key if isinstance(e, At)}
    arrays = [w for w in indices.values() if shape_of(w) not in ((), (1,)) or element_of(w) == i1]
    if not arrays:
        return _block(u, x, v, padded_key(key, len(shape_of(x))), indices)
    if len(key) == 1 and element_of(arrays[0]) == i1:
        return _masked(u, x, v, arrays[0])
    if any(not isinstance(e, int | At) for e in key) or any(element_of(w) == i1 for w in arrays):
        raise VerifyException("assignment to index arrays combined with slices; use np.where, or one axis")
    return u.op("scatter_nd", x, *_scattered(u, x, v, key, indices))


def _scattered(
    u: Unit, x: SSAValue, v: SSAValue, key: Sequence[Entry], arrays: dict[int, SSAValue]
) -> tuple[SSAValue, SSAValue]:
    places = [arrays[e.place] if isinstance(e, At) else u.b.constant(np.array(e)) for e in key]
    places = [u.reshape(p, ()) if shape_of(p) == (1,) else p for p in places]
    indices = tuples(u, places)
    return indices, u.expand(v, (*shape_of(indices)[:-1], *shape_of(x)[len(key) :]))


def _masked(u: Unit, x: SSAValue, v: SSAValue, mask: SSAValue) -> SSAValue:
    shape, rank = shape_of(mask), len(shape_of(x))
    if shape != shape_of(x)[: len(shape)]:
        raise VerifyException(
            f"a mask of shape {tuple(shape)} for an array of shape {tuple(shape_of(x))}"
            "; the mask has the shape of the first axes"
        )
    if len(shape_of(v)) > rank - len(shape) and math.prod(shape_of(v)) != 1:
        raise VerifyException("assignment of an array to masked elements; use np.where(mask, values, x)")
    value = u.reshape(v, ()) if math.prod(shape_of(v)) == 1 else v
    return u.op("select", u.reshape(mask, (*shape, *(1,) * (rank - len(shape)))), value, x)


def _block(u: Unit, x: SSAValue, v: SSAValue, key: Sequence[Entry], indices: dict[int, SSAValue]) -> SSAValue:
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
            masks.append(row_mask(u, indices[entry.place], axis, shape))
        else:
            assert isinstance(entry, int | Extent | slice)
            run = positions(entry, shape[axis])
            first, step, count = (run.first if run.count else 0), run.step, run.count
            if isinstance(entry, slice):
                seen.append(count)
            if step < 0 and count:
                first, step = run.last, -step
                turned.append(axis)
        starts, steps, sizes = [*starts, first], [*steps, step], [*sizes, count]
        axis += 1
    if 0 in sizes:
        return x
    small = u.reshape(u.expand(trimmed(u, v, len(seen)), seen), sizes)
    if turned:
        small = u.op("flip", small, axes=tuple(turned))
    if not masks:
        return u.op("insert", x, small, starts=tuple(starts), steps=tuple(steps))
    moving = {i for i, e in enumerate(e for e in key if e is not None) if isinstance(e, At)}
    wide = [shape[i] if i in moving else n for i, n in enumerate(sizes)]
    result = u.expand(small, wide)
    if tuple(wide) != tuple(shape):
        result = u.op("insert", x, result, starts=tuple(starts), steps=tuple(steps))
    mask = masks[0]
    for other in masks[1:]:
        mask = u.op("and", mask, other)
    return u.op("select", mask, result, x)


def trimmed(u: Unit, v: SSAValue, rank: int) -> SSAValue:
    """A value without axes of one element in front of those that there are places for."""
    shape = shape_of(v)
    spare = len(shape) - rank
    return u.reshape(v, shape[spare:]) if spare > 0 and set(shape[:spare]) == {1} else v


def row_mask(u: Unit, index: SSAValue, axis: int, shape: Sequence[int]) -> SSAValue:
    """Where the index along an axis is a number that the run tells; negative ones count from the end."""
    around = [1] * len(shape)
    around[axis] = shape[axis]
    places = u.reshape(u.numbers(shape[axis]), around)
    at = u.reshape(u.cast(index, i64), ())
    wrapped = u.op(
        "select",
        u.op("cmp_lt", at, u.b.scalar(0, at)),
        u.op("add", at, u.size(shape[axis])),
        at,
    )
    return u.op("cmp_eq", places, wrapped)
