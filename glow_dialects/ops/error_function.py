"""Relatives of the error function: erfc erf_inv."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array
from glow_dialects.ops.elementwise import FloatUnaryOp
from glow_dialects.ops.signs import CopysignOp
from glow_dialects.ops.unary_math import ErfOp, Log1pOp, RoundOp

_erfc = np.vectorize(math.erfc, otypes=[np.float64])

#: e^(x^2) erfc(x) / t in 2 t - 1 for t = 2 / (2 + x), from the constant on, for x >= 0: relative error 2e-14.
_TAIL = (
    0.5107913526210096, 0.34358034220690875, 0.1397360462784684, 0.01822111575260095, -0.010755330962078641,
    -0.0032395925002784705, 0.0015453062910335859, 0.00041864750575799117, -0.00033153872978254894,
    -1.718149639183899e-05, 7.224379221791177e-05, -1.7094264010295463e-05, -1.0869018196618666e-05,
    8.118530263665936e-06, -5.34321936872351e-07, -1.9313061746818486e-06, 9.88544624975691e-07,
    1.3130236641126006e-07, -3.0762335522729917e-07, 6.355278960363165e-08, 3.901493721083988e-08,
    -1.51707741776255e-08,
)  # fmt: skip
#: The inverse of erf over x in w - 2.5 and sqrt(w) - 3, w = -log(1 - x^2), from the highest power on (Giles).
_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
    -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def _polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    total = x * coefficients[0] + coefficients[1]
    for number in coefficients[2:]:
        total = total * x + number
    return total


@graph_op
class ErfcOp(FloatUnaryOp):
    """1 - erf(x), exact far to the right too"""

    name = "glow.erfc"
    RANGE = (0, 2)
    TORCH = "erfc special_erfc"
    STABLEHLO = "chlo.erfc"

    def function(self, x: Array) -> Array:
        return _erfc(x.astype(np.float64)).astype(x.dtype)

    def derivative(self, x: Term, y: Term) -> Term:
        return (-(x * x)).exp() * (-2 / math.sqrt(math.pi))

    def formula(self, x: Term) -> Term:
        size = abs(x).minimum(30)  # where it is 0
        t = 2 / (size + 2)
        # The square in two parts, the first of which is exact: its rounding would grow with x^2.
        near = (size * 16).apply(RoundOp) * (1 / 16)
        square = (-(near * near)).exp() * ((near - size) * (near + size)).exp()
        tail = square * (t * _polynomial(t * 2 - 1, _TAIL[::-1]))
        return (x < 0.5).where(1 - x.apply(ErfOp), tail)


def _inverse(x: float) -> float:
    """The inverse of erf in float64, by bisection and then Newton's steps."""
    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    low, high, size = 0.0, 6.0, abs(x)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if math.erf(middle) >= size else (middle, high)
    y = low
    for _ in range(4):
        error = math.erf(y) - size if size < 0.5 else (1 - size) - math.erfc(y)
        y -= error / (2 / math.sqrt(math.pi) * math.exp(-y * y))
    return math.copysign(y, x)


_erf_inv = np.vectorize(_inverse, otypes=[np.float64])


@graph_op
class ErfInvOp(FloatUnaryOp):
    """The inverse of the error function"""

    name = "glow.erf_inv"
    TORCH = "erfinv special_erfinv"
    STABLEHLO = "chlo.erf_inv"

    def function(self, x: Array) -> Array:
        return _erf_inv(x.astype(np.float64)).astype(x.dtype)

    def derivative(self, x: Term, y: Term) -> Term:
        return (y * y).exp() * (math.sqrt(math.pi) / 2)

    def formula(self, x: Term) -> Term:
        size = abs(x)
        rest = 1 - size
        w = -((-size).apply(Log1pOp) + size.apply(Log1pOp))
        ends = rest.equals(0)
        w = ends.where(1, w)
        y = size * (w < 5).where(_polynomial(w - 2.5, _CENTRE), _polynomial(w.sqrt() - 3, _FAR))
        # A step of Halley's: seven digits become those of a double.
        error = (size < 0.5).where(y.apply(ErfOp) - size, rest - y.apply(ErfcOp))
        step = error * ((y * y).exp() * (math.sqrt(math.pi) / 2))
        y = y - step / (y * step + 1)
        return ends.where(math.inf, y).apply(CopysignOp, x)


_X = random(3, 4, low=-2, high=2)
_ODD = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, 0.5, 3.0, 5.0, 8.0, 9.0, 10.0, -6.0, 1e-20], np.float32)
_UNIT = np.array([np.nan, 0.0, -0.0, 1.0, -1.0, 0.5, -0.999999, 0.9999999, 1e-20, 2.0], np.float32)

SAMPLES = (
    Sample(ErfcOp, (_X,)),
    Sample(ErfInvOp, (_X * 0.45,)),
    *(Sample(ErfcOp, (_ODD.astype(kind),), smooth=False) for kind in ("float32", "float64", "float16")),
    *(Sample(ErfInvOp, (_UNIT.astype(kind),), smooth=False) for kind in ("float32", "float64")),
)
