"""Exp, sum and div that are a softmax; its logarithm."""

from __future__ import annotations

from xdsl.ir import SSAValue

from glow_dialects.core.types import dtype_of
from glow_dialects.ops.arithmetic import DivOp, SubOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceSumOp
from glow_dialects.ops.softmax import LogSoftmaxOp, SoftmaxOp
from glow_dialects.ops.unary_math import ExpOp, LogOp
from glow_passes.graph.driver import Pattern, Rewriter, producer
from glow_passes.graph.match import kept_reduction


def exp_sum_div(op: DivOp, r: Rewriter) -> SSAValue | None:
    """exp(x) / reduce_sum(exp(x)) -> softmax(x), the maximum subtracted before or not.

    Half precision stays: its formula rounds after every step, a softmax once, which shows.
    """
    if dtype_of(op.result.type).itemsize < 4:
        return None
    raised = producer(op.lhs, ExpOp)
    total = kept_reduction(op.rhs, ReduceSumOp)
    if raised is None or total is None or total.input is not op.lhs:
        return None
    axes, x = total.axes, raised.input
    if len(axes) != 1:
        return None
    shifted = producer(x, SubOp)
    if shifted is not None:
        top = kept_reduction(shifted.rhs, ReduceMaxOp)
        if top is not None and top.input is shifted.lhs and top.axes == axes:
            x = shifted.lhs
    return r(SoftmaxOp(x, axis=axes[0])) if x.type == op.result.type else None


def log_of_softmax(op: LogOp, r: Rewriter) -> SSAValue | None:
    """log(softmax(x)) -> log_softmax(x)."""
    inner = producer(op.input, SoftmaxOp, single=True)
    return None if inner is None or inner.masked else r(LogSoftmaxOp(inner.input, axis=inner.axis))


#: Makes operators that backends may lack; only before lowering.
RECOGNIZE = (Pattern((DivOp,), exp_sum_div), Pattern((LogOp,), log_of_softmax))
