"""Fixed powers: square cbrt."""

from __future__ import annotations

import math

import numpy as np

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.ops.elementwise import FloatUnaryOp, NumberUnaryOp
from glow_dialects.ops.signs import CopysignOp


@graph_op
class SquareOp(NumberUnaryOp):
    """x^2"""

    name = "glow.square"
    HOMOGENEOUS = True
    RANGE = (0, math.inf)
    TORCH = "square"
    STABLEHLO = "chlo.square"
    NUMPY = np.square

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy * x * 2

    def formula(self, x: Term) -> Term:
        return x * x


@graph_op
class CbrtOp(FloatUnaryOp):
    """The cubic root, of negative numbers too"""

    name = "glow.cbrt"
    HOMOGENEOUS = True
    MAGNIFIES = 0
    STABLEHLO = "cbrt"
    NUMPY = np.cbrt

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy / (y * y * 3)

    def formula(self, x: Term) -> Term:
        size = abs(x)
        root = size ** (1 / 3)
        # One of Newton's steps makes the roots of cubes whole; there is none at 0 and infinity.
        square = root * root
        ends = square.equals(0) | square.equals(math.inf)
        step = (root - size / ends.where(1, square)) * (1 / 3)
        return ends.where(root, root - step).apply(CopysignOp, x)


_X = random(3, 4, low=0.5, high=9)
_CUBES = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 343, -8, 1000, 1e-38, 1e-40, 3e38], np.float32)

SAMPLES = (
    *(Sample(op, (x,)) for op in (SquareOp, CbrtOp) for x in (_X, -_X)),
    *(
        Sample(op, (_CUBES.astype(kind),), smooth=False)
        for op in (SquareOp, CbrtOp)
        for kind in ("float32", "float64")
    ),
    *(Sample(op, (_X.astype(np.float16),), smooth=False) for op in (SquareOp, CbrtOp)),
    *(
        Sample(SquareOp, (random(5, dtype=kind, low=0, high=9),), smooth=False)
        for kind in ("int32", "uint8", "int64")
    ),
)
