"""Export of products with low-bit weights as MatMulNBits, with the same codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import int_prop
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.dequantize_blocks import DequantizeBlocksOp, pack
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp
from glow_dialects.ops.round_blocks import RoundBlocksOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.ops.transpose import TransposeOp
from glow_frontends.onnx.export.rule import Exporter, Rule

_TAKEN = MatmulOp, TransposeOp, DequantizeBlocksOp, RoundBlocksOp, GetOp
DOMAIN = "com.microsoft"


@graph_op
class MatmulNBitsOp(PureOp):
    """x [m, k] times codes [n, blocks, bytes] with scales and points: what becomes a node.

    `level`: 4 where x is rounded to eight bits by a scale for each block, else 0.
    """

    name = "onnx_export.matmul_n_bits"
    bits = int_prop()
    block = int_prop()
    level = int_prop(0)
    input = operand_def(Tensor)
    codes = operand_def(Tensor)
    scales = operand_def(Tensor)
    points = opt_operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        return [tensor((*shape_of(self.input)[:-1], shape_of(self.codes)[0]), element_of(self.input))]


def keep_codes(function: FuncOp) -> None:
    """matmul(x, transpose(dequantize_blocks(constants))) -> matmul_n_bits(x, codes, scales)."""
    for op in list(function.body.block.ops):
        if isinstance(op, MatmulOp):
            _keep(op)
    for op in reversed(list(function.body.block.ops)):
        if isinstance(op, _TAKEN) and op.results[0].first_use is None:
            op.detach()
            op.erase()


def _keep(op: MatmulOp) -> None:
    weights = _weights(op.rhs)
    if weights is None:
        return
    bits, block, depth = weights.bits, weights.block, weights.depth
    codes, scales = _array(weights.codes), _array(weights.scales)
    points = None if weights.points is None else _array(weights.points)
    if codes is None or scales is None or (weights.points is not None and points is None):
        return
    if (
        weights.levels is not None
        or bits not in (2, 4, 8)
        or depth % block
        or block < 16
        or block & (block - 1)
    ):
        return
    rows, x, level = len(codes), op.lhs, 0
    if isinstance(x.owner, RoundBlocksOp) and x.owner.block == block:
        x, level = x.owner.input, 4
    b = Builder.before(op)
    if points is None and weights.point != 1 << (bits - 1):
        points = np.full(scales.shape, weights.point, np.float32)
    stored = None if points is None else b.constant(_points(points, bits))
    made = b(
        MatmulNBitsOp(
            x,
            b.constant(np.ascontiguousarray(codes).reshape(rows, depth // block, -1)),
            b.constant(np.ascontiguousarray(scales).reshape(-1)),
            stored,
            bits=bits,
            block=block,
            level=level,
        )
    )
    op.result.replace_all_uses_with(made)


def _weights(value: SSAValue) -> DequantizeBlocksOp | None:
    turn = value.owner
    if not isinstance(turn, TransposeOp) or tuple(turn.permutation) != (1, 0):
        return None
    inner = turn.input.owner
    return inner if isinstance(inner, DequantizeBlocksOp) and element_of(inner.scales) == f32 else None


def _array(value: SSAValue) -> Array | None:
    owner = value.owner
    if isinstance(owner, GetOp):
        target = owner.target()
        return target.array() if isinstance(target, ConstantOp) else None
    return owner.array() if isinstance(owner, LiteralOp | SplatOp) else None


def _points(points: Array, bits: int) -> Array:
    """Whole numbers are packed as codes are, others stay floats."""
    whole = np.rint(points)
    if np.array_equal(whole, points) and whole.min() >= 0 and whole.max() < 1 << bits:
        return pack(whole.astype(np.uint8), bits)
    return points.astype(np.float32).reshape(-1)


def _rule(op: MatmulNBitsOp, e: Exporter) -> str:
    (rows, blocks, _), parts = shape_of(op.codes), [op.input, op.codes, op.scales]
    names = [e.name(v) for v in (*parts, *([] if op.points is None else [op.points]))]
    return e.node(
        "MatMulNBits",
        names,
        domain=DOMAIN,
        K=blocks * op.block,
        N=rows,
        bits=op.bits,
        block_size=op.block,
        accuracy_level=op.level or None,
    )


FEW_BITS_RULES: dict[type, Rule] = {MatmulNBitsOp: _rule}
