"""Matrix products and convolutions in their simplest form, with their biases."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from glow_dialects.core.extent import are_equal
from glow_dialects.core.types import UniformQuantizedType, dtype_of, element_of, present, shape_of, tensor
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.quantized_matmul import QuantizedMatmulOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.driver import Pattern, Rewriter, is_used_once
from glow_passes.graph.linear import plain_properties

FEW_CHANNELS = 4
"""Images of no more channels are worth another view."""
MOST_BYTES = 1 << 15
"""Sums of fewer products of bytes fit 32 bits."""


def batch_of_one_matrix(op: BatchMatmulOp, r: Rewriter) -> SSAValue | None:
    """batch_matmul([.., N, K], [K, M]) -> matmul of [.. * N, K]; the stack is one tall matrix."""
    left, right = shape_of(op.lhs), shape_of(op.rhs)
    if any(n != 1 for n in right[:-2]) or not (len(right) <= len(left) or len(left) == 2):
        return None
    rows = prod(left[:-1])
    x = op.lhs if len(left) == 2 else r(ReshapeOp.to(op.lhs, (rows, left[-1])))
    w = op.rhs if len(right) == 2 else r(ReshapeOp.to(op.rhs, right[-2:]))
    product = r(MatmulOp(x, w))
    return product if product.type == op.result.type else r(ReshapeOp(product, results=op.result.type))


def _row(value: SSAValue, columns: int) -> bool:
    """Whether a value is one number a column."""
    shape = shape_of(value)
    return bool(shape) and shape[-1] == columns and all(n == 1 for n in shape[:-1])


def matmul_and_bias(op: AddOp, r: Rewriter) -> SSAValue | None:
    """matmul(x, w) + b -> fully_connected(x, w, b), b one number a column."""
    for product, bias in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        inner: Any = product.owner
        plain = isinstance(inner, MatmulOp) or (isinstance(inner, FullyConnectedOp) and inner.bias is None)
        if not plain or not is_used_once(product) or product.type != op.result.type:
            continue
        if not _row(bias, shape_of(product)[1]) or inner.predicate is not None:
            continue
        row = bias if len(shape_of(bias)) == 1 else r(ReshapeOp.to(bias, shape_of(bias)[-1:]))
        return r(FullyConnectedOp(inner.operands[0], inner.operands[1], row))
    return None


def spanned_axis(op: ConvOp, r: Rewriter) -> SSAValue | None:
    """conv(x, w), w as high or as wide as x of few channels -> conv(x', w'), those places as channels."""
    batch, channels, spatial = op.sizes(op.input)
    if channels > FEW_CHANNELS or op.group != 1 or op.predicate is not None:
        return None
    last, pads = op.layout == "NHWC", op.pads
    spanned = [
        are_equal(k, n) and not (b or e)
        for k, n, b, e in zip(op.kernel, spatial, pads, pads[2:], strict=False)
    ]
    if (
        spanned not in ([True, False], [False, True])
        or any(are_equal(n, 1) for n in spatial)
        or (spanned[0] and last)
    ):
        return None
    (height, width), (rows, columns), out = spatial, op.kernel, shape_of(op.filter)[0]
    known, bias = plain_properties(op), next(iter(present(op.bias)), None)
    if spanned[0]:
        x = r(ReshapeOp.to(op.input, (batch, channels * height, 1, width)))
        w = r(ReshapeOp.to(op.filter, (out, channels * height, 1, columns)))
        return r(ConvOp(x, w, bias, **known))
    x, w = op.input, op.filter
    if not last:
        x, w = (r(TransposeOp(v, permutation=(0, 2, 1, 3))) for v in (x, w))
    x = r(ReshapeOp.to(x, (batch, height, 1, channels * width)))
    w = r(ReshapeOp.to(w, (out, rows, 1, channels * width)))
    known["layout"] = "NHWC"
    conv = r(ConvOp(x, w, bias, **known))
    return conv if last else r(TransposeOp(conv, permutation=(0, 3, 1, 2)))


def product_of_bytes(op: MatmulOp | BatchMatmulOp, r: Rewriter) -> SSAValue | None:
    """matmul(cast(a), cast(b)), bytes as i32 -> quantized_matmul(a, b), which multiplies bytes."""
    depth = shape_of(op.lhs)[-1]
    if element_of(op.result) != i32 or op.predicate is not None or depth >= MOST_BYTES:
        return None
    stored: list[SSAValue] = []
    for value in (op.lhs, op.rhs):
        source = value.owner.input if isinstance(value.owner, CastOp) else None
        dtype = None if source is None else dtype_of(source.type)
        if source is None or dtype not in (np.dtype(np.int8), np.dtype(np.uint8)):
            return None
        kind = UniformQuantizedType.of(8, 1.0, signed=dtype == np.int8)
        stored.append(r(BitCastOp(source, results=tensor(shape_of(source), kind))))
    return r(QuantizedMatmulOp(*stored, results=op.result.type))


PATTERNS = (
    Pattern((BatchMatmulOp,), batch_of_one_matrix),
    Pattern((ConvOp,), spanned_axis),
)
#: Makes operators that backends may lack; only before lowering.
RECOGNIZE = (
    Pattern((AddOp,), matmul_and_bias),
    Pattern((MatmulOp, BatchMatmulOp), product_of_bytes),
)
