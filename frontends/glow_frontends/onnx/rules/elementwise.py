"""Rules of element-wise arithmetic, comparison, logic and conversion."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, StringAttr

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops import named
from glow_dialects.ops.arithmetic import AddOp, DivOp, FmodOp, MaxOp, MinOp, ModOp, PowOp
from glow_dialects.ops.compare import CmpEqOp, CmpGtOp, CmpLtOp
from glow_dialects.ops.elementwise import BinaryOp
from glow_dialects.ops.logic import AndOp, IsInfOp, ShiftLeftOp, ShiftRightOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import clamp
from glow_frontends.graph.movement import broadcast
from glow_frontends.onnx.node import Node, known_inputs
from glow_frontends.onnx.rules.indexing import divisors
from glow_frontends.onnx.rules.rule import Rule, Versions
from glow_frontends.onnx.values import HostValue


def same(kind: type[GraphOp]) -> Rule:
    """An operator of one or two operands that a card is, with the attributes that the card has."""

    def rule(g: Emitter, n: Node) -> Value:
        operands = aligned(g, n) if issubclass(kind, BinaryOp) else (n[0],)
        return g(kind, *operands, **properties(kind, n))

    return rule


def properties(kind: type[GraphOp], n: Node) -> dict[str, Any]:
    """The properties of a card that are attributes of the same names: numbers and words."""
    known: dict[str, Any] = {}
    for name, default in kind.property_defaults().items():
        if isinstance(default, FloatAttr):
            known[name] = n.number(name, default.value.data)
        elif isinstance(default, StringAttr):
            known[name] = n.text(name, default.data)
    return known


def aligned(g: Emitter, n: Node) -> tuple[Value, Value]:
    """The operands; before opset 7 the second is aligned at attribute `axis`."""
    left, right = n[0], n[1]
    if n.opset >= 7 or not n.flag("broadcast") or n.integer("axis") is None:
        return left, right
    axis = n.integer("axis") % max(1, rank(left))
    trailing = rank(left) - axis - rank(right)
    return left, g.reshape(right, shape(right) + (1,) * max(0, trailing))


def variadic(kind: type[GraphOp]) -> Rule:
    """Any number of operands, combined from the left."""

    def rule(g: Emitter, n: Node) -> Value:
        total = n[0]
        for value in n.tensors(1):
            total = g(kind, total, value)
        return total

    return rule


def mean(g: Emitter, n: Node) -> Value:
    """The mean of all operands."""
    total = variadic(AddOp)(g, n)
    assert not isinstance(total, list | tuple)
    return g(DivOp, total, g.like(len(n.inputs), n[0]))  # pyright: ignore[reportArgumentType]


def power(g: Emitter, n: Node) -> Value:
    """Pow: operand types may differ, the result has the base's."""
    base, exponent = aligned(g, n)
    to, by = dtype_of_value(base), dtype_of_value(exponent)
    if to == by:
        return g(PowOp, base, exponent)
    if to.kind in "iu" and by.kind not in "iu":
        wide = cast_to(g, base, by)
        return cast_to(g, g(PowOp, wide, exponent), to)
    return g(PowOp, base, cast_to(g, exponent, to))


def modulo(g: Emitter, n: Node) -> Value:
    """Mod: the sign of the divisor, or of the dividend with fmod=1."""
    return g(FmodOp if n.flag("fmod") else ModOp, n[0], divisors(g, n, n[1]))


def divide(g: Emitter, n: Node) -> Value:
    """Div, of integers as well."""
    x, by = aligned(g, n)
    return g(DivOp, x, divisors(g, n, by))


def shift(g: Emitter, n: Node) -> Value:
    """BitShift."""
    return g(ShiftLeftOp if n.text("direction") == "LEFT" else ShiftRightOp, n[0], n[1])


def equal(g: Emitter, n: Node) -> Value:
    """Equal; of strings on the host."""
    if any(isinstance(v, HostValue) or (isinstance(v, np.ndarray) and v.dtype == object) for v in n.inputs):
        known = known_inputs(n)
        if len(known) != 2 or known[0] is None or known[1] is None:
            raise RuleError("two inputs are expected")
        left, right = known
        return np.asarray(left == right).astype(bool)
    return g(CmpEqOp, *aligned(g, n))


def is_inf(g: Emitter, n: Node) -> Value:
    """IsInf, of either or both signs."""
    negative, positive = n.flag("detect_negative", True), n.flag("detect_positive", True)
    if negative and positive:
        return g(IsInfOp, n[0])
    if not negative and not positive:
        return broadcast(g, np.array(False), shape(n[0]))
    zero = g.like(0, n[0])
    side = g(CmpGtOp if positive else CmpLtOp, n[0], zero)
    return g(AndOp, g(IsInfOp, n[0]), side)


def where(g: Emitter, n: Node) -> Value:
    """Where."""
    return g(SelectOp, n[0], n[1], n[2])


def clip(g: Emitter, n: Node) -> Value:
    """Clip with bounds as attributes (before 11) or inputs."""
    x = n[0]
    if n.opset < 11:
        low, high = n.number("min"), n.number("max")
        bounds = [None if b is None else g.like(b, x) for b in (low, high)]
    else:
        limits = [n.get(1), n.get(2)]
        bounds = [b if b is None or prod(shape(b)) != 1 else g.reshape(b, ()) for b in limits]
    return clamp(g, x, bounds[0], bounds[1])


RULES: dict[str, Versions] = {
    # Identity is of sequences, too: see rules/shape.py.
    **{name: same(kind) for name, kind in named("ONNX").items() if name != "Identity"},
    "Sum": variadic(AddOp),
    "Max": variadic(MaxOp),
    "Min": variadic(MinOp),
    "Mean": mean,
    "Pow": power,
    "Div": divide,
    "Mod": modulo,
    "BitShift": shift,
    "Equal": equal,
    "IsInf": is_inf,
    "Where": where,
    "Clip": clip,
}
