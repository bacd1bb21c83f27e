"""quantized_add, quantized_sub, quantized_mul: arithmetic of stored integers with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    finish,
    per_tensor,
    scale_of,
    zero_of,
)


class QuantizedBinaryOp(RequantizingOp):
    """Operands of any one scale each, NumPy broadcasting, the result requantised."""

    def check(self) -> None:
        lhs, rhs = self.operands[0], self.operands[1]
        per_tensor(self, lhs)
        per_tensor(self, rhs)
        self.check_result(broadcast_shapes(shape_of(lhs), shape_of(rhs)))


def _centred(array: Array, kind: UniformQuantizedType) -> Array:
    return array.astype(np.float32) - np.float32(zero_of(kind))


def _scaled(array: Array, kind: UniformQuantizedType, to: UniformQuantizedType) -> Array:
    """float32 numbers in units of the result's scale; one rounding each."""
    return _centred(array, kind) * np.float32(scale_of(kind) / scale_of(to))


Meaning = Callable[[Array, Array, Any, Any, Any], Array]


def sum_of(x: Array, y: Array, a: Any, b: Any, to: Any) -> Array:
    """x (of type a) + y (of type b) as float32 numbers in units of the scale of `to`."""
    return _scaled(x, a, to) + _scaled(y, b, to)


def _difference(x: Array, y: Array, a: Any, b: Any, to: Any) -> Array:
    return _scaled(x, a, to) - _scaled(y, b, to)


def _product(x: Array, y: Array, a: Any, b: Any, to: Any) -> Array:
    factor = np.float32(scale_of(a) * scale_of(b) / scale_of(to))
    return _centred(x, a) * _centred(y, b) * factor


def _binary(name: str, meaning: str, compute: Meaning) -> type[Any]:
    """The node; `compute` gives float32 numbers in units of the result's scale."""
    camel = f"Quantized{name.capitalize()}"

    fields: dict[str, Any] = {
        "__doc__": meaning,
        "__module__": __name__,
        "__annotations__": {},
        "name": f"glow.quantized_{name}",
        "lhs": operand_def(Tensor),
        "rhs": operand_def(Tensor),
        "result": result_def(Tensor),
    }

    def reference(self: Any, result: Array, lhs: Array, rhs: Array) -> None:
        to, left, right = (quantized_type(v) for v in self.operands[:3])
        result[...] = finish(compute(lhs, rhs, left, right, to), to, self.low, self.high)

    fields["reference"] = reference
    return graph_op(type(f"{camel}Op", (QuantizedBinaryOp,), fields))


QuantizedAddOp = _binary("add", "lhs + rhs of stored integers", sum_of)
QuantizedSubOp = _binary("sub", "lhs - rhs of stored integers", _difference)
QuantizedMulOp = _binary("mul", "lhs * rhs of stored integers", _product)


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
