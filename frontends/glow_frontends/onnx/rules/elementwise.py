"""Rules of element-wise arithmetic, comparison, logic and conversion."""

from __future__ import annotations

from math import prod

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.activation import TanhOp
from glow_dialects.ops.arithmetic import (
    AddOp,
    DivOp,
    FmodOp,
    MaxOp,
    MinOp,
    ModOp,
    MulOp,
    PowOp,
    SubOp,
)
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp
from glow_dialects.ops.logic import (
    AndOp,
    BitwiseAndOp,
    BitwiseNotOp,
    BitwiseOrOp,
    BitwiseXorOp,
    IsInfOp,
    IsNanOp,
    NotOp,
    OrOp,
    ShiftLeftOp,
    ShiftRightOp,
    XorOp,
)
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import (
    AbsOp,
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    AtanhOp,
    AtanOp,
    CeilOp,
    CoshOp,
    CosOp,
    ErfOp,
    ExpOp,
    FloorOp,
    LogOp,
    NegOp,
    ReciprocalOp,
    RoundOp,
    SignOp,
    SinhOp,
    SinOp,
    SqrtOp,
    TanOp,
)
from glow_frontends.graph.arithmetic import clamp
from glow_frontends.graph.cast import cast_to
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.errors import RuleError
from glow_frontends.graph.shape import broadcast
from glow_frontends.graph.values import Value, dtype_of_value, rank, shape
from glow_frontends.onnx.node import Node, known_inputs
from glow_frontends.onnx.rules.indexing import divisors
from glow_frontends.onnx.rules.rule import Rule, Versions
from glow_frontends.onnx.values import HostValue


def unary(kind: type[GraphOp]) -> Rule:
    """One operand, no attributes."""
    return lambda g, n: g(kind, n[0])


def binary(kind: type[GraphOp]) -> Rule:
    """Two operands that broadcast."""
    return lambda g, n: g(kind, *aligned(g, n))


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


def negated(rule: Rule) -> Rule:
    """The logical complement of a rule's result."""
    return lambda g, n: g(NotOp, rule(g, n))  # pyright: ignore[reportArgumentType]


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
    """BitShift; signed numbers keep their sign where all their bits are shifted out to the right."""
    x, by = n[0], n[1]
    if n.text("direction") == "LEFT":
        return g(ShiftLeftOp, x, by)
    dtype = dtype_of_value(x)
    if dtype.kind == "i":
        last = g.like(8 * dtype.itemsize - 1, by)
        beyond = g(OrOp, g(CmpLtOp, by, g.like(0, by)), g(CmpGtOp, by, last))
        by = g(SelectOp, beyond, last, by)
    return g(ShiftRightOp, x, by)


def equal(g: Emitter, n: Node) -> Value:
    """Equal; of strings on the host."""
    if any(isinstance(v, HostValue) or (isinstance(v, np.ndarray) and v.dtype == object) for v in n.inputs):
        known = known_inputs(n)
        if len(known) != 2 or known[0] is None or known[1] is None:
            raise RuleError("two inputs are expected")
        left, right = known
        return np.asarray(left == right).astype(bool)
    return binary(CmpEqOp)(g, n)  # pyright: ignore[reportReturnType]


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


UNARY: dict[str, type[GraphOp]] = {
    "Abs": AbsOp, "Neg": NegOp, "Ceil": CeilOp, "Floor": FloorOp, "Round": RoundOp, "Sign": SignOp,
    "Sqrt": SqrtOp, "Reciprocal": ReciprocalOp, "Exp": ExpOp, "Log": LogOp, "Erf": ErfOp,
    "Sin": SinOp, "Cos": CosOp, "Tan": TanOp, "Asin": AsinOp, "Acos": AcosOp, "Atan": AtanOp,
    "Sinh": SinhOp, "Cosh": CoshOp, "Asinh": AsinhOp, "Acosh": AcoshOp, "Atanh": AtanhOp,
    "Tanh": TanhOp, "Not": NotOp, "BitwiseNot": BitwiseNotOp, "IsNaN": IsNanOp,
}  # fmt: skip
BINARY: dict[str, type[GraphOp]] = {
    "Add": AddOp, "Sub": SubOp, "Mul": MulOp, "And": AndOp, "Or": OrOp, "Xor": XorOp,
 "Greater": CmpGtOp, "GreaterOrEqual": CmpGeOp, "Less": CmpLtOp,
    "LessOrEqual": CmpLeOp, "BitwiseAnd": BitwiseAndOp, "BitwiseOr": BitwiseOrOp,
    "BitwiseXor": BitwiseXorOp,
}  # fmt: skip

RULES: dict[str, Versions] = {
    **{name: unary(kind) for name, kind in UNARY.items()},
    **{name: binary(kind) for name, kind in BINARY.items()},
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
