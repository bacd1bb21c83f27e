"""glow-cpu-integer-blocks: rounded activations times low-bit weights as integer products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.cpu.fused_body import detached_body
from glow_backends.cpu.kernels.gemm.block_gemm_op import BlockGemmOp
from glow_backends.cpu.kernels.language.integer_block_gemm import (
    has_integer_kernel,
    in_pairs,
    stored_point,
)
from glow_backends.cpu.kernels.language.integer_blocks_ops import IntegerBlockGemmOp, QuantizeRowsOp
from glow_backends.cpu.target import CpuTarget, named
from glow_dialects.core.types import present
from glow_dialects.ops.dequantize_blocks import FORM
from glow_dialects.ops.module import functions
from glow_dialects.ops.round_blocks import RoundBlocksOp
from glow_passes.contract import GraphPass
from glow_passes.graph.cse import merge_nodes
from glow_passes.graph.driver import Pattern, Rewriter, producer, rewrite


def integers(op: BlockGemmOp, r: Rewriter, target: CpuTarget) -> SSAValue | None:
    """block_gemm(round_blocks(x), w) -> integer_block_gemm(quantize_rows(x), w)."""
    rounded = producer(op.a, RoundBlocksOp)
    if rounded is None or rounded.block != op.block or op.levels is not None or op.predicate is not None:
        return None
    if not has_integer_kernel(op.bits, op.block, op.depth):
        return None
    point = -1.0 if op.points is not None else stored_point(op.bits, op.point, target)
    wide = in_pairs(op.bits, target)
    rows = r.insert(QuantizeRowsOp(rounded.input, block=op.block, point=point, wide=wide))
    form: dict[str, Any] = {n: op.properties[n] for n in FORM if n in op.properties}
    weights = (op.codes, op.scales, op.points, op.experts)
    operands = (rows.codes, *weights, present(op.bias), op.extras, rows.factors)
    return r(IntegerBlockGemmOp(*operands, body=detached_body(op), **form))


@dataclass(frozen=True)
class CpuIntegerBlocksPass(GraphPass):
    """Products of rounded activations by weights of few bits become products of integers.

    `cpu`: "host" or a name such as "sapphirerapids", whose instructions say how integers are kept.
    """

    name = "glow-cpu-integer-blocks"
    cpu: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(isinstance(inner, RoundBlocksOp) for inner in op.walk()):
            return
        rewrite(op, (Pattern((BlockGemmOp,), partial(integers, target=named(self.cpu))),))
        for function in functions(op):
            merge_nodes(function)  # products of one input share its integers
