"""Factors and offsets after (or before) a linear operator enter its weights.

conv(x, w) * s + t  ->  conv(x, w * s, t)
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, dtype_of, shape_of
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.batch_norm import BatchNormOp, along
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import MatmulOp
from glow_passes.graph.driver import Pattern, Rewriter, is_used_once, producer
from glow_passes.graph.linear import channel_vector, linear_of, plain_properties, wide


def _affine(op: BatchNormOp, r: Rewriter) -> tuple[Array, Array] | None:
    """(factor, offset) of a batch normalisation whose vectors are known."""
    arrays = [r.array(v) for v in (op.scale, op.bias, op.mean, op.variance)]
    if any(a is None for a in arrays):
        return None
    scale, bias, mean, variance = (wide(a) for a in arrays if a is not None)
    factor = scale / np.sqrt(variance + variance.dtype.type(op.epsilon))
    return factor, bias - mean * factor


def batch_norm_after_linear(op: BatchNormOp, r: Rewriter) -> SSAValue | None:
    """batch_norm(conv(x, w, b)) -> conv(x, w * s, b * s + t)."""
    linear = linear_of(op.input, r)
    if linear is None or op.channel != (len(shape_of(op.input)) - 1 if linear.last else 1):
        return None
    affine = _affine(op, r)
    if affine is None:
        return None
    factor, offset = affine
    bias = offset if linear.bias is None else linear.bias * factor + offset
    return linear.rebuilt(linear.scaled_weights(factor), bias, r)


def batch_norm_alone(op: BatchNormOp, r: Rewriter) -> SSAValue | None:
    """batch_norm(x) -> x * s + t, which joins the element-wise operators around it."""
    affine = _affine(op, r)
    if affine is None:
        return None
    dtype, rank = dtype_of(op.result.type), len(shape_of(op.input))
    factor, offset = (
        r.weight(along(np.ascontiguousarray(v.astype(dtype)), op.channel, rank), "batch_norm") for v in affine
    )
    return r(AddOp(r(MulOp(op.input, factor)), offset))


def multiply_after_linear(op: MulOp, r: Rewriter) -> SSAValue | None:
    """conv(x, w, b) * s -> conv(x, w * s, b * s), s a number or one a channel."""
    linear = linear_of(op.lhs, r) if op.lhs.type == op.result.type else None
    array = None if linear is None else r.array(op.rhs)
    if linear is None or array is None:
        return None
    factor = channel_vector(array, linear)
    if factor is None:
        return None
    bias = None if linear.bias is None else linear.bias * factor
    return linear.rebuilt(linear.scaled_weights(factor), bias, r)


def add_after_linear(op: AddOp, r: Rewriter) -> SSAValue | None:
    """conv(x, w, b) + t -> conv(x, w, b + t), t a number or one a channel."""
    linear = linear_of(op.lhs, r) if op.lhs.type == op.result.type else None
    array = None if linear is None else r.array(op.rhs)
    if linear is None or array is None or isinstance(linear.op, MatmulOp):
        return None
    offset = channel_vector(array, linear)
    if offset is None:
        return None
    return linear.rebuilt(linear.weights, offset + (0 if linear.bias is None else linear.bias), r)


def multiply_before_linear(op: ConvOp | FullyConnectedOp | MatmulOp, r: Rewriter) -> SSAValue | None:
    """conv(x * s, w) -> conv(x, w * s), s a number or one an input channel; zero pads stay zero."""
    x = op.operands[0]
    product = producer(x, MulOp)
    if product is None or not is_used_once(x) or product.lhs.type != x.type:
        return None
    filter = op.operands[1]
    factor = r.array(product.rhs) if op.predicate is None else None
    weights = None if factor is None else r.array(filter)
    if factor is None or weights is None or weights.dtype.kind in "iub":
        return None
    scaled = _scale_inputs(op, wide(factor), wide(weights))
    if scaled is None:
        return None
    scaled_filter = r.weight(
        np.ascontiguousarray(scaled.astype(weights.dtype)), filter.name_hint or "weights"
    )
    return r(type(op)(product.lhs, scaled_filter, *op.operands[2:], **plain_properties(op)))


def _scale_inputs(op: GraphOp, factor: Array, weights: Array) -> Array | None:
    if factor.size == 1:
        return weights * factor.reshape(())
    rank = len(shape_of(op.operands[0]))
    if isinstance(op, ConvOp):
        axis = rank - 1 if op.layout == "NHWC" else 1
    else:
        axis = rank - 1
    shape = (1,) * (rank - factor.ndim) + factor.shape
    if any(n != 1 for i, n in enumerate(shape) if i != axis):
        return None
    if not isinstance(op, ConvOp):
        return weights * factor.reshape(-1, 1)
    if op.group != 1:
        return None
    return weights * along(factor.reshape(-1), axis, rank)


PATTERNS = (
    Pattern((BatchNormOp,), batch_norm_after_linear),
    Pattern((BatchNormOp,), batch_norm_alone),
    Pattern((MulOp,), multiply_after_linear),
    Pattern((AddOp,), add_after_linear),
    Pattern((ConvOp, FullyConnectedOp, MatmulOp), multiply_before_linear),
)
