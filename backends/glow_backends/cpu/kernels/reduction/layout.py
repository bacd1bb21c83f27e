"""Layout of reductions of channel blocks."""

from __future__ import annotations

from math import prod

from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import shape_of
from glow_dialects.ops.byte_scale import ByteScaleOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_passes.graph.regions import Region


def channel_sum(op: ReduceSumOp, region: Region, target: CpuTarget) -> bool:
    """The sum of each channel: the gradient of a bias."""
    form = region.known.get(op.input)
    if form is None or op.keepdims or op.predicate is not None:
        return False
    if sorted(op.axes) != sorted((0, *form.spatial)):
        return False
    sums = region.add(ReduceSumOp(form.value, axes=(0, 2, 3), keepdims=False))
    flat = region.add(ReshapeOp.to(sums, (prod(shape_of(sums)),)))
    if form.channels % region.lanes:
        flat = region.add(SliceOp.window(flat, (0,), (form.channels,)))
    region.plains[op.result] = flat
    return True


def byte_scale(op: ByteScaleOp, region: Region, target: CpuTarget) -> bool:
    """Scale and zero point of all channels, in whichever order they lie; lanes without one must not count."""
    form = region.known.get(op.input)
    if form is None or form.channels % region.lanes or op.predicate is not None:
        return False
    new = ByteScaleOp(form.value)
    region.builder.insert(new)
    region.plains.update(zip(op.results, new.results, strict=True))
    return True
