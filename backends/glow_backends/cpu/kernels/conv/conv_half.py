"""Direct convolution of 16-bit floats on channel blocks: two products a 32-bit lane.

The loops are those of the float kernel on units of two channels: an input block of c channels is c / 2
words, each broadcast and multiplied with two channels' weights of c output channels. Products of
bfloat16 are added in float32 (`vdpbf16ps`). Those of float16 are added in float16, at most
`MOST_PRODUCTS` of them, and these sums in float32; bias, epilogue and rounding follow once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.halves import (
    MOST_PRODUCTS,
    HalfSums,
    dot_bf16,
    dot_f16,
    pair_up,
)
from glow_backends.cpu.emit.memory import Index, ceil_div
from glow_backends.cpu.emit.register_blocks import Loop, NestBody, reduce_nest
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
    """(K, C/g, R, S) of 16-bit floats as `pack_conv` cuts it, two input channels of v vectors inmost."""
    return pair_up(pack_conv(weights, spec, target))


class _BfloatEmission(DirectEmission):
    """Pairs of bfloat16."""

    dot = staticmethod(dot_bf16)

    def channels_a_block(self) -> int:
        return self.lanes // 2


class _HalfEmission(_BfloatEmission):
    """Pairs of float16, whose sums go to f32 ones on the stack where there are many products.

    `blocks_together` input blocks come before the sums are moved; 0: each filter row does.
    """

    dot = staticmethod(dot_f16)

    def __init__(self, k: KernelBuilder, plan: ConvPlan) -> None:
        super().__init__(k, plan)
        products = prod(plan.spec.kernel) * self.depth
        together = MOST_PRODUCTS // products
        fitting = [n for n in range(1, together + 1) if plan.in_blocks % n == 0]
        if plan.bands:
            fitting = [n for n in fitting if n == 1]
        self.blocks_together = max(fitting, default=0)
        sums = plan.lines * plan.block.rows * plan.block.vectors
        self.many = plan.depth_blocks * products > MOST_PRODUCTS
        self.sums = HalfSums(k, sums, self.many)

    def start(self, count: int) -> list[ir.Value]:
        return self.sums.start(count)

    def over_blocks(self, loop: Loop, body: NestBody, sums: Sequence[ir.Value]) -> list[ir.Value]:
        k, together = self.k, self.blocks_together
        if not self.many or not together:
            return super().over_blocks(loop, body, sums)
        if together == 1 or loop.count is not self.full:
            outer, inner = loop, Loop(1, 0, 0)
        else:
            steps = [k.mul(step, together) for step in (loop.a_step, loop.b_step)]
            outer = Loop(k.size(self.plan.in_blocks // together), *steps)
            inner = replace(loop, count=k.size(together))

        def chunk(a: Index, b: Index, carried: Sequence[ir.Value]) -> list[ir.Value]:
            def block(a_in: Index, b_in: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
                return body(k.add(a, a_in), k.add(b, b_in), sums)

            return self.sums.moved(reduce_nest(k, [inner], block, carried))

        return reduce_nest(k, [outer], chunk, sums)

    def after_row(self, sums: list[ir.Value]) -> list[ir.Value]:
        return self.sums.moved(sums) if self.many and not self.blocks_together else sums

    def finished(self, sums: list[ir.Value]) -> list[ir.Value]:
        return self.sums.finished(sums)


def emit_conv_half(module: ir.Module, name: str, spec: DirectConvSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, [bias], [extras], worker)` of a spec; bias is f32."""
    assert supports_half(spec, target)
    k = KernelBuilder(module, name, 3 + spec.epilogue.operands, target, sized=True)
    emission = _HalfEmission if spec.stored == "f16" else _BfloatEmission
    emission(k, _plan(spec, target)).emit()
    return k.finish()


class HalfConv(DirectConv):
    """Sums of pairs of products of 16-bit floats."""

    emit = staticmethod(emit_conv_half)

    def spec(self, op: ConvOp, conv: DirectConvSpec, context: CallContext) -> DirectConvSpec | None:
        return conv if supports_half(conv, context.target) else None

    def pack(self, weights: Array, spec: DirectConvSpec, target: CpuTarget) -> Array:
        return pack_half_conv(weights, spec, target)

    def packing(self, spec: DirectConvSpec, target: CpuTarget) -> str:
        return f"{packing(spec, target)} in pairs"

    def cycles(self, spec: DirectConvSpec, target: CpuTarget) -> float:
        return direct_cycles(spec, target, pairs=2)
