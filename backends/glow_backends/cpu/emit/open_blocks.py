"""Register blocks for numbers of rows and columns that only the run tells."""

from __future__ import annotations

from glow_backends.cpu.emit.register_blocks import (
    Block,
    RowRun,
    choose_block,
    cut_alike,
    ends_of,
    even_cost,
    fits,
    widths,
)
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.extent import Extent, computed, estimate


def cut_open(total: int, rows: int, once: bool) -> tuple[RowRun, ...]:
    """`cut_alike` for any total of at least `rows` rows; each is taken `once` if that is asked for."""
    ends = _halves(rows) if once else ends_of(rows)
    numbers = computed(_cut_once if once else _cut_numbers, total, rows)
    triples = (numbers[3 * i : 3 * i + 3] for i in range(1 + len(ends)))
    sized = zip(triples, (rows, *ends), strict=True)
    return tuple(RowRun(start, stop, size, last) for (start, stop, last), size in sized)


def _cut_numbers(total: int, rows: int) -> list[int]:
    """Start, stop and last row of each run of `cut_alike`."""
    return [n for run in cut_alike(total, rows) for n in (run.start, run.stop, run.last)]


def _halves(rows: int) -> tuple[int, ...]:
    """Sizes of tiles of which each is needed once at most to take fewer rows than `rows`."""
    return tuple(1 << i for i in reversed(range((rows - 1).bit_length())))


def _cut_once(total: int, rows: int) -> list[int]:
    """Start, stop and row of tiles of `rows` rows, then of what is left, halved and halved again."""
    full, rest = divmod(total, rows)
    numbers, tile, place = [0, full, total - rows], full, full * rows
    for size in _halves(rows):
        used = int(rest & size != 0)
        numbers += [tile, tile + used, place]
        tile, place = tile + used, place + used * size
    return numbers


def open_block(rows: int, columns: int, target: CpuTarget, max_rows: int) -> Block:
    """The register block where the run tells how many rows or columns there are: it has no more of either.

    A single vector may have more lanes than there are columns.
    """
    vectors = max(1, estimate(columns) // target.lanes)
    if isinstance(columns, Extent):
        vectors = min(vectors, _MOST_OPEN)
    if not isinstance(rows, Extent):
        block = choose_block(rows, vectors, target, max_rows)
    else:
        blocks: list[Block] = []
        for v in widths(vectors, False):
            most = max((r for r in range(1, max_rows + 1) if fits(Block(r, v), target)), default=0)
            blocks += [Block(most, v)] if most else []
        many = max(_MANY, estimate(rows))
        block = min(blocks, key=lambda b: even_cost(many // b.rows * b.rows, vectors, b))
        if not rows >= block.rows:
            block = Block(_SOME if rows >= _SOME else _LEAST, block.vectors)
    if isinstance(columns, Extent) and not columns >= block.vectors * target.lanes:
        block = Block(block.rows, 1)
    return block


_MOST_OPEN = 4
"""Vectors of a block where only the run tells how many columns there are: those it has at least."""
_MANY, _SOME, _LEAST = 64, 4, 2
"""Rows for which a block is chosen where the run tells their number, and those of a smaller one."""
