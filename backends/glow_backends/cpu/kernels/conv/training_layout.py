"""Layout of the convolutions of training: filters that change, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_backends.cpu.kernels.conv.conv_ops import ConvOp as BlockedConvOp
from glow_backends.cpu.kernels.conv.training_ops import ConvWeightsOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import Blocked
from glow_dialects.core.types import dtype_of, element_of, present, shape_of, tensor
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_backward_weights import ConvBackwardWeightsOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.regions import Region


def _fits(
    op: ConvOp | ConvTransposeOp | ConvBackwardWeightsOp, region: Region, channels: Sequence[int]
) -> bool:
    """Whether blocks suit a convolution of two spatial axes: `channels` fill them."""
    if len(shape_of(op.input)) != 4 or op.predicate is not None or op.group != 1:
        return False
    if dtype_of(op.input.type) != np.float32 or 0 in shape_of(op.input):
        return False
    # Plain kernels, which suit few channels, know channels before the axes of space only.
    return op.layout == "NHWC" or min(channels) >= region.lanes


def _source(op: ConvOp | ConvBackwardWeightsOp, region: Region) -> SSAValue | None:
    """The input as a convolution reads it: blocked, or NCHW for few channels."""
    last = op.layout == "NHWC"
    channels = op.sizes(op.input)[1]
    if channels < region.lanes and op.input not in region.known and not last:
        return region.plain(op.input)
    form = region.blocked(op.input, last)
    return None if form is None else form.value


def _form(op: ConvOp | ConvTransposeOp | ConvBackwardWeightsOp, turned: bool = False) -> str:
    forms = {"NCHW": ("OIHW", "IOHW"), "NHWC": ("OHWI", "IHWO")}
    return forms[op.layout][turned]


def changing_conv(op: ConvOp, region: Region, target: CpuTarget) -> bool:
    """A convolution whose filter is known at run time only."""
    out = op.sizes(op.filter)[0]
    if not _fits(op, region, [out]):
        return False
    source = _source(op, region)
    if source is None:
        return False
    filters = region.constant(op.filter) if region.is_known(op.filter) else region.plain(op.filter)
    new = _conv(op, source, filters, region, op.pads, op.strides)
    last = op.layout == "NHWC"
    region.remember(op.result, Blocked(region.add(new), out, 4, last))
    return True


def _bias(value: SSAValue, region: Region) -> SSAValue:
    """A bias as a constant, or filled up with zeros to whole vectors."""
    if region.is_known(value):
        return region.constant(value)
    missing, plain = -shape_of(value)[0] % region.lanes, region.plain(value)
    return region.add(PadOp(plain, pads=(0, missing))) if missing else plain


def _conv(
    op: ConvOp | ConvTransposeOp,
    source: SSAValue,
    filters: SSAValue,
    region: Region,
    pads: Sequence[int],
    strides: Sequence[int],
) -> BlockedConvOp:
    window: dict[str, Any] = {"pads": pads, "strides": strides, "dilations": op.dilations}
    bias = [_bias(v, region) for v in present(op.bias)]
    form = _form(op, isinstance(op, ConvTransposeOp))
    return BlockedConvOp(source, filters, bias, [], form=form, lanes=region.lanes, **window)


def changing_transpose(op: ConvTransposeOp, region: Region, target: CpuTarget) -> bool:
    """The adjoint of a convolution: convolutions by the turned filter, one for each place of a stride."""
    _, out, kernel = op.sizes(op.filter)
    channels = op.sizes(op.input)[1]
    if not _fits(op, region, [out, channels]):
        return False
    strides, last = op.strides, op.layout == "NHWC"
    sizes = op.sizes(op.result)[2]
    if set(strides) != {1} and set(op.dilations) != {1}:
        return False
    if any(n % s for n, s in zip(sizes, strides, strict=True)):
        return False
    axes = [_axis(op, axis, kernel[axis], sizes[axis]) for axis in range(2)]
    if any(part is not None and min(part[2:]) < 0 for axis in axes for part in axis):
        return False
    form = region.blocked(op.input, last)
    if form is None:
        return False
    batch, lanes = shape_of(form.value)[0], region.lanes
    part = (batch, -(-out // lanes), *(n // s for n, s in zip(sizes, strides, strict=True)), lanes)
    parts: list[SSAValue] = []
    for down in axes[0]:
        for across in axes[1]:
            if down is None or across is None:
                parts.append(_without_taps(op, region, part))
                continue
            filters = _taps(op, region, (down, across))
            pads = (down[2], across[2], down[3], across[3])
            parts.append(region.add(_conv(op, form.value, filters, region, pads, (1, 1))))
    value = parts[0]
    if len(parts) > 1:
        whole = region.add(ConcatOp(parts, axis=0))
        split = region.add(ReshapeOp.to(whole, (*strides, *part)))
        moved = region.add(TransposeOp(split, permutation=(2, 3, 4, 0, 5, 1, 6)))
        value = region.add(ReshapeOp.to(moved, (*part[:2], *sizes, lanes)))
    region.remember(op.result, Blocked(value, out, 4, last))
    return True


def _without_taps(op: ConvTransposeOp, region: Region, part: tuple[int, ...]) -> SSAValue:
    """The blocked results [N, C/c, H, W, c] that no tap of the filter reaches: the bias, or zeros."""
    kind = tensor(part, element_of(op.input))
    if op.bias is None:
        return region.add(SplatOp(value=0.0, results=kind))
    row = region.plain(op.bias)
    missing = -shape_of(row)[0] % region.lanes
    if missing:
        row = region.add(PadOp(row, pads=(0, missing)))
    row = region.add(ReshapeOp.to(row, (1, part[1], 1, 1, part[4])))
    return region.add(ExpandOp(row, results=kind))


_Part = tuple[int, int, int, int]
"""First tap, step between taps, padding before and behind the gradient."""


def _axis(op: ConvTransposeOp, axis: int, taps: int, size: int) -> list[_Part | None]:
    """The taps of each place of a stride along an axis; None: no tap meets it.

    Result o = i stride + tap dilation - pad. Of the results o = place + stride q those taps count
    that equal place + pad modulo the stride: first, first + stride, ...; tap number j of them meets
    i = q + (place + pad - first) / stride - j, a convolution by the taps in reverse.
    """
    stride, pad = op.strides[axis], op.pads[axis]
    dilation, have = op.dilations[axis], op.sizes(op.input)[2][axis]
    if stride == 1:
        begin = dilation * (taps - 1) - pad
        return [(0, 1, begin, size + dilation * (taps - 1) - have - begin)]
    parts: list[_Part | None] = []
    for place in range(stride):
        first = (place + pad) % stride
        count = len(range(first, taps, stride))
        begin = count - 1 - (place + pad - first) // stride
        behind = size // stride + count - 1 - have - begin
        parts.append((first, stride, begin, behind) if count else None)
    return parts


def _taps(op: ConvTransposeOp, region: Region, parts: tuple[_Part, _Part]) -> SSAValue:
    """The filter's taps for a place of the strides."""
    filters = region.plain(op.filter)
    array = region.array(filters) if region.is_known(filters) else None
    starts, ends, steps = [0] * 4, list(shape_of(filters)), [1] * 4
    for axis, (first, step, _, _) in zip(op.spatial_axes(4), parts, strict=True):
        starts[axis], steps[axis] = first, step
    if not any(starts) and set(steps) == {1}:
        return region.constant(filters) if array is not None else filters
    if array is not None:
        taken = tuple(slice(a, None, s) for a, s in zip(starts, steps, strict=True))
        return region.weight(np.ascontiguousarray(array[taken]), f"{region.name_of(filters)}.taps")
    return region.add(SliceOp(filters, starts=tuple(starts), ends=tuple(ends), steps=tuple(steps)))


def conv_weights(op: ConvBackwardWeightsOp, region: Region, target: CpuTarget) -> bool:
    """The gradient of a filter."""
    if not _fits(op, region, [op.sizes(op.result)[0]]):
        return False
    source = _source(op, region)
    grad = region.blocked(op.grad, op.layout == "NHWC")
    if source is None or grad is None:
        return False
    new = ConvWeightsOp(
        source,
        grad.value,
        results=op.result.type,
        form=_form(op),
        lanes=region.lanes,
        strides=op.strides,
        pads=op.pads,
        dilations=op.dilations,
    )
    region.plains[op.result] = region.add(new)
    return True
