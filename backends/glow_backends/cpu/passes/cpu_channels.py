"""glow-cpu-channels: channels change their order inside blocked regions (channel shuffles)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.cpu.kernels.data.blocking_ops import BlockOp, UnblockOp
from glow_backends.cpu.kernels.data.channels_op import PermuteChannelsOp
from glow_dialects.core.types import shape_of
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, producer, rewrite


def shuffled(op: BlockOp, r: Rewriter) -> SSAValue | None:
    """block(reshape(transpose(reshape(unblock(x))))) -> permute_channels(x), where only channels move."""
    joined = producer(op.input, ReshapeOp)
    turned = producer(joined.input, TransposeOp) if joined else None
    split = producer(turned.input, ReshapeOp) if turned else None
    source = producer(split.input, UnblockOp) if split else None
    if turned is None or split is None or source is None or op.lanes != shape_of(source.input)[-1]:
        return None
    if op.layout != "NCHW" or source.layout != "NCHW":
        return None
    batch, channels, *size = shape_of(source.result)
    parts, permutation = shape_of(split.result), turned.permutation
    inner = parts[1:-2]
    fits = list(parts[-2:]) == size and prod(inner) == channels
    last = len(parts)
    still = permutation[0] == 0 and tuple(permutation[-2:]) == (last - 2, last - 1)
    if not fits or not still or shape_of(op.input) != (batch, channels, *size):
        return None
    order = np.arange(channels).reshape(inner).transpose([p - 1 for p in permutation[1:-2]])
    return r(PermuteChannelsOp(source.input, order=tuple(int(i) for i in order.reshape(-1))))


PATTERNS = (Pattern((BlockOp,), shuffled),)


@dataclass(frozen=True)
class CpuChannelsPass(GraphPass):
    """block(reshape(transpose(reshape(unblock(x))))) -> permute_channels(x)."""

    name = "glow-cpu-channels"
    OPTIONAL = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, PATTERNS)
