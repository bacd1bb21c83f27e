"""relu: max(x, 0)."""

import numpy as np

from glow_dialects.core.sample import Sample, random
from glow_dialects.ops.compare import CmpGtOp
from glow_dialects.ops.elementwise import unary
from glow_dialects.ops.select import SelectOp

# inG = outW > 0 ? outG : 0
ReluOp = unary(
    "relu",
    "max(x, 0)",
    lambda x: np.maximum(x, x.dtype.type(0)),
    gradient=lambda op, dy, b: b(
        SelectOp(b(CmpGtOp(op.result, b.scalar(0, op.result))), dy, b.scalar(0, dy))
    ),
)

SAMPLES = (
    Sample(ReluOp, (random(3, 4),)),
    Sample(ReluOp, (random(3, 4, dtype="int32", low=-9, high=9),), smooth=False),
    Sample(ReluOp, (np.array([1.0, np.nan, -np.inf, np.inf, -0.0], np.float32),), smooth=False),
)
