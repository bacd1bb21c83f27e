"""Direct 2-D convolution on channel-blocked activations (NCHWc, c = vector lanes).

A register block holds a run of output pixels of one row times a few vectors of output channels
over the whole reduction (channel blocks, filter rows, filter columns, channels): every output
channel has that one summation order. Filter rows outside the image shorten a loop; runs whose
filter columns leave the image get code of their own that reads only the pixels inside. Short rows
are taken in pairs, so that each weight is used more often. A 1x1 convolution without stride sees the
image as a single row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.builder import I64, KernelBuilder
from glow_backends.cpu.kernels.blocks import (
    NEAR,
    Block,
    Dot,
    Loop,
    NestBody,
    Output,
    Stream,
    choose_block,
    even_tiles,
    fits,
    multiply,
    reduce_nest,
    stream_parts,
    zeros,
)
from glow_backends.cpu.kernels.conv_spec import (
    DirectConvSpec,
    TileRun,
    filter_rows,
    last_pixel,
    tile_runs,
)
from glow_backends.cpu.kernels.memory import Index, ceil_div, maximum, minimum, split_index, table
from glow_backends.cpu.kernels.packing import pad_to
from glow_backends.cpu.target import CpuTarget


def supports_direct(spec: DirectConvSpec, target: CpuTarget) -> bool:
    """Whether `emit_conv_direct` takes this spec."""
    return spec.group == 1 or not spec.plain_input


@dataclass(frozen=True)
class ConvPlan:
    """How a convolution is cut; `spec` is the given one with a 1x1 image flattened to one row.

    Groups that share blocks of channels are taken together (`groups` is 1 then); `bands` has the
    first input block, the number of full ones and of partial ones that each block of output
    channels reads. With `images_inside` a block of output channels takes all images before the next.
    A tile has the pixels of `lines` rows.
    """

    spec: DirectConvSpec
    block: Block
    groups: int
    in_blocks: int
    in_rest: int
    out_blocks: int
    runs: tuple[TileRun, ...]
    tiles: int
    rows_an_item: int
    tiles_an_item: int
    bands: tuple[tuple[int, int, int], ...] = ()
    images_inside: bool = False
    lines: int = 1

    @property
    def depth_blocks(self) -> int:
        """Input blocks that the weights of a block of output channels stand for."""
        if self.bands:
            return max(full + rest for _, full, rest in self.bands)
        return self.in_blocks + (self.in_rest > 0)


def bands_of(spec: DirectConvSpec, width: int, lanes: int) -> tuple[tuple[int, int, int], ...]:
    """(first block, full blocks, partial blocks) of the inputs of each `width` output channels."""
    rows, columns = spec.in_channels // spec.group, spec.out_channels // spec.group
    whole = spec.in_channels // lanes
    bands: list[tuple[int, int, int]] = []
    for first in range(0, spec.out_channels, width):
        last = min(first + width, spec.out_channels) - 1
        low = first // columns * rows // lanes
        high = ceil_div((last // columns + 1) * rows, lanes)
        bands.append((low, min(high, whole) - low, int(high > whole)))
    return tuple(bands)


def _banded_block(spec: DirectConvSpec, rows: int, outputs: int, target: CpuTarget) -> Block:
    """The register block with the least estimated cycles where blocks read bands of the input."""
    best, least = Block(1, 1), float("inf")
    for vectors in (v for v in range(1, 5) if outputs % v == 0):
        reads = sum(a + b for _, a, b in bands_of(spec, vectors * target.lanes, target.lanes))
        limit = max(r for r in range(1, 33) if fits(Block(r, vectors), target))
        size, full, rest = even_tiles(rows, limit)
        cycles = full * Block(size, vectors).cycles() + (Block(rest, vectors).cycles() if rest else 0)
        if reads * cycles < least:
            best, least = Block(size, vectors), reads * cycles
    return best


def _row_pair(rows: int, outputs: int, single: Block, target: CpuTarget) -> Block | None:
    """The register block of two whole rows of pixels in which half of them costs less than in `single`."""
    blocks = [Block(2 * rows, v) for v in range(1, 5) if outputs % v == 0]
    costs = {b: b.cycles() / b.vectors for b in blocks if fits(b, target)}
    size, full, rest = even_tiles(rows, single.rows)
    alone = full * Block(size, single.vectors).cycles()
    alone += Block(rest, single.vectors).cycles() if rest else 0.0
    best = min(costs, key=lambda b: costs[b], default=None)
    return best if best is not None and costs[best] < 2 * alone / single.vectors else None


def lying(spec: DirectConvSpec) -> DirectConvSpec:
    """A convolution along a column of pixels, which has the same memory as one along a row."""
    top, _, bottom, _ = spec.pads
    return replace(
        spec,
        size=spec.size[::-1],
        kernel=spec.kernel[::-1],
        strides=spec.strides[::-1],
        pads=(0, top, 0, bottom),
        dilations=spec.dilations[::-1],
    )


@cache
def plan_conv(spec: DirectConvSpec, target: CpuTarget) -> ConvPlan:
    """Choose the register block and how many rows and tiles one item of work has."""
    lanes = target.lanes
    if spec.kernel == (1, 1) and spec.strides == (1, 1) and not any(spec.pads):
        spec = replace(spec, size=(1, prod(spec.size)))
    if spec.size[1] == 1 and spec.kernel[1] == 1 and not (spec.pads[1] or spec.pads[3]):
        spec = lying(spec)
    banded = not spec.whole_groups(lanes)
    groups = 1 if banded else spec.group
    inputs, outputs = spec.in_channels // groups, ceil_div(spec.out_channels // groups, lanes)
    in_blocks, in_rest = (inputs, 0) if spec.plain_input else divmod(inputs, lanes)
    height, width = spec.out_size
    if banded:
        block = _banded_block(spec, width, outputs, target)
    else:
        block = choose_block(width, outputs, target, whole=True)
    lines = 1
    # The filter rows of a pair are three loops a block of channels: too many for blocks of one.
    single = banded or height == 1 or spec.plain_input
    pair = None if single else _row_pair(width, outputs, block, target)
    if pair is not None:
        block, lines = Block(width, pair.vectors), 2
    tiles = ceil_div(width, block.rows)
    # An item's pixels of all input channels stay in half of L2 while the weights pass.
    pixels = target.l2 // 2 // (4 * inputs * prod(spec.strides))
    tiles_an_item = min(tiles, max(1, pixels // block.rows))
    rows_an_item = min(height, max(1, pixels // width))
    if target.threads > 1:
        others = spec.batch * groups * (outputs // block.vectors)
        wanted = ceil_div(4 * target.threads, others)
        rows_an_item = min(rows_an_item, max(1, height // wanted))
        if height < wanted:
            tiles_an_item = min(tiles_an_item, max(1, tiles * height // wanted))
    return ConvPlan(
        spec,
        block,
        groups,
        in_blocks,
        in_rest,
        outputs,
        tile_runs(spec, block.rows),
        tiles,
        rows_an_item,
        tiles_an_item,
        bands_of(spec, block.vectors * lanes, lanes) if banded else (),
        images_inside=_images_inside(spec, groups * outputs // block.vectors, target),
        lines=lines,
    )


def _images_inside(spec: DirectConvSpec, filters: int, target: CpuTarget) -> bool:
    """Whether all images pass before the next of `filters` blocks of output channels.

    Otherwise all weights pass for each image, which is more memory where images are small.
    """
    weights = 4 * spec.out_channels * spec.in_channels // spec.group * prod(spec.kernel)
    image = 4 * spec.in_channels // spec.group * prod(spec.size)
    if spec.batch == 1 or weights < target.l2 // 2:
        return False
    return weights + filters * spec.batch * image < spec.batch * weights


def pack_conv(weights: np.ndarray, spec: DirectConvSpec, target: CpuTarget) -> np.ndarray:
    """(K, C/g, R, S) to (g', K/g'/vc, C/g'/c, R, S, c, vc): v vectors of output channels inmost.

    g' counts groups of whole blocks; other groups are one, of which each block of outputs keeps
    its band of inputs. Channels are padded with zeros. A plain input has blocks of one channel.
    """
    plan = plan_conv(spec, target)
    merged = spec.group // plan.groups
    k, c, r, s = weights.shape
    split = weights.reshape(plan.groups, merged, k // spec.group, c, r, s)
    dense = np.zeros((plan.groups, merged, k // spec.group, merged, c, r, s), weights.dtype)
    for i in range(merged):
        dense[:, i, :, i] = split[:, i]
    dense = dense.reshape(plan.groups, k // plan.groups, merged * c, r, s)
    lanes = 1 if spec.plain_input else target.lanes
    width = plan.block.vectors * target.lanes
    dense = pad_to(pad_to(dense, 1, width), 2, lanes)
    parts = dense.reshape(plan.groups, dense.shape[1] // width, width, -1, lanes, r, s)
    packed = parts.transpose(0, 1, 3, 5, 6, 4, 2)
    if not plan.bands:
        return np.ascontiguousarray(packed)
    banded = np.zeros((1, packed.shape[1], plan.depth_blocks, *packed.shape[3:]), packed.dtype)
    for i, (first, full, rest) in enumerate(plan.bands):
        banded[0, i, : full + rest] = packed[0, i, first : first + full + rest]
    return banded


def pack_bias(bias: np.ndarray, target: CpuTarget) -> np.ndarray:
    """(K) padded with zeros to a multiple of the vector lanes."""
    return pad_to(bias, 0, target.lanes)


def _equal_columns(
    columns: Sequence[tuple[int, int]],
) -> list[tuple[tuple[int, int], int, int]]:
    """Runs of filter columns [begin, end) with the same non-empty pixel range."""
    runs: list[tuple[tuple[int, int], int, int]] = []
    for s, pixels in enumerate(columns):
        if runs and runs[-1][0] == pixels and runs[-1][2] == s:
            runs[-1] = (pixels, runs[-1][1], s + 1)
        elif pixels[1] > pixels[0]:
            runs.append((pixels, s, s + 1))
    return runs


@dataclass(frozen=True)
class _Phase:
    """Filter rows [low, high), which the output rows `lines` of a tile take together."""

    lines: range
    low: Index
    high: Index


class DirectEmission:
    """The loops of a direct convolution around a register block."""

    def __init__(self, k: KernelBuilder, plan: ConvPlan) -> None:
        self.k, self.plan, self.spec = k, plan, plan.spec
        self.lanes = k.target.lanes
        self.depth = self.channels_a_block()
        self.width = plan.block.vectors * self.lanes
        height, width = plan.spec.size
        self.plane = k.size(height * width * self.depth)
        line = width * self.depth  # a constant where pixels of several rows are named by their distance
        self.line: Index = k.size(line) if plan.lines == 1 else line
        dilated = line * plan.spec.dilations[0]
        self.filter_line: Index = k.size(dilated) if plan.lines == 1 else dilated
        self.out_plane = k.size(prod(plan.spec.out_size) * self.lanes)
        self.out_line = k.size(plan.spec.out_size[1] * self.lanes)
        self.last_pixel = k.size(last_pixel(plan.spec, plan.block.rows))
        self.filter_size = k.size(plan.depth_blocks * prod(plan.spec.kernel) * self.depth * self.width)
        operands = iter(k.operands)
        self.y, self.x, self.w = next(operands), next(operands), next(operands)
        self.bias = next(operands) if plan.spec.epilogue.bias else None
        self.extras = [next(operands) for _ in range(plan.spec.epilogue.extras)]
        self.bands = table(k, np.array(plan.bands)) if plan.bands else None
        self.tiles_inside = ceil_div(plan.rows_an_item, plan.lines) * plan.tiles_an_item
        self.tiles = k.size(self.tiles_inside)
        self.full: Index = k.size(plan.in_blocks)
        self.partial: Index = int(plan.in_rest > 0)

    def channels_a_block(self) -> int:
        """What an input block has."""
        return 1 if self.spec.plain_input else self.lanes

    def emit(self) -> None:
        """Items (image, rows, tiles, output channels), shared by the workers."""
        k, spec, plan = self.k, self.spec, self.plan
        in_blocks = plan.in_blocks + (plan.in_rest > 0)
        filters = plan.out_blocks // plan.block.vectors
        parts = [ceil_div(spec.out_size[0], plan.rows_an_item), ceil_div(plan.tiles, plan.tiles_an_item)]
        outer, inner = spec.batch, plan.groups * filters
        low, high = k.share(k.size(outer * inner * prod(parts)))
        parts = [k.size(count) for count in parts]
        sizes = [0, k.size(outer), *parts] if plan.images_inside else [0, *parts, k.size(inner)]
        self.rows_an_item, self.tiles_an_item = k.size(plan.rows_an_item), k.size(plan.tiles_an_item)
        image_blocks, out_blocks = k.size(plan.groups * in_blocks), k.size(plan.groups * plan.out_blocks)
        end_row = k.size(spec.out_size[0])
        with k.loop(low, high) as item:
            if plan.images_inside:
                channel, image, row_item, tile_item = split_index(k, item, sizes)
            else:
                image, row_item, tile_item, channel = split_index(k, item, sizes)
            block = k.mul(channel, plan.block.vectors)
            planes = k.mul(image, image_blocks)
            if plan.groups > 1:
                group = k.b.udiv(k.i(channel), k.size(filters))
                planes = k.add(planes, k.mul(group, k.size(in_blocks)))
            if self.bands is not None:
                at = k.mul(channel, 3)
                band = [k.load(self.bands, k.add(at, i), I64) for i in range(3)]
                planes, self.full, self.partial = k.add(planes, band[0]), band[1], band[2]
            self.x_item = k.gep(self.x, k.mul(planes, self.plane))
            self.w_item = k.gep(self.w, k.mul(channel, self.filter_size))
            out = k.add(k.mul(image, out_blocks), block)
            self.y_item = k.mul(out, self.out_plane)
            self.bias_at = k.mul(block, self.lanes)
            first = k.mul(row_item, self.rows_an_item)
            last = minimum(k, k.add(first, self.rows_an_item), end_row)
            begin = k.mul(tile_item, self.tiles_an_item)
            end = k.add(begin, self.tiles_an_item)
            self.first_row, self.first_tile = first, begin
            if self.plan.lines == 2:
                paired = k.b.and_(k.b.sub(k.i(last), k.i(first)), k.i(-2))
                with k.loop(first, k.add(first, paired), 2) as row:
                    self._rows(row, 2, begin, end)
                first = k.add(first, paired)
            with k.loop(first, last) as row:
                self._rows(row, 1, begin, end)

    def _rows(self, row: Index, lines: int, begin: Index, end: Index) -> None:
        """The tiles [begin, end) of output rows [row, row + lines)."""
        k, spec = self.k, self.spec
        phases = self._phases([filter_rows(k, spec, k.add(row, j)) for j in range(lines)])
        x = k.mul(k.add(k.mul(row, spec.strides[0]), -spec.pads[0]), self.line)
        y = k.add(self.y_item, k.mul(row, self.out_line))
        for run in self.plan.runs:
            first, last = maximum(k, begin, k.size(run.start)), minimum(k, end, k.size(run.stop))
            with k.loop(first, last) as tile:
                self._tile(run, row, tile, x, y, phases)

    def _phases(self, inside: Sequence[tuple[Index, Index]]) -> list[_Phase]:
        """What rows with the filter rows `inside` the image take together: the last, both, the first."""
        if len(set(inside)) == 1:
            return [_Phase(range(len(inside)), *inside[0])]
        k = self.k
        (low, high), (last_low, last_high) = inside
        return [
            _Phase(range(1, 2), last_low, minimum(k, low, last_high)),
            _Phase(range(2), low, last_high),
            _Phase(range(1), maximum(k, low, last_high), high),
        ]

    def _stream(self, row: Index, tile: Index) -> Stream | None:
        """Fetching the next block of output channels' weights, this tile's part of it."""
        k = self.k
        if self.depth == 1:
            return None
        chunk = self.depth * self.width
        if self.tiles_inside == 1:
            return Stream(k.gep(self.w_item, NEAR), 1, chunk)
        parts = stream_parts(self.tiles_inside, chunk)
        next_block = k.gep(self.w_item, self.filter_size)
        if parts > 1:
            passed = k.b.sub(k.i(row), k.i(self.first_row))
            if self.plan.lines == 2:
                passed = k.b.lshr(passed, k.i(1))
            number = k.add(k.mul(passed, self.tiles_an_item), k.b.sub(k.i(tile), k.i(self.first_tile)))
            part = k.b.udiv(k.b.mul(k.i(number), k.i(parts)), self.tiles)
            next_block = k.gep(next_block, k.mul(part, k.b.udiv(self.filter_size, k.i(parts))))
        return Stream(next_block, parts, chunk)

    def _tile(
        self, run: TileRun, row: Index, tile: Index, x: Index, y: Index, phases: Sequence[_Phase]
    ) -> None:
        k, spec, plan = self.k, self.spec, self.plan
        vectors, columns = plan.block.vectors, spec.kernel[1]
        pixel = minimum(k, k.mul(tile, plan.block.rows), self.last_pixel)
        step, line_step = spec.strides[1] * self.depth, k.mul(self.line, spec.strides[0])
        left = -spec.pads[1] * self.depth
        x_at = k.gep(self.x_item, k.add(k.add(x, left), k.mul(pixel, step)))
        chunk, column_step = self.depth * self.width, spec.dilations[1] * self.depth
        taps = prod(spec.kernel) * chunk
        stream = self._stream(row, tile)

        def across(a: Index, b: Index, depth: int, lines: range, sums: Sequence[ir.Value]) -> list[ir.Value]:
            """Add the products of a filter row, at offsets a and b of image and filter."""
            after, inner = list(sums), Loop(depth, 1, self.width)
            runs = _equal_columns(run.columns) if run.columns else [((0, run.rows), 0, columns)]
            for (low, high), begin, end in runs:
                taken = k.add(b, begin * chunk)
                places = [j * run.rows + r for j in lines for r in range(low, high)]
                held = [place * vectors + v for place in places for v in range(vectors)]
                found = multiply(
                    k,
                    k.gep(x_at, k.add(a, begin * column_step)),
                    [k.add(k.mul(line_step, j), r * step) for j in lines for r in range(low, high)],
                    k.gep(self.w_item, taken),
                    vectors,
                    [Loop(end - begin, column_step, chunk), inner],
                    [after[i] for i in held],
                    stream=stream and stream.moved(k, taken),
                    dot=self.dot,
                )
                for i, value in zip(held, found, strict=True):
                    after[i] = value
            return after

        def rows(a: Index, b: Index, depth: int, phase: _Phase, sums: Sequence[ir.Value]) -> list[ir.Value]:
            """Add the products of the filter rows of a phase."""
            count = phase.high if phase.low == 0 else k.b.sub(k.i(phase.high), k.i(phase.low))
            a = k.add(a, k.mul(phase.low, self.filter_line))
            b = k.add(b, k.mul(phase.low, columns * chunk))

            def row(a_row: Index, b_row: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
                found = across(k.add(a, a_row), k.add(b, b_row), depth, phase.lines, sums)
                return self.after_row(found)

            return reduce_nest(k, [Loop(count, self.filter_line, columns * chunk)], row, sums)

        def reduce(first: Index, blocks: Index, depth: int, sums: Sequence[ir.Value]) -> list[ir.Value]:
            """Add the products of `blocks` input blocks from `first` on."""

            def block(a: Index, b: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
                after = list(sums)
                for phase in phases:
                    a_block, b_block = k.add(k.mul(first, self.plane), a), k.add(k.mul(first, taps), b)
                    after = rows(a_block, b_block, depth, phase, after)
                return after

            return self.over_blocks(Loop(blocks, self.plane, taps), block, sums)

        lines = phases[0].lines if len(phases) == 1 else range(2)
        sums = self.start(len(lines) * run.rows * vectors)
        if plan.in_blocks:
            sums = reduce(0, self.full, self.depth, sums)
        if plan.in_rest:
            sums = reduce(self.full, self.partial, plan.in_rest, sums)
        sums = self.finished(sums)
        at, count = k.add(y, k.mul(pixel, self.lanes)), run.rows * vectors
        for j in lines:
            own = sums[j * count : (j + 1) * count]
            self.store(k.add(at, k.mul(self.out_line, j)), run.rows, own)

    # --- what other elements do otherwise -----------------------------------------------------
    dot: Dot = staticmethod(KernelBuilder.fma)

    def start(self, count: int) -> list[ir.Value]:
        """`count` sums before the first product."""
        return zeros(self.k, count)

    def over_blocks(self, loop: Loop, body: NestBody, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """The loop over blocks of input channels."""
        return reduce_nest(self.k, [loop], body, sums)

    def after_row(self, sums: list[ir.Value]) -> list[ir.Value]:
        """The sums after the products of a filter row."""
        return sums

    def finished(self, sums: list[ir.Value]) -> list[ir.Value]:
        """The sums after the last product, as they are stored."""
        return sums

    def store(self, at: Index, rows: int, sums: Sequence[ir.Value]) -> None:
        """Finish the sums of `rows` pixels and store them from element `at` of y on."""
        vectors = self.plan.block.vectors
        output = Output(
            self.y,
            at,
            rows,
            self.lanes,
            self.out_plane,
            self.lanes,
            self.bias,
            self.bias_at,
            self.extras,
            stored=self.spec.stored,
        )
        output.store(self.k, sums, vectors, self.spec.epilogue)


def emit_conv_direct(module: ir.Module, name: str, spec: DirectConvSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, [bias], [extras], worker)` of a spec."""
    assert supports_direct(spec, target)
    k = KernelBuilder(module, name, 3 + spec.epilogue.operands, target, sized=True)
    DirectEmission(k, plan_conv(spec, target)).emit()
    return k.finish()
