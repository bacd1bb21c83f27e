"""Depthwise convolution of bytes on channel blocks: sums in float32, which holds them exactly.

An `Int8ConvSpec` with a group for each channel; what lies outside the image counts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.emit.builder import F32, I8, I32, KernelBuilder
from glow_backends.cpu.emit.memory import Index
from glow_backends.cpu.kernels.conv.conv_int8 import Int8Conv, Int8ConvSpec, int8_conv_spec
from glow_backends.cpu.kernels.conv.depthwise import DepthwiseEmission, pack_depthwise, supports_depthwise
from glow_backends.cpu.kernels.conv.quantized_ops import IntegerConvOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array
from glow_dialects.ops.quantize import quantized_type
from glow_dialects.ops.requantize import zero_of

LARGEST_KERNEL = 512
"""Taps of which float32 holds every sum: 255 x 128 x 512 is less than 2^24."""


def pack_depthwise_int8(weights: np.ndarray, spec: Int8ConvSpec, target: CpuTarget) -> np.ndarray:
    """(C, 1, R, S) bytes as floats in `pack_depthwise`'s order."""
    return pack_depthwise(weights.astype(np.float32), spec.conv, target)


class _Emission(DepthwiseEmission):
    def __init__(self, k: KernelBuilder, spec: Int8ConvSpec) -> None:
        super().__init__(k, spec.conv)
        self.x_kind = I8
        self.requantize, self.zero = spec.requantize, spec.zero
        self.sums_bias, self.factor = k.operands[3], k.operands[4]
        self.residual = k.operands[5] if spec.requantize.residual is not None else None

    def read(self, row: ir.Value, at: int) -> ir.Value:
        k, lanes = self.k, self.lanes
        word = k.b.zext(k.load(row, at, I8, lanes), ir.VectorType(I32, lanes))
        if self.zero:
            word = k.b.sub(word, k.splat(self.zero, lanes, I32))
        return k.b.sitofp(word, ir.VectorType(F32, lanes))

    def store(self, at: Index, bias_at: Index, sums: Sequence[ir.Value]) -> None:
        k, lanes = self.k, self.lanes
        bias = k.load(self.sums_bias, bias_at, I32, lanes)
        factor = k.load(self.factor, bias_at, lanes=lanes)
        for pixel, value in enumerate(sums):
            place = k.add(at, pixel * lanes)
            total = k.b.add(k.b.fptosi(value, bias.type), bias)
            other = None if self.residual is None else k.load(self.residual, place, I8, lanes)
            words = self.requantize.words(k, total, factor, other)
            if self.requantize.kind == I8:
                words = self.requantize.packed(k, [words])
            k.store(words, self.y, place, self.requantize.kind)


def emit_depthwise_int8(module: ir.Module, name: str, spec: Int8ConvSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, bias, factor, [residual], worker)` of a spec."""
    assert supports_depthwise(spec.conv) and not spec.conv.epilogue.operands
    k = KernelBuilder(module, name, 5 + (spec.requantize.residual is not None), target, sized=True)
    _Emission(k, spec).emit()
    return k.finish()


class DepthwiseInt8Conv(Int8Conv):
    """The same where every channel has a filter of its own: padding is left out."""

    emit = staticmethod(emit_depthwise_int8)

    def match(self, op: IntegerConvOp, context: CallContext) -> Int8ConvSpec | None:
        spec = int8_conv_spec(op, context)
        if spec is None or not supports_depthwise(spec.conv) or prod(spec.conv.kernel) > LARGEST_KERNEL:
            return None
        return replace(spec, zero=zero_of(quantized_type(op.input)) if any(spec.conv.pads) else 0)

    def pack(self, weights: Array, spec: Int8ConvSpec, target: CpuTarget) -> Array:
        return pack_depthwise_int8(weights, spec, target)

    def packing(self, spec: Int8ConvSpec, target: CpuTarget) -> str:
        return "depthwise"
