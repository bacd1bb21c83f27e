"""Quantised operators: loops over stored integers, convolutions of bytes."""

from __future__ import annotations

from math import prod
from typing import Any

from glow_backends.cpu import values
from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.kernels.conv_int8 import (
    Int8ConvSpec,
    emit_conv_int8,
    pack_channels,
    pack_int8_conv,
)
from glow_backends.cpu.kernels.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.integer import Requantize
from glow_backends.cpu.pointwise import Pointwise
from glow_backends.cpu.quantized_dialect import bias_of, factor_of
from glow_backends.cpu.quantized_steps import Steps, expand, is_quantized
from glow_backends.cpu.rules.common import table
from glow_backends.cpu.rules.pointwise import loop
from glow_dialects.core.types import UniformQuantizedType, element_of
from glow_dialects.ops.requantize import stored_limits, zero_of


def elementwise(op: Any, context: CallContext) -> KernelCall | None:
    """A quantised element-wise instruction as a loop of its steps."""
    del context
    outs, ins = op.written(), op.read()
    names = [dtype_name(v) for v in (*outs, *ins)]
    if op.group("predicate") or not all(map(values.has, names)) or not is_quantized(op):
        return None
    steps = Steps(len(ins))
    result = expand(op, outs[0], ins, range(len(ins)), steps)
    program = Pointwise(len(ins), tuple(steps.made), (result,), tuple(names[1:]))
    return loop(program, outs, ins)


def conv(op: Any, context: CallContext) -> KernelCall | None:
    """A blocked convolution of bytes with constant filter and bias."""
    target = context.target
    filters = context.constant(op.filter)
    biases = [context.constant(v) for v in op.group("bias")]
    if filters is None or any(b is None for b in biases) or op.prop("lanes") != target.lanes:
        return None
    batch, _, height, width, _ = shape(op.input)
    out, inner, *kernel = shape(op.filter)
    source, to = element_of(op.input), element_of(op.result)
    assert isinstance(source, UniformQuantizedType)
    requantize = Requantize(real=True)
    if isinstance(to, UniformQuantizedType):
        requantize = Requantize(zero_of(to), *stored_limits(to, op.prop("low"), op.prop("high")))
    conv_spec = DirectConvSpec(
        batch,
        inner,
        out,
        (height, width),
        (kernel[0], kernel[1]),
        op.prop("strides"),
        op.prop("pads"),
        op.prop("dilations"),
    )
    spec = Int8ConvSpec(conv_spec, requantize)
    bias = bias_of(filters, biases[0] if biases else None, zero_of(source))
    factor = factor_of(element_of(op.filter), source, to, out)
    operands = [
        op.result,
        op.input,
        context.pack(op.filter, f"int8|{spec}", lambda w: pack_int8_conv(w, spec, target)),
        table("sums", pack_channels(bias, target)),
        table("factor", pack_channels(factor, target)),
    ]
    flops = 2 * batch * prod(conv_spec.out_size) * out * inner * prod(kernel)
    return KernelCall(emit_conv_int8, spec, [o for o in operands if o is not None], flops=flops)


_ELEMENTWISE = ("quantize", "dequantize", "rescale", "quantized_add", "quantized_sub", "quantized_mul")
RULES: dict[str, Rule] = {
    **{name: elementwise for name in _ELEMENTWISE},
    "glow_cpu_instr.quantized_conv": conv,
}
