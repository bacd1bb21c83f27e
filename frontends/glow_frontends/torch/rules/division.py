"""Rules of division and remainder; integer division by 0 is a run-time error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.arithmetic import DivOp, FloorDivOp, FmodOp, ModOp
from glow_dialects.ops.unary_math import TruncOp
from glow_frontends.graph import Emitter, Value
from glow_frontends.graph.arithmetic import not_zero
from glow_frontends.torch.node import Node, operand

Rule = Callable[..., Any]


def whole_divided(kind: type[GraphOp]) -> Rule:
    """A quotient or remainder rounded in one way; whole numbers are not divided by 0."""
    return lambda g, n, x, y: g(kind, operand(g, x, n.dtype), not_zero(g, operand(g, y, n.dtype), n.label))


def divide(g: Emitter, n: Node, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
    """A quotient, a real number or rounded to a whole one."""
    x = operand(g, x, n.dtype)
    y = operand(g, y, n.dtype)
    y = not_zero(g, y, n.label) if rounding_mode else y
    if rounding_mode == "floor":
        return g(FloorDivOp, x, y)
    quotient = g(DivOp, x, y)
    return g(TruncOp, quotient) if rounding_mode == "trunc" and n.dtype.kind not in "iu" else quotient


RULES: dict[str, Rule] = {
    "div": divide,
    "floor_divide": whole_divided(FloorDivOp),
    "fmod": whole_divided(FmodOp),
    "remainder": whole_divided(ModOp),
}
