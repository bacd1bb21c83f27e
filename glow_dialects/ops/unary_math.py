"""Mathematical functions of one operand, element by element."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array
from glow_dialects.ops.elementwise import FloatUnaryOp, NumberUnaryOp, RoundingOp, UnaryOp


@graph_op
class NegOp(NumberUnaryOp):
    """-x"""

    name = "glow.neg"
    ONNX = "Neg"
    TORCH = "neg"
    STABLEHLO = "negate"
    HOMOGENEOUS = True
    NUMPY = np.negative

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return -dy


@graph_op
class AbsOp(UnaryOp):
    """|x|"""

    name = "glow.abs"
    ONNX = "Abs"
    TORCH = "abs"
    STABLEHLO = "abs"
    HOMOGENEOUS = True
    RANGE = (0, math.inf)
    NUMPY = np.abs

    def derivative(self, x: Term, y: Term) -> Term:
        return x.apply(SignOp)


@graph_op
class FloorOp(RoundingOp):
    """The largest integer <= x"""

    name = "glow.floor"
    ONNX = "Floor"
    TORCH = "floor"
    STABLEHLO = "floor"
    NUMPY = np.floor


@graph_op
class CeilOp(RoundingOp):
    """The smallest integer >= x"""

    name = "glow.ceil"
    ONNX = "Ceil"
    TORCH = "ceil"
    STABLEHLO = "ceil"
    NUMPY = np.ceil


@graph_op
class RoundOp(RoundingOp):
    """The nearest integer, ties to even"""

    name = "glow.round"
    ONNX = "Round"
    TORCH = "round"
    STABLEHLO = "round_nearest_even"
    NUMPY = np.rint


@graph_op
class SignOp(NumberUnaryOp):
    """-1, 0 or 1; NaN for NaN"""

    name = "glow.sign"
    ONNX = "Sign"
    TORCH = "sign"
    STABLEHLO = "sign"
    NUMPY = np.sign

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term | None:
        return None


@graph_op
class TruncOp(RoundingOp):
    """x without its fraction"""

    name = "glow.trunc"
    TORCH = "trunc"
    PYTHON = "fix"
    NUMPY = np.trunc


@graph_op
class SqrtOp(FloatUnaryOp):
    """Square root; NaN below 0"""

    name = "glow.sqrt"
    ONNX = "Sqrt"
    TORCH = "sqrt"
    STABLEHLO = "sqrt"
    HOMOGENEOUS = True
    MAGNIFIES = 0
    NUMPY = np.sqrt

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy * 0.5 / y


@graph_op
class RsqrtOp(FloatUnaryOp):
    """1 / sqrt(x)"""

    name = "glow.rsqrt"
    TORCH = "rsqrt"
    STABLEHLO = "rsqrt"
    MAGNIFIES = 0

    def function(self, x: Array) -> Array:
        return 1 / np.sqrt(x)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy * -0.5 * (y * (y * y))

    def formula(self, x: Term) -> Term:
        return x.sqrt().apply(ReciprocalOp)


@graph_op
class ReciprocalOp(FloatUnaryOp):
    """1 / x"""

    name = "glow.reciprocal"
    ONNX = "Reciprocal"
    TORCH = "reciprocal"
    MAGNIFIES = 0

    def function(self, x: Array) -> Array:
        return x.dtype.type(1) / x

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return -(dy * (y * y))

    def formula(self, x: Term) -> Term:
        return 1 / x


@graph_op
class SinOp(FloatUnaryOp):
    """sin x"""

    name = "glow.sin"
    ONNX = "Sin"
    TORCH = "sin"
    STABLEHLO = "sine"
    NUMPY = np.sin

    def derivative(self, x: Term, y: Term) -> Term:
        return x.apply(CosOp)


@graph_op
class CosOp(FloatUnaryOp):
    """cos x"""

    name = "glow.cos"
    ONNX = "Cos"
    TORCH = "cos"
    STABLEHLO = "cosine"
    NUMPY = np.cos

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return -(dy * x.apply(SinOp))


@graph_op
class TanOp(FloatUnaryOp):
    """tan x"""

    name = "glow.tan"
    ONNX = "Tan"
    TORCH = "tan"
    STABLEHLO = "tan chlo.tan"
    NUMPY = np.tan

    def derivative(self, x: Term, y: Term) -> Term:
        return y * y + 1

    def formula(self, x: Term) -> Term:
        return x.apply(SinOp) / x.apply(CosOp)


@graph_op
class AsinOp(FloatUnaryOp):
    """Inverse sine"""

    name = "glow.asin"
    ONNX = "Asin"
    TORCH = "asin"
    STABLEHLO = "chlo.asin"
    NUMPY = np.arcsin

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy / (1 - x * x).sqrt()


@graph_op
class AcosOp(FloatUnaryOp):
    """Inverse cosine"""

    name = "glow.acos"
    ONNX = "Acos"
    TORCH = "acos"
    STABLEHLO = "chlo.acos"
    NUMPY = np.arccos

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return -(dy / (1 - x * x).sqrt())


@graph_op
class AtanOp(FloatUnaryOp):
    """Inverse tangent"""

    name = "glow.atan"
    ONNX = "Atan"
    TORCH = "atan"
    STABLEHLO = "chlo.atan"
    NUMPY = np.arctan

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy / (x * x + 1)


@graph_op
class SinhOp(FloatUnaryOp):
    """Hyperbolic sine"""

    name = "glow.sinh"
    ONNX = "Sinh"
    TORCH = "sinh"
    STABLEHLO = "chlo.sinh"
    NUMPY = np.sinh

    def derivative(self, x: Term, y: Term) -> Term:
        return x.apply(CoshOp)


@graph_op
class CoshOp(FloatUnaryOp):
    """Hyperbolic cosine"""

    name = "glow.cosh"
    ONNX = "Cosh"
    TORCH = "cosh"
    STABLEHLO = "chlo.cosh"
    NUMPY = np.cosh

    def derivative(self, x: Term, y: Term) -> Term:
        return x.apply(SinhOp)


@graph_op
class AsinhOp(FloatUnaryOp):
    """Inverse hyperbolic sine"""

    name = "glow.asinh"
    ONNX = "Asinh"
    TORCH = "asinh"
    STABLEHLO = "chlo.asinh"
    NUMPY = np.arcsinh

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy / (x * x + 1).sqrt()


@graph_op
class AcoshOp(FloatUnaryOp):
    """Inverse hyperbolic cosine"""

    name = "glow.acosh"
    ONNX = "Acosh"
    TORCH = "acosh"
    STABLEHLO = "chlo.acosh"
    NUMPY = np.arccosh

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy / (x * x - 1).sqrt()


@graph_op
class AtanhOp(FloatUnaryOp):
    """Inverse hyperbolic tangent"""

    name = "glow.atanh"
    ONNX = "Atanh"
    TORCH = "atanh"
    STABLEHLO = "chlo.atanh"
    NUMPY = np.arctanh

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy / (1 - x * x)


@graph_op
class ExpOp(FloatUnaryOp):
    """e^x"""

    name = "glow.exp"
    ONNX = "Exp"
    TORCH = "exp"
    STABLEHLO = "exponential"
    RANGE = (0, math.inf)
    NUMPY = np.exp

    def derivative(self, x: Term, y: Term) -> Term:
        return y


@graph_op
class LogOp(FloatUnaryOp):
    """Natural logarithm"""

    name = "glow.log"
    ONNX = "Log"
    TORCH = "log"
    STABLEHLO = "log"
    MAGNIFIES = 0
    NUMPY = np.log

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy / x


@graph_op
class Log1pOp(FloatUnaryOp):
    """log(1 + x)"""

    name = "glow.log1p"
    TORCH = "log1p"
    STABLEHLO = "log_plus_one"
    MAGNIFIES = 0
    NUMPY = np.log1p

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy / (x + 1)


@graph_op
class Expm1Op(FloatUnaryOp):
    """e^x - 1"""

    name = "glow.expm1"
    TORCH = "expm1"
    STABLEHLO = "exponential_minus_one"
    NUMPY = np.expm1

    def derivative(self, x: Term, y: Term) -> Term:
        return y + 1


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


@graph_op
class ErfOp(FloatUnaryOp):
    """The error function"""

    name = "glow.erf"
    ONNX = "Erf"
    TORCH = "erf special_erf"
    STABLEHLO = "chlo.erf"

    def function(self, x: Array) -> Array:
        return erf(x)

    def derivative(self, x: Term, y: Term) -> Term:
        return (-(x * x)).exp() * (2 / math.sqrt(math.pi))


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
