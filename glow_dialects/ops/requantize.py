"""Integer sums back to stored integers: the arithmetic that all quantised operators share.

A sum of products is exact (in 32 bits, where operands have 8). It becomes a result in float32:

    q = clip(round(float32(sum) * float32(factor)) + zero point)      ties to even
    x = float32(sum) * float32(factor)                                for a real result

Every backend computes exactly this, so that results agree bit by bit.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import PureOp
from glow_dialects.core.properties import int_prop
from glow_dialects.core.types import (
    Array,
    UniformQuantizedType,
    element_of,
    is_float,
    shape_of,
)
from glow_dialects.ops.quantize import limits_of, quantized_type

#: Values of `low` and `high` that limit nothing.
NO_LOW, NO_HIGH = -(1 << 31), (1 << 31) - 1


def per_tensor(op: Operation, value: SSAValue) -> UniformQuantizedType:
    """The quantised type of an operand that has one scale; a VerifyException where it has more."""
    kind = quantized_type(value)
    if kind.axis.data >= 0:
        raise VerifyException(f"{op.name}: {value.type} has a scale for each index; one is expected")
    return kind


def scale_of(kind: UniformQuantizedType) -> float:
    """The one scale of a per-tensor type."""
    return float(kind.scale_array[0])


def zero_of(kind: UniformQuantizedType) -> int:
    """The one zero point of a per-tensor type."""
    return int(kind.zero_point_array[0])


def stored_limits(kind: UniformQuantizedType, low: int, high: int) -> tuple[int, int]:
    """The range of stored integers between `low` and `high`."""
    smallest, largest = limits_of(kind)
    return min(max(smallest, low), largest), max(min(largest, high), smallest)


def finish(real: Array, kind: UniformQuantizedType, low: int, high: int) -> Array:
    """float32 numbers in units of the result's scale -> stored integers."""
    rounded = np.rint(real.astype(np.float32)) + np.float32(zero_of(kind))
    return np.clip(rounded, *stored_limits(kind, low, high))


def requantized(total: Array, source: float, weights: Array, result: Attribute, low: int, high: int) -> Array:
    """Exact sums of products (float64) as elements of `result`: stored integers, real numbers, or i32.

    `source` is the input's scale, `weights` are the filter's, shaped to broadcast.
    """
    if result == i32:
        return total.astype(np.int64).astype(np.int32)
    real = total.astype(np.float32) * factor_of(weights, source, result)
    return finish(real, result, low, high) if isinstance(result, UniformQuantizedType) else real


def factor_of(weights: Array, source: float, result: Attribute) -> Array:
    """What sums of products are multiplied by, in float32: the product of the scales, over the result's.

    onnxruntime rounds after each of the two, and so where sums lie next to halfway between two integers.
    """
    unit = (weights * source).astype(np.float32)
    return unit / np.float32(scale_of(result)) if isinstance(result, UniformQuantizedType) else unit


class RequantizingOp(PureOp):
    """A quantised operator whose result is clipped to stored integers from `low` to `high`.

    A relu after the operator is `low` at the result's zero point; a clip sets both.
    """

    low = int_prop(NO_LOW)
    high = int_prop(NO_HIGH)

    def limits(self) -> tuple[int, int]:
        """(low, high)."""
        return self.low, self.high

    def check_result(self, shape: tuple[int, ...], real: bool = False) -> None:
        """Raise unless the result has this shape, and one scale or (with `real`) float or i32 elements."""
        (result,) = self.results
        if not (real and (is_float(element_of(result)) or element_of(result) == i32)):
            per_tensor(self, result)
        if shape_of(result) != shape:
            raise VerifyException(
                f"{self.name}: the result is {result.type}, the operands give {'x'.join(map(str, shape))}"
                "; write that"
            )
