"""`x[key]` as operators: slices, numbers, new axes, and subscripts known at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.extent import Extent
from glow_dialects.core.types import broadcast_shapes, element_of, shape_of
from glow_dialects.fn.array_keys import At, Entry, key_of, padded_key, positions

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit

#: The message for `x[mask]` where the number of elements matters.
MASKED = "an array selected by a mask has no shape known at compile time; use np.where"


def getitem(u: Unit, attributes: Mapping[str, Attribute], values: Sequence[SSAValue]) -> SSAValue:
    """x[key]: entries `At(k)` are the operands of these numbers, ints or arrays of ints."""
    x = values[0]
    key = padded_key(key_of(attributes), len(shape_of(x)))
    indices = {e.place: values[e.place] for e in key if isinstance(e, At)}
    if any(element_of(v) == i1 for v in indices.values()):
        raise VerifyException(MASKED)
    if not indices:
        return _sliced(u, x, key)
    if any(shape_of(v) for v in indices.values()):
        return _picked(u, x, key, indices)
    result = _sliced(u, x, [slice(None) if isinstance(e, At) else e for e in key])
    kept = [e for e in key if not isinstance(e, int | Extent)]
    for axis in reversed(range(len(kept))):
        entry = kept[axis]
        if isinstance(entry, At):
            result = u.op("gather", result, u.cast(indices[entry.place], i64), axis=axis)
    return result


def _sliced(u: Unit, x: SSAValue, key: Sequence[Entry]) -> SSAValue:
    """Slices, numbers and new axes."""
    shape = shape_of(x)
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    result: list[int] = []
    axis = 0
    for entry in key:
        if entry is None:
            result.append(1)
            continue
        assert isinstance(entry, int | Extent | slice)
        run = positions(entry, shape[axis])
        if isinstance(entry, slice):
            result.append(run.count)
        starts.append(run.first)
        ends.append(run.last + (1 if run.step > 0 else -1) if run.count else run.first)
        steps.append(run.step)
        axis += 1
    sliced = u.op("slice", x, starts=tuple(starts), ends=tuple(ends), steps=tuple(steps))
    return u.reshape(sliced, result)


def _picked(u: Unit, x: SSAValue, key: Sequence[Entry], values: dict[int, SSAValue]) -> SSAValue:
    """Arrays of subscripts, which broadcast: their axes stand where the first is, in front if apart."""
    result = _sliced(u, x, [e if e is None or isinstance(e, slice) else slice(None) for e in key])
    chosen = [i for i, e in enumerate(key) if isinstance(e, int | Extent | At)]
    indices: list[SSAValue] = []
    for i in chosen:
        entry = key[i]
        assert isinstance(entry, int | Extent | At)
        indices.append(values[entry.place] if isinstance(entry, At) else u.size(entry))
    if len(chosen) == 1:
        return u.op("gather", result, u.cast(indices[0], i64), axis=chosen[0])
    rest = [i for i in range(len(key)) if i not in chosen]
    if chosen != list(range(len(chosen))):
        result = u.op("transpose", result, permutation=(*chosen, *rest))
    result = u.op("gather_nd", result, tuples(u, indices))
    together = chosen[-1] - chosen[0] + 1 == len(chosen)
    if not together or not chosen[0]:
        return result
    rank = len(shape_of(result)) - len(rest)
    order = list(range(rank, len(shape_of(result))))
    order[chosen[0] : chosen[0]] = range(rank)
    return u.op("transpose", result, permutation=tuple(order))


def tuples(u: Unit, indices: Sequence[SSAValue]) -> SSAValue:
    """Arrays of subscripts that broadcast, side by side along a last axis."""
    shape = broadcast_shapes(*[shape_of(i) for i in indices])
    wide = [u.reshape(u.expand(u.cast(i, i64), shape), (*shape, 1)) for i in indices]
    return wide[0] if len(wide) == 1 else u.op("concat", wide, axis=len(shape))


def outside(u: Unit, index: SSAValue, size: int) -> SSAValue:
    """How many of some subscripts lie outside an axis of `size`."""
    at = u.cast(index, i64)
    below, above = u.op("cmp_lt", at, u.size(-size)), u.op("cmp_ge", at, u.size(size))
    count = u.cast(u.op("or", below, above), i64)
    axes = tuple(range(len(shape_of(at))))
    return u.op("reduce_sum", count, axes=axes, keepdims=False) if axes else count
