"""Numbers that follow from sizes: how rows are cut into tiles, and how tiles are grouped.

Where only the run tells the sizes, it works these out without the compiler: nothing here needs it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def ends_of(rows: int) -> tuple[int, ...]:
    """The rows of the tiles that may follow those of `rows` rows, where any number of rows is cut alike."""
    ends = ((16, (16, 8, 4)), (10, (8, 4)), (7, (6, 3)), (5, (4, 2)), (0, ()))
    return next(end for least, end in ends if rows >= least)


@dataclass(frozen=True)
class RowRun:
    """Tiles [start, stop) of `rows` rows, which follow each other and begin at row `last` at the latest."""

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
    runs = [RowRun(0, full, rows, total - rows)]
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
