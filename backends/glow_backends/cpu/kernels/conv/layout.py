"""Layout of convolutions: which are on channel blocks, and how."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.kernels.conv.adjoint_layout import conv_transpose
from glow_backends.cpu.kernels.conv.conv_half import supports_half
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp as BlockedConvOp
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec, plain_conv_spec
from glow_backends.cpu.kernels.conv.depthwise import supports_depthwise
from glow_backends.cpu.kernels.conv.plane_layout import few_channels, plane_conv
from glow_backends.cpu.kernels.conv.training_layout import changing_conv, changing_transpose
from glow_backends.cpu.kernels.conv.volume_layout import volume_conv, volume_transpose
from glow_backends.cpu.kernels.data.channels_op import PermuteChannelsOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import Blocked
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import element_of, present, shape_of, tensor
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_passes.graph.regions import Region


def computes_conv(op: ConvOp, target: CpuTarget) -> bool:
    """Whether a convolution of 16-bit floats by a constant filter stays one on blocks of them."""
    if len(shape_of(op.input)) not in (3, 4) or not target.computes(dtype_name(op.input)):
        return False
    spec = plain_conv_spec(op)
    if few_channels(spec, target):
        return False
    own = 1 < spec.group == spec.in_channels
    image = spec.in_channels < target.lanes and spec.group == 1 and op.layout == "NCHW"
    return own or image or supports_half(spec, target)


def conv(op: ConvOp, region: Region, target: CpuTarget) -> bool:
    """A convolution of one to three spatial axes; one of two may have a filter that changes."""
    last, rank = op.layout == "NHWC", len(shape_of(op.input))
    known = all(region.is_known(v) for v in (op.filter, *present(op.bias)))
    if 0 in (*shape_of(op.input), *shape_of(op.filter)) or op.predicate is not None:
        return False
    if rank == 5:
        return volume_conv(op, region, target)
    if not known:
        return changing_conv(op, region, target)
    kind = dtype_name(op.input)
    if rank > 5 or (kind != "f32" and not computes_conv(op, target)):
        return False
    channels = op.sizes(op.input)[1]
    spec = plain_conv_spec(op)
    out = spec.out_channels
    if few_channels(spec, target):
        filters = _filters(op, region, last, rank)
        if filters is not None and plane_conv(op, region, spec, filters):
            return True
    algorithm = "depthwise" if supports_depthwise(spec) else "direct"
    blocks = op.input in region.known and (kind == "f32" or supports_half(spec, target))
    image = channels < target.lanes and spec.group == 1 and not blocks
    if image and not last:
        source = _image(op, region)
    else:
        form = region.blocked(op.input, last)
        if form is None:
            return False
        source = form.value
        if spec.kernel == (1, 1) and spec.strides != (1, 1) and not any(spec.pads):
            # The pixels that are read, side by side: rows of any length make full register blocks.
            source = region.add(_every(source, spec.strides))
            spec = replace(spec, size=spec.out_size, strides=(1, 1))
        if 1 < spec.group == channels < out:
            source = _copies(source, spec, region)
            spec, algorithm = replace(spec, in_channels=out, group=out), "depthwise"
    filters = _filters(op, region, last, rank)
    if filters is None:
        return False
    source, spec = _rows_inside(source, spec, region)
    new = _blocked_conv(op, region, source, filters, spec, algorithm, target)
    region.remember(op.result, Blocked(new, out, rank, last))
    return True


def _blocked_conv(
    op: ConvOp,
    region: Region,
    source: SSAValue,
    filters: SSAValue,
    spec: DirectConvSpec,
    algorithm: str,
    target: CpuTarget,
) -> SSAValue:
    """The convolution on channel blocks."""
    bias = [region.constant(v) for v in present(op.bias)]
    new = BlockedConvOp(
        source,
        filters,
        bias[0] if bias else None,
        [],
        algorithm=algorithm,
        lanes=target.lanes,
        strides=spec.strides,
        pads=spec.pads,
        dilations=spec.dilations,
        group=spec.group,
    )
    return region.add(new)


def _image(op: ConvOp, region: Region) -> SSAValue:
    """The input as it is, as a plane of floats."""
    source = region.plain(op.input)
    if len(shape_of(op.input)) == 3:
        batch, channels, spatial = op.sizes(op.input)
        shape = (batch, channels, 1, *spatial)
        source = region.add(ReshapeOp(source, results=tensor(shape, element_of(source))))
    if dtype_name(op.input) != "f32":
        source = region.add(CastOp(source, results=tensor(shape_of(source), f32)))
    return source


def _copies(source: SSAValue, spec: DirectConvSpec, region: Region) -> SSAValue:
    """Of each channel as many copies as it has filters, one for each."""
    channels, out = spec.in_channels, spec.out_channels
    return region.add(PermuteChannelsOp(source, order=tuple(o * channels // out for o in range(out))))


def _rows_inside(source: SSAValue, spec: DirectConvSpec, region: Region) -> tuple[SSAValue, DirectConvSpec]:
    """Rows whose length the run tells with their padding in memory, where much of a filter may be outside.

    Code for the ends of such rows is one piece for each way in which a block of pixels may lie over them.
    """
    top, left, bottom, right = spec.pads
    height, width = spec.size
    if not isinstance(width, Extent) or max(left, right) <= _FEW_OUTSIDE * spec.strides[1]:
        return source, spec
    lanes = (0,) * (len(shape_of(source)) - 4)  # of blocks
    around = (0, 0, 0, left, *lanes, 0, 0, 0, right, *lanes)
    padded = replace(spec, size=(height, width + left + right), pads=(top, 0, bottom, 0))
    return region.add(PadOp(source, pads=around)), padded


_FEW_OUTSIDE = 10
"""Pixels before or behind a row for which each kind of block has code of its own: 19 for 9, 33 for 16."""


def _every(value: SSAValue, strides: tuple[int, int]) -> SliceOp:
    """Every stride-th pixel of a blocked value, from the first on."""
    steps = (1, 1, *strides, 1)
    return SliceOp(value, starts=(0,) * 5, ends=shape_of(value), steps=steps)


def _filters(op: ConvOp, region: Region, last: bool, rank: int) -> SSAValue | None:
    """The filter as OIHW."""
    if not last and rank == 4:
        return region.constant(op.filter)
    array = region.array(op.filter)
    if array is None:
        return None
    array = np.moveaxis(array, -1, 1) if last else array
    array = array[:, :, None, :] if rank == 3 else array
    return region.weight(array, f"{region.name_of(op.filter)}.oihw")


def adjoint(op: ConvTransposeOp, region: Region, target: CpuTarget) -> bool:
    """A transposed convolution of one to three spatial axes."""
    if len(shape_of(op.input)) == 5:
        return volume_transpose(op, region, target)
    return conv_transpose(op, region, target) or changing_transpose(op, region, target)
