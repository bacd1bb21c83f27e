"""Convolutions that layout assignment keeps on plain values: few output channels."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_backends.cpu.kernels.conv.conv_ops import PlaneConvOp
from glow_backends.cpu.kernels.conv.conv_plane import PlaneConvSpec, supports_plane
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import Blocked
from glow_dialects.core.types import Array, element_of, present, shape_of, tensor
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.regions import Region


def few_channels(spec: DirectConvSpec, target: CpuTarget) -> bool:
    """Whether blocks would be mostly empty and rows are long enough for vectors of pixels."""
    plane = plane_spec(spec)
    return spec.group == 1 and spec.out_channels * 2 <= target.lanes and supports_plane(plane, target)


def plane_spec(spec: DirectConvSpec) -> PlaneConvSpec:
    """The plane kernel's spec after padding and after the columns' stride became channels."""
    stride = spec.strides[1]
    dilation, taps = spec.dilations[1], spec.kernel[1]
    if stride > 1:
        dilation, taps = 1, -(-(spec.dilations[1] * (taps - 1) + 1) // stride)
    height = spec.size[0] + spec.pads[0] + spec.pads[2]
    return PlaneConvSpec(
        spec.batch,
        spec.in_channels * stride,
        spec.out_channels,
        (height, spec.out_size[1] + dilation * (taps - 1)),
        (spec.kernel[0], taps),
        spec.strides[0],
        (spec.dilations[0], dilation),
    )


def phases(filters: Array, stride: int, dilation: int) -> Array:
    """OIHW filters of a stride along columns as filters of stride 1 on `stride` times the channels.

    conv(x, w)[.., q] = sum_t x[.., q s + t] w[t] = sum_p sum_u x_p[.., q + u] w[u s + p], where
    x_p = x[.., p::s] are the phases of a row.
    """
    out, inner, rows, columns = filters.shape
    reach = dilation * (columns - 1) + 1
    spread = np.zeros((out, inner, rows, -(-reach // stride) * stride), filters.dtype)
    spread[..., :reach:dilation] = filters
    split = spread.reshape(out, inner, rows, -1, stride)
    return np.ascontiguousarray(split.transpose(0, 1, 4, 2, 3).reshape(out, -1, rows, split.shape[3]))


def plain_image(value: SSAValue, region: Region, last: bool, rank: int) -> SSAValue:
    """A value of the original graph as N C H W, H = 1 for rank 3."""
    form = region.known.get(value)
    shape = shape_of(value)
    if last:
        shape = (shape[0], shape[-1], *shape[1:-1])
    wide = (*shape[:2], 1, shape[2]) if rank == 3 else shape
    kind = tensor(wide, element_of(value))
    if form is not None and value not in region.plains:
        return region.unblocked(Blocked(form.value, form.channels, 4, last=False), kind)
    source = region.plain(value)
    if last:
        source = region.add(TransposeOp(source, permutation=(0, rank - 1, *range(1, rank - 1))))
    return source if shape_of(source) == wide else region.add(ReshapeOp(source, results=kind))


def plane_conv(op: ConvOp, region: Region, spec: DirectConvSpec, filters: SSAValue) -> bool:
    """conv -> plane_conv(pad(x)), the columns' stride as channels; `filters` is OIHW."""
    last, rank = op.layout == "NHWC", len(shape_of(op.input))
    plane, stride = plane_spec(spec), spec.strides[1]
    if stride > 1:
        array = region.array(filters)
        if array is None:
            return False
        filters = region.weight(phases(array, stride, spec.dilations[1]), "phases")
    width = plane.size[1] * stride
    source = _fitted(plain_image(op.input, region, last, rank), region, spec.pads, width)
    if stride > 1:
        batch, channels, height, _ = shape_of(source)
        split = region.add(ReshapeOp.to(source, (batch, channels, height, width // stride, stride)))
        moved = region.add(TransposeOp(split, permutation=(0, 1, 4, 2, 3)))
        source = region.add(ReshapeOp.to(moved, (batch, channels * stride, height, width // stride)))
    bias = [region.constant(v) for v in present(op.bias)]
    window: dict[str, Any] = {"row_stride": plane.row_stride, "dilations": plane.dilations, "phases": stride}
    new = PlaneConvOp(source, filters, bias, [], **window)
    value = region.add(new)
    if last:
        value = region.add(TransposeOp(value, permutation=(0, 2, 3, 1)))
    if value.type != op.result.type:
        value = region.add(ReshapeOp(value, results=op.result.type))
    region.plains[op.result] = value
    return True


def _fitted(source: SSAValue, region: Region, pads: tuple[int, ...], width: int) -> SSAValue:
    """The image padded, its rows as long as the kernel reads them."""
    batch, channels, height, have = shape_of(source)
    after = width - have - pads[1]
    if after < 0:
        source = region.add(SliceOp.window(source, (0,) * 4, (batch, channels, height, have + after)))
        after = 0
    whole = (0, 0, pads[0], pads[1], 0, 0, pads[2], after)
    return region.add(PadOp(source, pads=whole)) if any(whole) else source
