"""Signs, classes and neighbours of floats: copysign signbit heaviside, fmax fmin, nextafter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.properties import float_prop, opt_float_prop
from glow_dialects.core.sample import Sample, random, special_pairs
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, dtype_of, element_type, is_float, tensor, typed
from glow_dialects.ops.arithmetic import shares
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.elementwise import (
    BinaryOp,
    FloatBinaryOp,
    NumberUnaryOp,
    Pair,
    UnaryTestOp,
)
from glow_dialects.ops.logic import IsNanOp
from glow_dialects.ops.unary_math import SignOp, TruncOp


@graph_op
class SignbitOp(UnaryTestOp):
    """Whether a number is negative, or a negative zero"""

    name = "glow.signbit"
    TORCH = "signbit"
    NUMPY = np.signbit

    def formula(self, x: Term) -> Term:
        below = x < 0
        return below | (1 / x < 0) if is_float(x.element) else below


@graph_op
class CopysignOp(FloatBinaryOp):
    """|lhs| with the sign of rhs"""

    name = "glow.copysign"
    HOMOGENEOUS = True
    TORCH = "copysign"
    NUMPY = np.copysign

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        return dy * x.apply(SignOp) * x.of(1).apply(CopysignOp, y), None

    def formula(self, x: Term, y: Term) -> Term:
        size = abs(x)
        return y.apply(SignbitOp).where(-size, size)


@graph_op
class HeavisideOp(BinaryOp):
    """0 below 0, 1 above, rhs at 0"""

    name = "glow.heaviside"
    TORCH = "heaviside"
    NUMPY = np.heaviside

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        return None, x.equals(0).where(dy, 0)

    def formula(self, x: Term, y: Term) -> Term:
        step = (x > 0).where(x.of(1), (x < 0).where(0, x))
        return x.equals(0).where(y, step)


class NumberExtremeOp(BinaryOp):
    """The larger or smaller of two numbers; of a number and NaN the number."""

    COMMUTATIVE = True

    def better(self, x: Term, y: Term) -> Term:
        """Whether x is the one, where neither is NaN."""
        raise NotImplementedError(self.name)

    def _wins(self, x: Term, y: Term) -> Term:
        better = self.better(x, y)
        return better | y.apply(IsNanOp) if is_float(x.element) else better

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        wins = self._wins(x, y)
        return shares(dy, wins, wins | x.equals(y))

    def formula(self, x: Term, y: Term) -> Term:
        return self._wins(x, y).where(x, y)


@graph_op
class FmaxOp(NumberExtremeOp):
    """The larger of lhs and rhs; NaN if both are"""

    name = "glow.fmax"
    TORCH = "fmax"
    NUMPY = np.fmax

    def better(self, x: Term, y: Term) -> Term:
        return x >= y


@graph_op
class FminOp(NumberExtremeOp):
    """The smaller of lhs and rhs; NaN if both are"""

    name = "glow.fmin"
    TORCH = "fmin"
    NUMPY = np.fmin

    def better(self, x: Term, y: Term) -> Term:
        return x <= y


@graph_op
class IsFiniteOp(UnaryTestOp):
    """Whether x is neither NaN nor infinite"""

    name = "glow.is_finite"
    TORCH = "isfinite"
    STABLEHLO = "is_finite"
    NUMPY = np.isfinite
    PYTHON = "isfinite"

    def formula(self, x: Term) -> Term:
        return abs(x) < math.inf if is_float(x.element) else x.equals(x)


@graph_op
class NanToNumOp(NumberUnaryOp):
    """x with numbers in place of NaN, +inf and -inf: by default 0 and the largest ones"""

    name = "glow.nan_to_num"
    nan = float_prop(0.0)
    posinf = opt_float_prop()
    neginf = opt_float_prop()
    TORCH = "nan_to_num"

    def _limits(self, dtype: np.dtype) -> tuple[float, float]:
        most = float(ml_dtypes.finfo(dtype).max)
        high, low = self.posinf, self.neginf
        return most if high is None else high, -most if low is None else low

    MEANING = ("reference", "function", "_limits")

    def reference(self, result: Array, input: Array) -> None:
        if input.dtype.kind in "iu":
            result[...] = input
            return
        high, low = self._limits(result.dtype)
        wide = input.astype(np.float64)
        wide = np.where(np.isnan(wide), self.nan, np.where(wide == np.inf, high, wide))
        with np.errstate(all="ignore"):
            result[...] = np.where(wide == -np.inf, low, wide).astype(result.dtype)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return x.apply(IsFiniteOp).where(dy, 0)

    def formula(self, x: Term) -> Term:
        if not is_float(x.element):
            return x
        high, low = self._limits(dtype_of(typed(self.result)))
        x = x.apply(IsNanOp).where(self.nan, x.equals(math.inf).where(high, x))
        return x.equals(-math.inf).where(low, x)


@graph_op
class RoundAwayOp(NumberUnaryOp):
    """The nearest integer, halves away from zero"""

    name = "glow.round_away"
    STABLEHLO = "round_nearest_afz"

    def function(self, x: Array) -> Array:
        if x.dtype.kind in "iu":
            return x
        whole = np.trunc(x)
        return np.copysign(np.abs(whole) + (np.abs(x - whole) >= 0.5), x).astype(x.dtype)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term | None:
        return None

    def formula(self, x: Term) -> Term:
        if not is_float(x.element):
            return x
        size = abs(x)
        whole = size.apply(TruncOp)
        return (size - whole >= 0.5).where(whole + 1, whole).apply(CopysignOp, x)


@graph_op
class NextafterOp(FloatBinaryOp):
    """The next number from lhs towards rhs, of f32 or f64"""

    name = "glow.nextafter"
    TORCH = "nextafter"
    STABLEHLO = "chlo.next_after"
    NUMPY = np.nextafter

    def infer(self) -> Sequence[Attribute]:
        if dtype_of(typed(self.lhs)).itemsize < 4:
            raise VerifyException(f"{self.name}: operands must be f32 or f64, got {self.lhs.type}")
        return super().infer()

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        return dy, None

    def formula(self, x: Term, y: Term) -> Term:
        whole, real = element_type(f"int{8 * dtype_of(typed(x.value)).itemsize}"), x.element

        def cast(v: Term, element: Attribute) -> Term:
            return v.apply(BitCastOp, results=tensor(v.shape, element))

        bits = cast(x, whole)
        outwards = (y > x).equals(x > 0)
        moved = cast(outwards.where(bits + 1, bits - 1), real)
        least = cast((bits * 0 + 1), real).apply(CopysignOp, y)
        moved = x.equals(0).where(least, moved)
        unequal = x.equals(y).where(y, moved)
        return (x.apply(IsNanOp) | y.apply(IsNanOp)).where(x + y, unequal)


_X, _Y = random(3, 4, low=-3, high=3), random(4, low=-3, high=3, seed=1)
_ODD = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, 3.5e7, -0.5, 0.49999997, 2.5, -1.5], np.float32)
_WHOLE = random(3, 4, dtype="int32", low=-9, high=9)
_TESTS = (SignbitOp, IsFiniteOp, NanToNumOp, RoundAwayOp)
_PAIRS = (CopysignOp, HeavisideOp, FmaxOp, FminOp)

SAMPLES = (
    *(Sample(op, (x,), smooth=False) for op in _TESTS for x in (_ODD, _ODD.astype(np.float64), _X)),
    *(Sample(op, (random(5, dtype="int32", low=-9, high=9),), smooth=False) for op in _TESTS),
    Sample(NanToNumOp, (_ODD,), {"nan": 1.0, "posinf": 2.0, "neginf": -3.0}, smooth=False),
    Sample(NanToNumOp, (_X,)),
    *(Sample(op, (_X, _Y)) for op in (CopysignOp, FmaxOp, FminOp)),
    *(
        Sample(op, special_pairs(kind), smooth=False)
        for op in (*_PAIRS, NextafterOp)
        for kind in ("f4", "f8")
    ),
    *(
        Sample(op, (random(3, 4, dtype="int32", low=-9, high=9),) * 2, smooth=False)
        for op in (FmaxOp, FminOp)
    ),
)
