"""Chains of max, min, relu and clip become one clip or one relu."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Tensor, dtype_of, is_float, typed
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import MaxOp, MinOp
from glow_dialects.ops.relu import ReluOp
from glow_passes.graph.driver import Pattern, Rewriter, is_used_once
from glow_passes.graph.match import is_known

Range = tuple[float, float]
FULL: Range = (-math.inf, math.inf)


def _range_of(op: object, r: Rewriter) -> tuple[SSAValue, Range] | None:
    """(x, limits) where `op` is one of max, min, relu, clip of x and changes only the range."""
    if isinstance(op, ReluOp):
        return op.input, (0.0, math.inf)
    if isinstance(op, ClipOp):
        return op.input, (op.min, op.max)
    if not isinstance(op, MaxOp | MinOp) or op.lhs.type != op.result.type:
        return None
    number = r.uniform(op.rhs) if is_known(op.rhs, r) else None
    if number is None:
        return None
    return op.lhs, (number, math.inf) if isinstance(op, MaxOp) else (-math.inf, number)


def _then(first: Range, second: Range) -> Range:
    """The range that `first` followed by `second` leaves; the upper limit wins in each."""
    first, second = (min(first), first[1]), (min(second), second[1])
    low = min(max(first[0], second[0]), second[1])
    high = max(min(first[1], second[1]), second[0])
    return low, high


def _make(x: SSAValue, limits: Range, r: Rewriter) -> SSAValue:
    if limits == (0.0, math.inf):
        return r(ReluOp(x))
    return r(ClipOp(x, min=limits[0], max=limits[1]))


def max_min_to_clip(op: MaxOp | MinOp, r: Rewriter) -> SSAValue | None:
    """max(x, 0) -> relu(x); max(min(x, b), a) -> clip(x, a, b)."""
    outer = _range_of(op, r)
    if outer is None or not is_float(typed(op.result).element_type):
        return None
    x, limits = outer
    inner = _range_of(x.owner, r) if is_used_once(x) else None
    if inner is not None:
        return _make(inner[0], _then(inner[1], limits), r)
    return _make(x, limits, r) if limits == (0.0, math.inf) else None


def merge_clips(op: ReluOp | ClipOp, r: Rewriter) -> SSAValue | None:
    """clip(clip(x)) -> clip(x), with relu as the clip at 0; relu(clip(x, 0, 6)) -> clip(x, 0, 6)."""
    outer = _range_of(op, r)
    assert outer is not None
    x, limits = outer
    if not isinstance(x.owner, ClipOp | ReluOp):
        return None
    inner = _range_of(x.owner, r)
    assert inner is not None
    joined = _then(inner[1], limits)
    if joined == inner[1]:
        return x
    return _make(inner[0], joined, r)


def idle_clip(op: ReluOp | ClipOp, r: Rewriter) -> SSAValue | None:
    """relu(sigmoid(x)) -> sigmoid(x), clip(x, -inf, inf) -> x: ranges that change nothing."""
    outer = _range_of(op, r)
    assert outer is not None
    x, (low, high) = outer
    known, whole = x.owner.RANGE if isinstance(x.owner, GraphOp) else FULL, _whole(typed(x))
    return x if low <= max(known[0], whole[0]) and min(known[1], whole[1]) <= high else None


def _whole(kind: Tensor) -> Range:
    """The least and the greatest value of an element type."""
    dtype = dtype_of(kind)
    if dtype.kind == "u":
        return 0, 2 ** (8 * dtype.itemsize) - 1
    return FULL


def clip_at_zero(op: ClipOp, r: Rewriter) -> SSAValue | None:
    """clip(x, 0, inf) -> relu(x)."""
    return r(ReluOp(op.input)) if (op.min, op.max) == (0.0, math.inf) else None


PATTERNS = (
    Pattern((ReluOp, ClipOp), idle_clip),
    Pattern((ReluOp, ClipOp), merge_clips),
    Pattern((ClipOp,), clip_at_zero),
)
#: Makes operators that backends may lack; only before lowering.
RECOGNIZE = (Pattern((MaxOp, MinOp), max_min_to_clip),)
