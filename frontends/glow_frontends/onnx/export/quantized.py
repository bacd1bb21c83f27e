"""Quantised operators in ONNX: between DequantizeLinear and QuantizeLinear nodes, as tools expect them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import Float32Type, i32
from xdsl.ir import SSAValue

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, UniformQuantizedType, dtype_of, element_of, shape_of
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.byte_scale import ByteScaleOp
from glow_dialects.ops.lookup import LookupOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp
from glow_dialects.ops.quantized_arithmetic import QuantizedAddOp, QuantizedMulOp, QuantizedSubOp
from glow_dialects.ops.quantized_avg_pool import QuantizedAvgPoolOp
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.quantized_matmul import QuantizedMatmulOp
from glow_dialects.ops.requantize import NO_HIGH, NO_LOW, RequantizingOp, scale_of, zero_of
from glow_frontends.onnx.export.nn import back, channels_second, window
from glow_frontends.onnx.export.rule import Exporter, Rule


def _kind(value: SSAValue) -> UniformQuantizedType | None:
    kind = element_of(value)
    return kind if isinstance(kind, UniformQuantizedType) else None


def _parameters(kind: UniformQuantizedType, e: Exporter) -> tuple[list[str], dict[str, int]]:
    """Scale and zero point initializers, and the axis where there is one."""
    scale: Array = kind.scale_array.astype(np.float32)
    zero: Array = kind.zero_point_array.astype(dtype_of(kind))
    if kind.axis.data < 0:
        return [e.constant(scale.reshape(()), "scale"), e.constant(zero.reshape(()), "zero_point")], {}
    return [e.constant(scale, "scale"), e.constant(zero, "zero_point")], {"axis": kind.axis.data}


def real(value: SSAValue, e: Exporter) -> str:
    """The real numbers that a value stands for."""
    kind = _kind(value)
    if kind is None:
        return e.name(value)
    inputs, axis = _parameters(kind, e)
    return e.node("DequantizeLinear", [e.name(value), *inputs], **axis)


def stored(op: GraphOp, name: str, e: Exporter) -> str:
    """Real numbers as the result's stored integers, limited as a fused activation says."""
    kind = _kind(op.results[0])
    if kind is None:
        return name
    inputs, axis = _parameters(kind, e)
    info = np.iinfo(dtype_of(kind))
    low, high = op.limits() if isinstance(op, RequantizingOp) else (NO_LOW, NO_HIGH)
    if low > info.min or high < info.max:
        # Limits of real numbers, in front of the rounding: an activation, as runtimes fuse them.
        limits = [(max(info.min, low) - zero_of(kind)), (min(info.max, high) - zero_of(kind))]
        if limits[0] == 0 and high >= info.max:
            name = e.node("Relu", [name])
        else:
            ends = (np.array(v * scale_of(kind), np.float32) for v in limits)
            name = e.node("Clip", [name, *(e.constant(v, "limit") for v in ends)])
    return e.node("QuantizeLinear", [name, *inputs], **axis)


def _quantize(op: QuantizeOp, e: Exporter) -> str:
    return stored(op, e.name(op.input), e)


def _dequantize(op: DequantizeOp, e: Exporter) -> str:
    return real(op.input, e)


def _arithmetic(kind: str) -> Rule:
    return lambda op, e: stored(op, e.node(kind, [real(op.lhs, e), real(op.rhs, e)]), e)


def _bias(op: QuantizedConvOp | QuantizedFullyConnectedOp, weights: SSAValue, e: Exporter) -> list[str]:
    """An i32 bias in units of the product of the scales."""
    if op.bias is None:
        return []
    left, right = _kind(op.input), _kind(weights)
    assert left is not None and right is not None
    unit = (left.scale_array * right.scale_array).astype(np.float32)
    scale = e.constant(unit if unit.size > 1 else unit.reshape(()), "unit")
    axis = {"axis": 0} if unit.size > 1 else {}
    return [e.node("DequantizeLinear", [e.name(op.bias), scale], **axis)]


def _conv(op: QuantizedConvOp, e: Exporter) -> str:
    rank = len(shape_of(op.input))
    inputs = [channels_second(op, real(v, e), rank, e) for v in (op.input, op.filter)]
    conv = e.node("Conv", [*inputs, *_bias(op, op.filter, e)], group=op.group, **window(op))
    return stored(op, back(op, conv, rank, e), e)


def _input_kind(op: QuantizedFullyConnectedOp) -> UniformQuantizedType:
    kind = _kind(op.input)
    assert kind is not None
    return kind


def _products(op: QuantizedFullyConnectedOp, e: Exporter) -> str:
    """Products of integers that the run computed, which other engines do not find in dequantised ones.

    The left ones are unsigned: onnxruntime has no fast product of two signed ones.
    """
    left, right = _input_kind(op), _kind(op.weights)
    assert right is not None
    name, zero = e.name(op.input), zero_of(left)
    if left.signed:
        wide = e.node("Add", [e.node("Cast", [name], to=1), e.constant(np.array(128, np.float32))])
        name, zero = e.node("Cast", [wide], to=2), zero + 128
    offset = e.constant(np.array(zero, np.uint8), "zero_point")
    total = e.node("MatMulInteger", [name, e.name(op.weights), offset])
    if op.bias is not None:
        total = e.node("Add", [total, e.name(op.bias)])
    unit = (left.scale_array * right.scale_array).astype(np.float32)
    return e.node("Mul", [e.node("Cast", [total], to=1), e.constant(unit, "unit")])


def _fully_connected(op: QuantizedFullyConnectedOp, e: Exporter) -> str:
    if element_of(op.result) == i32 and op.bias is None:
        zero = e.constant(np.array(zero_of(_input_kind(op)), dtype_of(_input_kind(op))), "zero_point")
        return e.node("MatMulInteger", [e.name(op.input), e.name(op.weights), zero])
    if isinstance(op.input.owner, BitCastOp) and isinstance(element_of(op.result), Float32Type):
        return _products(op, e)
    inputs = [real(op.input, e), real(op.weights, e), *_bias(op, op.weights, e)]
    return stored(op, e.node("Gemm", inputs), e)


def _matmul(op: QuantizedMatmulOp, e: Exporter) -> str:
    if element_of(op.result) != i32:
        return stored(op, e.node("MatMul", [real(op.lhs, e), real(op.rhs, e)]), e)
    kinds = [k for v in (op.lhs, op.rhs) if (k := _kind(v)) is not None]
    zeros = [e.constant(np.array(zero_of(k), dtype_of(k)), "zero_point") for k in kinds]
    return e.node("MatMulInteger", [e.name(op.lhs), e.name(op.rhs), *zeros])


def _byte_scale(op: ByteScaleOp, e: Exporter) -> Sequence[str]:
    return e.node("DynamicQuantizeLinear", [e.name(op.input)], 3)[1:]


def _avg_pool(op: QuantizedAvgPoolOp, e: Exporter) -> str:
    rank = len(shape_of(op.input))
    pool = e.node(
        "AveragePool",
        [channels_second(op, real(op.input, e), rank, e)],
        kernel_shape=list(op.kernel),
        count_include_pad=int(bool(op.count_include_pad)),
        **window(op),
    )
    return stored(op, back(op, pool, rank, e), e)


def _lookup(op: LookupOp, e: Exporter) -> str:
    kind = _kind(op.input)
    assert kind is not None
    first = -128 if kind.signed else 0
    wide = e.node("Cast", [e.name(op.input)], to=7)
    place = e.node("Sub", [wide, e.constant(np.array(first, np.int64))])
    return e.node("Gather", [e.name(op.table), place])


def _bit_cast(op: BitCastOp, e: Exporter) -> str:
    """Between stored integers and plain ones nothing changes; ONNX has no other bit cast."""
    if dtype_of(op.input.type) != dtype_of(op.result.type):
        raise UnsupportedError(f"operators that ONNX has no form for:\n  - {op.name} of {op.input.type}")
    return e.name(op.input)


RULES: dict[type[GraphOp], Rule] = {
    BitCastOp: _bit_cast,
    ByteScaleOp: _byte_scale,
    QuantizeOp: _quantize,
    DequantizeOp: _dequantize,
    QuantizedAddOp: _arithmetic("Add"),
    QuantizedSubOp: _arithmetic("Sub"),
    QuantizedMulOp: _arithmetic("Mul"),
    QuantizedConvOp: _conv,
    QuantizedFullyConnectedOp: _fully_connected,
    QuantizedMatmulOp: _matmul,
    QuantizedAvgPoolOp: _avg_pool,
    LookupOp: _lookup,
}
