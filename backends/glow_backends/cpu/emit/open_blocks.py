"""Register blocks for numbers of rows and columns that only the run tells."""

from __future__ import annotations

from glow_backends.cpu.emit.register_blocks import (
    Block,
    choose_block,
    even_cost,
    fits,
    widths,
)
from glow_backends.cpu.emit.row_runs import RowRun, cut_numbers, cut_once, ends_of, halves
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import estimate, usually
from glow_dialects.core.extent import Extent, computed


def cut_open(total: int, rows: int, once: bool) -> tuple[RowRun, ...]:
    """`cut_alike` for any total of at least `rows` rows; each is taken `once` if that is asked for."""
    ends = halves(rows) if once else ends_of(rows)
    numbers = computed(cut_once if once else cut_numbers, total, rows)
    triples = (numbers[3 * i : 3 * i + 3] for i in range(1 + len(ends)))
    sized = zip(triples, (rows, *ends), strict=True)
    return tuple(RowRun(start, stop, size, last) for (start, stop, last), size in sized)


def open_block(rows: int, columns: int, target: CpuTarget, max_rows: int, few: bool) -> Block:
    """The register block where the run tells how many rows or columns there are.

    It has no more columns than there are, but for a single vector. Of `few` rows it may have more than there
    are, as where each is taken once anyway.
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
        if few:
            block = Block(min(block.rows, _FEW // 2), block.vectors)
    if isinstance(columns, Extent) and usually(columns, "<", block.vectors * target.lanes):
        block = Block(block.rows, 1)
    return block


def few_rows(rows: int) -> bool:
    """Whether there are so few open rows that blocks of less and less take each of them once."""
    return isinstance(rows, Extent) and usually(rows, "<", _FEW)


def open_vectors(columns: int, target: CpuTarget) -> int:
    """Vectors in the columns that there usually are, of open columns not many."""
    vectors = max(1, estimate(columns) // target.lanes)
    return min(vectors, _MOST_OPEN) if isinstance(columns, Extent) else vectors


_MOST_OPEN = 4
"""Vectors of a block where only the run tells how many columns there are: those it has at least."""
_MANY, _FEW = 64, 32
"""Rows for which a block is chosen where the run tells their number, and those that no block has more of."""
