"""Patterns for constant low-bit weights: products keep them packed, other operators read floats."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from glow_backends.cpu.fused_body import detached_body
from glow_backends.cpu.kernels.gemm.block_gemm_op import BlockGemmOp
from glow_backends.cpu.kernels.gemm.gemm_blocks import has_block_kernel
from glow_backends.cpu.kernels.gemm.gemm_op import GemmOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, present, shape_of
from glow_dialects.ops.dequantize_blocks import FORM, DequantizeBlocksOp
from glow_dialects.ops.expert_matmul import ExpertMatmulOp
from glow_passes.graph.driver import Rewriter, producer


def packed_weights(op: GemmOp, r: Rewriter, target: CpuTarget) -> SSAValue | None:
    """gemm(a, dequantize_blocks(codes, scales)) {transpose_b} -> block_gemm(a, codes, scales)."""
    weights = producer(op.b, DequantizeBlocksOp)
    if weights is None or not op.transpose_b or op.transpose_a or op.scale is not None:
        return None
    if len(shape_of(op.b)) != 2 or element_of(op.a) != f32 or not _stays_packed(weights, op, r, target):
        return None
    operands = (op.a, *_parts(weights), None, present(op.bias), op.extras)
    return r(BlockGemmOp(*operands, body=detached_body(op), **_form(weights)))


def packed_experts(op: ExpertMatmulOp, r: Rewriter, target: CpuTarget) -> SSAValue | None:
    """expert_matmul(a, dequantize_blocks(codes, scales), e) -> block_gemm(a, codes, scales, e)."""
    weights = producer(op.weights, DequantizeBlocksOp)
    if weights is None or op.predicate is not None or not _stays_packed(weights, op, r, target):
        return None
    return r(BlockGemmOp(op.x, *_parts(weights), op.experts, **_form(weights)))


def _stays_packed(weights: DequantizeBlocksOp, op: GraphOp, r: Rewriter, target: CpuTarget) -> bool:
    """Whether a product takes constant codes as they are."""
    known = has_block_kernel(weights.bits, weights.block, weights.levels, target)
    return (
        known and 0 not in shape_of(op.results[0]) and all(r.array(v) is not None for v in weights.operands)
    )


def _parts(weights: DequantizeBlocksOp) -> tuple[SSAValue, SSAValue, SSAValue | None]:
    return weights.codes, weights.scales, weights.points


def _form(weights: DequantizeBlocksOp) -> dict[str, Any]:
    return {n: weights.properties[n] for n in FORM if n in weights.properties}


def expanded(op: DequantizeBlocksOp, r: Rewriter) -> SSAValue | None:
    """dequantize_blocks(constants) -> constant, where no product has taken it."""
    arrays = [r.array(v) for v in (op.codes, op.scales, *present(op.points))]
    if any(a is None for a in arrays):
        return None
    return r.weight(op.evaluate(arrays)[0], "weights")
