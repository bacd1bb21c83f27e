"""glow-match-qdq: float operators between dequantize and quantize compute on integers.

    quantize(conv(dequantize(q), dequantize(w)))  ->  quantized_conv(q, w)

The form in which ONNX tools write quantised models: conversions around every operator. They mean what
ONNX says: no conversion vanishes that may saturate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, UniformQuantizedType, element_of, shape_of, tensor
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp, dequantize_array, is_byte, quantized_type
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.quantized_matmul import QuantizedMatmulOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.requantize import RequantizingOp, scale_of
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, producer, rewrite
from glow_passes.graph.linear import bias_of, plain_properties
from glow_passes.quantize.byte_functions import PATTERN as FUNCTION_OF_BYTES
from glow_passes.quantize.fold_conversions import FoldConversionsPass, narrowed, requantizing_again

#: How much of a unit of a product a bias may lose before weights of few bits make room for it.
LARGE_FRACTION = 1e-3


def bit_cast_of_bit_cast(op: BitCastOp, r: Rewriter) -> SSAValue | None:
    """bit_cast(bit_cast(x)) -> bit_cast(x); to the type that it has -> x."""
    if op.input.type == op.result.type:
        return op.input
    inner = producer(op.input, BitCastOp)
    return None if inner is None else r(BitCastOp(inner.input, results=op.result.type))


def transposed_constant(op: TransposeOp, r: Rewriter) -> SSAValue | None:
    """transpose(dequantize(constant)) -> dequantize(transposed constant)."""
    inner = producer(op.input, DequantizeOp)
    if inner is None or op.predicate is not None:
        return None
    array = r.array(inner.input)
    if array is None:
        return None
    kind, order = quantized_type(inner.input), op.permutation
    if kind.axis.data >= 0:
        scales, zeros = kind.scale_array.tolist(), kind.zero_point_array.tolist()
        width, axis = kind.storage.width.data, tuple(order).index(kind.axis.data)
        kind = UniformQuantizedType.of(width, scales, zeros, kind.signed, axis)
    moved = np.ascontiguousarray(np.asarray(array).transpose(order))
    stored = r.weight(moved, "transposed", tensor(moved.shape, kind))
    return r(DequantizeOp(stored, results=op.result.type))


def _byte_source(value: SSAValue) -> SSAValue | None:
    """The integers that `value` dequantises, where they are 8 bits of one scale."""
    inner = producer(value, DequantizeOp)
    return inner.input if inner is not None and is_byte(inner.input) else None


def _weights(value: SSAValue, axis: int, r: Rewriter) -> SSAValue | None:
    """Constant bytes less their zero points: signed bytes where they fit, else in 16 bits."""
    inner = producer(value, DequantizeOp)
    if inner is None:
        return None
    array = r.array(inner.input)
    if array is None:
        return None
    kind = quantized_type(inner.input)
    if kind.storage.width.data != 8 or kind.axis.data not in (-1, axis):
        return None
    if kind.signed and not kind.zero_point_array.any():
        return inner.input
    spread = [1] * array.ndim
    spread[axis] = -1
    centred = np.asarray(array).astype(np.int16) - kind.zero_point_array.reshape(spread).astype(np.int16)
    narrow = centred.min(initial=0) >= -128 and centred.max(initial=0) <= 127
    one, scales = kind.axis.data < 0, kind.scale_array.tolist()
    to = UniformQuantizedType.of(8 if narrow else 16, scales[0] if one else scales, axis=kind.axis.data)
    return r.weight(centred.astype(np.int8) if narrow else centred, "weights", tensor(centred.shape, to))


def _with_bias(
    w: SSAValue, scale: float, value: SSAValue | None, r: Rewriter
) -> tuple[SSAValue, SSAValue | None] | None:
    """Weights, and a bias as i32 in units of their scale and the input's; None where it cannot be one.

    A real bias lies between two units, which are coarse where numbers have few bits. There weights are
    multiplied and their scale divided by the power of two that bytes have room for: sums mean the same.
    """
    if value is None:
        return w, None
    inner = producer(value, DequantizeOp)
    array = r.array(inner.input if inner is not None else value)
    if array is None:
        return None
    real = array if inner is None else dequantize_array(np.asarray(array), quantized_type(inner.input))
    real = np.asarray(real, np.float64)
    held = r.array(w)
    if held is not None and np.abs(_rounded(real, w, scale)[1]).max(initial=0) > LARGE_FRACTION:
        w = _multiplied(w, np.asarray(held), r)
    stored, _ = _rounded(real, w, scale)
    if not np.isfinite(stored).all() or np.abs(stored).max(initial=0) >= 2**31:
        return None
    return w, r.weight(stored.astype(np.int32), "bias")


def _rounded(real: Array, w: SSAValue, scale: float) -> tuple[Array, Array]:
    """Numbers in units of the weights' scales and the input's `scale`: whole ones, and what is left."""
    exact = real / (quantized_type(w).scale_array * scale)
    return np.rint(exact), exact - np.rint(exact)


def _multiplied(w: SSAValue, array: Array, r: Rewriter) -> SSAValue:
    """The same weights by the largest power of two that leaves them bytes."""
    kind, most = quantized_type(w), int(np.abs(array.astype(np.int32)).max(initial=0))
    power = 1
    while most and kind.storage.width.data == 8 and 2 * power * most <= 127:
        power *= 2
    if power == 1:
        return w
    scales, axis = (kind.scale_array / power).tolist(), kind.axis.data
    to = UniformQuantizedType.of(8, scales[0] if axis < 0 else scales, axis=axis)
    return r.weight((array * power).astype(np.int8), "weights", tensor(array.shape, to))


def layer(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """conv of dequantised bytes -> quantized_conv with a real result; fully_connected and matmul alike."""
    axes = op.layer_axes()
    if axes is None:
        return None
    bias = next(iter(bias_of(op)), None)
    return _layer(op, r, op.QUANTIZED, axes.outputs, bias, **plain_properties(op))


def _layer(
    op: Any, r: Rewriter, quantized: Any, axis: int, bias: SSAValue | None, **properties: Any
) -> SSAValue | None:
    x = _byte_source(op.operands[0])
    if x is None or op.predicate is not None or element_of(op.results[0]) != f32:
        return None
    w = _weights(op.operands[1], axis, r)
    if w is None:
        return None
    parts = _with_bias(w, scale_of(quantized_type(x)), bias, r)
    return None if parts is None else r(quantized(x, *parts, results=op.results[0].type, **properties))


def stack_by_matrix(op: BatchMatmulOp, r: Rewriter) -> SSAValue | None:
    """batch_matmul of dequantised bytes with one constant matrix -> quantized_fully_connected of all rows."""
    x = _byte_source(op.operands[0])
    matrix = shape_of(op.operands[1])
    if x is None or len(matrix) != 2 or op.predicate is not None or element_of(op.result) != f32:
        return None
    w = _weights(op.operands[1], 1, r)
    if w is None:
        return None
    rows, count, columns = x, prod(shape_of(x)[:-1]), matrix[-1]
    if len(shape_of(x)) > 2:
        rows = r(ReshapeOp(x, results=tensor((count, shape_of(x)[-1]), element_of(x))))
    total = r(QuantizedFullyConnectedOp(rows, w, None, results=tensor((count, columns), f32)))
    return total if total.type == op.result.type else r(ReshapeOp(total, results=op.result.type))


def product(op: MatmulOp | BatchMatmulOp | FullyConnectedOp, r: Rewriter) -> SSAValue | None:
    """A product of dequantised bytes, neither of them constant -> quantized_matmul with a real result."""
    parts = [_byte_source(v) for v in op.operands[:2]]
    if None in parts or op.predicate is not None or element_of(op.results[0]) != f32:
        return None
    total = r(QuantizedMatmulOp(*parts, results=op.results[0].type))
    bias = op.bias if isinstance(op, FullyConnectedOp) else None
    return total if bias is None else r(AddOp(total, bias))


def bias_of_product(op: AddOp, r: Rewriter) -> SSAValue | None:
    """quantized_fully_connected + constant row -> its bias."""
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        shaped = producer(value, ReshapeOp, single=True)
        inner = producer(value if shaped is None else shaped.input, QuantizedFullyConnectedOp, single=True)
        if inner is None or inner.bias is not None or shape_of(op.result) != shape_of(value):
            continue
        if element_of(inner.result) != f32 or shape_of(other) != shape_of(inner.result)[1:]:
            continue
        parts = _with_bias(inner.weights, scale_of(quantized_type(inner.input)), other, r)
        if parts is None:
            continue
        product = r(QuantizedFullyConnectedOp(inner.input, *parts, results=inner.result.type))
        return product if shaped is None else r(ReshapeOp(product, results=op.result.type))
    return None


def quantize_of_linear(op: QuantizeOp, r: Rewriter) -> SSAValue | None:
    """quantize(relu(quantized_conv with a real result)) -> quantized_conv with a stored result."""
    kind = quantized_type(op.result)
    if kind.axis.data >= 0 or kind.storage.width.data > 16:
        return None
    value: SSAValue = op.input
    limits = (-np.inf, np.inf)
    limiter = producer(value, GraphOp, single=True)
    if limiter is not None and limiter.predicate is None and (own := limiter.clamp_limits()) is not None:
        value, limits = limiter.operands[0], own
    shaped = producer(value, ReshapeOp, single=True)
    value = value if shaped is None else shaped.input
    inner = producer(value, RequantizingOp, single=True)
    if inner is None or limits[0] > limits[1]:
        return None
    result = tensor(shape_of(inner.results[0]), kind)
    bounds = narrowed(kind, limits[0], limits[1], inner.limits())
    stored = requantizing_again(inner, r, result, **bounds)
    return stored if shaped is None else r(ReshapeOp(stored, results=op.result.type))


def quantize_of_operator(op: QuantizeOp, r: Rewriter) -> SSAValue | None:
    """quantize(relu(dequantize(p) + dequantize(q))) -> quantized_add(p, q); -, * and avg_pool alike."""
    kind = quantized_type(op.result)
    if kind.axis.data >= 0 or kind.storage.width.data != 8:
        return None
    value, limits = op.input, (-np.inf, np.inf)
    limiter = producer(value, ReluOp, single=True)
    if limiter is not None and limiter.predicate is None:
        value, limits = limiter.input, (0.0, np.inf)
    inner = producer(value, GraphOp, single=True)
    if inner is None or inner.QUANTIZED is None or inner.LAYER:
        return None
    parts = [_byte_source(v) for v in inner.operands]
    if any(p is None for p in parts):
        return None
    properties: dict[str, Any] = {**plain_properties(inner), **narrowed(kind, *limits)}
    return r(inner.QUANTIZED(*parts, results=op.result.type, **properties))


PATTERNS = (
    Pattern((BitCastOp,), bit_cast_of_bit_cast),
    Pattern((TransposeOp,), transposed_constant),
    Pattern((GraphOp,), layer, lambda op: op.QUANTIZED is not None),
    Pattern((BatchMatmulOp,), stack_by_matrix),
    Pattern((MatmulOp, BatchMatmulOp, FullyConnectedOp), product),
    Pattern((AddOp,), bias_of_product),
    Pattern((QuantizeOp,), quantize_of_linear),
    Pattern((QuantizeOp,), quantize_of_operator),
    FUNCTION_OF_BYTES,
)


@dataclass(frozen=True)
class MatchQdqPass(GraphPass):
    """Operators between conversions become integer operators; the conversions fold."""

    name = "glow-match-qdq"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(isinstance(node, DequantizeOp) for node in op.walk()):
            return
        rewrite(op, PATTERNS)
        FoldConversionsPass(saturate=True).apply(ctx, op)
        rewrite(op, PATTERNS)
