"""Direct 2-D convolution on channel-blocked activations (NCHWc, c = vector lanes).

A register block holds a run of output pixels of one row times a few vectors of output channels
over the whole reduction (channel blocks, filter rows, filter columns, channels): every output
channel has that one summation order. Filter rows outside the image shorten a loop; runs whose
filter columns leave the image get code of their own that reads only the pixels inside. Short rows
are taken in pairs, so that each weight is used more often. A 1x1 convolution without stride sees the
image as a single row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.emit.builder import I64, KernelBuilder
from glow_backends.cpu.emit.memory import Index, ceil_div, maximum, minimum, split_index, table
from glow_backends.cpu.emit.register_blocks import (
    NEAR,
    Dot,
    Loop,
    Output,
    Stream,
    multiply,
    reduce_nest,
    stream_parts,
    zeros,
)
from glow_backends.cpu.emit.tile_runs import TileRun
from glow_backends.cpu.kernels.conv.blocked_conv import BlockedConv, direct_cycles
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_backends.cpu.kernels.conv.conv_plan import ConvPlan, in_chunks, plan_conv
from glow_backends.cpu.kernels.conv.conv_spec import (
    DirectConvSpec,
    filter_rows,
)
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import pad_to
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import Array


def supports_direct(spec: DirectConvSpec, target: CpuTarget) -> bool:
    """Whether `emit_conv_direct` takes this spec."""
    return spec.group == 1 or not spec.plain_input


def pack_conv(weights: np.ndarray, spec: DirectConvSpec, target: CpuTarget) -> np.ndarray:
    """(K, C/g, R, S) to (g', K/g'/vc, C/g'/c, R, S, c, vc): v vectors of output channels inmost.

    g' counts groups of whole blocks; other groups are one, of which each block of outputs keeps
    its band of inputs. Channels are padded with zeros. A plain input has blocks of one channel.
    Parts of a plan with other numbers of vectors follow each other, flat.
    """
    plan = plan_conv(spec, target)
    merged = spec.group // plan.groups
    k, c, r, s = weights.shape
    dense = weights
    if merged > 1:
        split = weights.reshape(plan.groups, merged, k // spec.group, c, r, s)
        dense = np.zeros((plan.groups, merged, k // spec.group, merged, c, r, s), weights.dtype)
        for i in range(merged):
            dense[:, i, :, i] = split[:, i]
    dense = dense.reshape(plan.groups, k // plan.groups, merged * c, r, s)
    if plan.rest is None:
        return _pack_part(dense, plan, target)
    cut = plan.rest.first * target.lanes
    parts = (_pack_part(dense[:, :cut], plan, target), _pack_part(dense[:, cut:], plan.rest, target))
    return np.concatenate([part.reshape(-1) for part in parts])


def _pack_part(dense: np.ndarray, plan: ConvPlan, target: CpuTarget) -> np.ndarray:
    """(g', K/g', C/g', R, S) as `pack_conv` says."""
    lanes = 1 if plan.spec.plain_input else target.lanes
    width = plan.block.vectors * target.lanes
    dense = pad_to(pad_to(dense, 1, width), 2, lanes)
    parts = dense.reshape(plan.groups, dense.shape[1] // width, width, -1, lanes, *dense.shape[3:])
    packed = parts.transpose(0, 1, 3, 5, 6, 4, 2)
    if not plan.bands:
        return packed
    banded = np.zeros((1, packed.shape[1], plan.depth_blocks, *packed.shape[3:]), packed.dtype)
    for i, (first, full, rest) in enumerate(plan.bands):
        banded[0, i, : full + rest] = packed[0, i, first : first + full + rest]
    return banded


def packing(spec: DirectConvSpec, target: CpuTarget) -> str:
    """All that `pack_conv` depends on but the weights."""
    plan = plan_conv(spec, target)
    cuts = [(part.first, part.block.vectors) for part in (plan, plan.rest) if part is not None]
    return f"{spec.group} {plan.groups} {spec.plain_input} {cuts}"


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


_Across = Callable[[Index, Index, range, Sequence[ir.Value]], list[ir.Value]]
"""Adds the products of a filter row to sums, at offsets of image and filter, for some lines."""


@dataclass(frozen=True)
class _Phase:
    """Filter rows [low, high), which the output rows `lines` of a tile take together."""

    lines: range
    low: Index
    high: Index


@dataclass(frozen=True)
class _Tile:
    """Pixels from `pixel` on of output rows [row, row + lines), the `number`-th tile of its item.

    It is the `index`-th of its rows.
    """

    run: TileRun
    row: Index
    lines: int
    pixel: Index
    number: Index
    index: Index


TileVisit = Callable[[_Tile], None]


class DirectEmission:
    """The loops of a direct convolution around a register block."""

    def __init__(self, k: KernelBuilder, plan: ConvPlan) -> None:
        self.k, self.plan, self.spec = k, plan, plan.spec
        self.lanes = k.target.lanes
        self.depth = self.channels_a_block()
        self.width = plan.block.vectors * self.lanes
        self.block_weights = prod(plan.spec.kernel) * self.depth * self.width
        height, width = plan.spec.size
        self.plane = k.size(height * width * self.depth)
        line = width * self.depth  # a constant where pixels of several rows are named by their distance
        apart = plan.lines == 1 or isinstance(line, Extent)
        self.line: Index = k.size(line) if apart else line
        dilated = line * plan.spec.dilations[0]
        self.filter_line: Index = k.size(dilated) if apart else dilated
        self.out_plane = k.size(prod(plan.spec.out_size) * self.lanes)
        self.out_line = k.size(plan.spec.out_size[1] * self.lanes)
        self.filter_size = k.size(plan.depth_blocks * prod(plan.spec.kernel) * self.depth * self.width)
        operands = iter(k.operands)
        self.y, self.x, self.w = next(operands), next(operands), next(operands)
        self.bias = next(operands) if plan.spec.epilogue.bias else None
        self.extras = [next(operands) for _ in range(plan.spec.epilogue.extras)]
        self.bands = table(k, np.array(plan.bands)) if plan.bands else None
        self.tiles = k.size(plan.tiles_inside)
        self.full: Index = k.size(plan.in_blocks)
        self.held = k.stack(plan.tiles_inside * plan.tile_sums * self.lanes) if plan.chunk else None
        self.partial: Index = int(plan.in_rest > 0)
        self.first = k.size(plan.first) if plan.first else None
        self.first_weights = k.size(plan.first * plan.depth_blocks * self.block_weights // plan.block.vectors)

    def channels_a_block(self) -> int:
        """The channels of an input block."""
        return 1 if self.spec.plain_input else self.lanes

    def emit(self) -> None:
        """All items, shared by the workers."""
        with self.k.items(self.items()) as item:
            self.item(item)

    def items(self) -> ir.Value:
        """How many items (image, rows, tiles, output channels) there are."""
        k, spec, plan = self.k, self.spec, self.plan
        parts = [ceil_div(spec.out_size[0], plan.rows_an_item), ceil_div(plan.tiles, plan.tiles_an_item)]
        outer, inner = spec.batch, plan.groups * plan.filters
        items = k.size(outer * inner * prod(parts))
        parts = [k.size(count) for count in parts]
        # Channels are the outermost or the innermost of an item's numbers, whose code is one.
        self.sizes = [0, k.size(outer), *parts, k.size(1 if plan.images_inside else inner)]
        self.rows_an_item, self.tiles_an_item = k.size(plan.rows_an_item), k.size(plan.tiles_an_item)
        in_blocks = plan.in_blocks + (plan.in_rest > 0)
        self.image_blocks = k.size(plan.groups * in_blocks)
        self.out_blocks = k.size(plan.groups * plan.out_blocks)
        self.end_row = k.size(spec.out_size[0])
        self.group_blocks = (k.size(plan.filters), k.size(in_blocks)) if plan.groups > 1 else None
        return items

    def item(self, item: Index) -> None:
        """The tiles of an item."""
        k, plan = self.k, self.plan
        outer, image, row_item, tile_item, inner = split_index(k, item, self.sizes)
        channel = k.add(outer, inner)
        block = k.mul(channel, plan.block.vectors)
        planes = k.mul(image, self.image_blocks)
        if self.group_blocks is not None:
            filters, in_blocks = self.group_blocks
            planes = k.add(planes, k.mul(k.b.udiv(k.i(channel), filters), in_blocks))
        if self.bands is not None:
            at = k.mul(channel, 3)
            band = [k.load(self.bands, k.add(at, i), I64) for i in range(3)]
            planes, self.full, self.partial = k.add(planes, band[0]), band[1], band[2]
        self.x_item = k.gep(self.x, k.mul(planes, self.plane))
        self.w_item = k.gep(self.w, k.mul(channel, self.filter_size))
        if self.first is not None:  # blocks of output channels behind those of another part
            block = k.add(block, self.first)
            self.w_item = k.gep(self.w_item, self.first_weights)
        self.y_item = k.mul(k.add(k.mul(image, self.out_blocks), block), self.out_plane)
        self.bias_at = k.mul(block, self.lanes)
        first = k.mul(row_item, self.rows_an_item)
        last = minimum(k, k.add(first, self.rows_an_item), self.end_row)
        begin = k.mul(tile_item, self.tiles_an_item)
        end = k.add(begin, self.tiles_an_item)
        self.first_row, self.first_tile = first, begin
        if plan.chunk:
            self._in_chunks((first, last), (begin, end))
        else:
            self._tiles((first, last), (begin, end), self._whole)

    def _tiles(self, rows: tuple[Index, Index], tiles: tuple[Index, Index], visit: TileVisit) -> None:
        """Visit tiles [begin, end) of output rows [first, last), by pairs of rows where the plan says so."""
        k, (first, last) = self.k, rows
        if self.plan.lines == 2:
            paired = k.b.and_(k.b.sub(k.i(last), k.i(first)), k.i(-2))
            with k.loop(first, k.add(first, paired), 2) as row:
                self._rows(row, 2, tiles, visit)
            first = k.add(first, paired)
        with k.loop(first, last) as row:
            self._rows(row, 1, tiles, visit)

    def _rows(self, row: Index, lines: int, tiles: tuple[Index, Index], visit: TileVisit) -> None:
        """Visit the tiles of output rows [row, row + lines)."""
        k, plan = self.k, self.plan
        for run in plan.runs:
            first, last = maximum(k, tiles[0], k.size(run.start)), minimum(k, tiles[1], k.size(run.stop))
            with k.loop(first, last) as tile:
                pixel = minimum(k, k.mul(tile, plan.block.rows), k.size(run.last))
                passed = k.b.sub(k.i(row), k.i(self.first_row))
                if plan.lines == 2:
                    passed = k.b.lshr(passed, k.i(1))
                of_row = k.b.sub(k.i(tile), k.i(self.first_tile))
                number = k.add(k.mul(passed, self.tiles_an_item), of_row)
                visit(_Tile(run, row, lines, pixel, number, tile))

    def _in_chunks(self, rows: tuple[Index, Index], tiles: tuple[Index, Index]) -> None:
        """All tiles take some input blocks, whose weights then stay in L1, before the next."""
        k, chunk, held = self.k, self.k.size(self.plan.chunk), self.held
        assert held is not None
        with k.loop(0, k.mul(self.tiles, self.plan.tile_sums)) as i:
            k.store(k.splat(0.0, self.lanes), held, k.mul(i, self.lanes))

        def add(tile: _Tile) -> None:
            blocks = minimum(k, chunk, k.b.sub(k.i(self.full), k.i(first)))
            own = self._held(tile)
            for i, value in enumerate(self._sums(tile, self._loaded(tile), first, blocks)):
                k.store(value, own, i * self.lanes)

        with k.loop(0, self.full, self.plan.chunk) as first:
            self._tiles(rows, tiles, add)
        self._tiles(rows, tiles, lambda tile: self._finish(tile, self._loaded(tile)))

    def _held(self, tile: _Tile) -> ir.Value:
        """Where a tile's sums lie between two chunks."""
        assert self.held is not None
        return self.k.gep(self.held, self.k.mul(tile.number, self.plan.tile_sums * self.lanes))

    def _loaded(self, tile: _Tile) -> list[ir.Value]:
        """A tile's sums so far."""
        count, own = tile.lines * tile.run.rows * self.plan.block.vectors, self._held(tile)
        return [self.k.load(own, i * self.lanes, lanes=self.lanes) for i in range(count)]

    def _whole(self, tile: _Tile) -> None:
        """All products of a tile, and its result."""
        plan = self.plan
        sums = self.start(tile.lines * tile.run.rows * plan.block.vectors)
        if plan.in_blocks:
            sums = self._sums(tile, sums, 0, self.full)
        if plan.in_rest:
            sums = self._sums(tile, sums, self.full, self.partial, plan.in_rest)
        self._finish(tile, self.finished(sums))

    def _finish(self, tile: _Tile, sums: Sequence[ir.Value]) -> None:
        """Store a tile's result."""
        k, count = self.k, tile.run.rows * self.plan.block.vectors
        y = k.add(self.y_item, k.mul(tile.row, self.out_line))
        at = k.add(y, k.mul(tile.pixel, self.lanes))
        for j in range(tile.lines):
            own = sums[j * count : (j + 1) * count]
            self._keep_row(k.add(at, k.mul(self.out_line, j)), tile, own)

    def _keep_row(self, at: Index, tile: _Tile, sums: Sequence[ir.Value]) -> None:
        """Store a tile's pixels of a row; where that matters, those of the tile before it not again."""
        k, run, vectors = self.k, tile.run, self.plan.block.vectors
        if not run.once:
            self.store(at, run.rows, sums)
            return
        new = k.b.sub(k.i(k.mul(tile.index, self.plan.block.rows)), k.i(tile.pixel))
        for row in range(run.rows):
            with k.b.if_then(k.b.icmp_signed(">=", k.i(row), new)):
                self.store(k.add(at, row * self.lanes), 1, sums[row * vectors : (row + 1) * vectors])

    def _phases(self, inside: Sequence[tuple[Index, Index]]) -> list[_Phase]:
        """The filter rows that output rows share, of those `inside` the image: the last, both, the first."""
        if len(set(inside)) == 1:
            return [_Phase(range(len(inside)), *inside[0])]
        k = self.k
        (low, high), (last_low, last_high) = inside
        return [
            _Phase(range(1, 2), last_low, minimum(k, low, last_high)),
            _Phase(range(2), low, last_high),
            _Phase(range(1), maximum(k, low, last_high), high),
        ]

    def _stream(self, number: Index, first: Index) -> Stream | None:
        """Fetching the weights that are needed next, the part of them that falls to a tile.

        Those are the next block of output channels', or the next chunk behind block `first`.
        """
        k, plan = self.k, self.plan
        if self.depth == 1:
            return None
        line = self.depth * self.width
        if plan.tiles_inside == 1:
            return Stream(k.gep(self.w_item, NEAR), 1, line)
        parts = stream_parts(plan.tiles_inside, line)
        ahead = k.size(plan.chunk * self.block_weights) if plan.chunk else self.filter_size
        start = k.gep(self.w_item, ahead)
        if parts > 1:
            part = k.b.udiv(k.b.mul(k.i(number), k.i(parts)), self.tiles)
            start = k.gep(start, k.mul(part, k.b.udiv(k.i(ahead), k.i(parts))))
            if plan.chunk:
                passed = k.mul(first, self.block_weights)
                start = k.gep(start, k.b.sub(k.i(passed), k.b.udiv(k.i(passed), k.i(parts))))
        return Stream(start, parts, line)

    def _sums(
        self,
        tile: _Tile,
        sums: Sequence[ir.Value],
        first: Index,
        blocks: Index,
        depth: int | None = None,
    ) -> list[ir.Value]:
        """Add the products of `blocks` input blocks from `first` on, of `depth` channels (None: all)."""
        k, spec = self.k, self.spec
        inside = [filter_rows(k, spec, k.add(tile.row, j)) for j in range(tile.lines)]
        phases = self._phases(inside)
        across = self._filter_row(tile, self._stream(tile.number, first), depth)
        chunks = spec.kernel[1] * self.depth * self.width

        def rows(a: Index, b: Index, phase: _Phase, sums: Sequence[ir.Value]) -> list[ir.Value]:
            """Add the products of the filter rows of a phase."""
            count = phase.high if phase.low == 0 else k.b.sub(k.i(phase.high), k.i(phase.low))
            a = k.add(a, k.mul(phase.low, self.filter_line))
            b = k.add(b, k.mul(phase.low, chunks))

            def row(a_row: Index, b_row: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
                return across(k.add(a, a_row), k.add(b, b_row), phase.lines, sums)

            return reduce_nest(k, [Loop(count, self.filter_line, chunks)], row, sums)

        def block(a: Index, b: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
            a, b = k.add(k.mul(first, self.plane), a), k.add(k.mul(first, self.block_weights), b)
            after = list(sums)
            for phase in phases:
                after = rows(a, b, phase, after)
            return after

        return reduce_nest(k, [Loop(blocks, self.plane, self.block_weights)], block, sums)

    def _filter_row(self, tile: _Tile, stream: Stream | None, depth: int | None) -> _Across:
        """Adds the products of one filter row, of `depth` channels (None: all)."""
        k, spec, plan, run = self.k, self.spec, self.plan, tile.run
        vectors, columns = plan.block.vectors, spec.kernel[1]
        x = k.mul(k.add(k.mul(tile.row, spec.strides[0]), -spec.pads[0]), self.line)
        step, line_step = spec.strides[1] * self.depth, k.mul(self.line, spec.strides[0])
        left = -spec.pads[1] * self.depth
        x_at = k.gep(self.x_item, k.add(k.add(x, left), k.mul(tile.pixel, step)))
        chunk, column_step = self.depth * self.width, spec.dilations[1] * self.depth
        inner = Loop(self.depth if depth is None else depth, 1, self.width)

        def across(a: Index, b: Index, lines: range, sums: Sequence[ir.Value]) -> list[ir.Value]:
            """Add the products of a filter row, at offsets a and b of image and filter."""
            after = list(sums)
            runs = _equal_columns(run.columns) if run.columns else [((0, run.rows), 0, columns)]
            for (low, high), begin, end in runs:
                taken = k.add(b, begin * chunk)
                places = [j * run.rows + r for j in lines for r in range(low, high)]
                held = [place * vectors + v for place in places for v in range(vectors)]
                new = multiply(
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
                for i, value in zip(held, new, strict=True):
                    after[i] = value
            return after

        return across

    # --- overridden for other elements -----------------------------------------------------
    dot: Dot = staticmethod(KernelBuilder.fma)

    def start(self, count: int) -> list[ir.Value]:
        """`count` sums before the first product."""
        return zeros(self.k, count)

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
    plan = plan_conv(spec, target)
    parts = [DirectEmission(k, in_chunks(part, target)) for part in (plan, plan.rest) if part is not None]
    if len(parts) == 1:
        parts[0].emit()
        return k.finish()
    whole, rest = parts
    count = whole.items()
    with (
        k.items(k.add(count, rest.items())) as item,
        k.b.if_else(k.b.icmp_signed("<", k.i(item), count)) as (then, otherwise),
    ):
        with then:
            whole.item(item)
        with otherwise:
            rest.item(k.b.sub(k.i(item), count))
    return k.finish()


class DirectConv(BlockedConv[DirectConvSpec]):
    """Sums of products as they stand."""

    emit = staticmethod(emit_conv_direct)

    def spec(self, op: ConvOp, conv: DirectConvSpec, context: CallContext) -> DirectConvSpec | None:
        return replace(conv, uneven=True) if conv.stored == "f32" and op.packed is None else conv

    def pack(self, weights: Array, spec: DirectConvSpec, target: CpuTarget) -> Array:
        return pack_conv(weights.astype(np.float32, copy=False), spec, target)

    def packing(self, spec: DirectConvSpec, target: CpuTarget) -> str:
        return packing(spec, target)

    def cycles(self, spec: DirectConvSpec, target: CpuTarget) -> float:
        return direct_cycles(spec, target)

    def flops(self, spec: DirectConvSpec) -> int:
        return spec.flops
