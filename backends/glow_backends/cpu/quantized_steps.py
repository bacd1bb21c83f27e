"""Quantised element-wise operators as steps of a loop over stored integers.

Each follows its card's NumPy reference operation by operation, so that results agree bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit.pointwise import Step
from glow_backends.cpu.emit.pointwise_rules import Param
from glow_backends.cpu.kernel import operator_of
from glow_dialects.core.operator import Operator
from glow_dialects.core.types import UniformQuantizedType, element_of
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp, RescaleOp
from glow_dialects.ops.quantized_arithmetic import QuantizedAddOp, QuantizedMulOp, QuantizedSubOp
from glow_dialects.ops.requantize import factor_of, scale_of, stored_limits, zero_of

_Expansion = Callable[[Any, Any, Sequence[Any], Sequence[int], "Steps"], int]


@dataclass
class Steps:
    """Steps under construction, behind `inputs` values; methods return the number of their result."""

    inputs: int
    steps: list[Step] = field(default_factory=list[Step])

    def add(self, op: str, *args: int, dtype: str = "f32", params: tuple[Param, ...] = ()) -> int:
        """Append a step."""
        self.steps.append(Step(op, args, params, dtype))
        return self.inputs + len(self.steps) - 1

    def number(self, value: float, dtype: str = "f32") -> int:
        """A constant."""
        return self.add("constant", dtype=dtype, params=(float(value),))

    def with_number(self, op: str, arg: int, value: float, dtype: str = "f32") -> int:
        """`op(arg, value)`."""
        return self.add(op, arg, self.number(value, dtype), dtype=dtype)


def is_quantized(op: Operator) -> bool:
    """Whether the operator (node or instruction) has steps here."""
    return operator_of(op) in EXPANSIONS and all(
        kind.axis.data < 0 and kind.storage.width.data <= 32
        for kind in map(element_of, (*op.operands, *op.results))
        if isinstance(kind, UniformQuantizedType)
    )


def expand(op: Operator, result: Any, inputs: Sequence[Any], args: Sequence[int], steps: Steps) -> int:
    """Append the steps of `op`; `result` and `inputs` are values or buffers, `args` their numbers."""
    return EXPANSIONS[operator_of(op)](op, result, inputs, args, steps)


def _kind(value: Any) -> UniformQuantizedType:
    kind = element_of(value)
    assert isinstance(kind, UniformQuantizedType)
    return kind


def _centred(steps: Steps, arg: int, kind: UniformQuantizedType, dtype: str = "f32") -> int:
    """q - zero point as floats."""
    value = steps.add("cast", arg, dtype=dtype)
    zero = zero_of(kind)
    return steps.with_number("sub", value, zero, dtype) if zero else value


def finish(
    steps: Steps, real: int, to: UniformQuantizedType, low: int, high: int, name: str, dtype: str = "f32"
) -> int:
    """Append rounding and clipping: numbers in units of the result's scale to stored integers."""
    rounded = steps.add("round", real, dtype=dtype)
    shifted = steps.with_number("add", rounded, zero_of(to), dtype) if zero_of(to) else rounded
    bounds = tuple(float(b) for b in stored_limits(to, low, high))
    return steps.add("cast", steps.add("clip", shifted, dtype=dtype, params=bounds), dtype=name)


def _quantize(op: Operator, result: Any, inputs: Sequence[Any], args: Sequence[int], steps: Steps) -> int:
    kind, dtype = _kind(result), dtype_name(inputs[0])
    dtype = dtype if dtype == "f64" else "f32"
    value = args[0] if dtype_name(inputs[0]) == dtype else steps.add("cast", args[0], dtype=dtype)
    return _divided(steps, value, kind, dtype, dtype_name(result))


def _divided(steps: Steps, value: int, kind: UniformQuantizedType, dtype: str, name: str) -> int:
    """clip(round(value / scale) + zero), 0 for NaN."""
    scale = scale_of(kind) if dtype == "f64" else float(np.float32(scale_of(kind)))
    ratio = steps.with_number("div", value, scale, dtype)
    rounded = steps.add("round", ratio, dtype=dtype)
    shifted = steps.with_number("add", rounded, zero_of(kind), dtype) if zero_of(kind) else rounded
    nothing = steps.add("is_nan", shifted, dtype="i1")
    known = steps.add("select", nothing, steps.number(0, dtype), shifted, dtype=dtype)
    low, high = (float(b) for b in stored_limits(kind, -(1 << 31), (1 << 32) - 1))
    return steps.add("cast", steps.add("clip", known, dtype=dtype, params=(low, high)), dtype=name)


def _dequantize(op: Operator, result: Any, inputs: Sequence[Any], args: Sequence[int], steps: Steps) -> int:
    kind, name = _kind(inputs[0]), dtype_name(result)
    exact = float(np.float32(scale_of(kind))) == scale_of(kind) and kind.storage.width.data <= 16
    dtype = "f32" if exact and name != "f64" else "f64"
    value = steps.with_number("mul", _centred(steps, args[0], kind, dtype), scale_of(kind), dtype)
    return value if dtype == name else steps.add("cast", value, dtype=name)


def _rescale(op: Operator, result: Any, inputs: Sequence[Any], args: Sequence[int], steps: Steps) -> int:
    source, to, name = _kind(inputs[0]), _kind(result), dtype_name(result)
    flipped = {dtype_name(inputs[0]), name} == {"i8", "u8"}
    if flipped and scale_of(source) == scale_of(to) and abs(zero_of(to) - zero_of(source)) == 128:
        # The same numbers, signed or not: the highest bit changes.
        byte = steps.add("cast", args[0], dtype="u8") if name == "u8" else args[0]
        other = steps.with_number("bitwise_xor", byte, 128, "u8")
        return other if name == "u8" else steps.add("cast", other, dtype="i8")
    same = (scale_of(source), zero_of(source), source.signed) == (scale_of(to), zero_of(to), to.signed)
    if same and source.storage.width.data <= to.storage.width.data:
        return steps.add("cast", args[0], dtype=name)
    real = steps.with_number("mul", _centred(steps, args[0], source, "f64"), scale_of(source), "f64")
    return _divided(steps, real, to, "f64", name)


def _sum(name: str) -> _Expansion:
    def rule(op: Any, result: Any, inputs: Sequence[Any], args: Sequence[int], steps: Steps) -> int:
        to = _kind(result)
        parts: list[int] = []
        for value, arg in zip(inputs, args, strict=True):
            factor = float(np.float32(scale_of(_kind(value)) / scale_of(to)))
            parts.append(steps.with_number("mul", _centred(steps, arg, _kind(value)), factor))
        total = steps.add(name, *parts)
        return finish(steps, total, to, op.low, op.high, dtype_name(result))

    return rule


def _product(op: Any, result: Any, inputs: Sequence[Any], args: Sequence[int], steps: Steps) -> int:
    left, right, to = _kind(inputs[0]), _kind(inputs[1]), _kind(result)
    (factor,) = factor_of(left.scale_array, scale_of(right), to)
    product = steps.add("mul", _centred(steps, args[0], left), _centred(steps, args[1], right))
    real = steps.with_number("mul", product, float(factor))
    return finish(steps, real, to, op.low, op.high, dtype_name(result))


EXPANSIONS: dict[type[Operator], _Expansion] = {
    QuantizeOp: _quantize,
    DequantizeOp: _dequantize,
    RescaleOp: _rescale,
    QuantizedAddOp: _sum("add"),
    QuantizedSubOp: _sum("sub"),
    QuantizedMulOp: _product,
}
