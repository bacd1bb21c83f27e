"""Rules of quotients and remainders; whole numbers divided by 0 are an error of the run."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.arithmetic import DivOp, FloorDivOp, FmodOp, ModOp, MulOp
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.unary_math import TruncOp
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.rules.cast import cast_to
from glow_frontends.onnx.values import Value, shape
from glow_frontends.torch.node import Node, operand

Rule = Callable[..., Any]


def whole_divided(kind: type[GraphOp]) -> Rule:
    """A quotient or remainder rounded in one way; whole numbers are not divided by 0."""
    return lambda g, n, x, y: g(kind, operand(g, x, n.dtype), _divisor(g, n, y))


def _divisor(g: Emitter, n: Node, y: Any) -> Value:
    """An operand that divides, a whole number not by 0: the count of zeros lies outside a table of one."""
    y = operand(g, y, n.dtype)
    if n.dtype.kind not in "iu":
        return y
    told = f"{n.label}: a whole number is divided by 0"
    zero = g(CmpEqOp, y, g.like(0, y))
    if isinstance(zero, np.ndarray):
        if zero.any():
            raise RuleError(told)
        return y
    flat = g.reshape(cast_to(g, zero, np.dtype(np.int64)), (prod(shape(y)),))
    count = g(ReduceSumOp, flat, axes=(0,), keepdims=True)
    one = g(GatherOp, g.value(np.ones(1, n.dtype)), count, axis=0, checked=f"{told}.")
    return g(MulOp, y, g.reshape(one, ()))


def divide(g: Emitter, n: Node, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
    """A quotient, a real number or rounded to a whole one."""
    x = operand(g, x, n.dtype)
    y = _divisor(g, n, y) if rounding_mode else operand(g, y, n.dtype)
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
