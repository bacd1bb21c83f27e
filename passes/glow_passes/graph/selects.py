"""Select and logic whose outcome is known."""

from __future__ import annotations

from xdsl.ir import SSAValue

from glow_dialects.ops.logic import AndOp, OrOp
from glow_dialects.ops.select import SelectOp
from glow_passes.graph.driver import Pattern, Rewriter
from glow_passes.graph.match import is_known


def known_condition(op: SelectOp, r: Rewriter) -> SSAValue | None:
    """select(true, x, y) -> x, select(c, x, x) -> x, where x has the result's shape."""
    if op.lhs is op.rhs:
        chosen = op.lhs
    else:
        truth = r.uniform(op.condition) if is_known(op.condition, r) else None
        if truth is None:
            return None
        chosen = op.lhs if truth else op.rhs
    return chosen if chosen.type == op.result.type else None


def known_logic(op: AndOp | OrOp, r: Rewriter) -> SSAValue | None:
    """and(x, true) -> x, and(x, false) -> false, or(x, false) -> x, or(x, true) -> true."""
    truth = r.uniform(op.rhs) if is_known(op.rhs, r) else None
    if truth is None:
        return None
    if bool(truth) == isinstance(op, AndOp):
        return op.lhs if op.lhs.type == op.result.type else None
    return r.splat(truth, op.result)


PATTERNS = (
    Pattern((SelectOp,), known_condition),
    Pattern((AndOp, OrOp), known_logic),
)
