"""Direct convolution of bfloat16 on channel blocks: two products a 32-bit lane.

The loops are those of the float kernel on units of two channels: an input block of c channels is c / 2
words, each broadcast and multiplied with two channels' weights of c output channels. Products are added in
float32 (`vdpbf16ps`); bias, epilogue and rounding follow once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.halves import dot_bf16, pair_up
from glow_backends.cpu.emit.memory import ceil_div
from glow_backends.cpu.kernels.conv.blocked_conv import direct_cycles
from glow_backends.cpu.kernels.conv.conv_direct import DirectConv, DirectEmission, pack_conv, packing
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.conv.conv_plan import ConvPlan, plan_conv
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array


def supports_half(spec: DirectConvSpec, target: CpuTarget) -> bool:
    """Whether `emit_conv_half` takes this spec: channels come in pairs."""
    return target.computes(spec.stored) and not spec.plain_input and spec.in_channels % 2 == 0


def _plan(spec: DirectConvSpec, target: CpuTarget) -> ConvPlan:
    """The float plan, the last input block's channels in words."""
    plan = plan_conv(spec, target)
    return replace(plan, in_rest=ceil_div(plan.in_rest, 2))


def pack_half_conv(weights: np.ndarray, spec: DirectConvSpec, target: CpuTarget) -> np.ndarray:
    """(K, C/g, R, S) of bfloat16 as `pack_conv` cuts it, two input channels of v vectors inmost."""
    return pair_up(pack_conv(weights, spec, target))


class _BfloatEmission(DirectEmission):
    """Pairs of bfloat16."""

    dot = staticmethod(dot_bf16)

    def channels_a_block(self) -> int:
        return self.lanes // 2


def emit_conv_half(module: ir.Module, name: str, spec: DirectConvSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, [bias], [extras], worker)` of a spec; bias is f32."""
    assert supports_half(spec, target)
    k = KernelBuilder(module, name, 3 + spec.epilogue.operands, target, sized=True)
    _BfloatEmission(k, _plan(spec, target)).emit()
    return k.finish()


class HalfConv(DirectConv):
    """Sums of pairs of products of bfloat16."""

    emit = staticmethod(emit_conv_half)

    def spec(self, op: ConvOp, conv: DirectConvSpec, context: CallContext) -> DirectConvSpec | None:
        return conv if supports_half(conv, context.target) else None

    def pack(self, weights: Array, spec: DirectConvSpec, target: CpuTarget) -> Array:
        return pack_half_conv(weights, spec, target)

    def packing(self, spec: DirectConvSpec, target: CpuTarget) -> str:
        return f"{packing(spec, target)} in pairs"

    def cycles(self, spec: DirectConvSpec, target: CpuTarget) -> float:
        return direct_cycles(spec, target, pairs=2)
