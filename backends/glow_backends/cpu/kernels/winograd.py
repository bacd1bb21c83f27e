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
from dataclasses import dataclass
from functools import cache

import numpy as np
from llvmlite import ir

from glow_backends.cpu import values
from glow_backends.cpu.builder import I64, Kernel, KernelBuilder
from glow_backends.cpu.kernels.blocks import (
    ALIKE,
    NEAR,
    Block,
    Loop,
    Stream,
    fits,
    multiply,
    stream_parts,
    zeros,
)
from glow_backends.cpu.kernels.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.filter_pack import C, D, pack_filter
from glow_backends.cpu.kernels.memory import Index, ceil_div, minimum, split_index, table
from glow_backends.cpu.kernels.winograd_line import line_outputs, line_points, line_tiles
from glow_backends.cpu.kernels.winograd_tiles import A, B, TileEmission, tiles_across, window_side
from glow_backends.cpu.target import CpuTarget


@dataclass(frozen=True)
class WinogradSpec:
    """A convolution of group 1 in tiles of `tile` x `tile` outputs, or `tile` of a line.

    Layouts are those of `DirectConvSpec`, with blocked input; w is what `pack_winograd` made.
    Operands: y, x, w, [bias], [extras], scratch of `winograd_scratch_bytes`.
    """

    conv: DirectConvSpec
    tile: int = 4

    @property
    def strided(self) -> bool:
        """Whether the stride is 2."""
        return self.conv.strides == (2, 2)

    @property
    def matrices(self) -> Sequence[tuple[int, int]]:
        """Numbers of matrices of the transformed filter, and of the points that have each of them."""
        if self.strided:
            return (25, 1), (10, 4), (1, 16)
        side = window_side(self.conv, self.tile)
        return ((side if self.conv.line else side**2, 1),)


def winograd_tiles(spec: DirectConvSpec) -> tuple[int, ...]:
    """The tiles in which a convolution can be taken: of 3x3 and stride 2 only those of 4 x 4."""
    if spec.group != 1 or spec.plain_input or spec.strides != (1, 1) != spec.dilations:
        return ()
    height, width = spec.kernel
    if spec.kernel == (3, 3):
        return {(1, 1): (2, 4), (2, 2): (4,)}.get(spec.strides, ())
    beside = [spec.pads[axis + side] for axis in (0, 1) for side in (0, 2) if spec.kernel[axis] == 1]
    if spec.strides != (1, 1) or any(beside) or not (spec.line or height == width > 1):
        return ()
    return line_tiles(max(spec.kernel), most=8 if spec.line else 6)


def supports_winograd(spec: DirectConvSpec, tile: int = 4) -> bool:
    """Whether a convolution can be taken in Winograd tiles of a size."""
    return tile in winograd_tiles(spec)


@dataclass(frozen=True)
class WinogradPlan:
    """`blocks` blocks of `tiles` tiles (a multiple of block.rows) cover all `total` tiles.

    Strides (elements) of V and M along xi keep those planes off each other's cache sets. The output
    channels of a block are taken in `parts`, so that several workers can share it; M holds one part.
    Several of the `points` xi may have the same one of the transformed filter's `matrices`.
    """

    block: Block
    across: tuple[int, int]
    total: int
    tiles: int
    blocks: int
    parts: int
    in_blocks: int
    out_blocks: int
    points: int
    matrices: int
    v_stride: int
    m_stride: int

    @property
    def filters(self) -> int:
        """Blocks of as many output channels as the register block has."""
        return self.out_blocks // self.block.vectors

    @property
    def scratch(self) -> int:
        """Scratch elements of one worker."""
        return self.points * (self.v_stride + self.m_stride)

    def spilled(self, target: CpuTarget) -> float:
        """Bytes of V and M that move between the L2 cache and what is behind it."""
        return self.blocks * _spilled(4 * self.scratch, target)


@cache
def plan_winograd(spec: WinogradSpec, target: CpuTarget) -> WinogradPlan:
    """Choose the register block, the number of tiles taken at once, and what workers share."""
    conv, lanes = spec.conv, target.lanes
    height, width = tiles_across(conv, spec.tile)
    total = conv.batch * height * width
    points, matrices = sum(n * each for n, each in spec.matrices), sum(n for n, _ in spec.matrices)
    inputs, outputs = ceil_div(conv.in_channels, lanes), ceil_div(conv.out_channels, lanes)
    weights = 4 * matrices * inputs * outputs * lanes**2
    fewest = _fewest_blocks(total, 4 * points * lanes * (inputs + outputs), weights, target)
    parts, threads = 1, target.threads
    if total < _FEW_TILES * threads and weights > target.l2:
        # Workers that share a block each transform its tiles, but fetch only their part of the weights.
        parts = next((p for p in range(threads, outputs + 1) if outputs % p == 0), 1)
    elif threads > 1:
        # The more blocks, the better a worker that the machine holds up is helped.
        fewest = max(fewest, min(4 * threads, total // (2 * _FEW_TILES)))
        fewest = ceil_div(fewest, threads) * threads
    found: list[tuple[float, Block, int]] = []
    for vectors in (v for v in range(1, 5) if outputs % (v * parts) == 0):
        for rows in range(1, min(total, 28) + 1):
            block = Block(rows, vectors)
            if not fits(block, target):
                break
            for blocks in (fewest, fewest + threads) if parts == 1 else (fewest,):
                count = ceil_div(ceil_div(total, blocks), rows)
                rounds = ceil_div(ceil_div(total, count * rows) * parts, threads)
                found.append((rounds * count * block.cycles() / vectors, block, count * rows))
    least, best, _ = min(found, key=lambda f: f[0])
    alike = [f for f in found if f[0] <= ALIKE * least and f[1].vectors == best.vectors]
    _, block, tiles = max(alike, key=lambda f: (_fetched_evenly(f[2] // f[1].rows), f[1].rows, -f[0]))
    return WinogradPlan(
        block,
        (height, width),
        total,
        tiles,
        ceil_div(total, tiles),
        parts,
        inputs,
        outputs,
        points,
        matrices,
        (inputs * tiles + 1) * lanes,
        (outputs // parts * tiles + 1) * lanes,
    )


def _fetched_evenly(passes: int) -> bool:
    """Whether so many passes over a block of weights fetch about as much of the next one each."""
    return passes > 4 or passes.bit_count() == 1


_FEW_TILES, _SCRATCH = 28, 16 * 1024 * 1024
"""Blocks have at least so many tiles, where there are as many, and at most so many bytes of V and M."""


_SHARE = 0.25
"""The part of the L2 cache in which V and M stay: images, weights and what else runs need the rest."""
_FETCHED = 0.35
"""What a byte of weights costs, which are fetched ahead, beside a byte of V or M."""


def _spilled(held: int, target: CpuTarget) -> float:
    """Bytes that go out of the L2 cache and come back where so many are written, then read."""
    return 2 * max(0.0, held - _SHARE * target.l2)


def _fewest_blocks(total: int, tile: int, weights: int, target: CpuTarget) -> int:
    """Into how many blocks to cut `total` tiles so that moving memory past the L2 cache costs least.

    The weights (bytes) pass once a block; V and M of a block, `tile` bytes a tile, go out and come back
    as far as they exceed their share of the cache.
    """

    def traffic(blocks: int) -> float:
        return blocks * (_FETCHED * weights + _spilled(ceil_div(total, blocks) * tile, target))

    most = max(1, total // _FEW_TILES)
    least = min(most, ceil_div(total * tile, _SCRATCH))
    return min(range(least, most + 1), key=traffic)


def winograd_scratch_bytes(spec: WinogradSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand for all workers."""
    return 4 * target.threads * plan_winograd(spec, target).scratch


def pack_winograd(weights: np.ndarray, spec: WinogradSpec, target: CpuTarget) -> np.ndarray:
    """(K, C, R, S) to transformed (xi, K/vc, C/c, c, vc), channels padded with zeros."""
    width = plan_winograd(spec, target).block.vectors * target.lanes
    return pack_filter(weights, target.lanes, width, spec.tile, spec.conv.strides[0])


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

    def emit(self) -> None:
        """Items (block of tiles, part of the output channels), shared by the workers.

        The transforms do not depend on the register block: they are parts, which kernels share.
        """
        k, plan = self.k, self.plan
        transformed, finished = self._input_part(), self._output_part()
        parts, total = k.size(plan.parts), k.size(plan.total)
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
                self._products(matrix, low, output, filters)
            vectors = plan.block.vectors
            k.run_part(finished, first, live, k.mul(low, vectors), k.mul(filters, vectors))

    def _input_part(self) -> Kernel:
        """Numbers: the first tile, and that behind the last one."""
        k = self.k.part("input")
        own = type(self)(k, self.spec, self.plan, self.more)
        first, live = (k.load(k.operands[-1], i, I64) for i in range(2))
        with k.loop(0, own.in_blocks) as channel, k.loop(first, live) as tile:
            own.put_input_tile(channel, tile, k.b.sub(tile, first))
        return k.finish()

    def _output_part(self) -> Kernel:
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

    def _products(self, matrix: Index, low: Index, output: Index, filters: Index) -> None:
        """M[point, output] = V[point] @ W[matrix, low + output], output one of `filters`."""
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
        parts = stream_parts(count, chunk)
        with self.points_of(matrix) as point, k.loop(0, self.tiles, rows) as tile:
            v = k.gep(self.v, k.mul(point, self.v_stride))
            m = k.gep(self.m, k.index((point, self.m_stride), (output, k.mul(self.plane, vectors))))
            start = k.mul(tile, self.lanes)
            offsets = [r * self.lanes for r in range(rows)]
            sums = zeros(k, rows * vectors)
            a = k.gep(v, start)
            ahead: Index = NEAR
            if count > 1:
                part = k.b.udiv(k.b.mul(tile, k.i(parts)), self.tiles)
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
        height, width = self.out_size
        down, across = self.shape
        image, row, column = self.place(tile)
        lines = self.output_tile(k.gep(self.m, k.index((held, self.plane), (slot, lanes))))
        block = k.add(k.mul(image, self.out_blocks), channel)
        start = k.mul(k.index((block, self.out_plane), (row, width), (column, 1)), lanes)
        bias = None
        if self.bias is not None:
            bias = self.vector(self.bias, k.mul(channel, lanes))
        kind, beyond = values.storage(conv.stored), k.stack(lanes)
        rows = self.within(row, down, height, self.steps[0])
        columns = self.within(column, across, width, self.steps[1])
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
        found: list[ir.Value] = []
        for power in range(4):
            total = add(m[4], m[5 + power]) if power == 3 else m[5 + power]
            for point, value in zip((C, D), differences if power % 2 else sums, strict=True):
                total = self.scale(point**power, value, total)
            found.append(total)
        return found


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
        for i in range(self.side):  # without branches: those zeros are read for what is outside
            at = k.add(first, k.mul(self.steps[axis], i))
            inside = k.b.icmp_unsigned("<", k.i(at), k.i(self.image_size[axis]))
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
