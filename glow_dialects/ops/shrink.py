"""shrink: numbers near 0 become 0, others move towards it."""

from __future__ import annotations

import numpy as np

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.properties import float_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array
from glow_dialects.ops.elementwise import NumberUnaryOp


@graph_op
class ShrinkOp(NumberUnaryOp):
    """x < -lambd ? x + bias : x > lambd ? x - bias : 0; NaN is NaN"""

    name = "glow.shrink"
    lambd = float_prop(0.5)
    bias = float_prop(0.0)
    ONNX = "Shrink"

    def function(self, x: Array) -> Array:
        kind = x.dtype.type
        bias, limit = kind(self.bias), kind(self.lambd)
        return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, kind(0)))

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return (abs(x) > self.lambd).where(dy, 0)

    def formula(self, x: Term) -> Term:
        above = (x > self.lambd).where(x - self.bias, 0)
        return (x < -self.lambd).where(x + self.bias, above)


_X = random(3, 4, low=-2, high=2)

SAMPLES = (
    Sample(ShrinkOp, (_X,)),
    Sample(ShrinkOp, (_X,), {"lambd": 0.7, "bias": 0.7}),
)
