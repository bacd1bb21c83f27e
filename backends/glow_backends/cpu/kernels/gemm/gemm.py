"""Matrix products, one or a broadcast batch, in register blocks.

C is cut into panels of columns (a few vectors wide) and tiles of rows; one block holds its sums in
registers over the whole reduction, or over slices of it where a panel of B outgrows the L2 cache.
B comes packed in panels from compile time, or is packed panel by panel into scratch memory, or is
read where it lies when few rows use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit.builder import I8, I32, I64, KernelBuilder
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.memory import (
    Index,
    ceil_div,
    load_first,
    maximum,
    minimum,
    split_index,
    transpose,
)
from glow_backends.cpu.emit.open_blocks import cut_rows, open_block
from glow_backends.cpu.emit.packing import pack_panels
from glow_backends.cpu.emit.register_blocks import (
    NEAR,
    Block,
    Loop,
    Output,
    Stream,
    chains_of,
    choose_block,
    cut_evenly,
    few_parts,
    may_overlap,
    multiply,
    multiply_in_chains,
    shared_block,
    stream_parts,
    zeros,
)
from glow_backends.cpu.emit.row_runs import RowRun, cut_alike, halves, tiles_of_group
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.errors import OpenSizes
from glow_dialects.core.estimates import estimate, usually
from glow_dialects.core.extent import Extent, computed, is_open
from glow_dialects.core.types import broadcast_shapes

_CHUNK = 16
"""Steps of the reduction that a fetch of the next panel of packed weights goes with."""
_AHEAD = 16
"""Rows of B that are fetched ahead where it is read as it lies."""
_DEEP = 2048
"""Reductions longer than this go in slices half as long, so that blocks find their A in cache."""


@dataclass(frozen=True)
class GemmSpec:
    """C = op(A) @ op(B), scaled, plus bias row (N), then the epilogue's steps; f32.

    With `accumulate` the product is added to what C holds.

    A is (*a_batch, m, k), or (*a_batch, k, m) with `trans_a`; B is (*b_batch, k, n), or
    (*b_batch, n, k) with `trans_b`, or what `pack_b` made of either when `packed_b`. The batch
    shapes broadcast. Operands: C, A, B, [bias], [extras], [live], [scratch]. With `some_rows`, of one
    matrix A that is not transposed, `live` (m), i1, says which rows of C are wanted; others stay as they are.
    """

    m: int
    n: int
    k: int
    trans_a: bool = False
    trans_b: bool = False
    packed_b: bool = False
    a_batch: tuple[int, ...] = ()
    b_batch: tuple[int, ...] = ()
    epilogue: Epilogue = field(default_factory=Epilogue)
    accumulate: bool = False
    some_rows: bool = False

    @property
    def batch(self) -> tuple[int, ...]:
        """The result's batch shape."""
        return broadcast_shapes(self.a_batch, self.b_batch)

    def folded(self) -> GemmSpec:
        """The same product with A's batch taken as more rows where B has no batch."""
        if prod(self.b_batch) != 1 or self.trans_a or prod(self.a_batch) == 1:
            return self
        return replace(self, m=self.m * prod(self.a_batch), a_batch=(), b_batch=())


class Source(Enum):
    """Where blocks read B."""

    PANELS = "packed at compile time"
    SCRATCH = "packed at run time"
    DIRECT = "as it lies"


@dataclass(frozen=True)
class Plan:
    """How a product is cut: see the module."""

    block: Block
    source: Source
    panels: int
    tail_vectors: int
    tail_live: int
    runs: tuple[RowRun, ...]
    group: int
    slice: int
    chains: int

    @property
    def tiles(self) -> int:
        """Tiles of rows."""
        return self.runs[-1].stop


def plan_gemm(spec: GemmSpec, target: CpuTarget) -> Plan:
    """Choose the block, the source of B, and the slices of rows and of the reduction."""
    spec = spec.folded()
    lanes, vectors = target.lanes, ceil_div(spec.n, target.lanes)
    # Rows a multiple of 4 KiB apart share a cache set: use no more of them than its ways.
    open_m, open_k = isinstance(spec.m, Extent), isinstance(spec.k, Extent)
    limit = 8 if not spec.trans_a and not open_k and spec.k % 1024 == 0 else 32
    # Rows may be computed twice where nothing that a first result replaces is read.
    once = spec.accumulate or spec.epilogue.inplace or (not open_k and spec.k > _DEEP) or spec.some_rows
    alike = None
    if is_open((spec.m, spec.n)):
        block = open_block(spec.m, spec.n, target, limit)
    else:
        alike = None if once else shared_block(spec.m, vectors, target, limit)
        block = alike or choose_block(spec.m, vectors, target, limit)
    runs = _runs(spec, block.rows, once, alike is not None)
    tiles = estimate(runs[-1].stop)
    width = block.vectors * lanes
    overlap = isinstance(spec.n, Extent) and spec.n >= width
    if overlap and once:
        raise OpenSizes("a product that accumulates into its result cannot have a dynamic number of columns")
    rest_columns = 0 if overlap else spec.n if isinstance(spec.n, Extent) else spec.n % width
    tail_vectors = 1 if isinstance(rest_columns, Extent) else ceil_div(rest_columns, lanes)
    if spec.packed_b:
        source = Source.PANELS
    elif spec.trans_b or (spec.k > 16 and (usually(spec.m, ">=", 2 * block.rows) if open_m else tiles > 2)):
        source = Source.SCRATCH
    else:
        source = Source.DIRECT
    budget = target.l2 // 2 // 4
    deep = not open_k and spec.k > _DEEP and tiles > 3
    slices = ceil_div(spec.k, _DEEP // 2) if deep else 1
    length = ceil_div(spec.k, slices) if deep else spec.k
    items = prod(spec.batch) * ceil_div(spec.n, width)
    (group,) = computed(
        tiles_of_group, spec.m, length, runs[-1].stop, items, block.rows, budget, target.threads
    )
    chains = 1 if deep or open_k else chains_of(block.rows * block.vectors)
    return Plan(
        block,
        source,
        ceil_div(spec.n, width) if overlap else 0 if isinstance(spec.n, Extent) else spec.n // width,
        tail_vectors,
        rest_columns - (tail_vectors - 1) * lanes,
        runs,
        group,
        length,
        chains if open_k else min(chains, spec.k),
    )


def _runs(spec: GemmSpec, rows: int, once: bool, alike: bool) -> tuple[RowRun, ...]:
    """The tiles of at most `rows` rows; `alike`: of sizes that share their code."""
    if spec.some_rows:  # as many tiles as any choice of rows may need
        return (RowRun(0, spec.m // rows + len(halves(rows)), rows, 0),)
    if isinstance(spec.m, Extent):
        return cut_rows(spec.m, rows)
    if alike and not may_overlap(spec.m, rows):
        return cut_alike(spec.m, rows)
    return cut_evenly(spec.m, rows, once)


def pack_b(matrix: np.ndarray, spec: GemmSpec, target: CpuTarget) -> np.ndarray:
    """B of a spec with `packed_b`, (*batch, k, n) or transposed, as (*batch, panels, k, width)."""
    width = plan_gemm(spec, target).block.vectors * target.lanes
    return pack_panels(np.swapaxes(matrix, -1, -2) if spec.trans_b else matrix, width)


def gemm_scratch_bytes(spec: GemmSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand; 0 means that the kernel takes none."""
    numbers = 4 * spec.m * target.threads if spec.some_rows else 0
    return _panel_bytes(spec, target) + numbers


def _panel_bytes(spec: GemmSpec, target: CpuTarget) -> int:
    """Bytes of the workers' panels of B."""
    plan = plan_gemm(spec, target)
    if plan.source is not Source.SCRATCH:
        return 0
    depth = spec.folded().k
    if isinstance(depth, Extent):  # squares are stored whole
        depth = ceil_div(depth, target.lanes) * target.lanes
    return 4 * target.threads * depth * plan.block.vectors * target.lanes


class _Emission:
    def __init__(self, k: KernelBuilder, spec: GemmSpec, plan: Plan) -> None:
        self.k, self.spec, self.plan = k, spec, plan
        self.lanes = k.target.lanes
        self.width = plan.block.vectors * self.lanes
        operands = iter(k.operands)
        self.c, self.a, self.b = next(operands), next(operands), next(operands)
        self.bias = next(operands) if spec.epilogue.bias else None
        self.extras = [next(operands) for _ in range(spec.epilogue.extras)]
        live_rows = next(operands) if spec.some_rows else None
        scratch = gemm_scratch_bytes(spec, k.target) > 0
        self.scratch = next(operands) if scratch else None
        self.depth = k.opened(spec.k)
        self.a_row: Index = 1 if spec.trans_a else self.depth
        self.a_step: Index = k.size(spec.m) if spec.trans_a else 1
        self.runs = [(run.rows, k.size(run.start), k.size(run.stop), k.size(run.last)) for run in plan.runs]
        if live_rows is not None:
            self.runs = self._live_runs(live_rows)
        self.group = k.size(plan.group)
        self.live: int | None = None  # valid lanes of the last vector of the current panel

    def _live_runs(self, live: ir.Value) -> list[tuple[int, Index, Index, Index]]:
        """Write the numbers of the live rows to scratch; the runs that take each of them once."""
        k, spec, rows = self.k, self.spec, self.plan.block.rows
        assert self.scratch is not None
        own = k.mul(k.worker, k.size(spec.m)) if k.target.threads > 1 else 0
        panels = _panel_bytes(spec, k.target)
        self.rows = numbers = k.gep(k.gep(self.scratch, k.size(panels) if panels else 0, I8), own, I32)

        def note(row: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
            k.store(k.b.trunc(row, I32), numbers, found[0], I32)
            return [k.b.add(found[0], k.b.zext(k.load(live, row, I8), I64))]

        (count,) = k.reduce_loop(0, k.size(spec.m), 1, [k.i(0)], note)
        full, rest = k.b.sdiv(count, k.i(rows)), k.b.srem(count, k.i(rows))
        runs: list[tuple[int, Index, Index, Index]] = [(rows, 0, full, k.mul(k.add(full, -1), rows))]
        tile, place = full, k.mul(full, rows)
        for size in halves(rows):
            used = k.b.zext(k.b.icmp_signed("!=", k.b.and_(rest, k.i(size)), k.i(0)), I64)
            after = k.b.add(tile, used)
            runs.append((size, tile, after, place))
            tile, place = after, k.add(place, k.mul(used, size))
        return runs

    def _row(self, place: Index) -> Index:
        """The row of A and C at a place."""
        if not self.spec.some_rows:
            return place
        return self.k.b.sext(self.k.load(self.rows, place, I32), I64)

    def emit(self) -> None:
        """Items (batch, group of row tiles, panel), shared by the workers."""
        k, spec, plan = self.k, self.spec, self.plan
        panels = plan.panels + (plan.tail_vectors > 0)
        groups = ceil_div(plan.tiles, plan.group)
        count = k.size(prod(spec.batch) * groups * panels)
        panels = k.opened(panels)
        self.batch_step = k.size(spec.m * spec.n)
        batches = self._batches(spec.a_batch, spec.m * spec.k), self._batches(spec.b_batch, self._b_size())
        sizes = [0, k.size(groups), panels]
        if self.scratch is not None:
            own = k.mul(k.worker, spec.k * self.width) if k.target.threads > 1 else 0
            self.scratch = k.gep(self.scratch, own)
        with k.items(count) as item:
            batch, group, panel = split_index(k, item, sizes)
            first = k.mul(group, self.group)
            self.a_at, self.b_at = (offset(batch) for offset in batches)
            if not plan.tail_vectors:
                self._panel(batch, first, panel, plan.block.vectors, None)
            elif not plan.panels:
                self._panel(batch, first, panel, plan.tail_vectors, plan.tail_live)
            else:
                whole = k.b.icmp_signed("<", k.i(panel), k.i(plan.panels))
                with k.b.if_else(whole) as (then, otherwise):
                    with then:
                        self._panel(batch, first, panel, plan.block.vectors, None)
                    with otherwise:
                        self._panel(batch, first, panel, plan.tail_vectors, plan.tail_live)

    def _b_size(self) -> int:
        """Elements of one matrix of B as it lies."""
        spec, plan = self.spec, self.plan
        if plan.source is not Source.PANELS:
            return spec.k * spec.n
        return (plan.panels + (plan.tail_vectors > 0)) * spec.k * self.width

    def _batches(self, shape: Sequence[int], size: int) -> Callable[[Index], Index]:
        """From a place in the result's batch to the element offset in an operand with batch `shape`."""
        k, whole = self.k, self.spec.batch
        if prod(shape) == 1:
            return lambda batch: 0
        if prod(shape) == prod(whole):
            step = k.size(size)
            return lambda batch: k.mul(batch, step)
        sizes = [k.size(extent) for extent in whole]
        steps: list[Index] = []
        for extent in reversed(shape):
            steps.append(k.size(size if extent > 1 else 0))
            size *= extent

        def offset(batch: Index) -> Index:
            at = split_index(k, batch, sizes)
            return k.index(*zip(reversed(at), steps, strict=False))

        return offset

    def _panel(self, batch: Index, first: Index, panel: Index, vectors: int, live: int | None) -> None:
        k, spec, plan = self.k, self.spec, self.plan
        self.live = None if live == self.lanes else live
        column = k.mul(panel, self.width)
        if isinstance(spec.n, Extent) and plan.panels:  # the last panel has columns of the one before it, too
            column = minimum(k, column, spec.n - self.width)
        a = k.gep(self.a, self.a_at)
        c = k.add(k.mul(batch, self.batch_step), column)
        if plan.source is Source.PANELS:
            b, step, packed = k.gep(self.b, k.add(self.b_at, k.mul(column, spec.k))), self.width, True
        else:
            at = self.b_at
            start = k.mul(column, spec.k) if spec.trans_b else column
            b, step, packed = k.gep(self.b, k.add(at, start)), k.opened(spec.n), False
            if plan.source is Source.SCRATCH:
                (self._pack_rows if spec.trans_b else self._pack_columns)(b, vectors)
                assert self.scratch is not None
                b, step, packed = self.scratch, self.width, True
        read = None if packed else self.live
        slices = 1 if plan.slice is spec.k else ceil_div(spec.k, plan.slice)

        def tiles(number: Index, load: bool, last: bool, length: Index) -> None:
            a_at, b_at = a, b
            if slices > 1:
                a_at = k.gep(a, k.mul(k.mul(number, plan.slice), self.a_step))
                b_at = k.gep(b, k.mul(k.mul(number, plan.slice), step))
            end, loop = k.add(first, self.group), Loop(length, self.a_step, step)
            for rows, start, stop, latest in self.runs:
                with k.loop(maximum(k, first, start), minimum(k, end, stop)) as tile:
                    before = k.mul(k.add(tile, k.add(1, k.mul(stop, -1))), rows)
                    row = maximum(k, k.add(latest, before), 0)  # the first tiles overlap, if any do
                    self._tile(a_at, b_at, c, tile, row, rows, vectors, loop, read, load, last)

        self.c_column = column
        if slices == 1:
            tiles(0, spec.accumulate, True, self.depth)
            return
        tiles(0, spec.accumulate, False, plan.slice)
        with k.loop(1, slices - 1) as number:
            tiles(number, True, False, plan.slice)
        tiles(slices - 1, True, True, spec.k - (slices - 1) * plan.slice)

    def _tile(
        self,
        a: ir.Value,
        b: ir.Value,
        c: Index,
        tile: Index,
        row: Index,
        rows: int,
        vectors: int,
        loop: Loop,
        read: int | None,
        load: bool,
        last: bool,
    ) -> None:
        k, spec, plan = self.k, self.spec, self.plan
        if spec.some_rows:
            offsets = [k.mul(self._row(k.add(row, r)), self.a_row) for r in range(rows)]
        else:
            a = k.gep(a, k.mul(row, self.a_row))
            offsets = [k.mul(self.a_row, r) for r in range(rows)]
        epilogue = spec.epilogue if last else Epilogue()
        output = Output(
            self.c,
            c if spec.some_rows else k.add(c, k.mul(row, spec.n)),
            rows,
            k.opened(spec.n),
            self.lanes,
            self.lanes,
            self.bias if last else None,
            self.c_column,
            self.extras if last else (),
            self.live,
            row_at=(lambda r: self._row(k.add(row, r))) if spec.some_rows else None,
        )
        chains, steps = plan.chains, loop.count
        if isinstance(spec.m, Extent) and isinstance(steps, int) and plan.slice is spec.k:
            chains = min(chains_of(rows * vectors), steps)
        if chains > 1:
            sums = multiply_in_chains(k, a, offsets, b, vectors, loop, chains, read)
            if load:
                held = output.load(k, vectors)
                sums = [k.b.fadd(x, y) for x, y in zip(sums, held, strict=True)]
        else:
            start = output.load(k, vectors) if load else zeros(k, rows * vectors)
            sums = self._reduce(a, offsets, b, vectors, loop, start, read, tile)
        output.store(k, sums, vectors, epilogue)

    def _reduce(
        self,
        a: ir.Value,
        offsets: Sequence[Index],
        b: ir.Value,
        vectors: int,
        loop: Loop,
        sums: Sequence[ir.Value],
        read: int | None,
        tile: Index,
    ) -> list[ir.Value]:
        """The sums of one tile; packed weights of the next panel are fetched meanwhile."""
        k, spec, plan = self.k, self.spec, self.plan
        if not isinstance(loop.count, int):
            return multiply(k, a, offsets, b, vectors, [loop], sums, read)
        if plan.source is Source.DIRECT and (is_open((spec.n,)) or 4 * spec.n * spec.k > k.target.l2 // 2):
            # Its rows lie apart, so that nothing else fetches them in time.
            ahead = Stream(k.gep(b, k.mul(loop.b_step, _AHEAD)), 1, vectors * self.lanes)
            return multiply(k, a, offsets, b, vectors, [loop, Loop(1, 0, 0)], sums, read, ahead)
        if plan.source is not Source.PANELS or loop.count < _CHUNK:
            return multiply(k, a, offsets, b, vectors, [loop], sums, read)
        open_tiles = is_open((plan.tiles, plan.group))
        if not open_tiles and plan.tiles == 1:
            near = Stream(k.gep(b, NEAR), 1, loop.count * self.width)
            return multiply(k, a, offsets, b, vectors, [loop], sums, read, near)
        (chunks, rest), chunk = divmod(loop.count, _CHUNK), _CHUNK * self.width
        distance: Index = loop.count * self.width
        parts = 1 if open_tiles else few_parts(stream_parts(min(plan.tiles, plan.group), chunk))
        if open_tiles:  # each of them fetches all: the run tells how many there are
            distance = k.b.select(k.b.icmp_signed("==", k.i(plan.tiles), k.i(1)), k.i(NEAR), k.i(distance))
        part = k.b.urem(k.i(tile), k.i(parts))
        stream = Stream(k.gep(b, k.add(k.mul(part, chunks * chunk // parts), distance)), parts, chunk)
        inner = Loop(_CHUNK, loop.a_step, loop.b_step)
        outer = Loop(chunks, k.mul(loop.a_step, _CHUNK), k.mul(loop.b_step, _CHUNK))
        after = multiply(k, a, offsets, b, vectors, [outer, inner], sums, read, stream)
        if rest:
            done = chunks * _CHUNK
            a, b = k.gep(a, k.mul(loop.a_step, done)), k.gep(b, k.mul(loop.b_step, done))
            after = multiply(k, a, offsets, b, vectors, [replace(loop, count=rest)], after, read)
        return after

    def _pack_columns(self, b: ir.Value, vectors: int) -> None:
        """Copy k rows of a panel of B into scratch."""
        k, spec = self.k, self.spec
        assert self.scratch is not None
        with k.loop(0, spec.k) as row:
            for v in range(vectors):
                live = self.live if self.live is not None and v == vectors - 1 else self.lanes
                value = load_first(k, b, k.add(k.mul(row, spec.n), v * self.lanes), self.lanes, live)
                k.store(value, self.scratch, k.add(k.mul(row, self.width), v * self.lanes))

    def _pack_rows(self, b: ir.Value, vectors: int) -> None:
        """Transpose a panel of B, stored (n, k), into scratch, a square of lanes at a time."""
        k, spec, lanes = self.k, self.spec, self.lanes
        assert self.scratch is not None

        def squares(start: Index, live_k: Index) -> None:
            for v in range(vectors):
                rows = self.live if self.live is not None and v == vectors - 1 else lanes
                read: list[ir.Value] = []
                for r in range(lanes):
                    if isinstance(
                        rows, Extent
                    ):  # rows beyond the last one are read as that one, and not stored
                        row = k.add(v * lanes, minimum(k, r, k.size(rows - 1)))
                    elif r < rows:
                        row = v * lanes + r
                    else:
                        read.append(k.splat(0.0, lanes))
                        continue
                    read.append(load_first(k, b, k.add(start, k.mul(self.depth, row)), lanes, live_k))
                assert self.scratch is not None
                for i, value in enumerate(transpose(k, read)[: live_k if isinstance(live_k, int) else lanes]):
                    at = k.add(k.mul(k.add(start, i), self.width), v * lanes)
                    k.store(value, self.scratch, at)

        if isinstance(spec.k, Extent):
            with k.loop(0, spec.k, lanes) as start:
                squares(start, minimum(k, lanes, k.b.sub(k.i(spec.k), start)))
            return
        whole = spec.k // lanes * lanes
        if whole:
            with k.loop(0, whole, lanes) as start:
                squares(start, lanes)
        if spec.k > whole:
            squares(whole, spec.k - whole)


def emit_gemm(module: ir.Module, name: str, spec: GemmSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(C, A, B, [bias], [extras], [live], [scratch], worker)` of a spec."""
    plan = plan_gemm(spec, target)
    scratch = int(gemm_scratch_bytes(spec, target) > 0)
    operands = 3 + spec.epilogue.operands + spec.some_rows + scratch
    k = KernelBuilder(module, name, operands, target, sized=True)
    _Emission(k, spec.folded(), plan).emit()
    return k.finish()
