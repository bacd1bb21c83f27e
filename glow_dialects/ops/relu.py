"""relu: max(x, 0)."""

import numpy as np

from glow_dialects.ops.elementwise import unary
from glow_dialects.ops.compare import CmpGtOp
from glow_dialects.ops.select import SelectOp

# inG = outW > 0 ? outG : 0
ReluOp, ReluInstr = unary(
    "relu",
    "max(x, 0)",
    lambda x: np.maximum(x, x.dtype.type(0)),
    gradient=lambda op, dy, b: b(SelectOp(b(CmpGtOp(op.result, b.scalar(0, op.result))), dy, b.scalar(0, dy))),
)
