"""Register blocks: `rows` x `vectors` sums kept in registers, the heart of GEMM and convolution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import gcd

from llvmlite import ir

from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.memory import Index, ceil_div, load_first
from glow_backends.cpu.emit.row_runs import RowRun, cut_alike, ends_of
from glow_backends.cpu.target import CpuTarget

ALIKE = 1.02
"""Estimates that differ by no more are taken for equal."""

_OVERLAP = 1.03
"""Redundant work that is accepted so that more sizes share the same code."""


_BROADCASTS = 1.15
"""Measured: the cost of products that read a broadcast from memory, relative to two a cycle."""


@dataclass(frozen=True)
class Block:
    """A register block: `rows` broadcast scalars times `vectors` vectors of weights."""

    rows: int
    vectors: int

    @property
    def sums(self) -> int:
        """How many vectors of sums it has."""
        return self.rows * self.vectors

    def cycles(self) -> float:
        """Estimated cycles of one step of the reduction: FMAs, loads, FMA latency."""
        loads = (self.rows + self.vectors) / 2 * (_BROADCASTS if self.vectors == 1 else 1)
        # Weights stream from L2: narrow blocks (few vectors) ask less of it.
        return max(self.sums / 2, loads, 4.0) * (1 + 0.01 * self.vectors) + 0.5


def fits(block: Block, target: CpuTarget) -> bool:
    """Whether sums, weights and one broadcast stay in the register file."""
    if block.vectors == 1 and target.vector_bytes == 64:  # broadcasts are memory operands there
        return block.rows <= target.registers - 4
    return block.rows * block.vectors + block.vectors + 1 <= target.registers


def even_tiles(total: int, size: int) -> tuple[int, int, int]:
    """Split `total` rows into about equal tiles of at most `size`: (size, full tiles, rest)."""
    size = min(size, total)
    size = ceil_div(total, ceil_div(total, size))
    return size, total // size, total % size


def may_overlap(total: int, rows: int) -> bool:
    """Whether the last tile takes rows of the one before again, rather than have code of its own."""
    return ceil_div(total, rows) * rows <= _OVERLAP * total


def even_cost(rows: int, vectors: int, block: Block) -> float:
    """Estimated cycles of `rows` x `vectors` sums in even tiles and a rest."""
    _, full, rest = even_tiles(rows, block.rows)
    cost = 0.0
    for width, columns in ((block.vectors, vectors // block.vectors), (vectors % block.vectors, 1)):
        if width:
            cost += columns * full * Block(block.rows, width).cycles()
            cost += columns * Block(rest, width).cycles() if rest else 0.0
    return cost


def widths(vectors: int, whole: bool) -> Iterator[int]:
    """How many vectors a register block may have."""
    return (v for v in range(1, min(vectors, 8) + 1) if not (whole and vectors % v))


@cache
def choose_block(
    rows: int, vectors: int, target: CpuTarget, max_rows: int = 32, whole: bool = False
) -> Block:
    """The register block with the least estimated cycles for `rows` x `vectors` sums.

    `max_rows` limits the rows (streams that fall on one cache set); `whole`: the block's vectors
    must divide `vectors`. Of numbers of rows about as good the largest is taken: sizes that are near
    each other then share their code.
    """
    candidates: list[tuple[float, Block]] = []
    for v in widths(vectors, whole):
        for limit in range(1, min(rows, max_rows) + 1):
            if not fits(Block(limit, v), target):
                break
            block = Block(even_tiles(rows, limit)[0], v)
            candidates.append((even_cost(rows, vectors, block), block))
    least, best = min(candidates, key=lambda f: f[0])
    alike = [b for cost, b in candidates if cost <= ALIKE * least and b.vectors == best.vectors]
    return max(alike, key=lambda b: b.rows)


def cut_evenly(total: int, rows: int, once: bool = False) -> tuple[RowRun, ...]:
    """`total` rows in tiles of `rows` rows and a remainder, which is taken `once` or overlaps."""
    full, rest = divmod(total, rows)
    if not rest or (not once and may_overlap(total, rows)):
        return (RowRun(0, ceil_div(total, rows), rows, total - rows),)
    return RowRun(0, full, rows, (full - 1) * rows), RowRun(full, full + 1, rest, full * rows)


_ALIKE_CUT = 1.06
"""The most that tiles for any number of rows may cost, relative to tiles for that number alone."""


@cache
def shared_block(
    rows: int, vectors: int, target: CpuTarget, max_rows: int = 32, whole: bool = False
) -> Block | None:
    """The register block for `cut_alike`, as `choose_block` says; None where that costs too much."""
    costs: dict[Block, float] = {}
    for v in widths(vectors, whole):
        most = max((r for r in range(1, max_rows + 1) if fits(Block(r, v), target)), default=0)
        if not ends_of(most) or rows < most:
            continue
        runs = cut_alike(rows, most)
        for width, columns in ((v, vectors // v), (vectors % v, 1)):
            tiles = sum((run.stop - run.start) * Block(run.rows, width).cycles() for run in runs)
            costs[Block(most, v)] = costs.get(Block(most, v), 0.0) + (columns * tiles if width else 0.0)
    if not costs:
        return None
    least = min(costs.values())
    block = max((b for b, cost in costs.items() if cost <= ALIKE * least), key=lambda b: b.rows)
    even = even_cost(rows, vectors, choose_block(rows, vectors, target, max_rows, whole))
    return block if costs[block] <= _ALIKE_CUT * even else None


@dataclass(frozen=True)
class Loop:
    """One level of a reduction: trip count, and its steps of the two addresses (elements)."""

    count: Index
    a_step: Index
    b_step: Index


@dataclass(frozen=True)
class Stream:
    """Weights of the next block, fetched into the L2 cache a part at a time by each tile of this one.

    While an innermost loop passes over elements [at, at + chunk) of its block, elements
    [at / parts, (at + chunk) / parts) of `start` are fetched, evenly: a burst would wait for itself.
    """

    start: ir.Value
    parts: int
    chunk: int

    def moved(self, k: KernelBuilder, at: Index) -> Stream:
        """The same for a tile whose position 0 is `at` of its block."""
        if isinstance(at, int):
            at //= self.parts
        elif self.parts > 1:
            at = k.b.lshr(at, k.i(self.parts.bit_length() - 1))
        return replace(self, start=k.gep(self.start, at))

    def divided(self, k: KernelBuilder, loop: Loop) -> tuple[Loop, Loop]:
        """An innermost loop as two, the outer with as many trips as there are fetches, if that goes."""
        assert isinstance(loop.count, int)
        lines = max(1, self.chunk // self.parts // LINE)
        pieces = min(lines, loop.count)
        if lines % pieces or loop.count % pieces:
            pieces = 1 if lines <= BURST else gcd(lines, loop.count)
        if lines // pieces > BURST:
            pieces = loop.count
        steps = loop.count // pieces
        return Loop(pieces, k.mul(loop.a_step, steps), k.mul(loop.b_step, steps)), replace(loop, count=steps)

    def fetch(self, k: KernelBuilder, at: Index, pieces: Index) -> None:
        """Emit the fetches that go with one of the `pieces` of an innermost loop."""
        assert isinstance(pieces, int)
        start = self.moved(k, at).start
        for line in range(0, self.chunk // self.parts // pieces, LINE):
            k.prefetch(k.gep(start, line))


LINE = 16
"""f32 elements of a cache line."""
BURST = 64
"""Most lines that are fetched at once: each is an instruction of its own in the code of the kernel."""
NEAR = 1024
"""How many elements ahead a block that only one tile reads fetches its own weights."""


def stream_parts(tiles: int, chunk: int) -> int:
    """Into how many parts (a power of two) `tiles` tiles divide the fetching of a block."""
    return 1 << (max(1, min(tiles, chunk // LINE)).bit_length() - 1)


Dot = Callable[[KernelBuilder, ir.Value, ir.Value, ir.Value], ir.Value]
"""(builder, broadcast value, weights, sum) -> new sum."""

NestBody = Callable[[Index, Index, Sequence[ir.Value]], list[ir.Value]]


def few_parts(parts: int) -> int:
    """2, 8 or 32 instead of any power of two, for code that more numbers of rows share."""
    return parts if parts == 1 else 1 << ((parts.bit_length() - 2) // 2 * 2 + 1)


def reduce_nest(
    k: KernelBuilder, nest: Sequence[Loop], body: NestBody, sums: Sequence[ir.Value]
) -> list[ir.Value]:
    """Loops around `body(a offset, b offset, sums) -> sums`; a loop of one trip costs nothing."""

    def level(depth: int, a_at: Index, b_at: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
        if depth == len(nest):
            return body(a_at, b_at, sums)
        loop = nest[depth]

        def step(index: Index, carried: list[ir.Value]) -> list[ir.Value]:
            a_next = k.add(a_at, k.mul(index, loop.a_step))
            return level(depth + 1, a_next, k.add(b_at, k.mul(index, loop.b_step)), carried)

        if isinstance(loop.count, int) and loop.count == 1:
            return step(0, list(sums))
        return k.reduce_loop(0, loop.count, 1, sums, step)

    return level(0, 0, 0, sums)


def multiply(
    k: KernelBuilder,
    a: ir.Value,
    row_offsets: Sequence[Index],
    b: ir.Value,
    vectors: int,
    nest: Sequence[Loop],
    sums: Sequence[ir.Value],
    live: int | None = None,
    stream: Stream | None = None,
    dot: Dot = KernelBuilder.fma,
) -> list[ir.Value]:
    """sums[r * vectors + v] += a[row r, i] * b[i, vector v] over a nest of reduction loops.

    `nest` goes from the outermost loop in; offsets are in elements. `live`: valid lanes of the
    last vector of b (None: all). `stream`: what to fetch ahead before each innermost loop. `dot`:
    the product and sum of one lane, where its 32 bits are not a float.
    """
    lanes = k.target.lanes
    if nest:
        a, b = k.settled(a), k.settled(b)

    def body(a_at: Index, b_at: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
        weights = [
            load_first(
                k,
                b,
                k.add(b_at, v * lanes),
                lanes,
                live if live is not None and v == vectors - 1 else lanes,
            )
            for v in range(vectors)
        ]
        row_sums: list[ir.Value] = []
        for r, offset in enumerate(row_offsets):
            scalar = k.splat(k.load(a, k.add(a_at, offset)), lanes)
            row_sums += [dot(k, scalar, w, sums[r * vectors + v]) for v, w in enumerate(weights)]
        return row_sums

    if stream is None:
        return reduce_nest(k, nest, body, sums)

    pieces, steps = stream.divided(k, nest[-1])

    def inner(a_at: Index, b_at: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
        stream.fetch(k, b_at, pieces.count)

        def shifted(a_in: Index, b_in: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
            return body(k.add(a_at, a_in), k.add(b_at, b_in), sums)

        return reduce_nest(k, [steps], shifted, sums)

    return reduce_nest(k, [*nest[:-1], pieces], inner, sums)


def chains_of(sums: int) -> int:
    """How many chains of so many sums hide the FMA's latency."""
    return max(1, 8 // sums)


def multiply_in_chains(
    k: KernelBuilder,
    a: ir.Value,
    row_offsets: Sequence[Index],
    b: ir.Value,
    vectors: int,
    loop: Loop,
    chains: int,
    live: int | None = None,
) -> list[ir.Value]:
    """As `multiply` from zero sums over one static loop, in `chains` independent partial sums.

    Blocks of few sums wait for the FMA's latency; chains fill it.
    """
    count = len(row_offsets) * vectors
    assert isinstance(loop.count, int)
    rounds, rest = divmod(loop.count, chains)

    def step(index: Index, carried: list[ir.Value]) -> list[ir.Value]:
        after: list[ir.Value] = []
        for chain in range(chains):
            at = k.add(k.mul(index, chains), chain)
            a_at = k.gep(a, k.mul(at, loop.a_step))
            b_at = k.gep(b, k.mul(at, loop.b_step))
            part = carried[chain * count : (chain + 1) * count]
            after += multiply(k, a_at, row_offsets, b_at, vectors, [], part, live)
        return after

    sums = k.reduce_loop(0, rounds, 1, zeros(k, chains * count), step)
    parts = [sums[i : i + count] for i in range(0, chains * count, count)]
    for i in range(rest):
        at = rounds * chains + i
        a_at, b_at = k.gep(a, k.mul(loop.a_step, at)), k.gep(b, k.mul(loop.b_step, at))
        parts[i] = multiply(k, a_at, row_offsets, b_at, vectors, [], parts[i], live)
    total = parts[0]
    for part in parts[1:]:
        total = [k.b.fadd(x, y) for x, y in zip(total, part, strict=True)]
    return total


def each_row(
    k: KernelBuilder,
    sums: Sequence[ir.Value],
    vectors: int,
    finish: Callable[[Index, Sequence[ir.Value]], None],
    long: bool = False,
) -> None:
    """finish(row, its sums) for the rows of a block.

    Where `finish` is `long`, its code is that of one row, in a loop that reads the sums from the stack.
    """
    rows, lanes = len(sums) // vectors, k.target.lanes
    if not long or rows == 1:
        for row in range(rows):
            finish(row, sums[row * vectors : (row + 1) * vectors])
        return
    held, kind = k.stack(len(sums) * lanes), sums[0].type.element
    for i, value in enumerate(sums):
        k.store(value, held, i * lanes, align=k.target.vector_bytes)
    with k.loop(0, rows) as row:
        own = k.gep(held, k.mul(row, vectors * lanes))
        finish(row, [k.load(own, v * lanes, kind, lanes) for v in range(vectors)])


@dataclass(frozen=True)
class Output:
    """Where a block's sums go: element `at` + r `row_step` + v `vector_step` for row r, vector v.

    `stored`: the elements of `y` and of the extras. `row_at`: the number to take for r, another one where
    the rows of a block do not follow each other.
    """

    y: ir.Value
    at: Index
    rows: int
    row_step: Index
    vector_step: Index
    lanes: int
    bias: ir.Value | None = None
    bias_at: Index = 0
    extras: Sequence[ir.Value] = ()
    live: int | None = None
    stored: str = "f32"
    row_at: Callable[[Index], Index] | None = None

    def _row(self, row: Index) -> Index:
        return row if self.row_at is None else self.row_at(row)

    def store(self, k: KernelBuilder, sums: Sequence[ir.Value], vectors: int, epilogue: Epilogue) -> None:
        """Apply the epilogue to the sums and store them."""
        lanes, kind = k.target.lanes, values.storage(self.stored)
        y, *extras = (k.settled(k.gep(p, self.at, kind)) for p in (self.y, *self.extras))
        bias = [
            load_first(k, self.bias, k.add(self.bias_at, v * lanes), lanes, self._live(v, vectors))
            for v in range(vectors)
            if self.bias is not None
        ]

        def finish(row: Index, sums: Sequence[ir.Value]) -> None:
            start = k.mul(self._row(row), self.row_step)
            for v, value in enumerate(sums):
                at = k.add(start, k.mul(self.vector_step, v))
                live = self._live(v, vectors)

                def read(extra: ir.Value, at: Index = at, live: int = live) -> ir.Value:
                    return values.load(k, extra, at, self.stored, lanes, live)

                own = bias[v] if bias else None
                value = epilogue.apply(k, value, own, extras, read)
                values.store(k, value, y, at, self.stored, live)

        each_row(k, sums, vectors, finish, epilogue.long)

    def load(self, k: KernelBuilder, vectors: int) -> list[ir.Value]:
        """The sums stored so far."""
        lanes = k.target.lanes
        return [
            load_first(
                k,
                self.y,
                k.add(k.add(self.at, k.mul(self.row_step, self._row(row))), k.mul(self.vector_step, v)),
                lanes,
                self._live(v, vectors),
            )
            for row in range(self.rows)
            for v in range(vectors)
        ]

    def _live(self, v: int, vectors: int) -> int:
        return self.live if self.live is not None and v == vectors - 1 else self.lanes


def zeros(k: KernelBuilder, count: int) -> list[ir.Value]:
    """`count` vectors of zeros."""
    return [k.splat(0.0, k.target.lanes)] * count
