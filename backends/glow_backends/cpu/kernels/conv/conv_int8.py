"""Direct convolution of 8-bit integers on channel blocks: four products an instruction (VNNI).

The loops are those of the float kernel on units of four channels: an input block of c bytes is c / 4
words, each broadcast and multiplied with four channels' weights of c output channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit.builder import I8, I32, KernelBuilder
from glow_backends.cpu.emit.integer import Requantize, dot4
from glow_backends.cpu.emit.memory import Index, ceil_div
from glow_backends.cpu.emit.packing import pad_to
from glow_backends.cpu.kernels.conv.conv_direct import DirectEmission, pack_conv
from glow_backends.cpu.kernels.conv.conv_plan import ConvPlan, plan_conv
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.pointwise.lookup import permutes_bytes
from glow_backends.cpu.target import CpuTarget


@dataclass(frozen=True)
class Int8ConvSpec:
    """y = requantize(conv(x, w) + bias) of bytes.

    x is (N, C / c, H, W, c), unsigned; y (N, K / c, OH, OW, c), unsigned (or f32, or i32 sums); w is
    what `pack_int8_conv` made of (K, C/g, R, S), signed; bias (i32) and factor (f32) have one value an
    output channel, padded to c. Padding is zero bytes. `conv` has no epilogue. `zero` is what the
    depthwise kernel, which leaves padding out, takes from every byte of x.
    Operands: y, x, w, bias, factor, [residual (unsigned, like y)].
    """

    conv: DirectConvSpec
    requantize: Requantize = field(default_factory=Requantize)
    zero: int = 0


def supports_int8(spec: Int8ConvSpec) -> bool:
    """Whether `emit_conv_int8` takes this spec."""
    return not spec.conv.plain_input and not spec.conv.epilogue.operands


def _plan(spec: Int8ConvSpec, target: CpuTarget) -> ConvPlan:
    """The float plan, the last input block's channels in words."""
    plan = plan_conv(spec.conv, target)
    return replace(plan, in_rest=ceil_div(plan.in_rest, 4))


def pack_int8_conv(weights: np.ndarray, spec: Int8ConvSpec, target: CpuTarget) -> np.ndarray:
    """(K, C/g, R, S) as `pack_conv` cuts it, four input channels of v vectors of outputs inmost."""
    packed = pack_conv(weights, spec.conv, target)
    *outer, lanes, width = packed.shape
    return np.ascontiguousarray(packed.reshape(*outer, lanes // 4, 4, width).swapaxes(-1, -2))


def pack_channels(values: np.ndarray, target: CpuTarget) -> np.ndarray:
    """One value an output channel, padded with zeros to a multiple of the lanes."""
    return pad_to(values, 0, target.lanes)


class _Int8Emission(DirectEmission):
    """Words of four bytes in place of floats."""

    dot = staticmethod(dot4)

    def __init__(self, k: KernelBuilder, plan: ConvPlan, requantize: Requantize) -> None:
        super().__init__(k, plan)
        self.requantize = requantize
        self.sums_bias, self.factor = k.operands[3], k.operands[4]
        self.residual = k.operands[5] if requantize.residual is not None else None

    def channels_a_block(self) -> int:
        return self.lanes // 4

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
    _Int8Emission(k, _plan(spec, target), spec.requantize).emit()
    return k.finish()
