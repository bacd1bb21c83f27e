"""relu: max(x, 0)."""

import math

import numpy as np

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array
from glow_dialects.ops.elementwise import UnaryOp


@graph_op
class ReluOp(UnaryOp):
    """x < 0 ? 0 : x"""

    name = "glow.relu"
    ONNX = "Relu"
    TORCH = "relu"
    CLAMPS = True
    RANGE = (0, math.inf)

    def function(self, x: Array) -> Array:
        return np.where(x < 0, x.dtype.type(0), x)

    def clamp_limits(self) -> tuple[float, float]:
        return 0.0, math.inf

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return (y > 0).where(dy, 0)


SAMPLES = (
    Sample(ReluOp, (random(3, 4),)),
    Sample(ReluOp, (random(3, 4, dtype="int32", low=-9, high=9),), smooth=False),
    Sample(ReluOp, (np.array([1.0, np.nan, -np.inf, np.inf, -0.0], np.float32),), smooth=False),
)
