"""Select, compare and logic whose outcome is known."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp, CmpNeOp
from glow_dialects.ops.elementwise import BinaryOp
from glow_dialects.ops.logic import AndOp, NotOp, OrOp
from glow_dialects.ops.select import SelectOp
from glow_passes.graph.driver import Pattern, Rewriter, producer
from glow_passes.graph.match import is_float_tensor, is_known


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


def negated_condition(op: SelectOp, r: Rewriter) -> SSAValue | None:
    """select(not(c), x, y) -> select(c, y, x)."""
    inner = producer(op.condition, NotOp)
    return None if inner is None else r(SelectOp(inner.input, op.rhs, op.lhs))


_OPPOSITE: dict[type[Operation], Any] = {
    CmpEqOp: CmpNeOp,
    CmpNeOp: CmpEqOp,
    CmpLtOp: CmpGeOp,
    CmpGeOp: CmpLtOp,
    CmpGtOp: CmpLeOp,
    CmpLeOp: CmpGtOp,
}


def negated_compare(op: NotOp, r: Rewriter) -> SSAValue | None:
    """not(x == y) -> x != y; orders only of integers, as every order with NaN is false."""
    inner: Any = op.input.owner
    opposite = _OPPOSITE.get(type(inner))
    if opposite is None:
        return None
    if is_float_tensor(inner.lhs) and not isinstance(inner, CmpEqOp | CmpNeOp):
        return None
    return r(opposite(inner.lhs, inner.rhs))


def compare_with_itself(op: BinaryOp, r: Rewriter) -> SSAValue | None:
    """x == x -> true, x < x -> false, for integers."""
    if op.lhs is not op.rhs or is_float_tensor(op.lhs):
        return None
    return r.splat(isinstance(op, CmpEqOp | CmpLeOp | CmpGeOp), op.result)


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
    Pattern((SelectOp,), negated_condition),
    Pattern((NotOp,), negated_compare),
    Pattern(tuple(_OPPOSITE), compare_with_itself),
    Pattern((AndOp, OrOp), known_logic),
)
