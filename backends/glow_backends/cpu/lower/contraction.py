"""A contraction in LLVM: blocks of sums in registers, for vector and tile instructions.

Workers share the product in parts of rows and of panels (the columns of a block). In a part, rows of `a` are
packed once where they must be, and each panel of `b` before it is used; then blocks of rows pass over the
panel. A block's sums are in registers over the whole depth (for long ones of rounded parts: over slices of
it), and are finished on their way to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from llvmlite import ir
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import I8, I32, KernelBuilder
from glow_backends.cpu.emit.memory import Index, ceil_div, maximum, minimum, split_index
from glow_backends.cpu.emit.open_blocks import cut_rows
from glow_backends.cpu.emit.pointwise import emit_pointwise
from glow_backends.cpu.emit.register_blocks import cut_evenly
from glow_backends.cpu.lower.packing import Packer, column_sums, live_of, row_sum
from glow_backends.cpu.lower.rooms import Shape, View, program_of, rooms_of
from glow_backends.cpu.lower.units import KINDS, LINE, Tiles, TilesInMemory, multiply_add
from glow_backends.cpu.target import CpuTarget
from glow_backends.nests.dialect import KernelOp
from glow_backends.nests.operations import NestOp, PackOp
from glow_dialects.core.extent import Extent, are_equal


class Contraction:
    """The kernel of a product, on views whose `shapes` are known or numbers of the run.

    Behind the views it takes the workers' rooms, those of `rooms_of` for each.
    """

    def __init__(self, k: KernelBuilder, kernel: KernelOp, shapes: Sequence[Shape]) -> None:
        assert kernel.schedule is not None
        self.k, self.s = k, kernel.schedule.data
        self.unit = self.s.unit
        arguments = kernel.body.block.args[: len(shapes)]
        views = zip(arguments, k.operands, shapes, strict=False)
        self.views: dict[SSAValue, View] = {v: View(p, dtype_name(v), shape) for v, p, shape in views}
        *before, nest = kernel.body.block.ops
        assert isinstance(nest, NestOp)
        self.nest, self.loops = nest, [v.name for v in nest.loops.data]
        self.packs: dict[SSAValue, PackOp] = {op.result: op for op in before if isinstance(op, PackOp)}
        self.terms: dict[SSAValue, NestOp] = {op.out: op for op in before if isinstance(op, NestOp)}
        self.maps = [m.data for m in nest.maps]
        a, b = (self._source(v) for v in nest.ins)
        self.a, self.b, self.y = self.views[a], self.views[b], self.views[nest.out]
        self.given_b = nest.ins[1] not in self.packs and self.s.pack_b
        self.m, self.n = self.y.shape[-2:]
        self.depth = self.a.shape[-1]
        self.batch = self.y.shape[:-2]
        self.numbers: dict[SSAValue, int] = {v: self.depth for v in kernel.body.block.args[len(shapes) :]}
        self.sum_kind = dtype_name(nest.step.block.args[0])
        self.kind = KINDS[self.sum_kind]
        self.lanes = self.unit.columns(self.s.lanes)
        self.steps = ceil_div(self.depth, self.unit.k)
        self.rooms = rooms_of(kernel)

    def _source(self, view: SSAValue) -> SSAValue:
        return self.packs[view].source if view in self.packs else view

    # --- parts and panels ----------------------------------------------------------------------------------
    def emit(self) -> None:
        """Items (batch, part of the rows, part of the panels), shared by the workers."""
        k, s = self.k, self.s
        self._take_rooms()
        self._cut_rows()
        panels = ceil_div(self.n, s.width)
        parts = [0, *s.shares]
        with k.items(k.opened(prod(self.batch) * prod(s.shares))) as item:
            batch, row_part, panel_part = split_index(k, item, parts)
            self._place(batch)
            first, stop = self._part(row_part, s.shares[0], k.opened(self.tiles))
            if s.pack_a:
                self._pack_rows(first, stop)
            self._sum_rows(first, stop)
            low, high = self._part(panel_part, s.shares[1], k.opened(panels))
            with k.loop(low, high) as panel:
                self._panel(panel, first, stop)
        if self.unit.is_tile:
            self.file.end()

    def _part(self, number: Index, parts: int, count: Index) -> tuple[Index, Index]:
        k = self.k
        if parts == 1:
            return 0, count
        ends = [k.b.sdiv(k.i(k.mul(k.add(number, i), count)), k.i(parts)) for i in (0, 1)]
        return ends[0], ends[1]

    def _room_rows(self) -> int:
        """Rows of a for which there is room."""
        return self.m

    def _take_rooms(self) -> None:
        k = self.k
        sizes = self.rooms.bytes(self.s, self._room_rows(), self.depth)
        at: Index = k.mul(k.worker, k.opened(sum(sizes))) if k.target.threads > 1 else 0
        rooms: list[ir.Value] = []
        for size in sizes:
            rooms.append(k.gep(k.operands[-1], at, I8))
            at = k.add(at, k.opened(size))
        self.room_a, self.room_b, self.row_sums, self.column_sums, self.block_sums = rooms

    def _place(self, batch: Index) -> None:
        """Where the matrices of an item begin."""
        k = self.k
        at = split_index(k, batch, [0, *(k.opened(n) for n in self.batch[1:])]) if self.batch else []
        starts: list[ir.Value] = []
        for view, index in ((self.a, self._map(0)), (self.b, self._map(1)), (self.y, self.maps[-1])):
            offset = k.index(*((p, k.opened(view.stride(index, d))) for d, p in enumerate(at)))
            starts.append(k.gep(view.start, offset, values.storage(view.kind)))
        self.a_at, self.b_at, self.y_at = starts
        self.at = at

    def _map(self, number: int) -> AffineMap:
        """The map of an operand as it lies: of a packed one, the batch of that and the plain matrix."""
        view = self.nest.ins[number]
        if view not in self.packs:
            return self.maps[number]
        whole, rank = self.maps[number], len(self.views[self._source(view)].shape)
        return AffineMap(whole.num_dims, 0, whole.results[: rank - 2])

    # --- rows ----------------------------------------------------------------------------------------------
    def _cut_rows(self) -> None:
        k, s, unit = self.k, self.s, self.unit
        if not unit.is_tile:
            runs = cut_rows(self.m, s.rows) if isinstance(self.m, Extent) else cut_evenly(self.m, s.rows)
            self.tiles = runs[-1].stop
            self.runs = [(r.rows, k.opened(r.start), k.opened(r.stop), k.opened(r.last)) for r in runs]
            return
        count = ceil_div(ceil_div(self.m, unit.m), s.rows) * s.rows
        height = ceil_div(self.m, count)
        self.tiles, self.height, self.last = count // s.rows, k.opened(height), k.opened(self.m - height)
        sums = range(s.rows * s.columns)
        self.turning = list(range(len(sums) + s.columns, unit.registers))
        made = TilesInMemory if s.expand else Tiles
        self.file = made(k, unit, self.height, [*sums, *self.turning])

    def _line_of_step(self, at: Index) -> Index:
        """Where in a row what a step reads begins."""
        return self.k.mul(at, LINE)

    def _row_of_tile(self, tile: Index) -> Index:
        """Where a tile of rows begins: the last ones overlap."""
        return minimum(self.k, self.k.mul(tile, self.height), self.last)

    def _rows_between(self, first: Index, stop: Index) -> tuple[Index, Index]:
        """The rows of some blocks."""
        k, s = self.k, self.s
        if not self.unit.is_tile or s.shares[0] == 1:
            return 0, k.opened(self.m)
        low = self._row_of_tile(k.mul(first, s.rows))
        return low, k.add(self._row_of_tile(k.add(k.mul(stop, s.rows), -1)), self.height)

    def _pack_rows(self, first: Index, stop: Index) -> None:
        k, unit, pack = self.k, self.unit, self.packs[self.nest.ins[0]]
        packer = Packer(k, unit, self.a.kind, unit.a, pack.shift.data if pack.shift is not None else 0)
        low, high = self._rows_between(first, stop)
        kind = values.storage(self.a.kind)
        with k.loop(low, high) as row:
            start = k.gep(self.a_at, k.mul(row, k.opened(self.depth)), kind)
            room = k.gep(self.room_a, k.mul(row, self._line()), I8)
            packer.row(start, 1, room, self.depth, k.mul(k.opened(self.m), self._line()))

    def _line(self) -> Index:
        """Bytes from a row of packed a to the next."""
        return self.k.opened((self.steps // 2 * 2 + 1) * self.unit.k * values.size(self.unit.a))

    def _sum_rows(self, first: Index, stop: Index) -> None:
        k = self.k
        if not self.rooms.sum_rows:
            return
        low, high = self._rows_between(first, stop)
        with k.loop(low, high) as row:
            start, _ = self._row(row)
            words = ceil_div(self.steps * self.unit.k, 4)
            k.store(row_sum(k, start, words, self.unit.a == "i8"), self.row_sums, row, I32)

    def _row(self, row: Index) -> tuple[ir.Value, Index]:
        """Where a row of a begins as instructions read it, and how many bytes are between rows."""
        k = self.k
        stride = self._line() if self.s.pack_a else k.opened(self.depth * values.size(self.a.kind))
        return k.gep(self.room_a if self.s.pack_a else self.a_at, k.mul(row, stride), I8), stride

    # --- panels --------------------------------------------------------------------------------------------
    def _panel(self, panel: ir.Value, first: Index, stop: Index) -> None:
        k, s = self.k, self.s
        column = k.mul(panel, s.width)
        left = k.b.sub(k.i(self.n), k.i(column))
        if not isinstance(self.n, Extent) and self.n % s.width == 0:
            return self._whole_panel(panel, column, first, stop, None)
        whole = k.b.icmp_signed(">=", left, k.i(s.width))
        with k.b.if_else(whole) as (then, otherwise):
            with then:
                if isinstance(self.n, Extent) or self.n >= s.width:
                    self._whole_panel(panel, column, first, stop, None)
            with otherwise:
                rest = left if isinstance(self.n, Extent) else self.n % s.width
                self._whole_panel(panel, column, first, stop, rest)
        return None

    def _whole_panel(
        self, panel: ir.Value, column: Index, first: Index, stop: Index, rest: Index | None
    ) -> None:
        """A panel, of which there are all columns, or the first `rest`."""
        k, s = self.k, self.s
        self.live = [
            None if rest is None else live_of(k, k.add(rest, -v * self.lanes), self.lanes)
            for v in range(s.columns)
        ]
        size = values.size(self.unit.b)
        step = self.unit.parts * s.width * self.unit.k * size
        if self.given_b:
            self.panel_at = k.gep(self.b_at, k.mul(panel, k.opened(self.steps * step)), I8)
        elif s.pack_b:
            self.panel_at = self.room_b
            self._pack_panel(column)
        else:
            self.panel_at = k.gep(self.b_at, column, values.storage(self.b.kind))
        if self.rooms.sum_columns:
            groups = self.unit.k // self.unit.group
            tiles, signed = (s.columns, groups), self.unit.b == "i8"
            sums = column_sums(k, self.panel_at, self.steps * groups, tiles, signed, self.lanes)
            for v, total in enumerate(sums):
                k.store(total, self.column_sums, v * self.lanes, I32)
        if self.unit.is_tile:
            with k.loop(first, stop) as block:
                self._tile_block(block, column)
            return
        for rows, start, end, last in self.runs:
            with k.loop(maximum(k, first, start), minimum(k, stop, end)) as tile:
                before = k.mul(k.add(tile, k.add(1, k.mul(end, -1))), rows)
                self._vector_block(maximum(k, k.add(last, before), 0), rows, column)

    def _pack_panel(self, column: Index) -> None:
        k, s, unit, pack = self.k, self.s, self.unit, self.packs[self.nest.ins[1]]
        packer = Packer(k, unit, self.b.kind, unit.b, pack.shift.data if pack.shift is not None else 0)
        groups, size = unit.k // unit.group, values.size(unit.b)
        chunk = self.lanes * unit.group * size
        part, step = s.columns * groups * chunk, unit.parts * s.columns * groups * chunk
        kind = values.storage(unit.b)

        def one(at: Index, rows: Index | None) -> None:
            """The group of rows of a number."""
            number = k.b.udiv(k.i(at), k.i(groups)) if groups > 1 else at
            within = k.b.urem(k.i(at), k.i(groups)) if groups > 1 else 0
            place = k.index((number, step), (within, chunk))
            for v in range(s.columns):
                where = k.opened(self.n), k.add(column, v * self.lanes)
                found = packer.group(self.b_at, k.mul(at, unit.group), where, self.lanes, self.live[v], rows)
                for number_of_part, value in enumerate(found):
                    offset = k.add(place, number_of_part * part + v * groups * chunk)
                    k.store(value, k.gep(self.panel_at, offset, I8), 0, kind)

        whole = self.depth // unit.group
        with k.loop(0, k.opened(whole)) as at:
            one(at, None)
        filled = self.steps * groups
        if isinstance(self.depth, Extent) or filled > whole:
            with k.loop(k.opened(whole), k.opened(filled)) as at:
                left = k.b.sub(k.i(k.opened(self.depth)), k.i(k.mul(at, unit.group)))
                one(at, left if unit.group > 1 else 0)

    # --- blocks --------------------------------------------------------------------------------------------
    def _vector_block(self, row: Index, rows: int, column: Index) -> None:
        k, s = self.k, self.s
        start, stride = self._row(row)
        count = rows * s.columns
        chains = max(1, 8 // count) if not isinstance(self.steps, Extent) else 1
        chains = min(chains, self.steps) if not isinstance(self.steps, Extent) else 1
        zero: ir.Value = values.zero(self.kind if self.lanes == 1 else ir.VectorType(self.kind, self.lanes))
        panel = k.settled(self.panel_at)
        starts = [k.settled(k.gep(start, k.mul(r, stride), I8)) for r in range(rows)]

        def step(at: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
            weights = self._weights(panel, at)
            after: list[ir.Value] = []
            for r in range(rows):
                x = self._broadcast(starts[r], at)
                own = sums[r * s.columns : (r + 1) * s.columns]
                after += [multiply_add(k, self.unit, x, w, t) for w, t in zip(weights, own, strict=True)]
            return after

        def turn(at: ir.Value, held: Sequence[ir.Value]) -> list[ir.Value]:
            after: list[ir.Value] = []
            for c in range(chains):
                own = held[c * count : (c + 1) * count]
                after += step(k.add(k.mul(at, chains), c), own)
            return after

        whole = self.steps // chains
        sums = k.reduce_loop(0, k.opened(whole), 1, [zero] * (count * chains), turn)
        parts = [sums[c * count : (c + 1) * count] for c in range(chains)]
        if chains > 1:
            for c in range(self.steps % chains):
                parts[c] = step(whole * chains + c, parts[c])
        total = parts[0]
        for part in parts[1:]:
            total = [self._plus(x, y) for x, y in zip(total, part, strict=True)]
        self._hold(column)
        for r in range(rows):
            self._store(k.add(row, r), column, total[r * s.columns : (r + 1) * s.columns])

    def _plus(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self.k.b.add(x, y) if self.sum_kind.startswith("i") else self.k.b.fadd(x, y)

    def _weights(self, panel: ir.Value, at: Index) -> list[ir.Value]:
        """The vectors of a panel of a step."""
        k, s, unit = self.k, self.s, self.unit
        if not s.pack_b:  # as it lies
            place = k.mul(at, k.opened(self.n))
            return [
                values.load(
                    k,
                    panel,
                    k.add(place, v * self.lanes),
                    self.b.kind,
                    self.lanes,
                    _mask(k, live, self.lanes),
                )
                for v, live in enumerate(self.live)
            ]
        kind, lanes = (self.kind, self.lanes) if unit.group == 1 else (I32, self.lanes)
        return [k.load(panel, k.add(k.mul(at, s.width), v * lanes), kind, lanes) for v in range(s.columns)]

    def _broadcast(self, row: ir.Value, at: Index) -> ir.Value:
        """The number, or the group of numbers, of a row in all lanes."""
        k = self.k
        if self.unit.group == 1:
            return k.splat(k.load(row, at, self.kind), self.lanes, self.kind)
        return k.splat(k.load(row, at, I32, align=1), self.lanes, I32)

    def _tile_block(self, block: ir.Value, column: Index) -> None:
        k, s, unit = self.k, self.s, self.unit
        sums = range(s.rows * s.columns)
        columns = [len(sums) + j for j in range(s.columns)]
        rows = [self._row_of_tile(k.add(k.mul(block, s.rows), i)) for i in range(s.rows)]
        starts = [self._row(row) for row in rows]
        tile = unit.k * s.lanes * values.size(unit.b)
        part_a = k.mul(k.opened(self.m), self._line()) if unit.parts > 1 else 0
        out = 64 * s.columns

        def step(at: ir.Value) -> None:
            base = k.gep(self.panel_at, k.mul(at, unit.parts * s.columns * tile), I8)
            loaded: tuple[int | None, int | None] = None, None
            for a_part, b_part in unit.products:
                if b_part != loaded[1]:
                    for j, register in enumerate(columns):
                        self.file.load(register, k.gep(base, (b_part * s.columns + j) * tile, I8), LINE)
                for i, (start, stride) in enumerate(starts):
                    own = self.turning[i % len(self.turning)]
                    if a_part != loaded[0] or len(self.turning) < s.rows:
                        place = k.add(self._line_of_step(at), k.mul(part_a, a_part))
                        self.file.load(own, k.gep(start, place, I8), stride)
                    for j, register in enumerate(columns):
                        self.file.dot(i * s.columns + j, own, register)
                loaded = a_part, b_part

        def slice_of(low: Index, high: Index, room: ir.Value) -> None:
            for register in sums:
                self.file.zero(register)
            with k.loop(low, high) as at:
                step(at)
            for register in sums:
                i, j = divmod(register, s.columns)
                self.file.store(register, k.gep(room, i * unit.m * out + j * 64, I8), out)

        most = unit.deepest // unit.k
        if not most or (not isinstance(self.steps, Extent) and self.steps <= most):
            slice_of(0, k.opened(self.steps), self.block_sums)
        else:
            self._slices(most, slice_of)
        self._store_tiles(block, rows, column)

    def _store_tiles(self, block: Index, rows: Sequence[Index], column: Index) -> None:
        """Finish the sums of a block of tiles, row by row."""
        k, s, unit = self.k, self.s, self.unit
        self._hold(column)
        for i, row in enumerate(rows):
            # Of tiles that overlap the second one stores what the first has not.
            own = k.mul(k.add(k.mul(block, s.rows), i), self.height)
            with k.loop(minimum(k, k.add(own, k.mul(row, -1)), self.height), self.height) as r:
                place = k.mul(k.add(i * unit.m, r), s.width)
                held = [
                    k.load(self.block_sums, k.add(place, j * self.lanes), self.kind, self.lanes)
                    for j in range(s.columns)
                ]
                self._store(k.add(row, r), column, held)

    def _slices(self, most: int, slice_of: Callable[[Index, Index, ir.Value], None]) -> None:
        """The sums of slices of the depth, one after the other."""
        k, s = self.k, self.s
        size = s.rows * self.unit.m * s.width
        slice_of(0, minimum(k, most, k.opened(self.steps)), self.block_sums)
        other = k.gep(self.block_sums, size)
        with k.loop(1, k.opened(ceil_div(self.steps, most))) as number:
            low = k.mul(number, most)
            slice_of(low, minimum(k, k.add(low, most), k.opened(self.steps)), other)
            with k.loop(0, size, self.lanes) as at:
                total, more = (k.load(room, at, self.kind, self.lanes) for room in (self.block_sums, other))
                k.store(self._plus(total, more), self.block_sums, at)

    # --- results -------------------------------------------------------------------------------------------
    def _store(self, row: Index, column: Index, sums: Sequence[ir.Value]) -> None:
        """Finish a row of sums and store it."""
        k = self.k
        place = k.add(k.mul(row, k.opened(self.n)), column)
        for v, total in enumerate(sums):
            live = self.live[v]
            if isinstance(live, int) and live <= 0:
                continue
            value = self._finished(total, row, column, v)
            at, mask = k.add(place, v * self.lanes), _mask(k, live, self.lanes)
            values.store(k, value, self.y_at, at, self.y.kind, mask)

    def _finished(self, total: ir.Value, row: Index, column: Index, v: int) -> ir.Value:
        if self.nest.finish is None:
            return total
        program, numbers = program_of(self.nest.finish.block)
        first = len(self.nest.ins)
        extras = [
            self.held[number, v] if (number, v) in self.held else self._extra(view, index, row, column, v)
            for number, (view, index) in enumerate(zip(self.nest.extras, self.maps[first:-1], strict=True))
        ]
        sizes = [
            self.k.splat(self.k.b.trunc(self.k.i(self.numbers[n]), I32), self.lanes, I32) for n in numbers
        ]
        return emit_pointwise(self.k, program, [total, *extras, *sizes])[0]

    def _hold(self, column: Index) -> None:
        """Load what a finish reads for every row of a block once."""
        self.held: dict[tuple[int, int], ir.Value] = {}
        maps = self.maps[len(self.nest.ins) : -1]
        for number, (view, index) in enumerate(zip(self.nest.extras, maps, strict=True)):
            if self._is_steady(view, index):
                for v in range(self.s.columns):
                    self.held[number, v] = self._extra(view, index, 0, column, v)

    def _is_steady(self, view: SSAValue, index: AffineMap) -> bool:
        """Whether an operand of the finish is the same for all rows."""
        if view in self.terms:
            return self.terms[view].loops.data[-2].name == "j"
        return are_equal(self.views[view].stride(index, len(self.batch)), 0)

    def _extra(self, view: SSAValue, index: AffineMap, row: Index, column: Index, v: int) -> ir.Value:
        """Elements of a view that a finish reads: of columns, of a row, of each result, or one for all."""
        k, within = self.k, v * self.lanes
        mask = _mask(k, self.live[v], self.lanes)
        if view in self.terms:
            if self.terms[view].loops.data[-2].name == "j":
                return k.load(self.column_sums, within, I32, self.lanes)
            return k.splat(k.load(self.row_sums, row, I32), self.lanes, I32)
        known = self.views[view]
        steps = [known.stride(index, d) for d in range(index.num_dims)]
        places = [*self.at, row, k.add(column, within)]
        at = k.index(
            (1, known.first(index)), *((p, k.opened(t)) for p, t in zip(places, steps, strict=False))
        )
        if are_equal(steps[len(places) - 1], 1):
            return values.load(k, known.start, at, known.kind, self.lanes, mask)
        return values.splat(k, values.load(k, known.start, at, known.kind), self.lanes)


def _mask(k: KernelBuilder, live: Index | None, lanes: int) -> Index | None:
    """What loads and stores of a vector leave out."""
    if live is None or (isinstance(live, int)):
        return live
    return values.first_lanes(k, lanes, live)


def emit_contraction(
    module: ir.Module, name: str, kernel: KernelOp, shapes: Sequence[Shape], target: CpuTarget
) -> ir.Function:
    """The kernel `name(views..., [rooms], worker)` of a description."""
    k = KernelBuilder(module, name, len(shapes) + 1, target)
    Contraction(k, kernel, shapes).emit()
    return k.finish()
