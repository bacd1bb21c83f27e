"""Convolutions of three spatial axes: sums of convolutions of planes, transposed ones as well."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Region as Body
from xdsl.ir import SSAValue

from glow_backends.cpu.fused_body import BodyBuilder
from glow_backends.cpu.kernels.conv.adjoint_layout import Axis, conv_transpose
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp as BlockedConvOp
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.depthwise import supports_depthwise
from glow_backends.cpu.kernels.data.blocking_ops import BlockOp, UnblockOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array, dtype_of, present, shape_of
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.regions import Region


def volume_conv(op: ConvOp, region: Region, target: CpuTarget) -> bool:
    """conv(x[N C D H W], w) -> sum over d of conv(planes d, d + stride, ... of x, w[:, :, d]).

    Where the channels of all those planes are fewer than a vector, they are one image.
    The planes of all images are one batch; each sum adds to the one before while in registers.
    """
    array = region.array(op.filter) if region.is_known(op.filter) else None
    biased = all(region.is_known(v) for v in present(op.bias))
    if array is None or not biased or dtype_of(op.input.type) != np.float32:
        return False
    last = op.layout == "NHWC"
    filters = np.moveaxis(array, -1, 1) if last else array
    batch, channels, (depth, height, width) = op.sizes(op.input)
    pads, strides, dilations = op.pads, op.strides, op.dilations
    flat_pads = (pads[1], pads[2], pads[4], pads[5])
    planes = _planes(op, region, last)
    if pads[0] or pads[3]:
        planes = region.add(PadOp(planes, pads=(0, pads[0], 0, 0, 0, 0, pads[3], 0, 0, 0)))
    depth += pads[0] + pads[3]
    lanes, group = target.lanes, op.group
    if group == 1 and channels * filters.shape[2] < lanes:
        total = _as_channels(op, region, target, planes, filters)
        return _finish(op, region, total, last)
    image = region.add(ReshapeOp.to(planes, (batch * depth, channels, height, width)))
    blocks = region.add(BlockOp(image, lanes=lanes))
    per_plane = shape_of(blocks)[1:]
    blocks = region.add(ReshapeOp.to(blocks, (batch, depth, *per_plane)))
    out, outputs = array.shape[0], op.sizes(op.result)[2]
    spec = DirectConvSpec(1, channels, out, (height, width), filters.shape[3:], group=group)
    total: SSAValue | None = None
    for tap in range(filters.shape[2]):
        taken = _taken(blocks, tap * dilations[0], strides[0], outputs[0], region)
        weights = region.weight(
            np.ascontiguousarray(filters[:, :, tap]), f"{region.name_of(op.filter)}.plane"
        )
        bias = [region.constant(v) for v in present(op.bias)] if total is None else []
        new = BlockedConvOp(
            taken,
            weights,
            bias,
            [] if total is None else [total],
            algorithm="depthwise" if supports_depthwise(spec) else "direct",
            body=None if total is None else _sum(total),
            lanes=lanes,
            strides=strides[1:],
            pads=flat_pads,
            dilations=dilations[1:],
            group=group,
        )
        total = region.add(new)
    assert total is not None
    return _finish(op, region, total, last)


def _taken(blocks: SSAValue, start: int, step: int, count: int, region: Region) -> SSAValue:
    """Every `step`-th of the planes from `start` on, those of all images side by side."""
    batch, _, *whole = shape_of(blocks)
    window: dict[str, Any] = {
        "starts": (0, start, *(0,) * len(whole)),
        "ends": (batch, start + (count - 1) * step + 1, *whole),
        "steps": (1, step, *(1,) * len(whole)),
    }
    taken = region.add(SliceOp(blocks, **window))
    return region.add(ReshapeOp.to(taken, (batch * count, *whole)))


def _sum(value: SSAValue) -> Body:
    """The body that adds an element of `value`."""
    body = BodyBuilder([value, value])
    return body.finish(body.add(AddOp(*body.results)))


def _finish(op: ConvOp, region: Region, total: SSAValue, last: bool) -> bool:
    """The result from the blocked planes of all images."""
    batch, out, outputs = op.sizes(op.result)
    plain = region.add(UnblockOp(total, channels=out))
    plain = region.add(ReshapeOp.to(plain, (batch, outputs[0], out, *outputs[1:])))
    order = (0, 1, 3, 4, 2) if last else (0, 2, 1, 3, 4)
    region.plains[op.result] = region.add(TransposeOp(plain, permutation=order))
    return True


def _as_channels(op: ConvOp, region: Region, target: CpuTarget, planes: SSAValue, filters: Array) -> SSAValue:
    """Few channels: the planes under each tap are channels of one convolution of planes."""
    batch, _, channels, height, width = shape_of(planes)
    outputs, (stride, *strides) = op.sizes(op.result)[2], op.strides
    dilation, *dilations = op.dilations
    pads = op.pads
    taps: list[SSAValue] = []
    for tap in range(filters.shape[2]):
        start = tap * dilation
        window: dict[str, Any] = {
            "starts": (0, start, 0, 0, 0),
            "ends": (batch, start + (outputs[0] - 1) * stride + 1, channels, height, width),
            "steps": (1, stride, 1, 1, 1),
        }
        taps.append(region.add(SliceOp(planes, **window)))
    joined = taps[0] if len(taps) == 1 else region.add(ConcatOp(taps, axis=2))
    image = region.add(ReshapeOp.to(joined, (batch * outputs[0], channels * len(taps), height, width)))
    weights = filters.transpose(0, 2, 1, 3, 4).reshape(filters.shape[0], -1, *filters.shape[3:])
    new = BlockedConvOp(
        image,
        region.weight(np.ascontiguousarray(weights), f"{region.name_of(op.filter)}.planes"),
        [region.constant(v) for v in present(op.bias)],
        [],
        lanes=target.lanes,
        strides=strides,
        pads=(pads[1], pads[2], pads[4], pads[5]),
        dilations=dilations,
    )
    return region.add(new)


def _planes(op: ConvOp | ConvTransposeOp, region: Region, last: bool) -> SSAValue:
    """The input as N D C H W."""
    order = (0, 1, 4, 2, 3) if last else (0, 2, 1, 3, 4)
    return region.add(TransposeOp(region.plain(op.input), permutation=order))


def volume_transpose(op: ConvTransposeOp, region: Region, target: CpuTarget) -> bool:
    """conv_transpose(x[N C D H W], w): one of planes that makes what each filter plane adds, and sums."""
    array = region.array(op.filter) if region.is_known(op.filter) else None
    if array is None or dtype_of(op.input.type) != np.float32 or op.group != 1:
        return False
    if op.predicate is not None or not all(region.is_known(v) for v in present(op.bias)):
        return False
    last = op.layout == "NHWC"
    filters = np.moveaxis(array, -1, 1) if last else array
    batch, channels, (depth, *size) = op.sizes(op.input)
    _, out, (planes, *result) = op.sizes(op.result)
    pads, strides, dilations = op.pads, op.strides, op.dilations
    axis = Axis.of(depth, planes, filters.shape[2], strides[0], pads[0], dilations[0])
    if any(p < 0 for p in axis.pads):
        return False
    image = region.add(ReshapeOp.to(_planes(op, region, last), (batch * depth, channels, *size)))
    wide = filters.transpose(0, 2, 1, 3, 4).reshape(channels, -1, *filters.shape[3:])
    weights = region.weight(np.ascontiguousarray(wide), f"{region.name_of(op.filter)}.planes")
    flat = ConvTransposeOp(
        image,
        weights,
        None,
        strides=strides[1:],
        pads=(pads[1], pads[2], pads[4], pads[5]),
        dilations=dilations[1:],
        output_pads=op.output_pads[1:],
    )
    new = region.add(flat)
    if conv_transpose(flat, region, target):
        new = region.plain(new)
        flat.detach()
        flat.erase()
    parts = region.add(ReshapeOp.to(new, (batch, depth, len(axis.taps), out, *result)))
    stacked = _added_planes(region, axis, parts)
    moved = region.add(TransposeOp(stacked, permutation=(0, 3, 1, 2, 4, 5)))
    value = region.add(ReshapeOp.to(moved, (batch, out, axis.steps * axis.stride, *result)))
    if axis.steps * axis.stride != planes:
        value = region.add(SliceOp.window(value, (0,) * 5, (batch, out, planes, *result)))
    for bias in present(op.bias):
        value = region.add(AddOp(value, region.add(ReshapeOp.to(region.constant(bias), (1, out, 1, 1, 1)))))
    if last:
        value = region.add(TransposeOp(value, permutation=(0, 2, 3, 4, 1)))
    region.plains[op.result] = value
    return True


def _added_planes(region: Region, axis: Axis, parts: SSAValue) -> SSAValue:
    """The products of the taps with each plane, [N, D, taps, ...], as the sums [N, steps, phases, ...]."""
    if axis.taps == tuple((phase, 0) for phase in range(axis.stride)):
        return parts  # each plane of the result is one tap's
    before, after = axis.pads
    if before or after:
        pads = (0, before, 0, 0, 0, 0, 0, after, 0, 0, 0, 0)
        parts = region.add(PadOp(parts, pads=pads))
    batch, _, _, *rest = shape_of(parts)
    phases: list[SSAValue] = []
    for phase in range(axis.stride):
        total: SSAValue | None = None
        for tap, (own, offset) in enumerate(axis.taps):
            if own != phase:
                continue
            start = offset - axis.low
            size = (batch, axis.steps, 1, *rest)
            term = region.add(SliceOp.window(parts, (0, start, tap, *(0,) * len(rest)), size))
            total = term if total is None else region.add(AddOp(total, term))
        if total is None:
            zero = np.zeros((batch, axis.steps, 1, *rest), np.float32)
            total = region.weight(zero, "no_tap")
        phases.append(total)
    return phases[0] if len(phases) == 1 else region.add(ConcatOp(phases, axis=2))
