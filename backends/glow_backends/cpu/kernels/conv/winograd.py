"""Winograd convolution on channel-blocked activations: 3x3 of stride 1 or 2, others of stride 1.

Tiles of the output (2x2 to 5x5 pixels, or two to seven of a line) are taken in blocks. A block's input
tiles are transformed into V[xi][channel block][tile][c]; for each of the positions xi (36 of 4x4) one
matrix product with the transformed weights gives M[xi][output block][tile][c]; the output transform and
the epilogue follow. Every output channel is summed in the same order in every tile.

The interpolation points of F(4x4) are 0, +-sqrt(1/2), +-sqrt(2) and infinity: in float32 their
error is less than half of that of the usual 0, +-1, +-2 and about twice a direct sum's. Filters of
other than 3x3 have the transforms of `winograd_line`; eight points along both axes would lose too much.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import I64, KernelBuilder, KernelFunction
from glow_backends.cpu.emit.filters import C, D
from glow_backends.cpu.emit.memory import Index, maximum, minimum, split_index, table
from glow_backends.cpu.emit.register_blocks import NEAR, Loop, Stream, multiply, stream_parts, zeros
from glow_backends.cpu.emit.winograd_line import line_outputs, line_points
from glow_backends.cpu.kernels.conv.blocked_conv import BlockedConv, overlapped
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.winograd_order import LOW, NARROW
from glow_backends.cpu.kernels.conv.winograd_plan import (
    WinogradPlan,
    WinogradSpec,
    pack_winograd,
    plan_winograd,
    supports_winograd,
    winograd_scratch_bytes,
)
from glow_backends.cpu.kernels.conv.winograd_tiles import A, B, TileEmission, window_side
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array


class WinogradEmission(TileEmission):
    """The loops of a Winograd convolution; a worker has `more` elements of scratch behind V and M."""

    def __init__(self, k: KernelBuilder, spec: WinogradSpec, plan: WinogradPlan, more: int = 0) -> None:
        super().__init__(k, spec.conv, spec.tile)
        self.spec, self.plan, self.more = spec, plan, more
        operands = iter(k.operands)
        self.y, self.x, self.w = next(operands), next(operands), next(operands)
        self.bias = next(operands) if spec.conv.epilogue.bias else None
        self.extras = [next(operands) for _ in range(spec.conv.epilogue.extras)]
        scratch = next(operands)
        own = k.mul(k.worker, k.size(plan.scratch + more)) if k.target.threads > 1 else 0
        self.v_stride, self.m_stride = k.size(plan.v_stride), k.size(plan.m_stride)
        self.v = k.gep(scratch, own)
        self.m = k.gep(self.v, k.size(plan.points * plan.v_stride))
        self.tiles, self.plane = k.size(plan.tiles), k.size(plan.tiles * self.lanes)
        self.in_blocks, self.out_blocks = k.size(plan.in_blocks), k.size(plan.out_blocks)
        self.out_size = k.size(spec.conv.out_size[0]), k.size(spec.conv.out_size[1])
        self.out_plane = k.size(spec.conv.out_size[0] * spec.conv.out_size[1])
        self.full, self.short = ([k.size(n) for n in pair] for pair in (plan.order.full, plan.order.short))
        self.ends = [k.size(end) for end in plan.order.ends]
        self.bits = table(k, np.array(plan.bits))

    def place(self, tile: Index) -> tuple[Index, Index, Index]:
        """(image, first output row, first output column) of a tile."""
        image, *numbers = self._numbers(tile)
        row, column = (self._first_pixel(number, axis) for axis, number in enumerate(numbers))
        return image, row, column

    def _kind(self, tile: Index) -> tuple[ir.Value, ir.Value]:
        """Whether a tile is low, and whether it is narrow."""
        k, (narrow, whole, low, _) = self.k, self.ends
        tile, least = k.i(tile), k.b.icmp_signed
        return least(">=", tile, whole), k.b.or_(least("<", tile, narrow), least(">=", tile, low))

    def _numbers(self, tile: Index) -> list[Index]:
        """Image, number of the row of tiles and number in that row."""
        k, (narrow, whole, low, _) = self.k, self.ends
        kinds = self._kind(tile)
        late, early = (k.b.select(kinds[1], k.i(a), k.i(b)) for a, b in ((low, whole), (0, narrow)))
        begin = k.b.select(kinds[0], late, early)
        pairs = list(zip(kinds, self.full, self.short, strict=True))
        counts = [k.b.select(kind, short, full) for kind, full, short in pairs]
        image, *numbers = split_index(k, k.b.sub(k.i(tile), begin), [0, *counts])
        passed = (k.b.select(kind, full, k.i(0)) for kind, full, _ in pairs)
        return [image, *(k.add(n, p) for n, p in zip(numbers, passed, strict=True))]

    def _first_pixel(self, number: Index, axis: int) -> Index:
        """As that of tiles all alike; behind the first short one there is one output less for each."""
        k = self.k
        short = maximum(k, k.b.sub(k.i(number), self.full[axis]), 0)
        return k.b.sub(k.i(super()._first_pixel(number, axis)), short)

    def emit(self) -> None:
        """Items (block of tiles, part of the output channels), shared by the workers.

        The transforms do not depend on the register block: they are parts, which kernels share.
        """
        k, plan = self.k, self.plan
        transformed, finished = self._input_part(), self._output_part()
        parts, total = k.size(plan.parts), k.size(plan.order.total)
        filters = k.size(plan.filters // plan.parts)
        held = k.stack(2)  # the block whose tiles V holds
        k.store(k.i(-1), held, kind=I64)
        with k.items(k.size(plan.blocks * plan.parts)) as item:
            block, part = split_index(k, item, [0, parts]) if plan.parts > 1 else (item, 0)
            first = k.mul(block, self.tiles)
            live = minimum(k, k.add(first, self.tiles), total)
            with k.b.if_then(k.b.icmp_signed("!=", k.load(held, kind=I64), k.i(block))):
                k.run_part(transformed, first, live)
                k.store(k.i(block), held, kind=I64)
            low = k.mul(part, filters)
            with k.loop(0, plan.matrices) as matrix, k.loop(0, filters) as output:
                self._products(matrix, low, output, filters, (first, live))
            vectors = plan.block.vectors
            k.run_part(finished, first, live, k.mul(low, vectors), k.mul(filters, vectors))

    def _input_part(self) -> KernelFunction:
        """Numbers: the first tile, and that behind the last one."""
        k = self.k.part("input")
        own = type(self)(k, self.spec, self.plan, self.more)
        first, live = (k.load(k.operands[-1], i, I64) for i in range(2))
        with k.loop(0, own.in_blocks) as channel, k.loop(first, live) as tile:
            own.put_input_tile(channel, tile, k.b.sub(tile, first))
        return k.finish()

    def _output_part(self) -> KernelFunction:
        """Numbers: the same, then the first block of output channels, and how many there are."""
        k = self.k.part("output")
        own = type(self)(k, self.spec, self.plan, self.more)
        first, live, start, count = (k.load(k.operands[-1], i, I64) for i in range(4))
        with k.loop(0, count) as channel, k.loop(first, live) as tile:
            own.put_output_tile(k.add(start, channel), channel, tile, k.b.sub(tile, first))
        return k.finish()

    @contextmanager
    def points_of(self, matrix: Index) -> Generator[Index]:
        """The points whose products are by a matrix of the transformed filter."""
        yield matrix

    def _reach(self, point: Index, block: tuple[Index, Index]) -> tuple[Index, Index]:
        """The tiles of a block, counted from its first one, that need a point."""
        k, (narrow, whole, low, total) = self.k, self.ends
        bits = k.load(self.bits, point, I64)
        leaves = [k.b.icmp_unsigned("!=", k.b.and_(bits, k.i(bit)), k.i(0)) for bit in (LOW, NARROW)]
        begin = k.b.select(leaves[1], narrow, k.i(0))
        end = k.b.select(leaves[0], whole, k.b.select(leaves[1], low, total))
        first, live = block
        begin, end = maximum(k, begin, first), minimum(k, end, live)
        return k.b.sub(k.i(begin), k.i(first)), k.b.sub(k.i(end), k.i(first))

    @contextmanager
    def _passes(self, point: Index, block: tuple[Index, Index]) -> Generator[tuple[Index, Index, Index]]:
        """Register blocks of the tiles that need a point: the first tile, tiles passed, and of how many."""
        k = self.k
        begin, end = self._reach(point, block)
        with k.loop(begin, end, self.plan.block.rows) as tile:
            yield tile, k.b.sub(k.i(tile), k.i(begin)), k.b.sub(k.i(end), k.i(begin))

    def _products(
        self, matrix: Index, low: Index, output: Index, filters: Index, block: tuple[Index, Index]
    ) -> None:
        """M[point, output] = V[point] @ W[matrix, low + output] of a `block` of tiles, one of `filters`."""
        k, plan = self.k, self.plan
        vectors, rows = plan.block.vectors, plan.block.rows
        width = vectors * self.lanes
        size = k.size(plan.in_blocks * self.lanes * width)
        every = k.size(plan.filters)
        w = k.gep(self.w, k.mul(k.add(k.add(k.mul(matrix, every), low), output), size))
        full, rest = divmod(self.conv.in_channels, self.lanes)
        blocks_of = k.size(full)
        chunk, count = self.lanes * width, plan.tiles // rows
        more = k.b.icmp_signed("<", k.i(k.add(output, 1)), k.i(filters))
        jump = k.i(k.mul(size, k.add(k.b.sub(every, k.i(filters)), 1)))
        following = k.b.select(more, size, jump)
        parts = stream_parts(plan.fewest_passes, chunk)
        final = k.size(plan.tiles - rows)
        with self.points_of(matrix) as point, self._passes(point, block) as (tile, passed, reach):
            tile = minimum(k, tile, final)
            v = k.gep(self.v, k.mul(point, self.v_stride))
            m = k.gep(self.m, k.index((point, self.m_stride), (output, k.mul(self.plane, vectors))))
            start = k.mul(tile, self.lanes)
            offsets = [r * self.lanes for r in range(rows)]
            sums = zeros(k, rows * vectors)
            a = k.gep(v, start)
            ahead: Index = NEAR
            if count > 1:
                part = k.b.udiv(k.i(k.mul(passed, parts)), k.i(reach))
                ahead = k.add(k.mul(part, k.b.udiv(size, k.i(parts))), following)
            stream = Stream(k.gep(w, ahead), parts, chunk)
            for begin, blocks, channels in ((0, blocks_of, self.lanes), (blocks_of, 1, rest)):
                if (full or blocks == 1) and channels:
                    a_at = k.gep(a, k.mul(begin, self.plane))
                    w_at = k.gep(w, k.mul(begin, chunk))
                    nest = [Loop(blocks, self.plane, chunk), Loop(channels, 1, width)]
                    fetched = stream.moved(k, k.mul(begin, chunk))
                    sums = multiply(k, a_at, offsets, w_at, vectors, nest, sums, stream=fetched)
            m = k.settled(k.gep(m, start))
            for r, offset in enumerate(offsets):
                for i in range(vectors):
                    k.store(sums[r * vectors + i], m, k.add(k.mul(self.plane, i), offset))

    def put_input_tile(self, channel: Index, tile: Index, slot: Index) -> None:
        """Transform a tile of an input block into V."""
        k = self.k
        to = k.gep(self.v, k.index((channel, self.plane), (slot, self.lanes)))
        for value in self.input_tile(self.x, self.in_blocks, channel, tile):
            k.store(value, to)
            to = k.gep(to, self.v_stride)

    def output_line(self, m: Sequence[ir.Value]) -> list[ir.Value]:
        """A^T m."""
        k, add, sub = self.k, self.k.b.fadd, self.k.b.fsub
        total, difference = add(m[1], m[2]), sub(m[1], m[2])
        if self.spec.tile == 2:
            return [add(m[0], total), add(difference, m[3])]
        total_b, difference_b = add(m[3], m[4]), sub(m[3], m[4])

        def mix(x: ir.Value, factor: float, y: ir.Value) -> ir.Value:
            return self.scale(factor, y, k.b.fmul(x, k.splat(factor_of[factor], self.lanes)))

        factor_of = {B: A, 2.0: 0.5}
        odd = self.scale(A / 2, difference, m[5])
        return [
            add(add(m[0], total), total_b),
            mix(difference, B, difference_b),
            mix(total, 2.0, total_b),
            self.scale(2 * B, difference_b, odd),
        ]

    def output_tile(self, place: ir.Value) -> Sequence[Sequence[ir.Value]]:
        """A^T M A of the products of a tile, row by row."""
        side, half = self.side, list[list[ir.Value]]()
        for _ in range(side):
            points: list[ir.Value] = []
            for _ in range(side):
                points.append(self.vector(place, 0))
                place = self.k.gep(place, self.m_stride)
            half.append(self.output_line(points))
        columns = [self.output_line([half[r][c] for r in range(side)]) for c in range(self.size)]
        return list(zip(*columns, strict=True))

    def put_output_tile(self, channel: Index, held: Index, tile: Index, slot: Index) -> None:
        """The epilogue of a tile of block `channel`, whose products are block `held` of M.

        Outputs beyond the image go to a place of their own: without branches, as in `window`.
        """
        k, conv, lanes = self.k, self.conv, self.lanes
        width = self.out_size[1]
        down, across = self.shape
        image, row, column = self.place(tile)
        lines = self.output_tile(k.gep(self.m, k.index((held, self.plane), (slot, lanes))))
        block = k.add(k.mul(image, self.out_blocks), channel)
        start = k.mul(k.index((block, self.out_plane), (row, width), (column, 1)), lanes)
        bias = None
        if self.bias is not None:
            bias = self.vector(self.bias, k.mul(channel, lanes))
        kind, beyond = values.storage(conv.stored), k.stack(lanes)
        ends = [
            minimum(k, size, k.b.sub(k.i(k.add(first, k.mul(step, count))), k.b.zext(less, I64)))
            for size, first, step, count, less in zip(
                self.out_size, (row, column), self.steps, self.shape, self._kind(tile), strict=True
            )
        ]
        rows = self.within(row, down, ends[0], self.steps[0])
        columns = self.within(column, across, ends[1], self.steps[1])
        steps = k.mul(k.mul(width, self.steps[0]), lanes), k.mul(self.steps[1], lanes)

        def finish(value: ir.Value, r: Index, c: int, inside: ir.Value) -> None:
            at = k.add(start, k.index((r, steps[0]), (c, steps[1])))
            known = k.b.select(inside, k.i(at), k.i(start))

            def read(extra: ir.Value) -> ir.Value:
                return values.load(k, extra, known, conv.stored, lanes)

            result = conv.epilogue.apply(k, value, bias, self.extras, read)
            place = k.b.select(inside, k.gep(self.y, at, kind), beyond)
            values.store(k, result, place, 0, conv.stored)

        if not conv.epilogue.long:
            for r, line in enumerate(lines):
                for c, value in enumerate(line):
                    finish(value, r, c, k.b.and_(rows[r], columns[c]))
            return
        edge = k.stack(down * across * lanes)  # long code stands once a column
        for i, value in enumerate(value for line in lines for value in line):
            k.store(value, edge, i * lanes)
        count = k.i(0)
        for inside in rows:
            count = k.b.add(count, k.b.zext(inside, count.type))
        with k.loop(0, count) as r:
            for c, inside in enumerate(columns):
                finish(self.vector(edge, k.mul(k.index((r, across), (c, 1)), lanes)), r, c, inside)


class StridedEmission(WinogradEmission):
    """Stride 2: of each line of 2 m + 1 pixels the even ones meet two taps, F(4, 2), the odd ones the third.

    A line of points is five of F(4, 2) at +-`C`, +-`D` and infinity, then the m odd pixels as they are,
    which all have the middle tap as their factor: 81 products a tile where the sums take 144.
    """

    @contextmanager
    def points_of(self, matrix: Index) -> Generator[Index]:
        k, plan = self.k, self.plan
        kinds = [min(i, 5) for i in range(self.side)]
        matrices = [6 * row + column for row in kinds for column in kinds]
        order = sorted(range(plan.points), key=lambda point: matrices[point])
        begins = [sum(m < number for m in matrices) for number in range(plan.matrices + 1)]
        points, begin = table(k, np.array(order)), table(k, np.array(begins))
        first, last = (k.load(begin, k.add(matrix, i), I64) for i in (0, 1))
        with k.loop(first, last) as number:
            yield k.load(points, number, I64)

    def input_line(self, d: Sequence[ir.Value]) -> list[ir.Value]:
        even, odd = d[::2], d[1::2]
        outer, inner = (
            (self.scale(-(q**2), even[0], even[2]), self.scale(-(q**2), even[1], even[3])) for q in (D, C)
        )
        last = self.scale(-(C**2) - D**2, even[2], self.scale((C * D) ** 2, even[0], even[4]))
        points = [self.scale(f, s, t) for p, (s, t) in ((C, outer), (D, inner)) for f in (p, -p)]
        return [*points, last, *odd]

    def output_line(self, m: Sequence[ir.Value]) -> list[ir.Value]:
        add, sub = self.k.b.fadd, self.k.b.fsub
        sums, differences = (add(m[0], m[1]), add(m[2], m[3])), (sub(m[0], m[1]), sub(m[2], m[3]))
        line: list[ir.Value] = []
        for power in range(4):
            total = add(m[4], m[5 + power]) if power == 3 else m[5 + power]
            for point, value in zip((C, D), differences if power % 2 else sums, strict=True):
                total = self.scale(point**power, value, total)
            line.append(total)
        return line


class SquareEmission(WinogradEmission):
    """A square filter of other than three rows: the transforms of a line, along both axes."""

    def input_line(self, d: Sequence[ir.Value]) -> list[ir.Value]:
        return line_points(self.k, d)

    def output_line(self, m: Sequence[ir.Value]) -> list[ir.Value]:
        return line_outputs(self.k, m, self.size)


class LineEmission(WinogradEmission):
    """A filter of one row or column: tiles and their points are lines (`winograd_line`)."""

    def input_tile(self, x: ir.Value, blocks: Index, channel: Index, tile: Index) -> list[ir.Value]:
        k, conv, axis = self.k, self.conv, int(self.conv.kernel[0] == 1)
        image, *place = self.place(tile)
        first = k.add(place[axis], -conv.pads[axis])
        place[axis] = first
        corner = k.index((place[0], self.image_size[1]), (place[1], 1))
        block = k.mul(k.add(k.mul(image, blocks), channel), self.image_plane)
        source = self.image_at(x, k.add(block, k.mul(corner, self.lanes)))
        step = k.mul(self.steps[axis], self.lanes if axis else k.mul(self.image_size[1], self.lanes))
        pixels: list[ir.Value] = []
        # Without branches, as in `window`: zeros are read for what is outside.
        for i, inside in enumerate(self.within(first, self.side, self.image_size[axis], self.steps[axis])):
            pixel = k.b.select(inside, self.image_at(source, k.mul(step, i)), self.zeros)
            pixels.append(values.to_compute(k, self.pixel(pixel, 0), conv.stored))
        return line_points(k, pixels)

    def output_tile(self, place: ir.Value) -> Sequence[Sequence[ir.Value]]:
        points = [self.vector(place, self.k.mul(self.m_stride, i)) for i in range(self.side)]
        outputs = line_outputs(self.k, points, self.size)
        return [outputs] if self.conv.kernel[0] == 1 else [[value] for value in outputs]


def emit_winograd(module: ir.Module, name: str, spec: WinogradSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, [bias], [extras], scratch, worker)` of a spec."""
    assert supports_winograd(spec.conv, spec.tile)
    k = KernelBuilder(module, name, 4 + spec.conv.epilogue.operands, target, sized=True)
    emission = WinogradEmission if spec.conv.kernel == (3, 3) else SquareEmission
    emission = StridedEmission if spec.strided else LineEmission if spec.conv.line else emission
    emission(k, spec, plan_winograd(spec, target)).emit()
    return k.finish()


def tile_of(algorithm: str) -> int:
    """The Winograd tile of an algorithm; 0 for any other."""
    return int(algorithm[-1]) if algorithm.startswith("winograd") else 0


class WinogradConv(BlockedConv[WinogradSpec]):
    """Fewer products, between transforms of tiles."""

    ALGORITHM = "winograd"
    emit = staticmethod(emit_winograd)

    def spec(self, op: ConvOp, conv: DirectConvSpec, context: CallContext) -> WinogradSpec | None:
        return WinogradSpec(conv, tile_of(op.algorithm))

    def pack(self, weights: Array, spec: WinogradSpec, target: CpuTarget) -> Array:
        return pack_winograd(weights.astype(np.float32, copy=False), spec, target)

    def packing(self, spec: WinogradSpec, target: CpuTarget) -> str:
        return str(plan_winograd(spec, target).block.vectors)

    def cycles(self, spec: WinogradSpec, target: CpuTarget) -> float:
        plan, lanes = plan_winograd(spec, target), target.lanes
        pairs = plan.in_blocks * plan.out_blocks * lanes**2
        products = pairs * plan.rows / (2 * lanes) / 0.88
        costs = target.costs
        into, out = costs.transform(window_side(spec.conv, spec.tile), spec.conv.line)
        transforms = plan.order.total * (plan.in_blocks * into + plan.out_blocks * out)
        moved = costs.shown_streaming * plan.spilled(target) / costs.bytes_a_cycle
        sums = (overlapped(n * each * products, 4 * n * pairs, target) for n, each in spec.matrices)
        return transforms + moved + sum(sums)

    def scratch(self, spec: WinogradSpec, target: CpuTarget) -> int:
        return winograd_scratch_bytes(spec, target)

    def flops(self, spec: WinogradSpec) -> int:
        return spec.conv.flops
