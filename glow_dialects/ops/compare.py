"""Comparisons: booleans out, NumPy broadcasting."""

import numpy as np

from glow_dialects.ops.elementwise import CompareOp, binary

CmpEqOp, CmpEqInstr = binary("cmp_eq", "lhs == rhs", np.equal, base=CompareOp)
CmpNeOp, CmpNeInstr = binary("cmp_ne", "lhs != rhs", np.not_equal, base=CompareOp)
CmpLtOp, CmpLtInstr = binary("cmp_lt", "lhs < rhs", np.less, base=CompareOp)
CmpLeOp, CmpLeInstr = binary("cmp_le", "lhs <= rhs", np.less_equal, base=CompareOp)
CmpGtOp, CmpGtInstr = binary("cmp_gt", "lhs > rhs", np.greater, base=CompareOp)
CmpGeOp, CmpGeInstr = binary("cmp_ge", "lhs >= rhs", np.greater_equal, base=CompareOp)
