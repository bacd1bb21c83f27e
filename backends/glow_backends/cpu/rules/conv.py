"""Convolutions, matrix products."""

from __future__ import annotations

from math import prod
from typing import Any

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.kernels.conv.conv_generic import GenericConvSpec, emit_conv_generic
from glow_backends.cpu.rules.training import conv_gemm
from glow_dialects.core.types import present

#: Fewer output channels a group than this are left to the general kernel.
_GEMM_CHANNELS = 4


def conv(op: Any, context: CallContext) -> KernelCall | None:
    """Any convolution, by the general kernel."""
    kind = dtype_name(op.result)
    if kind not in ("f32", "f64") or op.predicate is not None:
        return None
    if context.constant(op.filter) is None and shape(op.filter)[0] // op.group >= _GEMM_CHANNELS:
        # A filter that changes cannot be packed: columns and a matrix product.
        call = conv_gemm(op, "forward", context, [op.input, op.result, op.filter])
        if call is not None:
            return call
    last = op.layout == "NHWC"
    x, w = shape(op.input), shape(op.filter)
    if last:
        x = (x[0], x[-1], *x[1:-1])
        kernel = w[1:-1]
    else:
        kernel = w[2:]
    bias = present(op.bias)
    spec = GenericConvSpec(
        input_shape=x,
        out_channels=w[0],
        kernel=kernel,
        strides=tuple(op.strides),
        pads=tuple(op.pads),
        dilations=tuple(op.dilations),
        group=op.group,
        channels_last=last,
        weights_channels_last=last,
        epilogue=Epilogue(bias=bool(bias)),
        double=kind == "f64",
    )
    flops = 2 * prod(shape(op.result)) * prod(kernel) * x[1] // op.group
    return KernelCall(emit_conv_generic, spec, [op.result, op.input, op.filter, *bias], flops=flops)


def conv_transpose(op: Any, context: CallContext) -> KernelCall | None:
    """The adjoint of a convolution: a matrix product summed over windows, or the general kernel."""
    kind = dtype_name(op.result)
    if kind not in ("f32", "f64") or op.predicate is not None:
        return None
    if op.bias is None and shape(op.input)[1] // op.group >= _GEMM_CHANNELS:
        call = conv_gemm(op, "data", context, [op.result, op.input, op.filter])
        if call is not None:
            return call
    last = op.layout == "NHWC"
    x, w, y = shape(op.input), shape(op.filter), shape(op.result)
    bias = present(op.bias)
    spec = GenericConvSpec(
        input_shape=(x[0], x[-1], *x[1:-1]) if last else x,
        out_channels=y[-1] if last else y[1],
        kernel=w[1:-1] if last else w[2:],
        strides=tuple(op.strides),
        pads=tuple(op.pads),
        dilations=tuple(op.dilations),
        group=op.group,
        transposed=True,
        output_spatial=y[1:-1] if last else y[2:],
        channels_last=last,
        weights_channels_last=last,
        epilogue=Epilogue(bias=bool(bias)),
        double=kind == "f64",
    )
    return KernelCall(emit_conv_generic, spec, [op.result, op.input, op.filter, *bias])


RULES: dict[str, Rule] = {"conv": conv, "conv_transpose": conv_transpose}
