"""Angles and distances of points: atan2 hypot, degrees, sinc."""

from __future__ import annotations

import math

import numpy as np

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random, special_pairs
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array
from glow_dialects.ops.elementwise import FloatBinaryOp, FloatUnaryOp, Pair
from glow_dialects.ops.signs import CopysignOp, SignbitOp
from glow_dialects.ops.unary_math import AtanOp, CosOp, SignOp, SinOp


@graph_op
class Atan2Op(FloatBinaryOp):
    """The angle of the point (rhs, lhs), in -pi .. pi"""

    name = "glow.atan2"
    TORCH = "atan2"
    STABLEHLO = "atan2"
    NUMPY = np.arctan2

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        # y / (x^2 + y^2) without squares, which may overflow; 0 at the origin
        length = x.apply(HypotOp, y)
        length = length.equals(0).where(1, length)
        return dy * (y / length) / length, -(dy * (x / length) / length)

    def formula(self, x: Term, y: Term) -> Term:
        high, wide = abs(x), abs(y)
        # Of equal ones the quotient is 1, of infinities too, and 0 of zeros.
        ratio = high.equals(wide).where(high.apply(SignOp), high / wide)
        angle = ratio.apply(AtanOp)
        return y.apply(SignbitOp).where(math.pi - angle, angle).apply(CopysignOp, x)


@graph_op
class HypotOp(FloatBinaryOp):
    """sqrt(lhs^2 + rhs^2), which only an infinite result overflows"""

    name = "glow.hypot"
    COMMUTATIVE = True
    HOMOGENEOUS = True
    TORCH = "hypot"
    NUMPY = np.hypot

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        return dy * (x / self.result), dy * (y / self.result)

    def formula(self, x: Term, y: Term) -> Term:
        long, short = abs(x).maximum(abs(y)), abs(x).minimum(abs(y))
        part = short / long.equals(0).where(1, long)
        length = long * (part * part + 1).sqrt()
        infinite = abs(x).equals(math.inf) | abs(y).equals(math.inf)
        return infinite.where(math.inf, length)


@graph_op
class Deg2radOp(FloatUnaryOp):
    """Degrees as radians"""

    name = "glow.deg2rad"
    HOMOGENEOUS = True
    TORCH = "deg2rad"
    NUMPY = np.deg2rad
    PYTHON = "radians"

    def derivative(self, x: Term, y: Term) -> Term:
        return x.of(math.pi / 180)

    def formula(self, x: Term) -> Term:
        return x * (math.pi / 180)


@graph_op
class Rad2degOp(FloatUnaryOp):
    """Radians as degrees"""

    name = "glow.rad2deg"
    HOMOGENEOUS = True
    TORCH = "rad2deg"
    NUMPY = np.rad2deg
    PYTHON = "degrees"

    def derivative(self, x: Term, y: Term) -> Term:
        return x.of(180 / math.pi)

    def formula(self, x: Term) -> Term:
        return x * (180 / math.pi)


@graph_op
class SincOp(FloatUnaryOp):
    """sin(pi x) / (pi x), 1 at 0"""

    name = "glow.sinc"
    TORCH = "sinc"
    PYTHON = "sinc"

    def function(self, x: Array) -> Array:
        return np.sinc(x).astype(x.dtype)

    def derivative(self, x: Term, y: Term) -> Term:
        zero = x.equals(0)
        return zero.where(0, ((x * math.pi).apply(CosOp) - y) / zero.where(1, x))

    def formula(self, x: Term) -> Term:
        zero = x.equals(0)
        angle = zero.where(1, x * math.pi)
        return zero.where(1, angle.apply(SinOp) / angle)


_X, _Y = random(3, 4, low=-3, high=3), random(4, low=-3, high=3, seed=1)

SAMPLES = (
    *(Sample(op, (_X, _Y)) for op in (Atan2Op, HypotOp)),
    *(Sample(op, special_pairs(kind), smooth=False) for op in (Atan2Op, HypotOp) for kind in ("f4", "f8")),
    *(Sample(op, (_X.astype(np.float16), _Y.astype(np.float16)), smooth=False) for op in (Atan2Op, HypotOp)),
    *(Sample(op, (_X,)) for op in (Deg2radOp, Rad2degOp, SincOp)),
    Sample(SincOp, (np.array([0.0, -0.0, np.nan, 1.0, 0.5], np.float32),), smooth=False),
)
