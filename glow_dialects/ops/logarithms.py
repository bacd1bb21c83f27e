"""Logarithms and powers of other bases, and sums of exponentials."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random, special_pairs
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array
from glow_dialects.ops.activation import SigmoidOp
from glow_dialects.ops.elementwise import FloatBinaryOp, FloatUnaryOp, Pair
from glow_dialects.ops.logic import IsNanOp
from glow_dialects.ops.unary_math import Log1pOp, RoundOp


class LogarithmOp(FloatUnaryOp):
    """The logarithm to a base: whole where x is a whole power of it."""

    MAGNIFIES = 0
    BASE: ClassVar[int]

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy / (x * math.log(self.BASE))

    def formula(self, x: Term) -> Term:
        y = x.log() * (1 / math.log(self.BASE))
        # What is rounded twice lies up to two units in the last place beside a whole number.
        whole = y.apply(RoundOp)
        return (abs(whole) * (2 * x.epsilon) >= abs(y - whole)).where(whole, y)


@graph_op
class Log2Op(LogarithmOp):
    """The logarithm to base 2"""

    name = "glow.log2"
    BASE = 2
    TORCH = "log2"
    NUMPY = np.log2


@graph_op
class Log10Op(LogarithmOp):
    """The logarithm to base 10"""

    name = "glow.log10"
    BASE = 10
    TORCH = "log10"
    NUMPY = np.log10


@graph_op
class Exp2Op(FloatUnaryOp):
    """2^x"""

    name = "glow.exp2"
    RANGE = (0, math.inf)
    TORCH = "exp2"
    NUMPY = np.exp2

    def derivative(self, x: Term, y: Term) -> Term:
        return y * math.log(2)

    def formula(self, x: Term) -> Term:
        return x.of(2) ** x


class SumOfPowersOp(FloatBinaryOp):
    """log(b^lhs + b^rhs) to a base b, from the larger of the two."""

    COMMUTATIVE = True
    #: The logarithm of the base.
    SCALE: ClassVar[float]

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        left = dy * ((x - y) * self.SCALE).apply(SigmoidOp)
        return left, dy - left

    def formula(self, x: Term, y: Term) -> Term:
        less = -abs(x - y) if self.SCALE == 1 else abs(x - y) * -self.SCALE
        more = less.exp().apply(Log1pOp)
        # The difference of equal infinities is no number.
        more = x.equals(y).where(math.log(2), more)
        return x.maximum(y) + (more if self.SCALE == 1 else more * (1 / self.SCALE))


@graph_op
class LogaddexpOp(SumOfPowersOp):
    """log(e^lhs + e^rhs)"""

    name = "glow.logaddexp"
    SCALE = 1.0
    TORCH = "logaddexp"
    NUMPY = np.logaddexp


@graph_op
class Logaddexp2Op(SumOfPowersOp):
    """log2(2^lhs + 2^rhs)"""

    name = "glow.logaddexp2"
    SCALE = math.log(2)
    TORCH = "logaddexp2"
    NUMPY = np.logaddexp2


def _unless_zero(x: Term, y: Term, logarithm: Term) -> Term:
    return y.apply(IsNanOp).where(y, x.equals(0).where(0, x * logarithm))


@graph_op
class XlogyOp(FloatBinaryOp):
    """lhs log(rhs), 0 where lhs is 0"""

    name = "glow.xlogy"
    TORCH = "xlogy special_xlogy"

    def function(self, x: Array, y: Array) -> Array:
        return np.where((x == 0) & ~np.isnan(y), x.dtype.type(0), x * np.log(y))

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        flat = x.equals(0) & (y <= 0)
        return flat.where(0, dy * y.log()), dy * x / y

    def formula(self, x: Term, y: Term) -> Term:
        return _unless_zero(x, y, y.log())


@graph_op
class Xlog1pyOp(FloatBinaryOp):
    """lhs log(1 + rhs), 0 where lhs is 0"""

    name = "glow.xlog1py"
    TORCH = "special_xlog1py"

    def function(self, x: Array, y: Array) -> Array:
        return np.where((x == 0) & ~np.isnan(y), x.dtype.type(0), x * np.log1p(y))

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        flat = x.equals(0) & (y <= -1)
        return flat.where(0, dy * y.apply(Log1pOp)), dy * x / (y + 1)

    def formula(self, x: Term, y: Term) -> Term:
        return _unless_zero(x, y, y.apply(Log1pOp))


_X, _Y = random(3, 4, low=0.2, high=3), random(4, low=0.2, high=3, seed=1)
_POWERS = np.array([8, 1024, 2**-20, 1e-3, 1000, 3, 0, -0.0, np.inf, 1, -1, np.nan, 1e-40], np.float32)
_EXPONENTS = np.array([0, 10, -20, 127, 128, -149, 0.5, np.inf, -np.inf, np.nan], np.float32)
_LOGARITHMS = (Log2Op, Log10Op)
_PAIRS = (LogaddexpOp, Logaddexp2Op, XlogyOp, Xlog1pyOp)

SAMPLES = (
    *(Sample(op, (_X,)) for op in (*_LOGARITHMS, Exp2Op)),
    *(
        Sample(op, (x.astype(kind),), smooth=False)
        for op, x in (*((op, _POWERS) for op in _LOGARITHMS), (Exp2Op, _EXPONENTS))
        for kind in ("float32", "float64")
    ),
    *(Sample(op, (_X.astype(np.float16),), smooth=False) for op in (*_LOGARITHMS, Exp2Op)),
    *(Sample(op, (_X, _Y)) for op in _PAIRS),
    *(Sample(op, special_pairs(kind), smooth=False) for op in _PAIRS for kind in ("f4", "f8")),
)
