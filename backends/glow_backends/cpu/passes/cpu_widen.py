"""glow-cpu-widen: operators on 16-bit floats compute in f32 where the CPU has no arithmetic on them.

    conv(x, w) : f16  ->  cast(conv(cast(x) : f32, w : f32)) : f16

Behind convolutions values stay f32, in blocks of channels, and are not rounded between operators; elsewhere
they are, as without this pass. Where the CPU has arithmetic on the type, layers by constant weights keep it,
and so does what stands between.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp, f32
from xdsl.ir import Attribute, SSAValue

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.kernels.conv.layout import computes_conv
from glow_backends.cpu.passes.layout_rules import keeps_blocks, starts_blocks
from glow_backends.cpu.target import CpuTarget, named
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, producer, rewrite

ADDING = (ScatterElementsOp, ScatterNdOp)
"""With a reduction, these have f32 kernels only."""


def _is_layer(kind: type[GraphOp]) -> bool:
    return kind.LAYER or starts_blocks(kind)


def _is_widened(kind: type[GraphOp]) -> bool:
    return _is_layer(kind) or keeps_blocks(kind) or issubclass(kind, ADDING)


def _is_narrow(value: SSAValue) -> bool:
    return isinstance(element_of(value), Float16Type | BFloat16Type)


def _wide_type(value: SSAValue) -> Attribute:
    return tensor(shape_of(value), f32) if _is_narrow(value) else value.type


def computes(op: GraphOp, r: Rewriter, target: CpuTarget) -> bool:
    """Whether the target has kernels for an operator on 16-bit floats."""
    if not target.computes(dtype_name(op.results[0])):
        return False
    if keeps_blocks(type(op)):
        return True
    if not isinstance(op, ConvOp | FullyConnectedOp | MatmulOp | BatchMatmulOp):
        return False
    if any(r.array(v) is None for v in op.operands[1:]) or 0 in shape_of(op.results[0]):
        return False
    if isinstance(op, ConvOp):
        return computes_conv(op, target)
    *batch, depth, _ = shape_of(op.operands[1])
    return prod(batch) == 1 and depth > 0 and depth % 2 == 0


def widened(op: GraphOp, r: Rewriter, target: CpuTarget) -> SSAValue | None:
    """The operator on f32 between casts."""
    if computes(op, r, target) or (isinstance(op, ADDING) and op.reduction == "none"):
        return None
    if op.predicate is not None or len(op.results) != 1 or not _is_narrow(op.results[0]):
        return None
    wide = type(op).create(
        operands=[_wide(v, r) for v in op.operands],
        result_types=[_wide_type(op.results[0])],
        properties=dict(op.properties),
    )
    return r(CastOp(r.insert(wide).results[0], results=op.results[0].type))


def _wide(value: SSAValue, r: Rewriter) -> SSAValue:
    if not _is_narrow(value):
        return value
    array = r.array(value)
    if array is not None:
        return r.weight(np.asarray(array).astype(np.float32), value.name_hint or "wide")
    return r(CastOp(value, results=tensor(shape_of(value), f32)))


def unrounded(op: CastOp, r: Rewriter, target: CpuTarget) -> SSAValue | None:
    """cast(cast(x) : f16) : f32 -> x behind a convolution, where the target does not compute on f16."""
    inner = producer(op.input, CastOp)
    if inner is None or not _is_narrow(op.input) or target.computes(dtype_name(op.input)):
        return None
    return inner.input if inner.input.type == op.result.type and _follows_convolution(inner.input) else None


def _follows_convolution(value: SSAValue) -> bool:
    """Whether only operators that go through blocks of channels lie between a value and a convolution."""
    seen = {value}
    ahead = [value]
    while ahead:
        owner = ahead.pop().owner
        if not isinstance(owner, GraphOp):
            continue
        if starts_blocks(type(owner)):
            return True
        if keeps_blocks(type(owner)):
            following = [v for v in owner.operands if v not in seen]
            seen.update(following)
            ahead += following
    return False


@dataclass(frozen=True)
class CpuWidenPass(GraphPass):
    """Networks on 16-bit floats that have a layer use its f32 kernel, or that of their type.

    `cpu`: "host" or a name such as "sapphirerapids", which says whether there is arithmetic on f16, bf16.
    """

    name = "glow-cpu-widen"
    cpu: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        narrow = any(
            isinstance(inner, GraphOp) and _is_layer(type(inner)) and _is_narrow(inner.results[0])
            for inner in op.walk()
        )
        if narrow:
            target = named(self.cpu)
            rewrite(op, (Pattern((GraphOp,), partial(widened, target=target), _is_widened),))
            rewrite(op, (Pattern((CastOp,), partial(unrounded, target=target)),))
