"""The gradient of a 3x3 filter by Winograd's F(3x3, 4x4): 36 instead of 144 products per tile.

dw = A^T [sum over tiles (G dy G^T) (B^T x B)] A: tiles of dy (4x4) and of x (6x6) are transformed into
D[xi][output block][tile] and V[xi][input block][tile], multiplied over the tiles for each of the 36
positions xi, and the sums transformed once. B is that of F(4x4, 3x3), as are the points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.memory import Index, ceil_div, minimum
from glow_backends.cpu.emit.register_blocks import Loop, reduce_nest
from glow_backends.cpu.kernels.conv.conv_weights import (
    ConvWeights,
    ConvWeightsSpec,
    conv_weights_spec,
    write_weights,
)
from glow_backends.cpu.kernels.conv.training_ops import ConvWeightsOp
from glow_backends.cpu.kernels.conv.winograd_tiles import A, B, TileEmission
from glow_backends.cpu.target import CpuTarget

_TILE, _POINTS, _TAPS = 4, 36, 9


@dataclass(frozen=True)
class WeightsPlan:
    """Tiles are taken in `blocks` blocks of `tiles`; sums of a unit and panel are 36 x lanes x width.

    A unit is a block of input channels, a panel `vectors` blocks of output channels. Strides
    (elements) of V and D along xi keep those planes off each other's cache sets.
    """

    total: int
    tiles: int
    blocks: int
    units: int
    panels: int
    vectors: int
    rows: int
    v_stride: int
    d_stride: int

    def sums(self, lanes: int) -> int:
        """Elements of the sums of a unit and panel."""
        return _POINTS * lanes * lanes * self.vectors


@cache
def plan_weights(spec: ConvWeightsSpec, target: CpuTarget) -> WeightsPlan:
    """Choose the register block, and the blocks of tiles that move the least memory past the L2 cache."""
    conv, lanes = spec.conv, target.lanes
    total = conv.batch * ceil_div(conv.out_size[0], _TILE) * ceil_div(conv.out_size[1], _TILE)
    units, outputs = ceil_div(conv.in_channels, lanes), ceil_div(conv.out_channels, lanes)
    vectors = max(v for v in (1, 2) if outputs % v == 0)
    rows = max(r for r in (2, 4, 8) if r * vectors + vectors + 1 <= target.registers)
    unit = 4 * _POINTS * lanes

    def traffic(blocks: int) -> float:
        tiles = ceil_div(total, blocks)
        held, sums = tiles * unit * (units + outputs), unit * lanes * units * outputs
        if blocks == 1:  # V passes once a panel
            return 2 * held + tiles * unit * units * (outputs // vectors)
        beyond = max(0.0, 1 - 0.75 * target.l2 / held)
        return blocks * (2 * sums * (sums > target.l2 // 2) + 2 * beyond * held)

    most = max(1, total // 32)
    blocks = min(range(1, most + 1), key=traffic)
    tiles = ceil_div(total, blocks)
    return WeightsPlan(
        total,
        tiles,
        ceil_div(total, tiles),
        units,
        outputs // vectors,
        vectors,
        rows,
        (units * tiles + 1) * lanes,
        (outputs * tiles + 1) * lanes,
    )


def _parts(spec: ConvWeightsSpec, target: CpuTarget) -> tuple[int, int, int]:
    """Elements of the sums of all workers, of dw before it is written, and of a worker's V and D."""
    plan, lanes = plan_weights(spec, target), target.lanes
    pieces = target.threads if plan.blocks == 1 else plan.units * plan.panels
    packed = plan.units * plan.panels * _TAPS * lanes * lanes * plan.vectors
    return pieces * plan.sums(lanes), packed, _POINTS * (plan.v_stride + plan.d_stride)


def winograd_weights_scratch_bytes(spec: ConvWeightsSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand."""
    sums, packed, own = _parts(spec, target)
    return 4 * (sums + packed + own * target.threads)


class _Emission(TileEmission):
    def __init__(self, k: KernelBuilder, spec: ConvWeightsSpec) -> None:
        super().__init__(k, spec.conv, _TILE)
        self.spec, self.plan = spec, plan_weights(spec, k.target)
        self.dw, self.x, self.dy, self.sums = k.operands
        sums, packed, own = _parts(spec, k.target)
        self.packed = k.gep(self.sums, sums)
        self.v = k.gep(self.packed, k.add(packed, k.mul(k.worker, own)))
        self.d = k.gep(self.v, _POINTS * self.plan.v_stride)
        self.width = self.plan.vectors * self.lanes

    def emit(self) -> None:
        """Blocks of tiles; workers share the units or the panels."""
        k, plan = self.k, self.plan
        units: tuple[Index, Index] = (0, plan.units)
        panels: tuple[Index, Index] = (0, plan.panels)
        if plan.units >= plan.panels:
            units = k.share(plan.units)
        else:
            panels = k.share(plan.panels)
        with k.loop(0, plan.blocks) as block:
            first = k.mul(block, plan.tiles)
            live = minimum(k, k.add(first, plan.tiles), plan.total)
            with k.loop(*units) as unit, k.loop(first, live) as tile:
                values = self.input_tile(self.x, plan.units, unit, tile)
                self._keep(values, self.v, plan.v_stride, unit, k.b.sub(tile, k.i(first)))
            low, high = (k.mul(end, plan.vectors) for end in panels)
            with k.loop(low, high) as output, k.loop(first, live) as tile:
                values = self._grad_tile(output, tile)
                self._keep(values, self.d, plan.d_stride, output, k.b.sub(tile, k.i(first)))
            count = k.b.sub(k.i(live), k.i(first))
            if plan.blocks == 1:
                with k.loop(*panels) as panel, k.loop(*units) as unit:
                    with k.loop(0, _POINTS) as point:
                        self._product(point, unit, panel, count, None)
                    self._finish(unit, panel)
            else:
                fresh = k.b.icmp_signed("==", block, k.i(0))
                with k.loop(0, _POINTS) as point, k.loop(*panels) as panel, k.loop(*units) as unit:
                    self._product(point, unit, panel, count, fresh)
        if plan.blocks > 1:
            with k.loop(*panels) as panel, k.loop(*units) as unit:
                self._finish(unit, panel)
        with k.loop(*units) as unit, k.loop(*panels) as panel, k.loop(0, plan.vectors) as v:
            at = k.add(self._packed_at(unit, panel), k.mul(v, self.lanes))
            output = k.add(k.mul(panel, plan.vectors), v)
            write_weights(k, self.spec, self.dw, k.gep(self.packed, at), self.width, unit, output)

    # --- addresses ------------------------------------------------------------------------------
    def _sums_at(self, unit: Index, panel: Index) -> Index:
        k, size = self.k, self.plan.sums(self.lanes)
        if self.plan.blocks == 1:
            return k.mul(k.worker, size) if k.target.threads > 1 else 0
        return k.index((panel, self.plan.units * size), (unit, size))

    def _packed_at(self, unit: Index, panel: Index) -> Index:
        size = _TAPS * self.lanes * self.width
        return self.k.index((unit, self.plan.panels * size), (panel, size))

    def _keep(
        self, values: Sequence[ir.Value], to: ir.Value, stride: int, channel: Index, slot: Index
    ) -> None:
        at = self.k.index((channel, self.plan.tiles * self.lanes), (slot, self.lanes))
        for i, value in enumerate(values):
            self.k.store(value, to, self.k.add(at, i * stride))

    # --- the three steps ------------------------------------------------------------------------
    def _grad_tile(self, channel: Index, tile: Index) -> list[ir.Value]:
        """G dy G^T of a tile, row by row; elements outside dy are 0."""
        k, lanes, size = self.k, self.lanes, self.conv.out_size
        image, row, column = self.place(tile)
        plane, outputs = size[0] * size[1] * lanes, self.plan.panels * self.plan.vectors
        source = k.gep(self.dy, k.index((image, outputs * plane), (channel, plane)))
        if size[0] % _TILE or size[1] % _TILE:
            places = self.window(source, size, (row, column), _TILE)
        else:
            corner = k.mul(k.add(k.mul(row, size[1]), column), lanes)
            lines = [k.gep(source, k.add(corner, r * size[1] * lanes)) for r in range(_TILE)]
            places = [[k.gep(line, c * lanes) for c in range(_TILE)] for line in lines]
        half = [self._grad_line([self.vector(line[c], 0) for line in places]) for c in range(_TILE)]
        return [v for r in range(self.side) for v in self._grad_line([h[r] for h in half])]

    def _grad_line(self, d: Sequence[ir.Value]) -> list[ir.Value]:
        """G d: rows are 1, p, p^2, p^3 over the product of differences of point p from the others."""
        k = self.k
        line = [d[0]]
        for point, factor in ((A, 1 / -1.5), (B, 1 / 6)):
            even = k.b.fmul(self.scale(point**2, d[2], d[0]), k.splat(factor, self.lanes))
            odd = k.b.fmul(self.scale(point**2, d[3], d[1]), k.splat(factor * point, self.lanes))
            line += [k.b.fadd(even, odd), k.b.fsub(even, odd)]
        return [*line, d[3]]

    def _product(self, point: Index, unit: Index, panel: Index, count: Index, fresh: ir.Value | None) -> None:
        """sums[point] (+)= V[point, unit]^T D[point, panel]; `fresh`: whether they start from zero."""
        k, plan, lanes = self.k, self.plan, self.lanes
        plane = plan.tiles * lanes
        v = k.gep(self.v, k.index((point, plan.v_stride), (unit, plane)))
        d = k.gep(self.d, k.index((point, plan.d_stride), (panel, plan.vectors * plane)))
        sums = k.gep(self.sums, k.add(self._sums_at(unit, panel), k.mul(point, lanes * self.width)))
        with k.loop(0, lanes, plan.rows) as first:
            rows = k.gep(v, first)
            to = k.gep(sums, k.mul(first, self.width))
            places = [(r, i) for r in range(plan.rows) for i in range(plan.vectors)]
            held = [k.splat(0.0, lanes)] * len(places)
            if fresh is not None:
                held = [k.load(to, r * self.width + i * lanes, lanes=lanes) for r, i in places]
                held = [k.b.select(fresh, k.splat(0.0, lanes), value) for value in held]

            def body(a: Index, b: Index, held: Sequence[ir.Value], rows: ir.Value = rows) -> list[ir.Value]:
                grads = [k.load(d, k.add(b, i * plane), lanes=lanes) for i in range(plan.vectors)]
                new: list[ir.Value] = []
                for r in range(plan.rows):
                    scalar = k.splat(k.load(rows, k.add(a, r)), lanes)
                    own = held[r * plan.vectors : (r + 1) * plan.vectors]
                    new += [k.fma(scalar, g, s) for g, s in zip(grads, own, strict=True)]
                return new

            for (r, i), value in zip(
                places, reduce_nest(k, [Loop(count, lanes, lanes)], body, held), strict=True
            ):
                k.store(value, to, r * self.width + i * lanes)

    def _finish(self, unit: Index, panel: Index) -> None:
        """A^T sums A of every pair of channels, in the order in which `write_weights` takes them."""
        k, lanes, side = self.k, self.lanes, self.side
        sums = k.gep(self.sums, self._sums_at(unit, panel))
        panel_at = k.gep(self.packed, self._packed_at(unit, panel))
        row, tap = (_TAPS, 1) if self.spec.form == "OIHW" else (1, lanes)
        with k.loop(0, lanes) as channel, k.loop(0, self.width, lanes) as at:
            from_here = k.gep(sums, k.add(k.mul(channel, self.width), at))
            to = k.gep(panel_at, k.add(k.mul(channel, row * self.width), at))
            half = [
                self._weights_line(
                    [self.vector(from_here, (r * side + c) * lanes * self.width) for r in range(side)]
                )
                for c in range(side)
            ]
            for r in range(3):
                for c, value in enumerate(self._weights_line([h[r] for h in half])):
                    k.store(value, to, (3 * r + c) * tap * self.width)

    def _weights_line(self, m: Sequence[ir.Value]) -> list[ir.Value]:
        """A^T m: rows are the powers 0 to 2 of the points."""
        k, add, sub = self.k, self.k.b.fadd, self.k.b.fsub
        total, difference = add(m[1], m[2]), sub(m[1], m[2])
        total_b, difference_b = add(m[3], m[4]), sub(m[3], m[4])
        return [
            add(add(m[0], total), total_b),
            self.scale(A, difference, k.b.fmul(difference_b, k.splat(B, self.lanes))),
            self.scale(0.5, total, self.scale(2.0, total_b, m[5])),
        ]


def supports_winograd_weights(spec: ConvWeightsSpec) -> bool:
    """Whether the gradient of a filter can be taken in Winograd tiles."""
    conv, ones = spec.conv, (1, 1)
    simple = conv.kernel == (3, 3) and conv.strides == ones and conv.dilations == ones
    return simple and conv.group == 1 and not conv.plain_input


def emit_winograd_weights(
    module: ir.Module, name: str, spec: ConvWeightsSpec, target: CpuTarget
) -> ir.Function:
    """The kernel `name(dw, x, dy, scratch, worker)` of a spec."""
    assert supports_winograd_weights(spec)
    k = KernelBuilder(module, name, 4, target, sized=True)
    _Emission(k, spec).emit()
    return k.finish()


class WinogradWeights(ConvWeights):
    """The same in Winograd tiles."""

    emit = staticmethod(emit_winograd_weights)

    def match(self, op: ConvWeightsOp, context: CallContext) -> ConvWeightsSpec | None:
        fits = op.algorithm == "winograd4" and op.lanes == context.target.lanes
        return conv_weights_spec(op) if fits else None

    def faster(self, spec: ConvWeightsSpec, target: CpuTarget) -> bool:
        """Whether the estimated cycles on one core are fewer than those of the direct sums."""
        plan, conv, lanes, costs = plan_weights(spec, target), spec.conv, target.lanes, target.costs
        pairs = plan.units * plan.panels * plan.vectors
        direct = prod((conv.batch, *conv.out_size)) * pairs * lanes * 9 / 2 / 0.8
        into, out = costs.transform(6, line=False)
        transforms = plan.total * into * (plan.units + plan.panels * plan.vectors)
        products = 36 * plan.total * pairs * lanes / 2 / 0.8
        sums = 36 * pairs * lanes**2 * 4 * plan.blocks / costs.bytes_a_cycle
        return transforms + products + pairs * lanes * out + sums * costs.shown_streaming < direct

    def scratch(self, spec: ConvWeightsSpec, target: CpuTarget) -> int:
        return winograd_weights_scratch_bytes(spec, target)
