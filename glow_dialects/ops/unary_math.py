"""Mathematical functions of one operand, element by element."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, dtype_of
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp, SubOp, negated
from glow_dialects.ops.elementwise import FloatUnaryOp, UnaryOp, unary


def _no_gradient(op: Any, dy: SSAValue, b: Builder) -> None:
    """Piecewise constant: the derivative is zero wherever it exists."""
    return None


def _integers_kept(function: Any) -> Any:
    """A rounding: integers are themselves."""

    def rounded(x: Array) -> Array:
        return x if x.dtype.kind in "iub" else function(x)

    return rounded


def _times(dy: SSAValue, factor: SSAValue, b: Builder) -> SSAValue:
    return b(MulOp(dy, factor))


def _one_plus(x: SSAValue, b: Builder) -> SSAValue:
    return b(AddOp(x, b.scalar(1, x)))


def _one_minus(x: SSAValue, b: Builder) -> SSAValue:
    return b(SubOp(b.scalar(1, x), x))


def _square(x: SSAValue, b: Builder) -> SSAValue:
    return b(MulOp(x, x))


class NumberUnaryOp(UnaryOp):
    """A function of numbers: booleans are refused."""

    def check(self) -> None:
        kind = self.operands[0].type
        if dtype_of(kind).kind == "b":
            raise VerifyException(f"{self.name}: the operand must be of numbers, got {kind}")


NegOp = unary("neg", "-x", np.negative, lambda op, dy, b: negated(dy, b), base=NumberUnaryOp)
AbsOp = unary("abs", "|x|", np.abs, lambda op, dy, b: _times(dy, b(SignOp(op.input)), b))
FloorOp = unary("floor", "The largest integer <= x", _integers_kept(np.floor), _no_gradient)
CeilOp = unary("ceil", "The smallest integer >= x", _integers_kept(np.ceil), _no_gradient)
RoundOp = unary("round", "The nearest integer, ties to even", _integers_kept(np.rint), _no_gradient)
SignOp = unary("sign", "-1, 0 or 1; NaN for NaN", np.sign, _no_gradient, base=NumberUnaryOp)
TruncOp = unary("trunc", "x without its fraction", _integers_kept(np.trunc), _no_gradient)
# inG = outG / (2 out)
SqrtOp = unary(
    "sqrt",
    "Square root; NaN below 0",
    np.sqrt,
    lambda op, dy, b: b(DivOp(_times(dy, b.scalar(0.5, dy), b), op.result)),
    base=FloatUnaryOp,
)
# inG = -outG out^3 / 2
RsqrtOp = unary(
    "rsqrt",
    "1 / sqrt(x)",
    lambda x: 1 / np.sqrt(x),
    lambda op, dy, b: _times(
        _times(dy, b.scalar(-0.5, dy), b), _times(op.result, _square(op.result, b), b), b
    ),
    lambda op, b: b(ReciprocalOp(b(SqrtOp(op.input)))),
    base=FloatUnaryOp,
)
ReciprocalOp = unary(
    "reciprocal",
    "1 / x",
    lambda x: x.dtype.type(1) / x,
    lambda op, dy, b: negated(_times(dy, _square(op.result, b), b), b),
    lambda op, b: b(DivOp(b.scalar(1, op.input), op.input)),
    base=FloatUnaryOp,
)
SinOp = unary("sin", "sin x", np.sin, lambda op, dy, b: _times(dy, b(CosOp(op.input)), b), base=FloatUnaryOp)
CosOp = unary(
    "cos", "cos x", np.cos, lambda op, dy, b: negated(_times(dy, b(SinOp(op.input)), b), b), base=FloatUnaryOp
)
TanOp = unary(
    "tan",
    "tan x",
    np.tan,
    lambda op, dy, b: _times(dy, _one_plus(_square(op.result, b), b), b),
    lambda op, b: b(DivOp(b(SinOp(op.input)), b(CosOp(op.input)))),
    base=FloatUnaryOp,
)
# asin' = 1 / sqrt(1 - x^2)
AsinOp = unary(
    "asin",
    "Inverse sine",
    np.arcsin,
    lambda op, dy, b: b(DivOp(dy, b(SqrtOp(_one_minus(_square(op.input, b), b))))),
    base=FloatUnaryOp,
)
AcosOp = unary(
    "acos",
    "Inverse cosine",
    np.arccos,
    lambda op, dy, b: negated(b(DivOp(dy, b(SqrtOp(_one_minus(_square(op.input, b), b))))), b),
    base=FloatUnaryOp,
)
AtanOp = unary(
    "atan",
    "Inverse tangent",
    np.arctan,
    lambda op, dy, b: b(DivOp(dy, _one_plus(_square(op.input, b), b))),
    base=FloatUnaryOp,
)
SinhOp = unary(
    "sinh",
    "Hyperbolic sine",
    np.sinh,
    lambda op, dy, b: _times(dy, b(CoshOp(op.input)), b),
    base=FloatUnaryOp,
)
CoshOp = unary(
    "cosh",
    "Hyperbolic cosine",
    np.cosh,
    lambda op, dy, b: _times(dy, b(SinhOp(op.input)), b),
    base=FloatUnaryOp,
)
AsinhOp = unary(
    "asinh",
    "Inverse hyperbolic sine",
    np.arcsinh,
    lambda op, dy, b: b(DivOp(dy, b(SqrtOp(_one_plus(_square(op.input, b), b))))),
    base=FloatUnaryOp,
)


def _acosh_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    # acosh' = 1 / sqrt(x^2 - 1)
    below = b(SubOp(_square(op.input, b), b.scalar(1, op.input)))
    return b(DivOp(dy, b(SqrtOp(below))))


AcoshOp = unary("acosh", "Inverse hyperbolic cosine", np.arccosh, _acosh_gradient, base=FloatUnaryOp)
AtanhOp = unary(
    "atanh",
    "Inverse hyperbolic tangent",
    np.arctanh,
    lambda op, dy, b: b(DivOp(dy, _one_minus(_square(op.input, b), b))),
    base=FloatUnaryOp,
)
ExpOp = unary("exp", "e^x", np.exp, lambda op, dy, b: _times(dy, op.result, b), base=FloatUnaryOp)
LogOp = unary("log", "Natural logarithm", np.log, lambda op, dy, b: b(DivOp(dy, op.input)), base=FloatUnaryOp)
Log1pOp = unary(
    "log1p", "log(1 + x)", np.log1p, lambda op, dy, b: b(DivOp(dy, _one_plus(op.input, b))), base=FloatUnaryOp
)
Expm1Op = unary(
    "expm1", "e^x - 1", np.expm1, lambda op, dy, b: _times(dy, _one_plus(op.result, b), b), base=FloatUnaryOp
)


#: The table of erf covers |x| < 6 at this spacing; beyond it erf is 1 to the last bit.
_ERF_STEP, _ERF_END, _ERF_ORDER = 1 / 16, 6.0, 9


@cache
def _erf_table() -> Array:
    """Taylor coefficients of erf around each multiple of the spacing, [order + 1, places].

    With u(h) = e^-(c + h)^2 = sum a_n h^n: u' = -2 (c + h) u, so (n + 1) a_(n + 1) = -2 (c a_n + a_(n - 1)).
    """
    centre = np.arange(0, _ERF_END + _ERF_STEP, _ERF_STEP)
    density = [2 / math.sqrt(math.pi) * np.exp(-centre * centre)]
    density.append(-2 * centre * density[0])
    for n in range(1, _ERF_ORDER - 1):
        density.append(-2 / (n + 1) * (centre * density[n] + density[n - 1]))
    value = np.array([math.erf(c) for c in centre])
    return np.stack([value, *(d / (n + 1) for n, d in enumerate(density))])


def erf(x: Array) -> Array:
    """The error function in x's dtype, exact to the rounding of float64."""
    wide = np.abs(x.astype(np.float64))
    inside = np.minimum(wide, _ERF_END)
    place = np.rint(np.where(np.isnan(inside), 0, inside) / _ERF_STEP).astype(np.int64)
    offset = inside - place * _ERF_STEP
    table = _erf_table()
    value = np.take(table[-1], place)
    for row in table[-2::-1]:
        value = value * offset + np.take(row, place)
    return np.copysign(value, x).astype(x.dtype)


def _erf_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    # erf' = 2 / sqrt(pi) * e^(-x^2)
    bell = b(ExpOp(negated(_square(op.input, b), b)))
    return _times(dy, _times(bell, b.scalar(2 / math.sqrt(math.pi), bell), b), b)


ErfOp = unary("erf", "The error function", erf, _erf_gradient, base=FloatUnaryOp)

_ANY, _POSITIVE = random(3, 4, low=-2, high=2), random(3, 4, low=0.3, high=3)
_UNIT, _ABOVE = random(3, 4, low=-0.9, high=0.9), random(3, 4, low=1.2, high=3)

_ODD = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, 3.5e7], np.float32)

SAMPLES = (
    *(
        Sample(op, (_ANY,))
        for op in (
            NegOp, AbsOp, FloorOp, CeilOp, RoundOp, SignOp, TruncOp, SinOp, CosOp, AtanOp, SinhOp,
            CoshOp, AsinhOp, ExpOp, Expm1Op, ErfOp,
        )
    ),
    *(Sample(op, (_POSITIVE,)) for op in (SqrtOp, RsqrtOp, ReciprocalOp, LogOp, Log1pOp)),
    *(Sample(op, (_UNIT,)) for op in (TanOp, AsinOp, AcosOp, AtanhOp)),
    Sample(AcoshOp, (_ABOVE,)),
    *(
        Sample(op, (random(3, 4, dtype="int32", low=-9, high=9),), smooth=False)
        for op in (NegOp, AbsOp, SignOp, FloorOp)
    ),
    *(
        Sample(op, (_POSITIVE.astype(kind) / 4,), smooth=False)
        for op in (SqrtOp, ExpOp, LogOp, ErfOp, SinOp, FloorOp, AbsOp, NegOp, SignOp)
        for kind in ("float64", "float16")
    ),
    *(
        Sample(op, (random(9, dtype=kind, low=0, high=9),), smooth=False)
        for op in (NegOp, AbsOp, SignOp)
        for kind in ("int8", "uint8", "int64")
    ),
    *(
        Sample(op, (_ODD,), smooth=False)
        for op in (AbsOp, SignOp, FloorOp, RoundOp, SqrtOp, ExpOp, LogOp, ErfOp)
    ),
    Sample(RoundOp, (np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32),), smooth=False),
)  # fmt: skip
