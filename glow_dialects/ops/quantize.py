"""quantize, dequantize, rescale: between real numbers and integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp, PureOp, graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import (
    Array,
    Tensor,
    UniformQuantizedType,
    dtype_of,
    element_of,
    shape_of,
    tensor,
)
from glow_dialects.ops.compare import CmpGeOp, CmpLeOp
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.windows import check_float


def quantized_type(value: SSAValue) -> UniformQuantizedType:
    """The quantised element type of a tensor or buffer; a VerifyException where it has another."""
    kind = element_of(value)
    if not isinstance(kind, UniformQuantizedType):
        raise VerifyException(f"expected quantised elements, got {value.type}")
    return kind


def bits_of_one_scale(value: SSAValue) -> int:
    """How many bits the elements are stored in, under one scale; 0 where they are not."""
    kind = element_of(value)
    return kind.storage.width.data if isinstance(kind, UniformQuantizedType) and kind.axis.data < 0 else 0


def is_byte(value: SSAValue) -> bool:
    """Whether the elements are stored in 8 bits under one scale."""
    return bits_of_one_scale(value) == 8


def _parameters(kind: UniformQuantizedType, rank: int) -> tuple[Array, Array]:
    """Scale and zero point, float64, shaped to broadcast to a tensor of `rank`."""
    scale, zero = kind.scale_array, kind.zero_point_array.astype(np.float64)
    axis = kind.axis.data
    shape = [1] * rank if axis < 0 else [-1 if i == axis else 1 for i in range(rank)]
    return scale.reshape(shape), zero.reshape(shape)


def limits_of(kind: UniformQuantizedType) -> tuple[int, int]:
    """The smallest and largest stored integer."""
    width = kind.storage.width.data
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind.signed else (0, (1 << width) - 1)


def quantize_array(x: Array, kind: UniformQuantizedType) -> Array:
    """clip(round(x / scale) + zero point), ties to even, as int64."""
    scale, zero = _parameters(kind, x.ndim)
    # The quotient in the type that holds x, as ONNX computes it.
    ratio = x / scale.astype(x.dtype) if x.dtype.kind == "f" else x / scale
    q = np.rint(ratio).astype(np.float64) + zero
    return np.clip(np.nan_to_num(q, nan=0.0), *limits_of(kind)).astype(np.int64)


def dequantize_array(q: Array, kind: UniformQuantizedType) -> Array:
    """(q - zero point) scale, float64."""
    scale, zero = _parameters(kind, q.ndim)
    return (q.astype(np.float64) - zero) * scale


def _check(op: GraphOp, value: SSAValue) -> None:
    kind = quantized_type(value)
    axis, shape = kind.axis.data, shape_of(value)
    if axis >= len(shape) or (axis >= 0 and len(kind.scales) != shape[axis]):
        raise VerifyException(
            f"{op.name}: {len(kind.scales)} scales for axis {axis} of {value.type}"
            "; give one per index of the axis"
        )


def _same_shape(op: GraphOp, input: SSAValue, result: SSAValue) -> None:
    if shape_of(input) != shape_of(result):
        raise VerifyException(
            f"{op.name}: {input.type} and {result.type} differ in shape; they keep the shape"
        )


@graph_op
class QuantizeOp(PureOp):
    """Real numbers as integers: clip(round(x / scale) + zero point), by the result's element type."""

    name = "glow.quantize"
    PARALLEL_BY_TYPE = True
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        check_float(self.name, self.input)
        _same_shape(self, self.input, self.result)
        _check(self, self.result)

    def evaluate(self, arrays: Sequence[Array | None]) -> list[Array]:
        (x,) = arrays
        assert x is not None
        kind = quantized_type(self.result)
        return [quantize_array(widen(x), kind).astype(dtype_of(kind))]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        # Straight through: rounding counts as the identity, and clipped values are constant.
        kind, rank = quantized_type(self.result), len(shape_of(self.input))
        scale, zero = _parameters(kind, rank)
        low, high = ((limit - zero) * scale for limit in limits_of(kind))
        dtype = dtype_of(self.input.type)
        inside = b(
            AndOp(
                b(CmpGeOp(self.input, b.constant(low.astype(dtype)))),
                b(CmpLeOp(self.input, b.constant(high.astype(dtype)))),
            )
        )
        return [b(SelectOp(inside, dy, b.scalar(0, dy)))]

    def reference(self, result: Array, input: Array) -> None:
        kind = quantized_type(self.operands[0])
        result[...] = quantize_array(widen(input), kind).astype(result.dtype)


@graph_op
class DequantizeOp(PureOp):
    """Integers as real numbers: (q - zero point) scale, by the input's element type."""

    name = "glow.dequantize"
    PARALLEL_BY_TYPE = True
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        check_float(self.name, self.result)
        _same_shape(self, self.input, self.result)
        _check(self, self.input)

    def evaluate(self, arrays: Sequence[Array | None]) -> list[Array]:
        (q,) = arrays
        assert q is not None
        out = np.zeros(shape_of(self.result), dtype_of(self.result.type))
        out[...] = dequantize_array(q, quantized_type(self.input))
        return [out]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        return [grads[0]]

    def reference(self, result: Array, input: Array) -> None:
        result[...] = dequantize_array(input, quantized_type(self.operands[1]))


@graph_op
class RescaleOp(PureOp):
    """Quantised numbers under another scale, zero point or width."""

    name = "glow.rescale"
    PARALLEL_BY_TYPE = True
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        _same_shape(self, self.input, self.result)
        _check(self, self.input)
        _check(self, self.result)

    def evaluate(self, arrays: Sequence[Array | None]) -> list[Array]:
        (q,) = arrays
        assert q is not None
        to = quantized_type(self.result)
        real = dequantize_array(q, quantized_type(self.input))
        return [quantize_array(real, to).astype(dtype_of(to))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        real = tensor(shape_of(self.input), quantized_type(self.input).expressed)
        return [b(QuantizeOp(b(DequantizeOp(self.input, results=real)), results=self.result.type))]

    def reference(self, result: Array, input: Array) -> None:
        real = dequantize_array(input, quantized_type(self.operands[1]))
        result[...] = quantize_array(real, quantized_type(self.operands[0])).astype(result.dtype)


_ASYMMETRIC = UniformQuantizedType.of(8, 0.05, 3)
_ROWS = UniformQuantizedType.of(8, [0.1, 0.2], [0, 1], axis=0)
SAMPLES: tuple[Sample, ...] = (
    Sample(QuantizeOp, (random(3, 4, low=-9, high=9),), results=tensor((3, 4), _ASYMMETRIC), smooth=False),
    Sample(QuantizeOp, (random(2, 4, low=-9, high=9),), results=tensor((2, 4), _ROWS), smooth=False),
    Sample(
        QuantizeOp,
        (random(5, low=-9, high=9),),
        results=tensor((5,), UniformQuantizedType.of(8, 0.05, 130, signed=False)),
        smooth=False,
    ),
)
