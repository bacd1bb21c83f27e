"""Rules of element-wise operators: PyTorch's type promotion, then one operator."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import tensor
from glow_dialects.ops import named
from glow_dialects.ops.activation import (
    CeluOp,
    ClipOp,
    EluOp,
    GeluOp,
    HardSigmoidOp,
    LeakyReluOp,
    LogitOp,
    SeluOp,
    SoftplusOp,
)
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MinOp, MulOp, PowOp, SubOp
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.compare import CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp
from glow_dialects.ops.elementwise import BinaryOp, CompareOp, RoundingOp, UnaryOp, UnaryTestOp
from glow_dialects.ops.logic import IsNanOp, LogicOp, NotOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.shrink import ShrinkOp
from glow_dialects.ops.signs import HeavisideOp, NanToNumOp
from glow_dialects.ops.unary_math import AbsOp, Expm1Op, RoundOp, RsqrtOp, SignOp, SqrtOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import clamp
from glow_frontends.graph.movement import broadcast
from glow_frontends.torch.node import Decomposed, Node, operand

Rule = Callable[..., Any]
BOOL = np.dtype(bool)


def unary(kind: type[GraphOp], whole: bool = False, **properties: Any) -> Rule:
    """A function of one operand, computed in the result's type; whole numbers stay where `whole` says so."""

    def rule(g: Emitter, n: Node, x: Value) -> Value:
        x = cast_to(g, x, n.dtype)
        if whole and n.dtype.kind in "biu":
            return x
        return g(kind.LOGIC if n.dtype == BOOL and kind.LOGIC else kind, x, **properties)

    return rule


def binary(kind: type[GraphOp]) -> Rule:
    """Arithmetic of two operands, tensors or numbers, in the result's type."""
    return lambda g, n, x, y: combined(g, kind, n.dtype, x, y)


def combined(g: Emitter, kind: type[GraphOp], dtype: np.dtype, x: Any, y: Any) -> Value:
    """Arithmetic in a type; of booleans logic."""
    return g(kind.LOGIC if dtype == BOOL and kind.LOGIC else kind, operand(g, x, dtype), operand(g, y, dtype))


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


def scaled(kind: type[GraphOp]) -> Rule:
    """Sums and differences whose second operand has a factor."""

    def rule(g: Emitter, n: Node, x: Any, y: Any, alpha: Any = 1) -> Value:
        return combined(g, kind, n.dtype, x, y if alpha == 1 else combined(g, MulOp, n.dtype, y, alpha))

    return rule


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


def power(g: Emitter, n: Node, x: Any, y: Any) -> Value:
    """A power; a number as the exponent means roots, which are no powers of -0 and -inf."""
    root = {0.5: SqrtOp, -0.5: RsqrtOp}.get(y) if isinstance(y, float) else None
    return combined(g, PowOp, n.dtype, x, y) if root is None else g(root, operand(g, x, n.dtype))


def where(g: Emitter, n: Node, condition: Value, x: Any, y: Any) -> Value:
    """x where the condition holds, else y."""
    return g(SelectOp, cast_to(g, condition, BOOL), operand(g, x, n.dtype), operand(g, y, n.dtype))


def clip(g: Emitter, n: Node, x: Value, low: Any = None, high: Any = None) -> Value:
    """clamp: the upper limit goes first where it is the lower one."""
    bounds = [None if b is None else operand(g, b, n.dtype) for b in (low, high)]
    x = cast_to(g, x, n.dtype)
    if all(isinstance(b, np.ndarray) and b.ndim == 0 for b in bounds) and bounds[0] > bounds[1]:  # pyright: ignore
        return broadcast(g, bounds[1], shape(x))  # pyright: ignore[reportArgumentType]
    if all(b is None or isinstance(b, np.ndarray) and b.ndim == 0 for b in bounds):
        return clamp(g, x, *bounds)
    for bound, better, kind in zip(bounds, (CmpGeOp, CmpLeOp), (MaxOp, MinOp), strict=True):
        if bound is not None:  # a number at its bound passes the gradient, and the bound does not
            x = g(SelectOp, g(better, x, bound), x, g(kind, x, bound))
    return x


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
    if input_scale == 1:
        return g(EluOp, x, alpha=float(alpha)) if scale == 1 else g(SeluOp, x, alpha=alpha, gamma=scale)
    positive = g(CmpGtOp, x, g.like(0, x))
    # Nothing overflows above 0: the gradient would be NaN.
    inner = g(MulOp, g(SelectOp, positive, g.like(0, x), x), g.like(input_scale, x))
    below = g(MulOp, g(Expm1Op, inner), g.like(alpha * scale, x))
    above = x if scale == 1 else g(MulOp, x, g.like(scale, x))
    return g(SelectOp, positive, above, below)


def celu(g: Emitter, n: Node, x: Value, alpha: Any = 1) -> Value:
    """x above 0, below it alpha (exp(x / alpha) - 1)."""
    return g(CeluOp, x, alpha=float(alpha))


def softplus(g: Emitter, n: Node, x: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    """log(1 + exp(beta x)) / beta, and x where beta x is above the threshold."""
    inner = x if beta == 1 else g(MulOp, x, g.like(beta, x))
    soft = g(SoftplusOp, inner)
    soft = soft if beta == 1 else g(DivOp, soft, g.like(beta, x))
    if threshold >= 20:  # the sum is x there to the last digit, but for a billionth
        return soft
    return g(SelectOp, g(CmpGtOp, inner, g.like(threshold, x)), x, soft)


def hardtanh(g: Emitter, n: Node, x: Value, low: Any = -1, high: Any = 1) -> Value:
    """x within limits, which themselves pass no gradient."""
    if n.dtype.kind in "biu" or low > high:
        return clip(g, n, x, low, high)
    return g(ClipOp, cast_to(g, x, n.dtype), min=float(low), max=float(high), strict=True)


def leaky_relu(g: Emitter, n: Node, x: Value, slope: Any = 0.01) -> Value:
    """x above 0, below it a part of x."""
    return g(LeakyReluOp, x, alpha=float(slope))


def prelu(g: Emitter, n: Node, x: Value, weight: Value) -> Value:
    """x above 0, below it x times a weight, one for all or for each channel."""
    if rank(x) > 1 and rank(weight) == 1 and shape(weight)[0] != 1:
        weight = g.reshape(weight, (shape(weight)[0], *(1,) * (rank(x) - 2)))
    return g(SelectOp, g(CmpGtOp, x, g.like(0, x)), x, g(MulOp, x, weight))


def round_to(g: Emitter, n: Node, x: Value, decimals: int) -> Value:
    """Rounded to some digits behind the point."""
    if n.dtype.kind in "iu":
        raise Decomposed("integers rounded to digits")
    factor = g.like(10.0 ** abs(decimals), x)
    first, last = (MulOp, DivOp) if decimals >= 0 else (DivOp, MulOp)
    return g(last, g(RoundOp, g(first, x, factor)), factor)


def nan_to_num(g: Emitter, n: Node, x: Value, nan: Any = None, high: Any = None, low: Any = None) -> Value:
    """NaN and infinities as numbers."""
    return x if n.dtype.kind in "iub" else g(NanToNumOp, x, nan=nan or 0.0, posinf=high, neginf=low)


def shrink(soft: bool) -> Rule:
    """softshrink and hardshrink: what is near 0 is 0, what is not is nearer to it, or as it was."""
    return lambda g, n, x, limit=0.5: g(ShrinkOp, x, lambd=float(limit), bias=float(limit) if soft else 0.0)


def logit(g: Emitter, n: Node, x: Value, eps: Any = None) -> Value:
    """The inverse of the sigmoid."""
    return g(LogitOp, cast_to(g, x, n.dtype), eps=-1.0 if eps is None else float(eps))


def sign(g: Emitter, n: Node, x: Value) -> Value:
    """-1, 0 or 1, of NaN 0; of booleans themselves."""
    if n.dtype == BOOL:
        return x
    y = g(SignOp, x)
    return y if n.dtype.kind in "iu" else g(SelectOp, g(IsNanOp, x), g.like(0, x), y)


def heaviside(g: Emitter, n: Node, x: Value, y: Value) -> Value:
    """0 below 0, 1 above, y at 0; of NaN 0, unlike NumPy's."""
    step = g(HeavisideOp, x, y)
    return step if n.dtype.kind in "iu" else g(SelectOp, g(IsNanOp, x), g.like(0, x), step)


def absolute(g: Emitter, n: Node, x: Value) -> Value:
    """Absolute values; unsigned numbers are theirs."""
    return x if n.dtype.kind in "ub" else g(AbsOp, x)


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


def fma(g: Emitter, n: Node, x: Any, y: Any, z: Any) -> Value:
    """x y + z."""
    a, b, c = (operand(g, v, n.dtype) for v in (x, y, z))
    return g(AddOp, g(MulOp, a, b), c)


def addcmul(kind: type[GraphOp]) -> Rule:
    """x + value a b, or a / b."""

    def rule(g: Emitter, n: Node, x: Value, a: Value, b: Value, value: Any = 1) -> Value:
        part = combined(g, kind, n.dtype, a, b)
        part = part if value == 1 else combined(g, MulOp, n.dtype, part, value)
        return combined(g, AddOp, n.dtype, x, part)

    return rule


def test(kind: type[GraphOp]) -> Rule:
    """A question about each element."""
    return lambda g, n, x: g(kind, x)


def rule_of(kind: type[GraphOp]) -> Rule | None:
    """The rule of a card by its family; None where attributes make one of their own."""
    if issubclass(kind, CompareOp):
        return comparison(kind)
    if issubclass(kind, LogicOp | NotOp):
        return logical(kind)
    if issubclass(kind, UnaryTestOp):
        return test(kind)
    if issubclass(kind, UnaryOp):
        return unary(kind, whole=issubclass(kind, RoundingOp))
    return binary(kind) if issubclass(kind, BinaryOp) else None


#: Operators whose result is their operand, but for its memory or type.
IDENTITIES = (
    "alias alias_copy clone contiguous detach detach_ lift lift_fresh lift_fresh_copy positive "
    "_conj_physical conj conj_physical resolve_conj resolve_neg real view_as_real_copy"
)

RULES: dict[str, Rule] = {
    **{name: rule for name, kind in named("TORCH").items() if (rule := rule_of(kind)) is not None},
    **{name: identity for name in IDENTITIES.split()},
    "_to_copy": cast,
    "abs": absolute,
    "add": scaled(AddOp),
    "addcdiv": addcmul(DivOp),
    "addcmul": addcmul(MulOp),
    "angle": angle,
    "celu": celu,
    "clamp": clip,
    "clamp_max": clamped("high"),
    "clamp_min": clamped("low"),
    "convert_element_type": cast,
    "copy": copy,
    "dropout": dropout,
    "elu": elu,
    "fma": fma,
    "gelu": gelu,
    "hardshrink": shrink(False),
    "hardsigmoid": unary(HardSigmoidOp, alpha=1 / 6, beta=0.5),
    "hardtanh": hardtanh,
    "heaviside": heaviside,
    "leaky_relu": leaky_relu,
    "logit": logit,
    "nan_to_num": nan_to_num,
    "native_dropout": dropout,
    "pow": power,
    "prelu": prelu,
    "_prelu_kernel": prelu,
    "relu": relu,
    "round.decimals": round_to,
    "rsub": rsub,
    "sign": sign,
    "softplus": softplus,
    "softshrink": shrink(True),
    "sub": scaled(SubOp),
    "view.dtype": same_bits,
    "where": where,
}
