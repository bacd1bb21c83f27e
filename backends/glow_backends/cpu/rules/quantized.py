"""Quantised operators: loops over stored integers, convolutions of bytes."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32, i32

from glow_backends.cpu.calls import CallContext, KernelCall, Rule, dtype_name, shape
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.integer import Requantize, Residual
from glow_backends.cpu.emit.packing import pad_to
from glow_backends.cpu.emit.pointwise import Pointwise
from glow_backends.cpu.kernels.conv.conv_direct import packing
from glow_backends.cpu.kernels.conv.conv_int8 import (
    Int8ConvSpec,
    emit_conv_int8,
    pack_channels,
    pack_int8_conv,
)
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.depthwise import supports_depthwise
from glow_backends.cpu.kernels.conv.depthwise_int8 import (
    LARGEST_KERNEL,
    emit_depthwise_int8,
    pack_depthwise_int8,
)
from glow_backends.cpu.kernels.gemm.gemm_int8 import Int8GemmSpec, block_of, emit_gemm_int8, pack_int8_gemm
from glow_backends.cpu.kernels.gemm.gemm_int8_stack import (
    Int8StackSpec,
    emit_gemm_int8_stack,
    stack_scratch_bytes,
    zero_terms,
)
from glow_backends.cpu.kernels.pointwise.lookup import LookupSpec, emit_lookup
from glow_backends.cpu.ops.quantized import bias_of, factor_of
from glow_backends.cpu.quantized_steps import Steps, expand, is_quantized
from glow_backends.cpu.rules.common import table
from glow_backends.cpu.rules.pointwise import loop
from glow_dialects.core.types import UniformQuantizedType, element_of, present
from glow_dialects.ops.requantize import scale_of, stored_limits, zero_of


def elementwise(op: Any, context: CallContext) -> KernelCall | None:
    """A quantised element-wise instruction as a loop of its steps."""
    del context
    outs, ins = op.written(), op.read()
    names = [dtype_name(v) for v in (*outs, *ins)]
    if op.predicate is not None or not all(map(values.has, names)) or not is_quantized(op):
        return None
    steps = Steps(len(ins))
    result = expand(op, outs[0], ins, range(len(ins)), steps)
    program = Pointwise(len(ins), tuple(steps.made), (result,), tuple(names[1:]))
    return loop(program, outs, ins)


def _residual(op: Any, own: UniformQuantizedType, to: Any) -> Residual | None:
    """What the convolution's bytes are added to."""
    if op.residual is None:
        return None
    other = element_of(op.residual)
    assert isinstance(other, UniformQuantizedType)
    factors = [float(np.float32(scale_of(kind) / scale_of(to))) for kind in (own, other)]
    limits = stored_limits(to, op.sum_low, op.sum_high)
    return Residual(zero_of(own), factors[0], zero_of(other), factors[1], zero_of(to), *limits)


def conv(op: Any, context: CallContext) -> KernelCall | None:
    """A blocked convolution of bytes with constant filter and bias, depthwise ones included."""
    target = context.target
    filters = context.constant(op.filter)
    biases = [context.constant(v) for v in present(op.bias)]
    if filters is None or any(b is None for b in biases) or op.lanes != target.lanes:
        return None
    batch, _, height, width, _ = shape(op.input)
    out, inner, *kernel = shape(op.filter)
    group = op.group
    source, to = element_of(op.input), element_of(op.result)
    assert isinstance(source, UniformQuantizedType)
    own = op.properties.get("between") or to
    requantize = Requantize(real=own == f32, sums=own == i32)
    if isinstance(own, UniformQuantizedType):
        limits = stored_limits(own, op.low, op.high)
        requantize = Requantize(zero_of(own), *limits, residual=_residual(op, own, to))
    conv_spec = DirectConvSpec(
        batch,
        inner * group,
        out,
        (height, width),
        (kernel[0], kernel[1]),
        op.strides,
        op.pads,
        op.dilations,
        group,
    )
    # Padding is real zeros: stored ones, or what a depthwise kernel leaves out.
    zero, folded = zero_of(source), zero_of(source)
    emit, spec, packed = emit_conv_int8, Int8ConvSpec(conv_spec, requantize), pack_int8_conv
    how = packing(conv_spec, target)
    if supports_depthwise(conv_spec):
        if prod(kernel) > LARGEST_KERNEL:
            return None
        folded = 0 if any(conv_spec.pads) else zero
        emit, packed, how = emit_depthwise_int8, pack_depthwise_int8, "depthwise"
        spec = replace(spec, zero=zero - folded)
    bias = bias_of(filters, biases[0] if biases else None, folded)
    factor = factor_of(element_of(op.filter), source, own, out)
    operands = [
        op.result,
        op.input,
        context.pack(op.filter, f"int8_conv|{how}", lambda w: packed(w, spec, target)),
        table("sums", pack_channels(bias, target)),
        table("factor", pack_channels(factor, target)),
        *present(op.residual),
    ]
    flops = 2 * batch * prod(conv_spec.out_size) * out * inner * prod(kernel)
    return KernelCall(emit, spec, [o for o in operands if o is not None], flops=flops)


def _requantize(op: Any) -> Requantize | None:
    """What becomes of a product's sums; None where kernels have no such result."""
    to = element_of(op.result)
    if not isinstance(to, UniformQuantizedType):
        name = dtype_name(op.result)
        return Requantize(real=name == "f32", sums=name == "i32") if name in ("f32", "i32") else None
    if to.storage.width.data != 8:
        return None
    return Requantize(zero_of(to), *stored_limits(to, op.low, op.high))


def fully_connected(op: Any, context: CallContext) -> KernelCall | None:
    """A product of bytes with constant weights and bias."""
    target = context.target
    source, weights, to = (element_of(v) for v in (op.input, op.weights, op.result))
    assert isinstance(source, UniformQuantizedType) and isinstance(weights, UniformQuantizedType)
    array = context.constant(op.weights)
    biases = [context.constant(v) for v in present(op.bias)]
    bytes_only = source.storage.width.data == weights.storage.width.data == 8 and weights.signed
    if array is None or any(b is None for b in biases) or not bytes_only:
        return None
    requantize = _requantize(op)
    if requantize is None:
        return None
    (rows, depth), columns = shape(op.input), shape(op.weights)[1]
    spec = Int8GemmSpec(rows, columns, depth, source.signed, requantize)
    zero = zero_of(source) + (128 if source.signed else 0)
    bias = bias_of(array.T, biases[0] if biases else None, zero)
    how = f"int8_gemm|{block_of(spec, target).vectors}"
    width = 8 * target.lanes  # what the widest panel reads
    operands = [
        op.result,
        op.input,
        context.pack(op.weights, how, lambda w: pack_int8_gemm(w, spec, target)),
        table("sums", pad_to(bias, 0, width)),
        table("factor", pad_to(factor_of(weights, source, to, columns), 0, width)),
    ]
    flops = 2 * rows * columns * depth
    return KernelCall(emit_gemm_int8, spec, [o for o in operands if o is not None], flops=flops)


def matmul(op: Any, context: CallContext) -> KernelCall | None:
    """A product of stacks of matrices of bytes."""
    target, requantize = context.target, _requantize(op)
    left, right, to = (element_of(v) for v in (op.lhs, op.rhs, op.result))
    assert isinstance(left, UniformQuantizedType) and isinstance(right, UniformQuantizedType)
    (*a_batch, rows, depth), (*b_batch, _, columns) = shape(op.lhs), shape(op.rhs)
    if requantize is None or left.storage.width.data != 8 or right.storage.width.data != 8:
        return None
    # Sums of more products might not fit 32 bits.
    if 0 in (*shape(op.lhs), *shape(op.rhs)) or depth >= 1 << 15:
        return None
    batches = tuple(a_batch), tuple(b_batch)
    spec = Int8StackSpec(rows, columns, depth, *batches, left.signed, right.signed, requantize)
    factor = factor_of(right, left, to, 8 * target.lanes)
    zeros = zero_terms(spec, zero_of(left), zero_of(right))
    operands = [op.result, op.lhs, op.rhs, table("factor", factor), table("zeros", zeros)]
    flops = 2 * prod(spec.batch) * rows * columns * depth
    scratch = stack_scratch_bytes(spec, target)
    return KernelCall(emit_gemm_int8_stack, spec, operands, scratch=scratch, flops=flops)


def lookup(op: Any, context: CallContext) -> KernelCall | None:
    """A table of bytes."""
    kind = element_of(op.input)
    if dtype_name(op.result) not in ("i8", "u8") or op.predicate is not None:
        return None
    signed = isinstance(kind, UniformQuantizedType) and kind.signed
    return KernelCall(emit_lookup, LookupSpec(prod(shape(op.input)), signed), [op.result, op.input, op.table])


_ELEMENTWISE = ("quantize", "dequantize", "rescale", "quantized_add", "quantized_sub", "quantized_mul")
RULES: dict[str, Rule] = {
    **{name: elementwise for name in _ELEMENTWISE},
    "glow_cpu_instr.quantized_conv": conv,
    "lookup": lookup,
    "quantized_fully_connected": fully_connected,
    "quantized_matmul": matmul,
}
