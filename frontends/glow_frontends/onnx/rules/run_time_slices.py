"""Slices with bounds known at run time, in loop bodies: gathers under an upper bound."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.ops.arithmetic import AddOp, FloorDivOp, MaxOp, MinOp, SubOp
from glow_dialects.ops.compare import CmpLtOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import BoundedValue, Emitter, NeedsValue, Value, cast_to, shape

INT64 = np.dtype(np.int64)


def component(g: Emitter, x: Value, index: int) -> Value:
    """x[index] of a vector, where it was joined of parts: the part, which may be known."""
    if isinstance(x, np.ndarray):
        return np.asarray(x.reshape(-1)[index])
    if isinstance(x.owner, LiteralOp):
        return component(g, x.owner.array(), index)
    if isinstance(x.owner, ConcatOp):
        for part in x.owner.inputs:
            if index < shape(part)[0]:
                return component(g, part, index)
            index -= shape(part)[0]
    if shape(x) in ((), (1,)):
        scalar = x.owner.input if isinstance(x.owner, ReshapeOp) else x
        return g.reshape(scalar, ())
    return g(GatherOp, x, np.array(index, np.int64), axis=0)


def span(
    g: Emitter, x: Value, starts: Value, ends: Value, axes: tuple[int, ...], steps: tuple[int, ...]
) -> Value | BoundedValue:
    """x[start:end:step] along axes of which one has bounds that are not known; steps are positive."""
    open_axis: tuple[int, int, Value, Value] | None = None
    for index, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        start, end = component(g, starts, index), component(g, ends, index)
        dim = shape(x)[axis]
        if step < 1 or not dim:
            raise NeedsValue(None, "a bound of Slice")
        if isinstance(start, np.ndarray) and isinstance(end, np.ndarray):
            places = np.arange(dim)[int(start) : int(end) : step]
            if len(places) < dim:
                x = g(GatherOp, x, places.astype(np.int64), axis=axis)
        elif open_axis is not None:
            raise NeedsValue(None, "a bound of Slice")
        else:
            open_axis = axis, step, start, end
    assert open_axis is not None
    return _open(g, x, *open_axis)


def _open(g: Emitter, x: Value, axis: int, step: int, start: Value, end: Value) -> BoundedValue | Value:
    dim = shape(x)[axis]
    step = min(step, dim)
    count = _width(g, start, end, dim) if step == 1 else None
    if count is not None and isinstance(x, np.ndarray) and (x == x.reshape(-1)[0]).all():
        return np.take(x, range(count), axis)
    if count is not None:
        return g(GatherOp, x, g(AddOp, start, np.arange(count)), axis=axis)
    size, last, width, zero = (np.array(v, np.int64) for v in (dim, dim - 1, step, 0))
    low, high = (_inside(g, v, size) for v in (start, end))
    rounded = g(AddOp, g(MaxOp, g(SubOp, high, low), zero), np.array(step - 1, np.int64))
    length = g(FloorDivOp, rounded, width)
    places = g(MinOp, g(AddOp, low, np.arange(0, dim, step, dtype=np.int64)), last)
    gathered = g(GatherOp, x, places, axis=axis)
    if isinstance(gathered, SSAValue):
        g.spans[gathered] = (g.value(x), g.value(g(MinOp, low, last)))
    return g.bounded(gathered, axis, length)


def _width(g: Emitter, start: Value, end: Value, dim: int) -> int | None:
    """How many places a span has that begins at the number of a turn and lies inside the axis."""
    first, last = _scalar(start), _scalar(end)
    if not (isinstance(first, SSAValue) and isinstance(last, SSAValue) and isinstance(last.owner, AddOp)):
        return None
    for one, more in (last.owner.operands, last.owner.operands[::-1]):
        if _scalar(one) is first and isinstance(more.owner, LiteralOp) and first in g.turns:
            count = int(more.owner.array().reshape(-1)[0])
            return count if count > 0 and g.turns[first] - 1 + count <= dim else None
    return None


def _scalar(x: Value) -> Value:
    """What was brought to the shape of `x`."""
    return _scalar(x.owner.input) if isinstance(x, SSAValue) and isinstance(x.owner, ReshapeOp) else x


def _inside(g: Emitter, bound: Value, size: np.ndarray) -> Value:
    """A bound of Slice between 0 and the size."""
    wide = cast_to(g, bound, INT64)
    wide = g(SelectOp, g(CmpLtOp, wide, np.array(0, np.int64)), g(AddOp, wide, size), wide)
    return g(MinOp, g(MaxOp, wide, np.array(0, np.int64)), size)


def only_place(g: Emitter, x: BoundedValue) -> Value:
    """The one place that a bounded tensor is said to have, its axis removed."""
    if x.value in g.spans:
        source, place = g.spans[x.value]
        return g(GatherOp, source, place, axis=x.axis)
    return g(GatherOp, x.value, np.array(0, np.int64), axis=x.axis)
