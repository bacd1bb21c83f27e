"""Layout of quantised pools."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit.pointwise import Pointwise
from glow_backends.cpu.fused_body import body_of
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp as FloatConvOp
from glow_backends.cpu.kernels.data.blocked_bytes import blocked, byte_kind, shifted, unsigned
from glow_backends.cpu.kernels.pointwise.stack_op import StackOp
from glow_backends.cpu.quantized_steps import Steps, finish
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import shape_of, tensor
from glow_dialects.ops.quantize import is_byte
from glow_dialects.ops.quantized_avg_pool import QuantizedAvgPoolOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.requantize import scale_of, zero_of
from glow_dialects.ops.windows import window_counts
from glow_passes.graph.regions import Region


def average(op: QuantizedAvgPoolOp, region: Region, target: CpuTarget) -> bool:
    """The mean over all of a blocked image: exact float sums, requantised."""
    last = op.layout == "NHWC"
    whole = tuple(op.kernel) == op.sizes(op.input)[2] and not any(op.pads)
    if not whole or not is_byte(op.input) or not is_byte(op.results[0]):
        return windows(op, region, target)
    form = blocked(op.input, region, last)
    if form is None:
        return False
    spatial = shape_of(form.value)[2:4]
    source, to = byte_kind(form.value), unsigned(byte_kind(op.results[0]))
    wide = shape_of(form.value)
    centred = Steps(1)
    value = centred.with_number("sub", centred.add("cast", 0), zero_of(source))
    plain = region.add(_stack([form.value], centred, value, tensor(wide, f32)))
    total = region.add(ReduceSumOp(plain, axes=(2, 3), keepdims=True))
    limits, steps = shifted(op), Steps(1)
    factor = float(np.float32(scale_of(source) / scale_of(to) / prod(spatial)))
    real = steps.with_number("mul", 0, factor)
    finished = finish(steps, real, to, limits["low"], limits["high"], "u8")
    new = region.add(_stack([total], steps, finished, tensor(shape_of(total), to)))
    region.remember(op.result, replace(form, value=new))
    return True


def windows(op: QuantizedAvgPoolOp, region: Region, target: CpuTarget) -> bool:
    """Means of windows: sums as a convolution with ones, requantised by a loop."""
    last, rank = op.layout == "NHWC", len(shape_of(op.input))
    bytes_only = is_byte(op.input) and is_byte(op.results[0])
    if rank != 4 or not bytes_only or 255 * prod(op.kernel) >= 1 << 24:
        return False
    form = blocked(op.input, region, last)
    channels = op.sizes(op.input)[1]
    if form is None or channels < 2:
        return False
    source, to = byte_kind(form.value), unsigned(byte_kind(op.results[0]))
    centred = Steps(1)
    value = centred.with_number("sub", centred.add("cast", 0), zero_of(source))
    plain = region.add(_stack([form.value], centred, value, tensor(shape_of(form.value), f32)))
    ones = region.weight(np.ones((channels, 1, *op.kernel), np.float32), "ones")
    total = region.add(
        FloatConvOp(
            plain,
            ones,
            None,
            [],
            algorithm="depthwise",
            lanes=target.lanes,
            strides=op.strides,
            pads=op.pads,
            dilations=op.dilations,
            group=channels,
        )
    )
    window = (op.kernel, op.strides, op.pads, op.dilations)
    counts = window_counts(shape_of(form.value)[2:4], window, op.count_include_pad)
    factors = (scale_of(source) / scale_of(to) / counts).astype(np.float32)
    limits, parts = shifted(op), [total]
    if factors.min() < factors.max():  # windows at the border hold fewer places
        parts.append(region.weight(factors[..., None], "factors"))
    steps = Steps(len(parts))
    real = steps.add("mul", 0, 1) if parts[1:] else steps.with_number("mul", 0, float(factors.flat[0]))
    result = finish(steps, real, to, limits["low"], limits["high"], "u8")
    new = region.add(_stack(parts, steps, result, tensor(shape_of(total), to)))
    region.remember(op.result, replace(form, value=new))
    return True


def _stack(values: list[SSAValue], steps: Steps, result: int, kind: Any) -> StackOp:
    dtypes = tuple(dtype_name(v) for v in values)
    program = Pointwise(len(values), tuple(steps.steps), (result,), dtypes)
    return StackOp(values, results=[kind], body=body_of(program))
