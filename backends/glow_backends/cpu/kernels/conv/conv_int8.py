"""Direct convolution of 8-bit integers on channel blocks, several products an instruction.

The loops are those of the float kernel on units of four channels (VNNI): an input block of c bytes is
c / 4 words, each broadcast and multiplied with four channels' weights of c output channels. Where the
processor multiplies pairs of 16-bit numbers, the bytes come as such, and units are two channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from llvmlite import ir
from xdsl.dialects.builtin import f32, i32

from glow_backends.cpu.calls import CallContext, Operand, shape, table
from glow_backends.cpu.emit.builder import I8, I32, KernelBuilder
from glow_backends.cpu.emit.integer import Requantize, Residual, dot2, dot4, room_of
from glow_backends.cpu.emit.memory import Index, ceil_div
from glow_backends.cpu.emit.packing import bias_of, factors_of
from glow_backends.cpu.emit.windows import window
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.conv.conv_direct import DirectEmission, pack_conv, packing
from glow_backends.cpu.kernels.conv.conv_plan import ConvPlan, plan_conv
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.depthwise import supports_depthwise
from glow_backends.cpu.kernels.conv.quantized_ops import IntegerConvOp, PairsConvOp, QuantizedConvOp
from glow_backends.cpu.kernels.pointwise.lookup import permutes_bytes
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import pad_to
from glow_dialects.core.types import Array, UniformQuantizedType, element_of, present
from glow_dialects.ops.quantize import quantized_type
from glow_dialects.ops.requantize import scale_of, stored_limits, zero_of


@dataclass(frozen=True)
class Int8ConvSpec:
    """y = requantize(conv(x, w) + bias) of bytes.

    x is (N, C / c, H, W, c), unsigned; y (N, K / c, OH, OW, c), unsigned (or f32, or i32 sums); w is
    what `pack_int8_conv` made of (K, C/g, R, S), signed; bias (i32) and factor (f32) have one value an
    output channel, padded to c. Padding is zero bytes. `conv` has no epilogue. `zero` is what the
    depthwise kernel, which leaves padding out, takes from every byte of x. With `pairs` x and w are
    16-bit numbers of the size of bytes.
    Operands: y, x, w, bias, factor, [residual (unsigned, like y)].
    """

    conv: DirectConvSpec
    requantize: Requantize = field(default_factory=Requantize)
    zero: int = 0
    pairs: bool = False

    @property
    def together(self) -> int:
        """Channels of a word of 32 bits."""
        return 2 if self.pairs else 4


def supports_int8(spec: Int8ConvSpec) -> bool:
    """Whether `emit_conv_int8` takes this spec."""
    return not spec.conv.plain_input and not spec.conv.epilogue.operands


def _plan(spec: Int8ConvSpec, target: CpuTarget) -> ConvPlan:
    """The float plan, the last input block's channels in words."""
    plan = plan_conv(spec.conv, room_of(target, spec.pairs))
    return replace(plan, in_rest=ceil_div(plan.in_rest, spec.together))


def pack_int8_conv(weights: np.ndarray, spec: Int8ConvSpec, target: CpuTarget) -> np.ndarray:
    """(K, C/g, R, S) as `pack_conv` cuts it, the input channels of a word of v vectors of outputs inmost."""
    elements = weights.astype(np.int16) if spec.pairs else weights
    packed = pack_conv(elements, spec.conv, room_of(target, spec.pairs))
    *outer, lanes, width = packed.shape
    parts = packed.reshape(*outer, lanes // spec.together, spec.together, width)
    return np.ascontiguousarray(parts.swapaxes(-1, -2))


def pack_channels(values: np.ndarray, target: CpuTarget) -> np.ndarray:
    """One value an output channel, padded with zeros to a multiple of the lanes."""
    return pad_to(values, 0, target.lanes)


class _Int8Emission(DirectEmission):
    """Words of integers in place of floats."""

    def __init__(self, k: KernelBuilder, spec: Int8ConvSpec) -> None:
        self.together, self.dot = spec.together, dot2 if spec.pairs else dot4
        super().__init__(k, _plan(spec, k.target))
        self.requantize = requantize = spec.requantize
        self.sums_bias, self.factor = k.operands[3], k.operands[4]
        self.residual = k.operands[5] if requantize.residual is not None else None

    def channels_a_block(self) -> int:
        return self.lanes // self.together

    def start(self, count: int) -> list[ir.Value]:
        """The sums begin as the bias."""
        k, vectors = self.k, self.plan.block.vectors
        bias = [
            k.load(self.sums_bias, k.add(self.bias_at, v * self.lanes), I32, self.lanes)
            for v in range(vectors)
        ]
        return [bias[i % vectors] for i in range(count)]

    def store(self, at: Index, rows: int, sums: Sequence[ir.Value]) -> None:
        k, vectors = self.k, self.plan.block.vectors
        factors = [
            k.load(self.factor, k.add(self.bias_at, v * self.lanes), lanes=self.lanes) for v in range(vectors)
        ]
        together = 4 if permutes_bytes(k.target) and self.requantize.kind == I8 else 1
        for first in range(0, rows, together):
            group = range(first, min(first + together, rows))
            for v, factor in enumerate(factors):
                start = k.add(at, k.mul(self.out_plane, v))
                places = [k.add(start, r * self.lanes) for r in group]
                words = [
                    self.requantize.words(k, sums[r * vectors + v], factor, self._other(place))
                    for r, place in zip(group, places, strict=True)
                ]
                self._keep(words, places)

    def _other(self, place: Index) -> ir.Value | None:
        return None if self.residual is None else self.k.load(self.residual, place, I8, self.lanes)

    def _keep(self, words: Sequence[ir.Value], places: Sequence[Index]) -> None:
        """Store adjacent vectors: four of them at once, fewer one by one."""
        k = self.k
        kind = self.requantize.kind
        if kind != I8:
            for value, place in zip(words, places, strict=True):
                k.store(value, self.y, place, kind)
        elif len(words) == 4:
            k.store(self.requantize.packed(k, words), self.y, places[0], I8)
        else:
            for value, place in zip(words, places, strict=True):
                k.store(self.requantize.packed(k, [value]), self.y, place, I8)


def emit_conv_int8(module: ir.Module, name: str, spec: Int8ConvSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, bias, factor, [residual], worker)` of a spec."""
    assert supports_int8(spec)
    k = KernelBuilder(module, name, 5 + (spec.requantize.residual is not None), target, sized=True)
    _Int8Emission(k, spec).emit()
    return k.finish()


def int8_conv_spec(op: IntegerConvOp, context: CallContext) -> Int8ConvSpec | None:
    """The convolution of an instruction with constant filter and bias."""
    constants = [context.constant(v) for v in (op.filter, *present(op.bias))]
    if any(c is None for c in constants) or op.lanes != context.target.lanes:
        return None
    batch, _, height, width, _ = shape(op.input)
    out, inner, *kernel = shape(op.filter)
    conv = DirectConvSpec(
        batch,
        inner * op.group,
        out,
        (height, width),
        (kernel[0], kernel[1]),
        **window(op.strides, op.pads, op.dilations),
        group=op.group,
    )
    to, own = element_of(op.result), _own(op)
    requantize = Requantize(real=own == f32, sums=own == i32)
    if isinstance(own, UniformQuantizedType):
        limits = stored_limits(own, op.low, op.high)
        requantize = Requantize(zero_of(own), *limits, residual=_residual(op, own, to))
    return Int8ConvSpec(conv, requantize)


def _own(op: IntegerConvOp) -> Any:
    """The element type of the convolution's own result, to which a residual may be added."""
    return op.properties.get("between") or element_of(op.result)


def _residual(op: IntegerConvOp, own: UniformQuantizedType, to: Any) -> Residual | None:
    """The tensor to which the convolution's bytes are added."""
    if op.residual is None:
        return None
    other = element_of(op.residual)
    assert isinstance(other, UniformQuantizedType)
    factors = [float(np.float32(scale_of(kind) / scale_of(to))) for kind in (own, other)]
    limits = stored_limits(to, op.sum_low, op.sum_high)
    return Residual(zero_of(own), factors[0], zero_of(other), factors[1], zero_of(to), *limits)


class Int8Conv(Kernel[IntegerConvOp, Int8ConvSpec]):
    """A blocked convolution of bytes."""

    OPS = (QuantizedConvOp,)
    emit = staticmethod(emit_conv_int8)

    def match(self, op: IntegerConvOp, context: CallContext) -> Int8ConvSpec | None:
        spec = int8_conv_spec(op, context)
        return None if spec is None or supports_depthwise(spec.conv) else spec

    def pack(self, weights: Array, spec: Int8ConvSpec, target: CpuTarget) -> Array:
        """An OIHW filter as the kernel reads it."""
        return pack_int8_conv(weights, spec, target)

    def packing(self, spec: Int8ConvSpec, target: CpuTarget) -> str:
        """All that `pack` depends on but the weights."""
        return f"{packing(spec.conv, room_of(target, spec.pairs))} {spec.together}"

    def operands(self, op: IntegerConvOp, spec: Int8ConvSpec, context: CallContext) -> list[Operand | None]:
        target, filters, source = context.target, context.constant(op.filter), element_of(op.input)
        assert filters is not None and isinstance(source, UniformQuantizedType)
        biases = [context.constant(v) for v in present(op.bias)]
        # Padding is real zeros: stored ones, or what a depthwise kernel leaves out.
        bias = bias_of(filters, biases[0] if biases else None, zero_of(source) - spec.zero)
        factor = factors_of(quantized_type(op.filter), source, _own(op), spec.conv.out_channels)
        how = f"int8_conv|{self.packing(spec, target)}"
        return [
            op.result,
            op.input,
            context.pack(op.filter, how, lambda w: self.pack(w, spec, target)),
            table("sums", pack_channels(bias, target)),
            table("factor", pack_channels(factor, target)),
            *present(op.residual),
        ]

    def flops(self, spec: Int8ConvSpec) -> int:
        return spec.conv.flops


class PairsConv(Int8Conv):
    """The same on bytes that come as 16-bit numbers."""

    OPS = (PairsConvOp,)

    def match(self, op: IntegerConvOp, context: CallContext) -> Int8ConvSpec | None:
        spec = int8_conv_spec(op, context)
        return None if spec is None else replace(spec, pairs=True)
