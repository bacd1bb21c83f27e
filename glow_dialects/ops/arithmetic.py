"""Arithmetic of two operands, NumPy broadcasting: add sub mul div max min pow mod fmod floor_div."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import (
    Array,
    broadcast_shapes,
    element_of,
    is_float,
    shape_of,
    tensor,
)
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp
from glow_dialects.ops.elementwise import BinaryOp, binary
from glow_dialects.ops.select import SelectOp

Pair = tuple[SSAValue | None, SSAValue | None]


def negated(x: SSAValue, b: Builder) -> SSAValue:
    """-x, as a product that folds into others."""
    return b(MulOp(x, b.scalar(-1, x)))


def _subtract(x: Array, y: Array) -> Array:
    return x ^ y if x.dtype == bool else x - y


AddOp = binary("add", "lhs + rhs (or of booleans)", np.add, lambda op, dy, b: (dy, dy))
SubOp = binary("sub", "lhs - rhs (xor of booleans)", _subtract, lambda op, dy, b: (dy, negated(dy, b)))
# lhsG = outG * rhs, rhsG = outG * lhs
MulOp = binary(
    "mul",
    "lhs * rhs (and of booleans)",
    np.multiply,
    lambda op, dy, b: (b(MulOp(dy, op.rhs)), b(MulOp(dy, op.lhs))),
)


def _divide(x: Array, y: Array) -> Array:
    """Quotient; of integers towards zero, 0 where the divisor is 0."""
    if x.dtype.kind not in "iub":
        return x / y
    quotient = np.floor_divide(x, y)
    remainder = x - quotient * y
    return np.where(y == 0, 0, quotient + ((remainder != 0) & ((x < 0) != (y < 0)))).astype(x.dtype)


def _divide_gradient(op: Any, dy: SSAValue, b: Builder) -> Pair:
    # lhsG = outG / rhs, rhsG = -outG * out / rhs
    left = b(DivOp(dy, op.rhs))
    return left, negated(b(MulOp(left, op.result)), b)


DivOp = binary("div", "lhs / rhs; integers towards zero, 0 for a zero divisor", _divide, _divide_gradient)


def _chosen(wins: SSAValue, ties: SSAValue, dy: SSAValue, b: Builder) -> Pair:
    """dy for the operand that won, half of it for each of two equal ones; `ties`: wins or equal."""
    half, zero = b(MulOp(dy, b.scalar(0.5, dy))), b.scalar(0, dy)
    left = b(AddOp(b(SelectOp(wins, half, zero)), b(SelectOp(ties, half, zero))))
    return left, b(SubOp(dy, left))


MaxOp = binary(
    "max",
    "The larger of lhs and rhs; NaN if either is",
    np.maximum,
    lambda op, dy, b: _chosen(b(CmpGtOp(op.lhs, op.rhs)), b(CmpGeOp(op.lhs, op.rhs)), dy, b),
)
MinOp = binary(
    "min",
    "The smaller of lhs and rhs; NaN if either is",
    np.minimum,
    lambda op, dy, b: _chosen(b(CmpLtOp(op.lhs, op.rhs)), b(CmpLeOp(op.lhs, op.rhs)), dy, b),
)


class PowerOp(BinaryOp):
    """A power: the exponent may have an element type of its own, the result has the base's."""

    def infer(self) -> Sequence[Attribute]:
        lhs, rhs = self.operands[0], self.operands[1]
        return [tensor(broadcast_shapes(shape_of(lhs), shape_of(rhs)), element_of(lhs))]


def _power(x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        exponent = np.maximum(y, 0).astype(x.dtype if y.dtype.kind == x.dtype.kind else np.int64)
        raised = np.power(x, exponent).astype(x.dtype)
        if y.dtype.kind == "i" and (y < 0).any():
            below = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y % 2), 0)).astype(x.dtype)
            raised = np.where(y < 0, below, raised)
        return raised
    if x.dtype.kind in "iu":
        return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    return np.power(x, y.astype(x.dtype)).astype(x.dtype)


def _power_gradient(op: Any, dy: SSAValue, b: Builder) -> Pair:
    # lhsG = rhs == 0 ? 0 : outG * rhs * lhs^(rhs - 1), rhsG = lhs > 0 ? outG * out * log(lhs) : 0
    from glow_dialects.ops.unary_math import LogOp

    exponent = op.rhs
    if element_of(exponent) != element_of(dy):
        exponent = b(CastOp(exponent, results=tensor(shape_of(exponent), element_of(dy))))
    lower = b(PowOp(op.lhs, b(SubOp(exponent, b.scalar(1, exponent)))))
    none, zero = b(CmpEqOp(exponent, b.scalar(0, exponent))), b.scalar(0, dy)
    left = b(SelectOp(none, zero, b(MulOp(dy, b(MulOp(exponent, lower))))))
    if not is_float(element_of(op.rhs)):
        return left, None
    positive = b(CmpGtOp(op.lhs, b.scalar(0, op.lhs)))
    logarithm = b(LogOp(b(SelectOp(positive, op.lhs, b.scalar(1, op.lhs)))))
    right = b(MulOp(dy, b(MulOp(op.result, logarithm))))
    if element_of(right) != element_of(op.rhs):
        right = b(CastOp(right, results=tensor(shape_of(right), element_of(op.rhs))))
    return left, right


PowOp = binary("pow", "lhs ^ rhs", _power, _power_gradient, base=PowerOp)


def _remainder(rounded: str) -> Any:
    """lhsG = outG, rhsG = -outG * round(lhs / rhs), with the quotient's own rounding."""

    def gradient(op: Any, dy: SSAValue, b: Builder) -> Pair:
        from glow_dialects.ops.unary_math import FloorOp, TruncOp

        ratio = b(DivOp(op.lhs, op.rhs))
        whole = b(FloorOp(ratio) if rounded == "floor" else TruncOp(ratio))
        return dy, negated(b(MulOp(dy, whole)), b)

    return gradient


ModOp = binary(
    "mod", "Remainder with the sign of rhs; 0 for an integer zero divisor", np.mod, _remainder("floor")
)
FmodOp = binary(
    "fmod", "Remainder with the sign of lhs; 0 for an integer zero divisor", np.fmod, _remainder("trunc")
)
FloorDivOp = binary(
    "floor_div",
    "floor(lhs / rhs); 0 for an integer zero divisor",
    np.floor_divide,
    lambda op, dy, b: (None, None),
)

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
