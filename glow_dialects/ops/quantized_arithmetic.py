"""quantized_add, quantized_sub, quantized_mul: arithmetic of stored integers with broadcasting."""

from __future__ import annotations

import numpy as np
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import (
    Array,
    QuantizedArray,
    Tensor,
    UniformQuantizedType,
    broadcast_shapes,
    shape_of,
    tensor,
)
from glow_dialects.ops.quantize import quantized_type
from glow_dialects.ops.requantize import (
    RequantizingOp,
    factor_of,
    finish,
    per_tensor,
    scale_of,
    zero_of,
)


class QuantizedBinaryOp(RequantizingOp):
    """Operands of any one scale each, NumPy broadcasting, the result requantised."""

    MEANING = ("reference", "function")
    PARALLEL_BY_TYPE = True
    lhs = operand_def(Tensor)
    rhs = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        per_tensor(self, self.lhs)
        per_tensor(self, self.rhs)
        self.check_result(broadcast_shapes(shape_of(self.lhs), shape_of(self.rhs)))

    def function(
        self, x: Array, y: Array, a: UniformQuantizedType, b: UniformQuantizedType, to: UniformQuantizedType
    ) -> Array:
        """float32 numbers in units of the scale of `to` from x of type a and y of type b."""
        raise NotImplementedError(self.name)

    def reference(self, result: Array, lhs: Array, rhs: Array) -> None:
        to, left, right = (quantized_type(v) for v in self.operands[:3])
        result[...] = finish(self.function(lhs, rhs, left, right, to), to, self.low, self.high)


def _centred(array: Array, kind: UniformQuantizedType) -> Array:
    return array.astype(np.float32) - np.float32(zero_of(kind))


def _scaled(array: Array, kind: UniformQuantizedType, to: UniformQuantizedType) -> Array:
    """float32 numbers in units of the result's scale; one rounding each."""
    return _centred(array, kind) * np.float32(scale_of(kind) / scale_of(to))


def sum_of(
    x: Array, y: Array, a: UniformQuantizedType, b: UniformQuantizedType, to: UniformQuantizedType
) -> Array:
    """x (of type a) + y (of type b) as float32 numbers in units of the scale of `to`."""
    return _scaled(x, a, to) + _scaled(y, b, to)


@graph_op
class QuantizedAddOp(QuantizedBinaryOp):
    """lhs + rhs of stored integers"""

    name = "glow.quantized_add"

    def function(
        self, x: Array, y: Array, a: UniformQuantizedType, b: UniformQuantizedType, to: UniformQuantizedType
    ) -> Array:
        return sum_of(x, y, a, b, to)


@graph_op
class QuantizedSubOp(QuantizedBinaryOp):
    """lhs - rhs of stored integers"""

    name = "glow.quantized_sub"

    def function(
        self, x: Array, y: Array, a: UniformQuantizedType, b: UniformQuantizedType, to: UniformQuantizedType
    ) -> Array:
        return _scaled(x, a, to) - _scaled(y, b, to)


@graph_op
class QuantizedMulOp(QuantizedBinaryOp):
    """lhs * rhs of stored integers"""

    name = "glow.quantized_mul"

    def function(
        self, x: Array, y: Array, a: UniformQuantizedType, b: UniformQuantizedType, to: UniformQuantizedType
    ) -> Array:
        return _centred(x, a) * _centred(y, b) * factor_of(a.scale_array, scale_of(b), to)


def _stored(*shape: int, kind: UniformQuantizedType, seed: int = 0) -> QuantizedArray:
    return QuantizedArray.of(random(*shape, dtype="int8", low=-127, high=127, seed=seed), kind)


_A, _B = UniformQuantizedType.of(8, 0.05, -3), UniformQuantizedType.of(8, 0.02, 11)
_SAME, _ROW = _stored(3, 4, kind=_B, seed=1), _stored(4, kind=_B, seed=2)
SAMPLES: tuple[Sample, ...] = tuple(
    Sample(
        op,
        (_stored(3, 4, kind=_A), other),
        limits,
        results=tensor((3, 4), UniformQuantizedType.of(8, 0.1, 7)),
        smooth=False,
    )
    for op in (QuantizedAddOp, QuantizedSubOp, QuantizedMulOp)
    for other, limits in ((_SAME, {}), (_ROW, {"low": 7}))
)
