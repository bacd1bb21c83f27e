"""Arithmetic of two operands, NumPy broadcasting: add sub mul div max min pow mod fmod floor_div."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, broadcast_shapes, element_of, is_float, shape_of, tensor
from glow_dialects.ops.elementwise import BinaryOp, Pair
from glow_dialects.ops.logic import AndOp, OrOp, XorOp
from glow_dialects.ops.quantized_arithmetic import QuantizedAddOp, QuantizedMulOp, QuantizedSubOp


@graph_op
class AddOp(BinaryOp):
    """lhs + rhs (or of booleans)"""

    name = "glow.add"
    ONNX = "Add"
    TORCH = "add"
    STABLEHLO = "add"
    LOGIC = OrOp
    COMMUTATIVE = True
    HOMOGENEOUS = True
    QUANTIZED = QuantizedAddOp
    NUMPY = np.add

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        return dy, dy


@graph_op
class SubOp(BinaryOp):
    """lhs - rhs (xor of booleans)"""

    name = "glow.sub"
    ONNX = "Sub"
    TORCH = "sub"
    STABLEHLO = "subtract"
    NUMPY = np.subtract
    LOGIC = XorOp
    HOMOGENEOUS = True
    QUANTIZED = QuantizedSubOp

    def function(self, x: Array, y: Array) -> Array:
        return x ^ y if x.dtype == bool else x - y

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        return dy, -dy


@graph_op
class MulOp(BinaryOp):
    """lhs * rhs (and of booleans)"""

    name = "glow.mul"
    ONNX = "Mul"
    TORCH = "mul"
    STABLEHLO = "multiply"
    LOGIC = AndOp
    COMMUTATIVE = True
    HOMOGENEOUS = True
    QUANTIZED = QuantizedMulOp
    NUMPY = np.multiply

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        return dy * y, dy * x


@graph_op
class DivOp(BinaryOp):
    """lhs / rhs; integers towards zero, 0 for a zero divisor"""

    name = "glow.div"
    ONNX = "Div"
    TORCH = "div"
    STABLEHLO = "divide"
    NUMPY = np.divide
    MAGNIFIES = 1

    def function(self, x: Array, y: Array) -> Array:
        if x.dtype.kind not in "iub":
            return x / y
        quotient = np.floor_divide(x, y)
        remainder = x - quotient * y
        return np.where(y == 0, 0, quotient + ((remainder != 0) & ((x < 0) != (y < 0)))).astype(x.dtype)

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        left = dy / y
        return left, -(left * self.result)


def shares(dy: Term, wins: Term, ties: Term) -> Pair:
    """dy for the operand that won, half of it for each of two equal ones; `ties`: wins or equal."""
    half, zero = dy * 0.5, dy.of(0)
    left = wins.where(half, zero) + ties.where(half, zero)
    return left, dy - left


@graph_op
class MaxOp(BinaryOp):
    """The larger of lhs and rhs; NaN if either is"""

    name = "glow.max"
    ONNX = "Max"
    TORCH = "maximum"
    STABLEHLO = "maximum"
    LOGIC = OrOp
    COMMUTATIVE = True
    CLAMPS = True
    MOVES_ELEMENTS = True
    NUMPY = np.maximum

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        return shares(dy, x > y, x >= y)


@graph_op
class MinOp(BinaryOp):
    """The smaller of lhs and rhs; NaN if either is"""

    name = "glow.min"
    ONNX = "Min"
    TORCH = "minimum"
    STABLEHLO = "minimum"
    LOGIC = AndOp
    COMMUTATIVE = True
    CLAMPS = True
    MOVES_ELEMENTS = True
    NUMPY = np.minimum

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        return shares(dy, x < y, x <= y)


@graph_op
class PowOp(BinaryOp):
    """lhs ^ rhs; the exponent may have an element type of its own"""

    name = "glow.pow"
    ONNX = "Pow"
    TORCH = "pow"
    STABLEHLO = "power"
    NUMPY = np.power
    HOMOGENEOUS = True

    def infer(self) -> Sequence[Attribute]:
        return [tensor(broadcast_shapes(shape_of(self.lhs), shape_of(self.rhs)), element_of(self.lhs))]

    def function(self, x: Array, y: Array) -> Array:
        if x.dtype.kind in "iu" and y.dtype.kind in "iu":
            exponent = np.maximum(y, 0).astype(np.uint64)
            raised = np.power(x.astype(np.uint64), exponent).astype(x.dtype)
            if y.dtype.kind == "i" and (y < 0).any():
                below = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y % 2), 0)).astype(x.dtype)
                raised = np.where(y < 0, below, raised)
            return raised
        if x.dtype.kind in "iu":
            return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
        return np.power(x, y.astype(x.dtype)).astype(x.dtype)

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        # lhsG = rhs == 0 ? 0 : outG rhs lhs^(rhs - 1), rhsG = lhs == 0 and rhs >= 0 ? 0 : outG out log(lhs)
        exponent = y.cast(dy.element)
        lower = x ** (exponent - 1)
        left = exponent.equals(0).where(0, dy * (exponent * lower))
        if not is_float(y.element):
            return left, None
        still = x.equals(0) & (exponent >= 0)
        return left, still.where(0, dy * (x.log() * self.result)).cast(y.element)


@graph_op
class ModOp(BinaryOp):
    """Remainder with the sign of rhs; 0 for an integer zero divisor"""

    name = "glow.mod"
    ONNX = "Mod"
    TORCH = "remainder"
    NUMPY = np.mod

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        return dy, -(dy * x.apply(FloorDivOp, y))


@graph_op
class FmodOp(BinaryOp):
    """Remainder with the sign of lhs; 0 for an integer zero divisor"""

    name = "glow.fmod"
    TORCH = "fmod"
    STABLEHLO = "remainder"
    NUMPY = np.fmod

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        from glow_dialects.ops.unary_math import TruncOp

        return dy, -(dy * (x / y).apply(TruncOp))


@graph_op
class FloorDivOp(BinaryOp):
    """floor(lhs / rhs); 0 for an integer zero divisor"""

    name = "glow.floor_div"
    TORCH = "floor_divide"
    NUMPY = np.floor_divide

    def cotangents(self, dy: Term, x: Term, y: Term) -> Pair:
        return None, None


_X, _Y, _ROW = random(3, 4, low=0.5, high=2), random(3, 4, low=0.5, high=2, seed=1), random(4, low=1, high=2)
_COLUMN = random(2, 3, 1, low=-2, high=-1)
_I, _J = random(3, 4, dtype="int32", low=-9, high=9), random(4, dtype="int32", low=-9, high=9, seed=1)
#: Every pair of signs, and divisors of 0.
_BOTH = np.arange(-4, 4, dtype=np.int32).reshape(1, -1)
_ODD = np.array([1.0, np.nan, -np.inf, np.inf, 0.0], np.float32)
_K = random(3, 4, dtype="int32", low=1, high=5)

SAMPLES = tuple(
    sample
    for op in (AddOp, SubOp, MulOp, DivOp, MaxOp, MinOp, PowOp, ModOp, FmodOp, FloorDivOp)
    for sample in (
        Sample(op, (_X, _Y)),
        Sample(op, (_X, _ROW)),
        Sample(op, (_ROW, _X)),
        Sample(op, (_I, _K), smooth=False),
        *([] if op is PowOp else [Sample(op, (_X, _COLUMN)), Sample(op, (_I, _J), smooth=False)]),
    )
) + (
    Sample(PowOp, (_X, random(3, 4, dtype="int64", low=0, high=4))),
    Sample(PowOp, (_X, np.array(2.0, np.float32))),
    *(
        Sample(
            op, (random(3, 4, dtype=kind, low=1, high=9), random(4, dtype=kind, low=1, high=5)), smooth=False
        )
        for op in (AddOp, SubOp, MulOp, DivOp, MaxOp, MinOp, ModOp, FmodOp)
        for kind in ("float64", "float16", "bfloat16", "int8", "uint8", "int64")
    ),
    *(Sample(op, (_BOTH, _BOTH.T.copy()), smooth=False) for op in (DivOp, ModOp, FmodOp, FloorDivOp)),
    *(Sample(op, (_ODD, _ODD.reshape(-1, 1)), smooth=False) for op in (AddOp, MulOp, MaxOp, MinOp)),
)
