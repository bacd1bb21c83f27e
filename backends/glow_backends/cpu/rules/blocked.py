"""Convolutions and layout changes on channel-blocked activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, Emitter, KernelCall, Operand, Rule, dtype_name, shape
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.filters import plain_filter, sizes_of
from glow_backends.cpu.kernels.conv.conv_direct import emit_conv_direct, pack_bias, pack_conv, packing
from glow_backends.cpu.kernels.conv.conv_half import emit_conv_half, pack_half_conv, supports_half
from glow_backends.cpu.kernels.conv.conv_plane import (
    PlaneConvSpec,
    emit_conv_plane,
    pack_plane,
    supports_plane,
)
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.depthwise import emit_depthwise, pack_depthwise
from glow_backends.cpu.kernels.conv.winograd import emit_winograd
from glow_backends.cpu.kernels.conv.winograd_changing import (
    ChangingSpec,
    changing_scratch_bytes,
    emit_winograd_changing,
    supports_changing,
)
from glow_backends.cpu.kernels.conv.winograd_plan import (
    WinogradSpec,
    pack_winograd,
    plan_winograd,
    winograd_scratch_bytes,
)
from glow_backends.cpu.kernels.data.blocking import BlockingSpec, emit_blocking
from glow_backends.cpu.kernels.data.copy import emit_copy
from glow_backends.cpu.kernels.data.layouts import block_spec, unblock_spec
from glow_backends.cpu.rules.common import inplace
from glow_backends.cpu.steps import steps_of
from glow_dialects.core.types import Array, present


def conv_spec(op: Any) -> DirectConvSpec:
    """The convolution of a `glow_cpu.conv` node or instruction."""
    size = shape(op.input)
    out, inner, kernel = sizes_of(shape(op.filter), op.form)
    group = op.group
    return DirectConvSpec(
        batch=size[0],
        in_channels=inner * group,
        out_channels=out,
        size=(size[2], size[3]),
        kernel=kernel,
        strides=op.strides,
        pads=op.pads,
        dilations=op.dilations,
        group=group,
        plain_input=len(size) == 4,
        epilogue=Epilogue(
            bias=op.bias is not None, steps=steps_of(op.properties["steps"]), inplace=inplace(op)
        ),
        stored=dtype_name(op.result),
    )


def conv(op: Any, context: CallContext) -> KernelCall | None:
    """A convolution by the algorithm the node names; its filter is a constant or was packed."""
    target, spec = context.target, conv_spec(op)
    algorithm, form = op.algorithm, op.form
    scratch = 0
    if algorithm == "direct" and spec.stored == "f32" and op.packed is None:
        spec = replace(spec, uneven=True)
    kernel_spec: DirectConvSpec | WinogradSpec | ChangingSpec = spec
    emit: Emitter = emit_conv_direct
    make: Callable[[Array], Array] = partial(pack_conv, spec=spec, target=target)
    how = ""
    if algorithm == "depthwise":
        emit, make = emit_depthwise, partial(pack_depthwise, spec=spec, target=target)
    elif algorithm.startswith("winograd"):
        kernel_spec = WinogradSpec(spec, int(algorithm[-1]))
        emit, make = emit_winograd, partial(pack_winograd, spec=kernel_spec, target=target)
        scratch = winograd_scratch_bytes(kernel_spec, target)
        how = str(plan_winograd(kernel_spec, target).block.vectors)
    else:
        how = packing(spec, target)
    packed: list[Operand | None] = list(present(op.packed))
    changes = not packed and context.constant(op.filter) is None
    if isinstance(kernel_spec, WinogradSpec) and changes and supports_changing(kernel_spec, target):
        kernel_spec = ChangingSpec(kernel_spec, form)
        emit, packed = emit_winograd_changing, [op.filter]
        scratch = changing_scratch_bytes(kernel_spec, target)
    if spec.stored != "f32" and supports_half(spec, target) and algorithm == "direct":
        emit, make = emit_conv_half, partial(pack_half_conv, spec=spec, target=target)
        how += " in pairs"
    elif spec.stored != "f32":
        make = partial(_from_floats, make)
    if not packed:
        packed = [context.pack(op.filter, f"{algorithm}|{form}|{how}", lambda w: make(plain_filter(w, form)))]
    biases: list[Operand | None] = [_bias(v, context) for v in present(op.bias)]
    if packed[0] is None or None in biases or op.lanes != target.lanes:
        return None
    operands = [op.result, op.input, *packed, *biases, *op.extras]
    taps = prod(spec.kernel) * spec.in_channels // spec.group
    flops = 2 * prod((spec.batch, *spec.out_size)) * spec.out_channels * taps
    return KernelCall(emit, kernel_spec, [o for o in operands if o is not None], scratch, flops)


def _from_floats(make: Callable[[Array], Array], weights: Array) -> Array:
    """What is made of weights as float32 numbers."""
    return make(weights.astype(np.float32))


def _bias(value: SSAValue, context: CallContext) -> Operand | None:
    """One f32 number an output channel, filled up with zeros where they make no whole vectors."""
    lanes = context.target.lanes
    if context.constant(value) is None:
        return None if shape(value)[0] % lanes else value
    return context.pack(value, "bias", lambda b: pack_bias(b.astype(np.float32), context.target))


def plane_conv(op: Any, context: CallContext) -> KernelCall | None:
    """A plain convolution of few output channels."""
    size, (out, inner, *kernel) = shape(op.input), shape(op.filter)
    spec = PlaneConvSpec(
        batch=size[0],
        in_channels=inner,
        out_channels=out,
        size=(size[2], size[3]),
        kernel=(kernel[0], kernel[1]),
        row_stride=op.row_stride,
        dilations=op.dilations,
        phases=op.phases,
        epilogue=Epilogue(bias=op.bias is not None, steps=steps_of(op.properties["steps"])),
    )
    filters = context.pack(op.filter, f"plane|{spec.phases}", lambda w: pack_plane(w, spec.phases))
    if filters is None or not supports_plane(spec, context.target):
        return None
    operands = [op.result, op.input, filters, *present(op.bias), *op.extras]
    flops = 2 * prod(shape(op.result)) * prod(shape(op.filter)[1:])
    return KernelCall(emit_conv_plane, spec, operands, flops=flops)


def block(op: Any, context: CallContext) -> KernelCall | None:
    """NCHW or NHWC to blocks."""
    size = shape(op.input)
    last = op.layout == "NHWC"
    channels = size[3] if last else size[1]
    return _blocking(op, context, BlockingSpec(size[0], channels, prod(size[1:]) // channels, last))


def unblock(op: Any, context: CallContext) -> KernelCall | None:
    """Blocks to NCHW or NHWC."""
    size = shape(op.input)
    last = op.layout == "NHWC"
    spec = BlockingSpec(size[0], op.channels, size[2] * size[3], last, unblock=True)
    return _blocking(op, context, spec)


def _blocking(op: Any, context: CallContext, spec: BlockingSpec) -> KernelCall | None:
    lanes = shape(op.input)[-1] if spec.unblock else op.lanes
    width = values.size(dtype_name(op.input))
    if width < 4:
        source, last = shape(op.input), spec.channels_last
        copies = (
            unblock_spec(source, spec.channels, width, last)
            if spec.unblock
            else block_spec(source, lanes, width, last)
        )
        return KernelCall(emit_copy, copies, [op.result, op.input])
    if dtype_name(op.input) not in ("f32", "i32") or lanes != context.target.lanes:
        return None
    return KernelCall(emit_blocking, spec, [op.result, op.input])


RULES: dict[str, Rule] = {
    "glow_cpu_instr.conv": conv,
    "glow_cpu_instr.plane_conv": plane_conv,
    "glow_cpu_instr.block": block,
    "glow_cpu_instr.unblock": unblock,
}
