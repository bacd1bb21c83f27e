"""Numbers that follow from sizes: how rows are cut into tiles, and how tiles are grouped.

Where only the run tells the sizes, it works these out without the compiler: nothing here needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np


def ends_of(rows: int) -> tuple[int, ...]:
    """The rows of the tiles that may follow those of `rows` rows, where any number of rows is cut alike."""
    ends = ((16, (16, 8, 4)), (10, (8, 4)), (7, (6, 3)), (5, (4, 2)), (0, ()))
    return next(end for least, end in ends if rows >= least)


@dataclass(frozen=True)
class RowRun:
    """Tiles [start, stop) of `rows` rows, the last of which begins at row `last`.

    They follow each other; where the rows before `last` are fewer than theirs, tiles overlap.
    """

    start: int
    stop: int
    rows: int
    last: int


def cut_alike(total: int, rows: int) -> tuple[RowRun, ...]:
    """`total` rows in tiles of `rows` rows, and of `ends_of` them where those are needed, once each.

    The last tile begins early enough to end with the last row.
    """
    full, rest = divmod(total, rows)
    ends, used = ends_of(rows), list[int]()
    for i, end in enumerate(ends):
        if rest > sum(ends[i + 1 :]):
            used.append(end)
            rest -= end
    if rest > 0 or sum(used) >= rows:
        full, used = full + 1, []
    runs = [RowRun(0, full, rows, min((full - 1) * rows, total - rows))]
    for end in ends:
        start, place = runs[-1].stop, full * rows + sum(e for e in used if e > end)
        runs.append(RowRun(start, start + (end in used), end, min(place, total - end)))
    return tuple(runs)


def cut_numbers(total: int, rows: int) -> list[int]:
    """Start, stop and last row of each run of `cut_alike`."""
    return [n for run in cut_alike(total, rows) for n in (run.start, run.stop, run.last)]


def halves(rows: int) -> tuple[int, ...]:
    """Sizes of tiles of which each is needed once at most to take fewer rows than `rows`."""
    return tuple(1 << i for i in reversed(range((rows - 1).bit_length())))


def cut_once(total: int, rows: int) -> list[int]:
    """Start, stop and row of tiles of `rows` rows, then of what is left, halved and halved again."""
    full, rest = divmod(total, rows)
    numbers, tile, place = [0, full, total - rows], full, full * rows
    for size in halves(rows):
        used = int(rest & size != 0)
        numbers += [tile, tile + used, place]
        tile, place = tile + used, place + used * size
    return numbers


def rows_of_tiles(rows: int) -> tuple[int, ...]:
    """The rows of tiles that take any number of rows, once each, about as fast as tiles of `rows` rows."""
    return (rows, *(few for few in (8, 4, 3, 2, 1) if few < rows))


def cut_cheaply(total: int, rows: int) -> list[int]:
    """Start, stop and last row of tiles of `rows_of_tiles`, as many of each as cost the least."""
    sizes = rows_of_tiles(rows)
    full = max(0, total // rows - 1)
    counts = list(_cheapest(total - full * rows, sizes))
    counts[0] += full
    numbers, tile, place = list[int](), 0, 0
    for size, count in zip(sizes, counts, strict=True):
        place += count * size
        numbers += [tile, tile + count, place - size]
        tile += count
    return numbers


@cache
def _cheapest(total: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """How many tiles of each of some sizes take `total` rows in the least time."""
    if total == 0:
        return (0,) * len(sizes)
    found: list[tuple[float, tuple[int, ...]]] = []
    for i, size in enumerate(sizes):
        if size <= total:
            rest = _cheapest(total - size, sizes)
            counts = (*rest[:i], rest[i] + 1, *rest[i + 1 :])
            found.append((sum(n * _cost(s) for n, s in zip(counts, sizes, strict=True)), counts))
    return min(found)[1]


def _cost(rows: int) -> float:
    """The time of a tile, in rows: sums of few rows wait for each other, and each tile begins and ends."""
    return max(rows + _TILE, _LEAST)


_LEAST, _TILE = 3.0, 0.3
"""Measured: the time of a tile of one or two rows, and what a tile takes beside the time of its rows."""


def tiles_of_group(
    m: int, length: int, tiles: int, items: int, rows: int, budget: int, threads: int
) -> list[int]:
    """Tiles whose rows of A stay in the cache while every panel passes over them."""
    group = max(4, budget // (length * rows)) if m * length > budget else tiles
    group = min(group, tiles)
    if items < 4 * threads and threads > 1:
        group = min(group, max(1, tiles * items // (4 * threads)))
    return [group]


def bits_of_f32(value: float) -> list[int]:
    """The bits of a number as an f32, as an int."""
    return [int(np.float32(value).view(np.int32))]


def short_tiles(outputs: int, length: int) -> tuple[int]:
    """How many of the fewest tiles of `length` outputs may have one less each."""
    count = -(-outputs // length)
    return (min(count, count * length - outputs),)


def full_windows(size: int, places: int, stride: int, before: int, reach: int) -> tuple[int, int]:
    """The places [low, high) of windows that are all inside an axis, which reach from the first element."""
    low, high = -(-before // stride), min(places, (size - 1 + before - reach) // stride + 1)
    return (low, high) if low < high else (places, places)
