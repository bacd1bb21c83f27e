"""glow-cpu-widen: operators on 16-bit floats compute in f32 and round their results.

    conv(x, w) : f16  ->  cast(conv(cast(x) : f32, w : f32)) : f16

Values between operators are rounded as before; the casts join the loops around them. Kernels of
layers are those of f32, whose sums are at least as exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.batch_norm import BatchNormOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.elementwise import BinaryOp, UnaryOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.max_pool import MaxPoolOp
from glow_passes.graph.driver import Pattern, Rewriter, rewrite

#: Layers, and what stands between them: channel blocks go through all of these in f32.
LAYERS = (BatchMatmulOp, BatchNormOp, ConvOp, ConvTransposeOp, FullyConnectedOp, MatmulOp)
BETWEEN = (AvgPoolOp, BinaryOp, MaxPoolOp, UnaryOp)


def _is_narrow(value: SSAValue) -> bool:
    return isinstance(element_of(value), Float16Type | BFloat16Type)


def _wide_type(value: SSAValue) -> Attribute:
    return tensor(shape_of(value), f32) if _is_narrow(value) else value.type


def widened(op: Any, r: Rewriter) -> SSAValue | None:
    """The operator on f32 between casts."""
    if op.group("predicate") or len(op.results) != 1 or not _is_narrow(op.results[0]):
        return None
    made = type(op).create(
        operands=[_wide(v, r) for v in op.operands],
        result_types=[_wide_type(op.results[0])],
        properties=dict(op.properties),
    )
    return r(CastOp(r.insert(made).results[0], results=op.results[0].type))


def _wide(value: SSAValue, r: Rewriter) -> SSAValue:
    if not _is_narrow(value):
        return value
    array = r.array(value)
    if array is not None:
        return r.weight(np.asarray(array).astype(np.float32), value.name_hint or "wide")
    return r(CastOp(value, results=tensor(shape_of(value), f32)))


@dataclass(frozen=True)
class CpuWidenPass(ModulePass):
    """Networks on 16-bit floats that have a layer use its f32 kernel."""

    name = "glow-cpu-widen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        narrow = any(
            isinstance(inner, LAYERS) and _is_narrow(inner.results[0])
            for inner in op.walk()
            if isinstance(inner, GraphOp)
        )
        if narrow:
            rewrite(op, (Pattern((*LAYERS, *BETWEEN), widened),))
