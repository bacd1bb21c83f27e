"""glow-cpu-layout: whole regions of the graph on channel-blocked activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from glow_backends.cpu.kernels.data.blocked_bytes import blocked, unsigned
from glow_backends.cpu.kernels.data.blocking_ops import BlockOp, UnblockOp
from glow_backends.cpu.passes.layout_rules import RULES
from glow_backends.cpu.target import CpuTarget, named
from glow_dialects.core.blocks import Blocked
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import UniformQuantizedType, dtype_of, element_of, shape_of
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.quantize import is_byte
from glow_dialects.ops.resize import ResizeOp
from glow_passes.contract import GraphPass
from glow_passes.graph.layout import propagate
from glow_passes.graph.regions import BlockedLayout, Region


class CpuLayout(BlockedLayout):
    """A vector's lanes of channels in a block, bytes unsigned."""

    def __init__(self, target: CpuTarget) -> None:
        super().__init__(target.lanes)
        self.target = target

    def rule(self, kind: type[GraphOp]) -> Callable[[Any, Region], bool] | None:
        rule = RULES.get(kind)
        return None if rule is None else lambda op, region: rule(op, region, self.target)

    def block(self, value: SSAValue, last: bool, region: Region) -> SSAValue:
        return region.add(BlockOp(value, lanes=self.lanes, layout="NHWC" if last else "NCHW"))

    def unblock(self, value: SSAValue, channels: int, last: bool, region: Region) -> SSAValue:
        return region.add(UnblockOp(value, channels=channels, layout="NHWC" if last else "NCHW"))

    def stored(self, value: SSAValue) -> Attribute:
        kind = element_of(value)
        return unsigned(kind) if isinstance(kind, UniformQuantizedType) and is_byte(value) else kind

    def form(self, value: SSAValue, last: bool, region: Region) -> Blocked | None:
        return blocked(value, region, last) if is_byte(value) else region.blocked(value, last)

    def wanted(self, op: Operation) -> Sequence[SSAValue]:
        """What a convolution of one group reads."""
        return [op.input] if isinstance(op, ConvOp) and op.layout == "NCHW" and op.group == 1 else []

    def early(self, op: GraphOp) -> bool:
        """Joins of whole blocks of channels, and interpolations: operands are no larger than they are."""
        shape = shape_of(op.results[0])
        if len(shape) != 4 or dtype_of(op.results[0].type) != np.float32:
            return False
        if isinstance(op, ConcatOp):
            return op.axis == 1 and all(shape_of(v)[1] % self.lanes == 0 for v in op.inputs)
        return isinstance(op, ResizeOp) and shape[1] >= self.lanes


@dataclass(frozen=True)
class CpuLayoutPass(GraphPass):
    """Convolutions and what follows them work on N x C/c x H x W x c; borders convert.

    conv(x, w), relu  ->  unblock(relu(glow_cpu.conv(block(x), w)))

    Values are followed from each convolution on: element-wise operators, pools, joins, slices,
    pads and transposes of channels keep the blocked form; any other reader gets one conversion.
    Joins and interpolations that only a convolution reads are blocked as well.
    `cpu`: "host" or a name such as "haswell", which sets the lanes c.
    """

    name = "glow-cpu-layout"
    cpu: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        propagate(op, CpuLayout(named(self.cpu)))
