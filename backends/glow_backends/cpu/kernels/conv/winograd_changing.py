"""Winograd convolution by a filter that changes, transformed where it is used.

For few tiles of many channels the transformed filter is several times as large as all else. It is
then made for a few output channels (and a part of the input channels) at a time in the cache, and
multiplied by all tiles at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.filters import FilterPackSpec
from glow_backends.cpu.emit.memory import Index, minimum
from glow_backends.cpu.emit.register_blocks import Loop, multiply, zeros
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.conv.blocked_conv import bias_operand
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.conv.conv_spec import conv_spec
from glow_backends.cpu.kernels.conv.filter_pack import FilterTaps
from glow_backends.cpu.kernels.conv.winograd import WinogradEmission, tile_of
from glow_backends.cpu.kernels.conv.winograd_plan import (
    WinogradPlan,
    WinogradSpec,
    plan_winograd,
    supports_winograd,
)
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import present


@dataclass(frozen=True)
class ChangingSpec:
    """As `WinogradSpec`, but w is the plain filter in `form`."""

    winograd: WinogradSpec
    form: str


def supports_changing(spec: WinogradSpec, target: CpuTarget) -> bool:
    """Whether all tiles are taken at once: otherwise the filter would be transformed again and again."""
    simple = spec.conv.kernel == (3, 3) and spec.conv.dilations == (1, 1)
    if spec.strided or not simple or not supports_winograd(spec.conv):
        return False
    return plan_winograd(spec, replace(target, threads=1)).blocks == 1


def _plan(spec: ChangingSpec, target: CpuTarget) -> tuple[WinogradPlan, int, int]:
    """(the plan with M of one panel, input blocks of a chunk, stride of the transformed filter)."""
    plan, lanes = plan_winograd(spec.winograd, replace(target, threads=1)), target.lanes
    # Workers share the panels of output channels, each with all tiles.
    vectors = plan.block.vectors
    while vectors > 1 and (plan.out_blocks % vectors or plan.out_blocks // vectors < target.threads):
        vectors -= 1
    plan = replace(plan, block=replace(plan.block, vectors=vectors))
    plan = replace(plan, m_stride=(vectors * plan.tiles + 1) * lanes)
    block = 4 * plan.points * lanes**2 * vectors
    chunk = plan.in_blocks
    if spec.winograd.conv.in_channels % lanes == 0:
        fitting = [d for d in range(1, chunk + 1) if chunk % d == 0 and d * block <= 0.6 * target.l2]
        chunk = max(fitting, default=1)
    return plan, chunk, (chunk * lanes * vectors + 1) * lanes


def changing_scratch_bytes(spec: ChangingSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand for all workers."""
    plan, _, stride = _plan(spec, target)
    return 4 * target.threads * (plan.scratch + plan.points * stride)


class _Emission(WinogradEmission):
    def __init__(self, k: KernelBuilder, spec: ChangingSpec) -> None:
        plan, self.chunk, self.stride = _plan(spec, k.target)
        super().__init__(k, spec.winograd, plan, plan.points * self.stride)
        self.u = k.gep(self.m, plan.points * plan.m_stride)
        self.width = plan.block.vectors * self.lanes
        conv, tile = spec.winograd.conv, spec.winograd.tile
        sizes = (conv.out_channels, conv.in_channels, conv.kernel)
        pack = FilterPackSpec(*sizes, spec.form, self.lanes, self.width, tile)
        self.taps = FilterTaps(k, pack, self.w)

    def emit(self) -> None:
        """Every worker has all tiles, and its share of the output channels."""
        k, plan = self.k, self.plan
        vectors = plan.block.vectors
        with k.loop(0, plan.in_blocks) as channel, k.loop(0, plan.order.total) as tile:
            self.put_input_tile(channel, tile, tile)
        with k.loop(*k.share(plan.out_blocks // vectors)) as panel:
            chunks = plan.in_blocks // self.chunk
            with k.loop(0, chunks) as chunk:
                self._transform(panel, chunk)
                fresh = k.b.icmp_signed("==", chunk, k.i(0)) if chunks > 1 else None
                with k.loop(0, plan.points) as point:
                    self._multiply(point, chunk, fresh)
            with k.loop(0, vectors) as v, k.loop(0, plan.order.total) as tile:
                self.put_output_tile(k.add(k.mul(panel, vectors), v), v, tile, tile)

    def _transform(self, panel: Index, chunk: Index) -> None:
        """U[point, input channel of the chunk, output channel of the panel]."""
        k, channels = self.k, self.chunk * self.lanes
        first = k.mul(chunk, channels)
        last = minimum(k, k.add(first, channels), self.conv.in_channels)
        with k.loop(first, last) as channel, k.loop(0, self.width, self.lanes) as at:
            output = k.add(k.mul(panel, self.width), at)
            to = k.add(k.mul(k.b.sub(channel, k.i(first)), self.width), at)
            for i, value in enumerate(self.taps.transformed(self.taps.read(output, channel))):
                k.store(value, self.u, k.add(to, i * self.stride))

    def _multiply(self, point: Index, chunk: Index, fresh: ir.Value | None) -> None:
        """M[point] (+)= V[point, chunk] U[point]; `fresh`: whether the sums start from zero."""
        k, plan, lanes = self.k, self.plan, self.lanes
        rows, vectors, plane = plan.block.rows, plan.block.vectors, plan.tiles * lanes
        u = k.gep(self.u, k.mul(point, self.stride))
        v = k.gep(self.v, k.index((point, plan.v_stride), (chunk, self.chunk * plane)))
        m = k.gep(self.m, k.mul(point, plan.m_stride))
        full, rest = divmod(self.conv.in_channels, lanes)
        parts = [(0, min(full, self.chunk), lanes), (full, 1, rest)]
        offsets = [r * lanes for r in range(rows)]
        places = [r * lanes + i * plane for r in range(rows) for i in range(vectors)]
        with k.loop(0, plan.tiles, rows) as tile:
            to = k.gep(m, k.mul(tile, lanes))
            sums: Sequence[ir.Value] = zeros(k, rows * vectors)
            if fresh is not None:
                held = [k.load(to, at, lanes=lanes) for at in places]
                sums = [k.b.select(fresh, z, h) for z, h in zip(sums, held, strict=True)]
            for begin, blocks, channels in parts:
                if blocks and channels:
                    a = k.gep(v, k.add(k.mul(tile, lanes), begin * plane))
                    b = k.gep(u, begin * lanes * self.width)
                    nest = [Loop(blocks, plane, lanes * self.width), Loop(channels, 1, self.width)]
                    sums = multiply(k, a, offsets, b, vectors, nest, sums)
            for at, value in zip(places, sums, strict=True):
                k.store(value, to, at)


def emit_winograd_changing(
    module: ir.Module, name: str, spec: ChangingSpec, target: CpuTarget
) -> ir.Function:
    """The kernel `name(y, x, w, [bias], [extras], scratch, worker)` of a spec."""
    assert supports_changing(spec.winograd, target)
    k = KernelBuilder(module, name, 4 + spec.winograd.conv.epilogue.operands, target, sized=True)
    _Emission(k, spec).emit()
    return k.finish()


class ChangingWinogradConv(Kernel[ConvOp, ChangingSpec]):
    """The same for a filter that changes at run time, transformed in the cache."""

    OPS = (ConvOp,)
    emit = staticmethod(emit_winograd_changing)

    def match(self, op: ConvOp, context: CallContext) -> ChangingSpec | None:
        plain = op.packed is None and context.constant(op.filter) is None
        if op.lanes != context.target.lanes or not plain or not tile_of(op.algorithm):
            return None
        spec = WinogradSpec(conv_spec(op), tile_of(op.algorithm))
        return ChangingSpec(spec, op.form) if supports_changing(spec, context.target) else None

    def operands(self, op: ConvOp, spec: ChangingSpec, context: CallContext) -> list[Operand | None]:
        biases = [bias_operand(v, context) for v in present(op.bias)]
        return [op.result, op.input, op.filter, *biases, *op.extras]

    def scratch(self, spec: ChangingSpec, target: CpuTarget) -> int:
        return changing_scratch_bytes(spec, target)

    def flops(self, spec: ChangingSpec) -> int:
        return spec.winograd.conv.flops
