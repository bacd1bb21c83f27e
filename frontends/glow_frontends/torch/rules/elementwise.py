"""Rules of element-wise operators: PyTorch's promotion of types, then one card."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, pi
from typing import Any

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import tensor
from glow_dialects.ops.activation import (
    EluOp,
    GeluOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    MishOp,
    SigmoidOp,
    SoftplusOp,
    SwishOp,
    TanhOp,
)
from glow_dialects.ops.arithmetic import (
    AddOp,
    DivOp,
    FloorDivOp,
    FmodOp,
    MaxOp,
    MinOp,
    ModOp,
    MulOp,
    PowOp,
    SubOp,
)
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp, CmpNeOp
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
from glow_dialects.ops.relu import ReluOp
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
    Expm1Op,
    ExpOp,
    FloorOp,
    Log1pOp,
    LogOp,
    NegOp,
    ReciprocalOp,
    RoundOp,
    RsqrtOp,
    SignOp,
    SinhOp,
    SinOp,
    SqrtOp,
    TanOp,
    TruncOp,
)
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.rules.cast import cast_to
from glow_frontends.onnx.rules.elementwise import clamp
from glow_frontends.onnx.rules.shape import broadcast
from glow_frontends.onnx.values import Value, dtype_of_value, rank, shape
from glow_frontends.torch.node import Decomposed, Node, operand

Rule = Callable[..., Any]
BOOL = np.dtype(bool)
#: Arithmetic on booleans, which PyTorch has, as logic.
_ON_BOOLEANS: dict[type[GraphOp], type[GraphOp]] = {AddOp: OrOp, MulOp: AndOp, MaxOp: OrOp, MinOp: AndOp}


def unary(kind: type[GraphOp], whole: bool = False, **properties: Any) -> Rule:
    """A function of one operand, computed in the result's type; whole numbers stay where `whole` says so."""

    def rule(g: Emitter, n: Node, x: Value) -> Value:
        x = cast_to(g, x, n.dtype)
        return x if whole and n.dtype.kind in "biu" else g(kind, x, **properties)

    return rule


def binary(kind: type[GraphOp]) -> Rule:
    """Arithmetic of two operands, tensors or numbers, in the result's type."""
    return lambda g, n, x, y: combined(g, kind, n.dtype, x, y)


def combined(g: Emitter, kind: type[GraphOp], dtype: np.dtype, x: Any, y: Any) -> Value:
    """Arithmetic in a type; of booleans logic."""
    chosen = _ON_BOOLEANS.get(kind, kind) if dtype == BOOL else kind
    return g(chosen, operand(g, x, dtype), operand(g, y, dtype))


def comparison(kind: type[GraphOp]) -> Rule:
    """A comparison in the type that the operands promote to, in which numbers wrap as PyTorch's do."""

    def rule(g: Emitter, n: Node, x: Value, y: Any) -> Value:
        dtype = n.promoted(0, 1)
        if dtype == BOOL:  # as numbers
            dtype = np.dtype(np.uint8)
        return g(kind, operand(g, x, dtype), operand(g, y, dtype))

    return rule


def logical(kind: type[GraphOp]) -> Rule:
    """Logic on what is not 0."""
    return lambda g, n, x, y=None: g(kind, *(operand(g, v, BOOL) for v in (x, y) if v is not None))


def bitwise(kind: type[GraphOp], on_booleans: type[GraphOp]) -> Rule:
    """Logic on bits; on booleans plain logic."""

    def rule(g: Emitter, n: Node, x: Any, y: Any = None) -> Value:
        chosen = on_booleans if n.dtype == BOOL else kind
        return g(chosen, *(operand(g, v, n.dtype) for v in (x, y) if v is not None))

    return rule


def shifted(kind: type[GraphOp]) -> Rule:
    """Bits moved; by as many as there are, or more, or less than none, nothing is left, or the sign is."""

    def rule(g: Emitter, n: Node, x: Any, y: Any) -> Value:
        x, by = operand(g, x, n.dtype), operand(g, y, n.dtype)
        bits = 8 * n.dtype.itemsize
        beyond = g(OrOp, g(CmpLtOp, by, g.like(0, by)), g(CmpGeOp, by, g.like(bits, by)))
        if kind is ShiftRightOp and n.dtype.kind == "i":
            return g(kind, x, g(SelectOp, beyond, g.like(bits - 1, by), by))
        return g(SelectOp, beyond, g.like(0, x), g(kind, x, g(SelectOp, beyond, g.like(0, by), by)))

    return rule


def scaled(kind: type[GraphOp]) -> Rule:
    """Sums and differences whose second operand has a factor."""

    def rule(g: Emitter, n: Node, x: Any, y: Any, alpha: Any = 1) -> Value:
        return combined(g, kind, n.dtype, x, y if alpha == 1 else combined(g, MulOp, n.dtype, y, alpha))

    return rule


def on_base(base: float) -> Rule:
    """A logarithm, in double precision: whole powers have whole ones."""

    def rule(g: Emitter, n: Node, x: Value) -> Value:
        wide = np.dtype(np.float64)
        result = g(DivOp, g(LogOp, cast_to(g, cast_to(g, x, n.dtype), wide)), np.array(log(base)))
        return cast_to(g, result, n.dtype)

    return rule


def exp2(g: Emitter, n: Node, x: Value) -> Value:
    """Powers of 2."""
    x = cast_to(g, x, n.dtype)
    return g(PowOp, g.like(2, x), x)


def hypot(g: Emitter, n: Node, x: Any, y: Any) -> Value:
    """The length of a vector, in double precision: its squares are not too large."""
    x, y = (operand(g, v, np.dtype(np.float64)) for v in (x, y))
    return cast_to(g, g(SqrtOp, g(AddOp, g(MulOp, x, x), g(MulOp, y, y))), n.dtype)


def unless_nan(kind: type[GraphOp]) -> Rule:
    """fmax and fmin, which take the other operand where one is NaN."""

    def rule(g: Emitter, n: Node, x: Value, y: Value) -> Value:
        if n.dtype.kind in "biu":
            return combined(g, kind, n.dtype, x, y)
        x, y = operand(g, x, n.dtype), operand(g, y, n.dtype)
        return g(SelectOp, g(IsNanOp, x), y, g(SelectOp, g(IsNanOp, y), x, g(kind, x, y)))

    return rule


def copysign(g: Emitter, n: Node, x: Any, y: Any) -> Value:
    """The size of one number, with the sign of another."""
    size = absolute(g, n, operand(g, x, n.dtype))
    return g(SelectOp, signbit(g, n, operand(g, y, n.dtype)), g(NegOp, size), size)


def copy(g: Emitter, n: Node, x: Value, new: Value, *_: Any) -> Value:
    """A tensor written over another."""
    return broadcast(g, cast_to(g, new, n.dtype), shape(x))


def angle(g: Emitter, n: Node, x: Value) -> Value:
    """0, or pi for negative numbers."""
    x = cast_to(g, x, n.dtype)
    y = g(SelectOp, g(CmpLtOp, x, g.like(0, x)), g.like(pi, x), g.like(0, x))
    return g(SelectOp, g(IsNanOp, x), x, y)


def rsub(g: Emitter, n: Node, x: Any, y: Any, alpha: Any = 1) -> Value:
    """y - alpha x."""
    return combined(g, SubOp, n.dtype, y, x if alpha == 1 else combined(g, MulOp, n.dtype, x, alpha))


def divide(g: Emitter, n: Node, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
    """A quotient, a real number or rounded to a whole one."""
    x, y = operand(g, x, n.dtype), operand(g, y, n.dtype)
    if rounding_mode == "floor":
        return g(FloorDivOp, x, y)
    quotient = g(DivOp, x, y)
    return g(TruncOp, quotient) if rounding_mode == "trunc" and n.dtype.kind not in "iu" else quotient


def power(g: Emitter, n: Node, x: Any, y: Any) -> Value:
    """A power, in the result's type."""
    return g(PowOp, operand(g, x, n.dtype), operand(g, y, n.dtype))


def where(g: Emitter, n: Node, condition: Value, x: Any, y: Any) -> Value:
    """x where the condition holds, else y."""
    return g(SelectOp, cast_to(g, condition, BOOL), operand(g, x, n.dtype), operand(g, y, n.dtype))


def clip(g: Emitter, n: Node, x: Value, low: Any = None, high: Any = None) -> Value:
    """clamp: the upper limit goes first where it is the lower one."""
    bounds = [None if b is None else operand(g, b, n.dtype) for b in (low, high)]
    x = cast_to(g, x, n.dtype)
    if all(isinstance(b, np.ndarray) and b.ndim == 0 for b in bounds) and bounds[0] > bounds[1]:  # pyright: ignore
        return broadcast(g, bounds[1], shape(x))  # pyright: ignore[reportArgumentType]
    return clamp(g, x, *bounds)


def clamped(side: str) -> Rule:
    """clamp_min and clamp_max."""
    return lambda g, n, x, bound: clip(g, n, x, **{side: bound})


def relu(g: Emitter, n: Node, x: Value) -> Value:
    """The positive part."""
    return g(ReluOp, x) if n.dtype.kind not in "iub" else g(MaxOp, x, g.like(0, x))


def gelu(g: Emitter, n: Node, x: Value, approximate: str = "none") -> Value:
    """x P(N < x)."""
    return g(GeluOp, x, approximate=approximate)


def elu(g: Emitter, n: Node, x: Value, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Value:
    """scale x above 0, below it scale alpha (exp(input_scale x) - 1)."""
    if scale == 1 and input_scale == 1:
        return g(EluOp, x, alpha=float(alpha))
    inner = x if input_scale == 1 else g(MulOp, x, g.like(input_scale, x))
    below = g(MulOp, g(Expm1Op, inner), g.like(alpha * scale, x))
    above = x if scale == 1 else g(MulOp, x, g.like(scale, x))
    return g(SelectOp, g(CmpGtOp, x, g.like(0, x)), above, below)


def softplus(g: Emitter, n: Node, x: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    """log(1 + exp(beta x)) / beta, and x where beta x is above the threshold."""
    inner = x if beta == 1 else g(MulOp, x, g.like(beta, x))
    soft = g(SoftplusOp, inner)
    soft = soft if beta == 1 else g(DivOp, soft, g.like(beta, x))
    if threshold >= 20:  # the sum is x there to the last digit, but for a billionth
        return soft
    return g(SelectOp, g(CmpGtOp, inner, g.like(threshold, x)), x, soft)


def hardtanh(g: Emitter, n: Node, x: Value, low: Any = -1, high: Any = 1) -> Value:
    """x within limits."""
    return clip(g, n, x, low, high)


def leaky_relu(g: Emitter, n: Node, x: Value, slope: Any = 0.01) -> Value:
    """x above 0, below it a part of x."""
    return g(LeakyReluOp, x, alpha=float(slope))


def prelu(g: Emitter, n: Node, x: Value, weight: Value) -> Value:
    """x above 0, below it x times a weight, one for all or for each channel."""
    if rank(x) > 1 and rank(weight) == 1 and shape(weight)[0] != 1:
        weight = g.reshape(weight, (shape(weight)[0], *(1,) * (rank(x) - 2)))
    return g(SelectOp, g(CmpGtOp, x, g.like(0, x)), x, g(MulOp, x, weight))


def atan2(g: Emitter, n: Node, y: Any, x: Any) -> Value:
    """The angle of a point."""
    y, x = operand(g, y, n.dtype), operand(g, x, n.dtype)
    zero = g.like(0, x)
    both = g(AndOp, g(IsInfOp, x), g(IsInfOp, y))  # diagonals
    one = g.like(1, x)
    ratio = g(DivOp, g(SelectOp, both, g(SignOp, y), y), g(SelectOp, both, g(SignOp, x), x))
    origin = g(AndOp, g(CmpEqOp, x, zero), g(CmpEqOp, y, zero))
    # a quotient of 1 by x has the sign of a zero
    left = g(OrOp, g(CmpLtOp, x, zero), g(AndOp, g(CmpEqOp, x, zero), g(CmpLtOp, g(DivOp, one, x), zero)))
    below = g(OrOp, g(CmpLtOp, y, zero), g(AndOp, g(CmpEqOp, y, zero), g(CmpLtOp, g(DivOp, one, y), zero)))
    angle = g(SelectOp, origin, y, g(AtanOp, ratio))
    turned = g(AddOp, g(SelectOp, origin, zero, angle), g(SelectOp, below, g.like(-pi, x), g.like(pi, x)))
    vertical = g(AndOp, g(CmpEqOp, x, zero), g(NotOp, g(CmpEqOp, y, zero)))
    upright = g(SelectOp, below, g.like(-pi / 2, x), g.like(pi / 2, x))
    return g(SelectOp, vertical, upright, g(SelectOp, left, turned, angle))


def round_to(g: Emitter, n: Node, x: Value, decimals: int) -> Value:
    """Rounded to some digits behind the point."""
    if n.dtype.kind in "iu":
        raise Decomposed("whole numbers rounded to digits")
    factor = g.like(10.0 ** abs(decimals), x)
    first, last = (MulOp, DivOp) if decimals >= 0 else (DivOp, MulOp)
    return g(last, g(RoundOp, g(first, x, factor)), factor)


def nan_to_num(g: Emitter, n: Node, x: Value, nan: Any = None, high: Any = None, low: Any = None) -> Value:
    """NaN and infinities as numbers."""
    if n.dtype.kind in "iub":
        return x
    limits = _limits(n.dtype)
    values = [nan or 0.0, limits if high is None else high, -limits if low is None else low]
    x = g(SelectOp, g(IsNanOp, x), g.like(values[0], x), x)
    x = g(SelectOp, g(CmpEqOp, x, g.like(inf, x)), g.like(values[1], x), x)
    return g(SelectOp, g(CmpEqOp, x, g.like(-inf, x)), g.like(values[2], x), x)


def _limits(dtype: np.dtype) -> float:
    from ml_dtypes import finfo

    return float(finfo(dtype).max)


def sign(g: Emitter, n: Node, x: Value) -> Value:
    """-1, 0 or 1; of booleans themselves, of NaN 0."""
    if n.dtype == BOOL or dtype_of_value(x).kind in "iu":
        return x if n.dtype == BOOL else g(SignOp, x)
    return g(SelectOp, g(IsNanOp, x), g.like(0, x), g(SignOp, x))


def signbit(g: Emitter, n: Node, x: Value) -> Value:
    """Whether a number is negative, or a negative zero."""
    zero = g.like(0, x)
    below = g(CmpLtOp, x, zero)
    if dtype_of_value(x).kind in "iub":
        return below
    return g(OrOp, below, g(AndOp, g(CmpEqOp, x, zero), g(CmpLtOp, g(DivOp, g.like(1, x), x), zero)))


def absolute(g: Emitter, n: Node, x: Value) -> Value:
    """Absolute values; unsigned numbers are theirs."""
    return x if n.dtype.kind in "ub" else g(AbsOp, x)


def is_special(kind: type[GraphOp]) -> Rule:
    """isnan and isinf, which no whole number is."""
    return lambda g, n, x: (
        broadcast(g, np.array(False), shape(x)) if dtype_of_value(x).kind in "iub" else g(kind, x)
    )


def cast(g: Emitter, n: Node, x: Value, *_: Any) -> Value:
    """_to_copy and its like: another element type."""
    return cast_to(g, x, n.dtype)


def identity(g: Emitter, n: Node, x: Value, *_: Any) -> Value:
    """The operand itself: what only memory or gradients tell apart."""
    return cast_to(g, x, n.dtype)


def same_bits(g: Emitter, n: Node, x: Value, dtype: Any) -> Value:
    """view.dtype: the same bits as numbers of another type of as many."""
    before = dtype_of_value(x)
    if before == n.dtype:
        return x
    if before.itemsize != n.dtype.itemsize or BOOL in (before, n.dtype):
        raise RuleError(f"a view of {before} as {n.dtype}, of another size")
    return g(BitCastOp, x, results=tensor(shape(x), n.dtype))


def dropout(g: Emitter, n: Node, x: Value, p: Any, train: bool | None = True) -> Any:
    """Dropout that is off."""
    if train and p:
        raise RuleError("dropout draws random numbers; export the module after .eval()")
    if n.op.startswith("aten.native"):
        return [x, broadcast(g, np.array(True), shape(x))]
    return x


def addcmul(kind: type[GraphOp]) -> Rule:
    """x + value a b, or a / b."""

    def rule(g: Emitter, n: Node, x: Value, a: Value, b: Value, value: Any = 1) -> Value:
        part = combined(g, kind, n.dtype, a, b)
        part = part if value == 1 else combined(g, MulOp, n.dtype, part, value)
        return combined(g, AddOp, n.dtype, x, part)

    return rule


UNARY: dict[str, type[GraphOp]] = {
    "acos": AcosOp, "acosh": AcoshOp, "asin": AsinOp, "asinh": AsinhOp, "atan": AtanOp, "atanh": AtanhOp,
    "cos": CosOp, "cosh": CoshOp, "erf": ErfOp, "exp": ExpOp, "expm1": Expm1Op, "hardswish": HardSwishOp,
    "log": LogOp, "log1p": Log1pOp, "mish": MishOp, "neg": NegOp, "reciprocal": ReciprocalOp,
    "rsqrt": RsqrtOp, "sigmoid": SigmoidOp, "silu": SwishOp, "sin": SinOp, "sinh": SinhOp, "sqrt": SqrtOp,
    "tan": TanOp, "tanh": TanhOp,
}  # fmt: skip
ROUNDINGS: dict[str, type[GraphOp]] = {"ceil": CeilOp, "floor": FloorOp, "round": RoundOp, "trunc": TruncOp}
BINARY: dict[str, type[GraphOp]] = {
    "floor_divide": FloorDivOp, "fmod": FmodOp, "maximum": MaxOp, "minimum": MinOp, "mul": MulOp,
    "remainder": ModOp,
}  # fmt: skip
COMPARISONS: dict[str, type[GraphOp]] = {
    "eq": CmpEqOp, "ge": CmpGeOp, "gt": CmpGtOp, "le": CmpLeOp, "lt": CmpLtOp, "ne": CmpNeOp,
}  # fmt: skip
#: Operators whose result is their operand, but for its memory or type.
IDENTITIES = (
    "alias alias_copy clone contiguous detach detach_ lift lift_fresh lift_fresh_copy positive "
    "_conj_physical conj conj_physical resolve_conj resolve_neg real view_as_real_copy"
)

RULES: dict[str, Rule] = {
    **{name: unary(kind) for name, kind in UNARY.items()},
    **{name: unary(kind, whole=True) for name, kind in ROUNDINGS.items()},
    **{name: binary(kind) for name, kind in BINARY.items()},
    **{name: comparison(kind) for name, kind in COMPARISONS.items()},
    **{name: identity for name in IDENTITIES.split()},
    "_to_copy": cast,
    "abs": absolute,
    "add": scaled(AddOp),
    "addcdiv": addcmul(DivOp),
    "addcmul": addcmul(MulOp),
    "angle": angle,
    "atan2": atan2,
    "bitwise_and": bitwise(BitwiseAndOp, AndOp),
    "bitwise_left_shift": shifted(ShiftLeftOp),
    "bitwise_not": bitwise(BitwiseNotOp, NotOp),
    "bitwise_or": bitwise(BitwiseOrOp, OrOp),
    "bitwise_right_shift": shifted(ShiftRightOp),
    "bitwise_xor": bitwise(BitwiseXorOp, XorOp),
    "clamp": clip,
    "clamp_max": clamped("high"),
    "clamp_min": clamped("low"),
    "convert_element_type": cast,
    "copy": copy,
    "copysign": copysign,
    "div": divide,
    "dropout": dropout,
    "elu": elu,
    "exp2": exp2,
    "fmax": unless_nan(MaxOp),
    "fmin": unless_nan(MinOp),
    "gelu": gelu,
    "hardsigmoid": unary(HardSigmoidOp, alpha=1 / 6, beta=0.5),
    "hardtanh": hardtanh,
    "hypot": hypot,
    "isinf": is_special(IsInfOp),
    "isnan": is_special(IsNanOp),
    "leaky_relu": leaky_relu,
    "log10": on_base(10),
    "log2": on_base(2),
    "logical_and": logical(AndOp),
    "logical_not": logical(NotOp),
    "logical_or": logical(OrOp),
    "logical_xor": logical(XorOp),
    "nan_to_num": nan_to_num,
    "native_dropout": dropout,
    "pow": power,
    "prelu": prelu,
    "_prelu_kernel": prelu,
    "relu": relu,
    "round.decimals": round_to,
    "rsub": rsub,
    "sign": sign,
    "signbit": signbit,
    "softplus": softplus,
    "sub": scaled(SubOp),
    "view.dtype": same_bits,
    "where": where,
}
