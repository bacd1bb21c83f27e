"""Comparisons: booleans out, NumPy broadcasting."""

import numpy as np

from glow_dialects.core.sample import Sample, random
from glow_dialects.ops.elementwise import CompareOp, binary

CmpEqOp = binary("cmp_eq", "lhs == rhs", np.equal, base=CompareOp)
CmpNeOp = binary("cmp_ne", "lhs != rhs", np.not_equal, base=CompareOp)
CmpLtOp = binary("cmp_lt", "lhs < rhs", np.less, base=CompareOp)
CmpLeOp = binary("cmp_le", "lhs <= rhs", np.less_equal, base=CompareOp)
CmpGtOp = binary("cmp_gt", "lhs > rhs", np.greater, base=CompareOp)
CmpGeOp = binary("cmp_ge", "lhs >= rhs", np.greater_equal, base=CompareOp)

_X, _Y = random(3, 4), random(3, 1, seed=1)
_I, _J = random(3, 4, dtype="int32", low=0, high=4), random(4, dtype="int32", low=0, high=4, seed=1)
_ODD = np.array([1.0, np.nan, -np.inf, np.inf, 0.0], np.float32)

SAMPLES = tuple(
    Sample(op, inputs, smooth=False)
    for op in (CmpEqOp, CmpNeOp, CmpLtOp, CmpLeOp, CmpGtOp, CmpGeOp)
    for inputs in (
        (_X, _Y),
        (_I, _J),
        (_ODD, _ODD[::-1].copy()),
        *((_I.astype(k), _J.astype(k)) for k in ("uint8", "int64", "float16", "float64")),
    )
)
