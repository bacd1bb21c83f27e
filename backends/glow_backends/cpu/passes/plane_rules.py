"""Convolutions that layout assignment keeps on plain values: few output channels, transposed ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_backends.cpu.dialect import ConvOp as BlockedConvOp
from glow_backends.cpu.dialect import PlaneConvOp
from glow_backends.cpu.kernels.conv_plane import PlaneConvSpec, supports_plane
from glow_backends.cpu.kernels.conv_spec import DirectConvSpec
from glow_backends.cpu.passes.regions import Blocked, Region
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array, dtype_of, element_of, shape_of, tensor
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.transpose import TransposeOp


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
    last, rank = op.prop("layout") == "NHWC", len(shape_of(op.input))
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
    bias = [region.constant(v) for v in op.group("bias")]
    window: dict[str, Any] = {"row_stride": plane.row_stride, "dilations": plane.dilations, "phases": stride}
    made = PlaneConvOp(source, filters, bias, [], **window)
    value = region.add(made)
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


def conv_transpose(op: ConvTransposeOp, region: Region, target: CpuTarget) -> bool:
    """Windows that do not overlap: a 1x1 convolution to all pixels of a window, then a shuffle."""
    kernel = op.kernel
    simple = len(kernel) == 2 and op.prop("layout") == "NCHW" and op.prop("group") == 1
    padded = any(op.prop("pads")) or any(op.prop("output_pads")) or set(op.prop("dilations")) != {1}
    if not simple or padded or tuple(op.prop("strides")) != kernel:
        return False
    array, bias = region.array(op.filter), [region.array(v) for v in op.group("bias")]
    known = array is not None and all(b is not None for b in bias)
    if array is None or not known or dtype_of(op.input.type) != np.float32:
        return False
    row = np.zeros(array.shape[1], np.float32) if not bias or bias[0] is None else bias[0]
    width, pixels = shape_of(op.input)[3], kernel[0] * kernel[1]
    if array.shape[1] * pixels * 2 <= target.lanes and width >= target.lanes:
        return _plain_windows(op, region, array, row)
    return _blocked_windows(op, region, array, row)


def _plain_windows(op: ConvTransposeOp, region: Region, array: Array, row: Array) -> bool:
    batch, _, height, width = shape_of(op.input)
    kernel, out = op.kernel, array.shape[1]
    filters = region.weight(_window_filters(array, out), "window")
    bias = region.weight(np.tile(row, kernel[0] * kernel[1]), "bias")
    y = region.add(PlaneConvOp(plain_image(op.input, region, False, 4), filters, bias, []))
    split = region.add(ReshapeOp.to(y, (batch, *kernel, out, height, width)))
    moved = region.add(TransposeOp(split, permutation=(0, 3, 4, 1, 5, 2)))
    region.plains[op.result] = region.add(ReshapeOp(moved, results=op.result.type))
    return True


def _blocked_windows(op: ConvTransposeOp, region: Region, array: Array, row: Array) -> bool:
    form = region.blocked(op.input, False)
    if form is None:
        return False
    batch, _, height, width = shape_of(op.input)
    kernel, out, lanes = op.kernel, array.shape[1], region.lanes
    blocks = -(-out // lanes)
    filters = region.weight(_window_filters(array, blocks * lanes), "window")
    filled = np.zeros(blocks * lanes, np.float32)
    filled[:out] = row
    bias = region.weight(np.tile(filled, kernel[0] * kernel[1]), "bias")
    window: dict[str, Any] = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    y = region.add(BlockedConvOp(form.value, filters, bias, [], lanes=lanes, **window))
    split = region.add(ReshapeOp.to(y, (batch, *kernel, blocks, height, width, lanes)))
    moved = region.add(TransposeOp(split, permutation=(0, 3, 4, 1, 5, 2, 6)))
    shape = (batch, blocks, height * kernel[0], width * kernel[1], lanes)
    region.remember(op.result, Blocked(region.add(ReshapeOp.to(moved, shape)), out, 4, last=False))
    return True


def _window_filters(array: Array, channels: int) -> Array:
    """[C, K, R, S] as 1x1 filters [R S channels, C, 1, 1], zeros for channels beyond K."""
    inner, out, rows, columns = array.shape
    made = np.zeros((rows, columns, channels, inner), array.dtype)
    made[:, :, :out] = array.transpose(2, 3, 1, 0)
    return made.reshape(-1, inner, 1, 1)
