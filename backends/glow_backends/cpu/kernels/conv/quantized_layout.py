"""Layout of quantised convolutions: unsigned bytes on channel blocks."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from glow_backends.cpu.emit.windows import pads_of_two, pair
from glow_backends.cpu.kernels.conv.depthwise_int8 import LARGEST_KERNEL
from glow_backends.cpu.kernels.conv.quantized_ops import PairsConvOp
from glow_backends.cpu.kernels.conv.quantized_ops import QuantizedConvOp as BlockedConvOp
from glow_backends.cpu.kernels.data.blocked_bytes import blocked, byte_kind, shifted, unsigned
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array, UniformQuantizedType, element_of, present, shape_of, tensor
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.quantize import bits_of_one_scale, is_byte
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.requantize import zero_of
from glow_dialects.ops.windows import output_sizes
from glow_passes.graph.regions import Region


def conv(op: QuantizedConvOp, region: Region, target: CpuTarget) -> bool:
    """A convolution of one or two spatial axes with constant filter and bias."""
    last, rank = op.layout == "NHWC", len(shape_of(op.input))
    array = region.array(op.filter) if region.is_known(op.filter) else None
    weights, to = element_of(op.filter), element_of(op.results[0])
    known = array is not None and all(region.is_known(v) for v in present(op.bias))
    if rank not in (3, 4) or not known or array is None:
        return False
    assert isinstance(weights, UniformQuantizedType)
    byte = isinstance(to, UniformQuantizedType) and is_byte(op.results[0])
    if not weights.signed or weights.storage.width.data > 16 or (not byte and to not in (f32, i32)):
        return False
    # Sums of 32 bits wrap around, so that 16-bit numbers of any size have them.
    wide = bits_of_one_scale(op.input) == 16 and to == i32
    if not is_byte(op.input) and not wide:
        return False
    form = blocked(op.input, region, last)
    if form is None:
        return False
    out, _, kernel = op.sizes(op.filter)
    strides, dilations, pads = pair(op.strides, 1), pair(op.dilations, 1), pads_of_two(op.pads)
    source, zero = form.value, zero_of(byte_kind(form.value))
    depthwise = 1 < op.group == op.sizes(op.input)[1] == out
    if depthwise and (wide or prod(kernel) * weights.storage.width.data > 8 * LARGEST_KERNEL):
        return False
    if zero and any(pads) and not depthwise:
        top, left, bottom, right = pads
        around = (0, 0, top, left, 0, 0, 0, bottom, right, 0)
        source = region.add(PadOp(source, pads=around, value=float(zero)))
        pads = (0, 0, 0, 0)
    height, width = output_sizes(shape_of(source)[2:4], pair(kernel, 1), strides, pads, dilations)
    shape = (shape_of(source)[0], -(-out // region.lanes), height, width, region.lanes)
    new = (PairsConvOp if wide else BlockedConvOp)(
        source,
        region.constant(_filters(op, region, array, last)),
        region.constant(op.bias) if op.bias is not None else None,
        results=tensor(shape, unsigned(byte_kind(op.results[0])) if byte else to),
        lanes=target.lanes,
        strides=strides,
        pads=pads,
        dilations=dilations,
        group=op.group,
        **(shifted(op) if byte else {}),
    )
    region.remember(op.result, replace(form, value=region.add(new), channels=out))
    return True


def _filters(op: QuantizedConvOp, region: Region, array: Array, last: bool) -> SSAValue:
    """The filters of two spatial axes, channels before those."""
    flat = array.ndim == 3
    if not last and not flat:
        return op.filter
    filters = np.moveaxis(array, -1, 1) if last else array
    filters = np.ascontiguousarray(filters[:, :, None, :] if flat else filters)
    return region.weight(filters, f"{region.name_of(op.filter)}.oihw", element_of(op.filter))
