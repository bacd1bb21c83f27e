"""Comparisons: booleans out, NumPy broadcasting."""

import numpy as np

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.ops.elementwise import CompareOp


@graph_op
class CmpEqOp(CompareOp):
    """lhs == rhs"""

    name = "glow.cmp_eq"
    ONNX = "Equal"
    TORCH = "eq"
    COMMUTATIVE = True
    NUMPY = np.equal


@graph_op
class CmpNeOp(CompareOp):
    """lhs != rhs"""

    name = "glow.cmp_ne"
    TORCH = "ne"
    COMMUTATIVE = True
    NUMPY = np.not_equal


@graph_op
class CmpLtOp(CompareOp):
    """lhs < rhs"""

    name = "glow.cmp_lt"
    ONNX = "Less"
    TORCH = "lt"
    NUMPY = np.less


@graph_op
class CmpLeOp(CompareOp):
    """lhs <= rhs"""

    name = "glow.cmp_le"
    ONNX = "LessOrEqual"
    TORCH = "le"
    NUMPY = np.less_equal


@graph_op
class CmpGtOp(CompareOp):
    """lhs > rhs"""

    name = "glow.cmp_gt"
    ONNX = "Greater"
    TORCH = "gt"
    NUMPY = np.greater


@graph_op
class CmpGeOp(CompareOp):
    """lhs >= rhs"""

    name = "glow.cmp_ge"
    ONNX = "GreaterOrEqual"
    TORCH = "ge"
    NUMPY = np.greater_equal


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
