"""Register blocks for dynamic numbers of rows and columns."""

from __future__ import annotations

from collections.abc import Sequence

from glow_backends.cpu.emit.register_blocks import (
    Block,
    choose_block,
    even_cost,
    fits,
    widths,
)
from glow_backends.cpu.emit.row_runs import (
    RowRun,
    cut_cheaply,
    cut_numbers,
    cut_once,
    ends_of,
    halves,
    rows_of_tiles,
)
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import estimate, usually
from glow_dialects.core.extent import Extent, computed


def cut_open(total: int, rows: int, once: bool) -> tuple[RowRun, ...]:
    """`cut_alike` for any total of at least `rows` rows; each is taken `once` if that is asked for."""
    ends = halves(rows) if once else ends_of(rows)
    return _runs(computed(cut_once if once else cut_numbers, total, rows), (rows, *ends))


def cut_rows(total: int, rows: int) -> tuple[RowRun, ...]:
    """Tiles of at most `rows` rows that take each of any number of rows once: see `cut_cheaply`."""
    return _runs(computed(cut_cheaply, total, rows), rows_of_tiles(rows))


def _runs(numbers: Sequence[int], sizes: Sequence[int]) -> tuple[RowRun, ...]:
    """Runs of tiles of some sizes, by start, stop and last row of each."""
    triples = (numbers[3 * i : 3 * i + 3] for i in range(len(sizes)))
    return tuple(
        RowRun(start, stop, size, last) for (start, stop, last), size in zip(triples, sizes, strict=True)
    )


def open_block(rows: int, columns: int, target: CpuTarget, max_rows: int) -> Block:
    """The register block where the run tells how many rows or columns there are.

    It has no more columns than there are, but for a single vector, and may have more rows.
    """
    vectors = open_vectors(columns, target)
    if not isinstance(rows, Extent):
        block = choose_block(rows, vectors, target, max_rows)
    else:
        blocks: list[Block] = []
        for v in widths(vectors, False):
            most = max((r for r in range(1, max_rows + 1) if fits(Block(r, v), target)), default=0)
            blocks += [Block(most, v)] if most else []
        many = max(_MANY, estimate(rows))
        block = min(blocks, key=lambda b: even_cost(many // b.rows * b.rows, vectors, b))
    if isinstance(columns, Extent) and usually(columns, "<", block.vectors * target.lanes):
        block = Block(block.rows, 1)
    return block


def open_vectors(columns: int, target: CpuTarget) -> int:
    """Vectors in the columns that there usually are, of open columns not many."""
    vectors = max(1, estimate(columns) // target.lanes)
    return min(vectors, _MOST_OPEN) if isinstance(columns, Extent) else vectors


_MOST_OPEN = 4
"""Vectors of a block where only the run tells how many columns there are: those it has at least."""
_MANY = 64
"""Rows for which a block is chosen where the run tells their number."""
