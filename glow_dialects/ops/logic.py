"""Booleans and bits: not and or xor, bitwise operations, shifts, tests for NaN and infinity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.properties import bool_prop, float_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array
from glow_dialects.ops.elementwise import BinaryOp, UnaryOp, UnaryTestOp, check_kinds


class LogicOp(BinaryOp):
    """A binary operator on booleans."""

    def infer(self) -> Sequence[Attribute]:
        check_kinds(self, "b", "i1")
        return super().infer()


class BitsOp(BinaryOp):
    """A binary operator on the bits of integers (or booleans)."""

    def infer(self) -> Sequence[Attribute]:
        check_kinds(self, "biu", "integers")
        return super().infer()


@graph_op
class NotOp(UnaryOp):
    """not x, of booleans"""

    name = "glow.not"
    ONNX = "Not"
    TORCH = "logical_not"
    NUMPY = np.logical_not

    def infer(self) -> Sequence[Attribute]:
        check_kinds(self, "b", "i1")
        return super().infer()


@graph_op
class AndOp(LogicOp):
    """lhs and rhs, of booleans"""

    name = "glow.and"
    ONNX = "And"
    TORCH = "logical_and"
    COMMUTATIVE = True
    NUMPY = np.logical_and


@graph_op
class OrOp(LogicOp):
    """lhs or rhs, of booleans"""

    name = "glow.or"
    ONNX = "Or"
    TORCH = "logical_or"
    COMMUTATIVE = True
    NUMPY = np.logical_or


@graph_op
class XorOp(LogicOp):
    """lhs xor rhs, of booleans"""

    name = "glow.xor"
    ONNX = "Xor"
    TORCH = "logical_xor"
    COMMUTATIVE = True
    NUMPY = np.logical_xor


@graph_op
class BitwiseNotOp(UnaryOp):
    """Every bit flipped"""

    name = "glow.bitwise_not"
    ONNX = "BitwiseNot"
    TORCH = "bitwise_not"
    STABLEHLO = "not"
    LOGIC = NotOp
    NUMPY = np.bitwise_not

    def infer(self) -> Sequence[Attribute]:
        check_kinds(self, "biu", "integers")
        return super().infer()


@graph_op
class BitwiseAndOp(BitsOp):
    """lhs & rhs"""

    name = "glow.bitwise_and"
    ONNX = "BitwiseAnd"
    TORCH = "bitwise_and"
    STABLEHLO = "and"
    LOGIC = AndOp
    COMMUTATIVE = True
    NUMPY = np.bitwise_and


@graph_op
class BitwiseOrOp(BitsOp):
    """lhs | rhs"""

    name = "glow.bitwise_or"
    ONNX = "BitwiseOr"
    TORCH = "bitwise_or"
    STABLEHLO = "or"
    LOGIC = OrOp
    COMMUTATIVE = True
    NUMPY = np.bitwise_or


@graph_op
class BitwiseXorOp(BitsOp):
    """lhs ^ rhs"""

    name = "glow.bitwise_xor"
    ONNX = "BitwiseXor"
    TORCH = "bitwise_xor"
    STABLEHLO = "xor"
    LOGIC = XorOp
    COMMUTATIVE = True
    NUMPY = np.bitwise_xor


@graph_op
class ShiftLeftOp(BitsOp):
    """lhs << rhs; 0 for shifts outside the width"""

    name = "glow.shift_left"
    NUMPY = np.left_shift
    TORCH = "bitwise_left_shift __lshift__"
    STABLEHLO = "shift_left"


@graph_op
class ShiftRightOp(BitsOp):
    """lhs >> rhs with copies of the sign of signed integers; for shifts outside the width only those"""

    name = "glow.shift_right"
    NUMPY = np.right_shift
    TORCH = "bitwise_right_shift __rshift__"
    STABLEHLO = "shift_right_arithmetic"


@graph_op
class IsNanOp(UnaryTestOp):
    """Whether x is NaN"""

    name = "glow.is_nan"
    ONNX = "IsNaN"
    TORCH = "isnan"
    NUMPY = np.isnan
    PYTHON = "isnan"


@graph_op
class IsInfOp(UnaryTestOp):
    """Whether x is an infinity of a detected sign"""

    name = "glow.is_inf"
    ONNX = "IsInf"
    TORCH = "isinf"
    STABLEHLO = "chlo.is_inf"
    NUMPY = np.isinf
    PYTHON = "isinf"
    detect_negative = bool_prop(True)
    detect_positive = bool_prop(True)

    def function(self, x: Array) -> Array:
        if x.dtype.kind in "iub":
            return np.zeros(x.shape, bool)
        return np.isinf(x) & ((self.detect_negative & (x < 0)) | (self.detect_positive & (x > 0)))


@graph_op
class ReplaceNanOp(UnaryOp):
    """x, or value where x is NaN"""

    name = "glow.replace_nan"
    value = float_prop(0.0)

    def function(self, x: Array) -> Array:
        return x if x.dtype.kind in "iub" else np.where(np.isnan(x), x.dtype.type(self.value), x)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return x.apply(IsNanOp).where(0, dy)

    def formula(self, x: Term) -> Term:
        return x.apply(IsNanOp).where(self.value, x)


_P, _Q = random(3, 4, dtype="bool"), random(4, dtype="bool", seed=1)
_I, _J = random(3, 4, dtype="int32", low=-99, high=99), random(4, dtype="int32", low=-99, high=99)
_U, _N = random(3, 4, dtype="uint8", low=0, high=255), random(4, dtype="uint8", low=0, high=8)
_ODD = np.array([1.5, np.nan, -np.inf, np.inf, 0.0], np.float32)

SAMPLES = (
    Sample(NotOp, (_P,), smooth=False),
    *(Sample(op, (_P, _Q), smooth=False) for op in (AndOp, OrOp, XorOp)),
    Sample(BitwiseNotOp, (_I,), smooth=False),
    *(Sample(op, (_I, _J), smooth=False) for op in (BitwiseAndOp, BitwiseOrOp, BitwiseXorOp)),
    *(Sample(op, (_U, _N), smooth=False) for op in (ShiftLeftOp, ShiftRightOp)),
    Sample(IsNanOp, (_ODD,), smooth=False),
    Sample(ReplaceNanOp, (_ODD,), {"value": 2.0}, smooth=False),
    Sample(ReplaceNanOp, (random(3, 4),)),
    Sample(IsInfOp, (_ODD,), smooth=False),
    Sample(IsInfOp, (_ODD,), {"detect_negative": False}, smooth=False),
)
