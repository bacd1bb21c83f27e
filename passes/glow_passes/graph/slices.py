"""Slices merge, vanish, and reach through concatenations; inserts that keep nothing."""

from __future__ import annotations

from xdsl.ir import SSAValue

from glow_dialects.core.types import shape_of
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.slice import SliceOp
from glow_passes.graph.driver import Pattern, Rewriter, is_used_once, producer


def whole_slice(op: SliceOp, r: Rewriter) -> SSAValue | None:
    """x[:] -> x."""
    _, _, steps = op.bounds()
    same = op.input.type == op.result.type
    return op.input if same and all(s > 0 for s in steps) else None


def slice_of_slice(op: SliceOp, r: Rewriter) -> SSAValue | None:
    """x[1:9][2:4] -> x[3:5], for positive steps."""
    inner = producer(op.input, SliceOp)
    if inner is None or 0 in shape_of(op.result):
        return None
    inner_starts, _, inner_steps = inner.bounds()
    starts, _, steps = op.bounds()
    if any(s < 0 for s in (*steps, *inner_steps)):
        return None
    begins = [a + b * s for a, b, s in zip(inner_starts, starts, inner_steps, strict=True)]
    strides = [s * t for s, t in zip(inner_steps, steps, strict=True)]
    ends = [a + (size - 1) * s + 1 for a, s, size in zip(begins, strides, op.sizes(), strict=True)]
    return r(SliceOp(inner.input, starts=begins, ends=ends, steps=strides))


def slice_of_concat(op: SliceOp, r: Rewriter) -> SSAValue | None:
    """concat(x, y)[inside y] -> y[...]."""
    inner = producer(op.input, ConcatOp)
    if inner is None or 0 in shape_of(op.result):
        return None
    axis = inner.axis
    starts, ends, steps = (list(b) for b in op.bounds())
    if steps[axis] < 0:
        return None
    for part, offset in zip(inner.inputs, inner.offsets(), strict=True):
        if offset <= starts[axis] and ends[axis] <= offset + shape_of(part)[axis]:
            starts[axis] -= offset
            ends[axis] -= offset
            return r(SliceOp(part, starts=starts, ends=ends, steps=steps))
    return None


def whole_insert(op: InsertOp, r: Rewriter) -> SSAValue | None:
    """insert(big, small) -> small where nothing of big is left; -> big where small is empty."""
    if 0 in shape_of(op.small):
        return op.big
    return op.small if op.small.type == op.result.type else None


def insert_of_slice(op: InsertOp, r: Rewriter) -> SSAValue | None:
    """insert(x, x[window]) at the same window -> x."""
    inner = producer(op.small, SliceOp)
    if inner is None or inner.input is not op.big:
        return None
    starts, _, steps = inner.bounds()
    return op.big if starts == op.starts and steps == op.strides() else None


def flip_of_flip(op: FlipOp, r: Rewriter) -> SSAValue | None:
    """flip(flip(x)) -> flip of the axes of one of them, or x; axes of size 1 do not matter."""
    shape = shape_of(op.input)
    axes = {a for a in op.axes if shape[a] > 1}
    inner = producer(op.input, FlipOp) if is_used_once(op.input) else None
    source = op.input
    if inner is not None:
        axes ^= set(inner.axes)
        source = inner.input
    if not axes:
        return source
    if inner is None and len(axes) == len(op.axes):
        return None
    return r(FlipOp(source, axes=sorted(axes)))


PATTERNS = (
    Pattern((SliceOp,), whole_slice),
    Pattern((SliceOp,), slice_of_slice),
    Pattern((SliceOp,), slice_of_concat),
    Pattern((InsertOp,), whole_insert),
    Pattern((InsertOp,), insert_of_slice),
    Pattern((FlipOp,), flip_of_flip),
)
