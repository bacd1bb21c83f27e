"""Concatenations of one part, of concatenations, and of slices of one tensor."""

from __future__ import annotations

from xdsl.ir import SSAValue

from glow_dialects.core.types import shape_of
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.slice import SliceOp
from glow_passes.graph.driver import Pattern, Rewriter, is_used_once, producer


def flatten(op: ConcatOp, r: Rewriter) -> SSAValue | None:
    """concat(concat(x, y), z) -> concat(x, y, z) along one axis; parts without elements go."""
    axis = op.axis
    parts: list[SSAValue] = []
    for value in op.inputs:
        inner = producer(value, ConcatOp)
        if inner is not None and inner.axis == axis and is_used_once(value):
            parts += inner.inputs
        elif shape_of(value)[axis] or len(op.inputs) == 1:
            parts.append(value)
    if len(parts) == 1:
        return parts[0]
    if len(parts) == len(op.inputs) or not parts:
        return None
    return r(ConcatOp(parts, axis=axis))


def _window(value: SSAValue, axis: int) -> tuple[SSAValue, int, int] | None:
    """(x, start, end) where `value` is x between two places of `axis` and whole on the others."""
    op = producer(value, SliceOp)
    if op is None:
        return None
    shape, (starts, ends, steps) = shape_of(op.input), op.bounds()
    whole = all(
        i == axis or (starts[i] == 0 and ends[i] == size and steps[i] == 1) for i, size in enumerate(shape)
    )
    return (op.input, starts[axis], ends[axis]) if whole and steps[axis] == 1 else None


def concat_of_slices(op: ConcatOp, r: Rewriter) -> SSAValue | None:
    """concat(x[0:2], x[2:5]) -> x[0:5], neighbours of one tensor."""
    axis = op.axis
    parts: list[SSAValue] = []
    last: tuple[SSAValue, int, int] | None = None
    for value in op.inputs:
        here = _window(value, axis)
        if here is not None and last is not None and here[0] is last[0] and here[1] == last[2]:
            last = (last[0], last[1], here[2])
            parts[-1] = _cut(*last, axis, r)
        else:
            last = here
            parts.append(value)
    if len(parts) == len(op.inputs):
        return None
    return parts[0] if len(parts) == 1 else r(ConcatOp(parts, axis=axis))


def _cut(x: SSAValue, start: int, end: int, axis: int, r: Rewriter) -> SSAValue:
    shape = list(shape_of(x))
    if (start, end) == (0, shape[axis]):
        return x
    starts = [start if i == axis else 0 for i in range(len(shape))]
    shape[axis] = end - start
    return r(SliceOp.window(x, starts, shape))


PATTERNS = (Pattern((ConcatOp,), flatten), Pattern((ConcatOp,), concat_of_slices))
