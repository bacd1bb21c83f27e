"""Booleans and bits: not and or xor, bitwise operations, shifts, tests for NaN and infinity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.properties import bool_prop, float_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, dtype_of, typed
from glow_dialects.ops.elementwise import BinaryOp, UnaryOp, UnaryTestOp, binary, unary
from glow_dialects.ops.select import SelectOp


def _demand(op: Any, kinds: str, what: str) -> None:
    for value in op.operands[: len(op.operand_groups())]:
        if dtype_of(typed(value)).kind not in kinds:
            raise VerifyException(f"{op.name}: operands must be {what}, got {value.type}")


class LogicOp(BinaryOp):
    """A binary operator on booleans."""

    def infer(self) -> Sequence[Attribute]:
        _demand(self, "b", "i1")
        return super().infer()


class BitsOp(BinaryOp):
    """A binary operator on the bits of integers (or booleans)."""

    def infer(self) -> Sequence[Attribute]:
        _demand(self, "biu", "integers")
        return super().infer()


class NotBaseOp(UnaryOp):
    """Negation of booleans."""

    def infer(self) -> Sequence[Attribute]:
        _demand(self, "b", "i1")
        return super().infer()


class UnaryBitsOp(UnaryOp):
    """A unary operator on the bits of integers (or booleans)."""

    def infer(self) -> Sequence[Attribute]:
        _demand(self, "biu", "integers")
        return super().infer()


NotOp = unary("not", "not x, of booleans", np.logical_not, base=NotBaseOp)
AndOp = binary("and", "lhs and rhs, of booleans", np.logical_and, base=LogicOp)
OrOp = binary("or", "lhs or rhs, of booleans", np.logical_or, base=LogicOp)
XorOp = binary("xor", "lhs xor rhs, of booleans", np.logical_xor, base=LogicOp)
BitwiseNotOp = unary("bitwise_not", "Every bit flipped", np.bitwise_not, base=UnaryBitsOp)
BitwiseAndOp = binary("bitwise_and", "lhs & rhs", np.bitwise_and, base=BitsOp)
BitwiseOrOp = binary("bitwise_or", "lhs | rhs", np.bitwise_or, base=BitsOp)
BitwiseXorOp = binary("bitwise_xor", "lhs ^ rhs", np.bitwise_xor, base=BitsOp)


def _shift(left: bool) -> Any:
    def function(x: Array, y: Array) -> Array:
        inside = (y >= 0) & (y < x.dtype.itemsize * 8)
        amount = np.where(inside, y, 0).astype(x.dtype)
        moved = np.left_shift(x, amount) if left else np.right_shift(x, amount)
        return np.where(inside, moved, 0).astype(x.dtype)

    return function


ShiftLeftOp = binary("shift_left", "lhs << rhs; 0 for shifts outside the width", _shift(True), base=BitsOp)
ShiftRightOp = binary(
    "shift_right",
    "lhs >> rhs, keeping the sign of signed integers; 0 for shifts outside the width",
    _shift(False),
    base=BitsOp,
)


def _is_inf(x: Array, detect_negative: bool, detect_positive: bool) -> Array:
    if x.dtype.kind in "iub":
        return np.zeros(x.shape, bool)
    return np.isinf(x) & ((detect_negative & (x < 0)) | (detect_positive & (x > 0)))


IsNanOp = unary("is_nan", "Whether x is NaN", np.isnan, base=UnaryTestOp)
IsInfOp = unary(
    "is_inf",
    "Whether x is an infinity of a detected sign",
    _is_inf,
    base=UnaryTestOp,
    detect_negative=bool_prop(True),
    detect_positive=bool_prop(True),
)


def _replaced(x: Array, value: float) -> Array:
    return x if x.dtype.kind in "iub" else np.where(np.isnan(x), x.dtype.type(value), x)


def _replace_nan_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    return b(SelectOp(b(IsNanOp(op.input)), b.scalar(0, dy), dy))


ReplaceNanOp = unary(
    "replace_nan",
    "x, or value where x is NaN",
    _replaced,
    _replace_nan_gradient,
    lambda op, b: b(SelectOp(b(IsNanOp(op.input)), b.scalar(op.value, op.input), op.input)),
    value=float_prop(0.0),
)

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
