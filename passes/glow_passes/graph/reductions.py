"""Reductions of nothing, of reductions, and means over an image as pools."""

from __future__ import annotations

from xdsl.ir import SSAValue

from glow_dialects.core.extent import is_open
from glow_dialects.core.types import is_float, shape_of, typed
from glow_dialects.ops.arithmetic import DivOp, MulOp
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.max_pool import MaxPoolOp
from glow_dialects.ops.reduce import (
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceSumOp,
    ReductionOp,
)
from glow_dialects.ops.reshape import ReshapeOp
from glow_passes.graph.driver import Pattern, Rewriter, producer
from glow_passes.graph.match import beside_scalar, near


def reduce_one_element(op: ReductionOp, r: Rewriter) -> SSAValue | None:
    """reduce(x) over axes of size 1 -> reshape(x)."""
    shape = shape_of(op.input)
    if any(shape[axis] != 1 for axis in op.axes):
        return None
    if op.input.type == op.result.type:
        return op.input
    return r(ReshapeOp(op.input, results=op.result.type))


def reduce_of_reduce(op: ReductionOp, r: Rewriter) -> SSAValue | None:
    """reduce_sum(reduce_sum(x)) -> reduce_sum(x) over both sets of axes."""
    kind = type(op)
    if kind is ReduceMeanOp and not is_float(typed(op.input).element_type):
        return None  # a mean of integers is rounded towards zero each time
    inner = producer(op.input, kind, single=True)
    if inner is None:
        return None
    first, rank = set(inner.axes), len(shape_of(inner.input))
    left = range(rank) if inner.keepdims else [i for i in range(rank) if i not in first]
    axes: list[int] = sorted(first | {left[axis] for axis in op.axes})
    reduced = r(type(op)(inner.input, axes=axes, keepdims=True))
    return reduced if reduced.type == op.result.type else r(ReshapeOp(reduced, results=op.result.type))


def image_to_pool(op: ReduceMeanOp | ReduceMaxOp, r: Rewriter) -> SSAValue | None:
    """reduce_mean(x : NxCxHxW) over H and W -> avg_pool of the whole image; max likewise."""
    shape = shape_of(op.input)
    if len(shape) != 4 or tuple(sorted(op.axes)) != (2, 3):
        return None
    if not is_float(typed(op.input).element_type) or op.predicate is not None:
        return None
    pool = AvgPoolOp if isinstance(op, ReduceMeanOp) else MaxPoolOp
    pooled = r(pool(op.input, kernel=shape[2:]))
    return pooled if pooled.type == op.result.type else r(ReshapeOp(pooled, results=op.result.type))


def sum_to_mean(op: MulOp | DivOp, r: Rewriter) -> SSAValue | None:
    """reduce_sum(x) / n, n elements in each sum, -> reduce_mean(x)."""
    scaled = beside_scalar(op.result, type(op), r)
    total = None if scaled is None else producer(scaled[0], ReduceSumOp, single=True)
    if scaled is None or total is None or not is_float(typed(op.result).element_type):
        return None
    count = total.count
    if is_open([count]) or op.predicate is not None or scaled[0] is not op.lhs:
        return None
    number = scaled[1] * count if isinstance(op, MulOp) else scaled[1] / count
    if not near(number, 1, 1e-6):
        return None
    return r(ReduceMeanOp(total.input, axes=total.axes, keepdims=total.keepdims))


PATTERNS = (
    Pattern((ReductionOp,), reduce_one_element, lambda op: op.NESTS),
    Pattern((ReductionOp,), reduce_of_reduce, lambda op: op.NESTS),
)
#: Makes operators that backends may lack; only before lowering.
RECOGNIZE = (
    Pattern((ReduceMeanOp, ReduceMaxOp), image_to_pool),
    Pattern((MulOp, DivOp), sum_to_mean),
)
