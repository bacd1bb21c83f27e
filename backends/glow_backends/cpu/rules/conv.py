"""Convolutions, matrix products."""

from __future__ import annotations

from math import prod
from typing import Any

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.kernels.conv_generic import GenericConvSpec, emit_conv_generic
from glow_backends.cpu.kernels.epilogue import Epilogue


def conv(op: Any, context: CallContext) -> KernelCall | None:
    """Any convolution, by the general kernel."""
    kind = dtype_name(op.result)
    if kind not in ("f32", "f64") or op.group("predicate"):
        return None
    last = op.prop("layout") == "NHWC"
    x, w = shape(op.input), shape(op.filter)
    if last:
        x = (x[0], x[-1], *x[1:-1])
        kernel = w[1:-1]
    else:
        kernel = w[2:]
    bias = op.group("bias")
    spec = GenericConvSpec(
        input_shape=x,
        out_channels=w[0],
        kernel=kernel,
        strides=tuple(op.prop("strides")),
        pads=tuple(op.prop("pads")),
        dilations=tuple(op.prop("dilations")),
        group=op.prop("group"),
        channels_last=last,
        weights_channels_last=last,
        epilogue=Epilogue(bias=bool(bias)),
        double=kind == "f64",
    )
    flops = 2 * prod(shape(op.result)) * prod(kernel) * x[1] // op.prop("group")
    return KernelCall(emit_conv_generic, spec, [op.result, op.input, op.filter, *bias], flops=flops)


RULES: dict[str, Rule] = {"conv": conv}
