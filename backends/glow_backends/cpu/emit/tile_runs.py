"""Tiles of the pixels of a row, by the filter columns that are inside the image.

Where only the run tells the size of a row, it works these out without the compiler: nothing here needs it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache


def _ceil_div(x: int, y: int) -> int:
    return -(-x // y)


@dataclass(frozen=True)
class Row:
    """A row of an image, and how a filter passes over it."""

    size: int
    kernel: int
    stride: int
    before: int
    after: int
    dilation: int

    @property
    def outputs(self) -> int:
        """Pixels of the result."""
        reach = self.dilation * (self.kernel - 1) + 1
        return (self.size + self.before + self.after - reach) // self.stride + 1


@dataclass(frozen=True)
class TileRun:
    """Tiles [start, stop) of a row, of `rows` pixels each, that read the same filter columns.

    `columns`: for each filter column the half-open range of the tile's pixels inside the image;
    None when all are. A tile begins at pixel `last` at the latest. With `once` it leaves the pixels
    of the tile before it as they are.
    """

    start: int
    stop: int
    rows: int
    columns: tuple[tuple[int, int], ...] | None
    last: int
    once: bool = False


def tile_runs(row: Row, rows: int, last: int) -> tuple[TileRun, ...]:
    """The tiles of an output row in runs of the same kind, `rows` pixels in each full tile.

    The last tile begins at pixel `last` at the latest.
    """
    out_width = row.outputs
    runs: list[TileRun] = []
    if row.kernel == 1 and not (row.before or row.after) and last + rows <= out_width:
        return (TileRun(0, _ceil_div(out_width, rows), rows, None, last),)  # the usual case, and a long row
    tiles, inner = _ceil_div(out_width, rows), _inner_tiles(row, rows, last)
    for tile in (*range(inner.start), *inner[:1], *range(inner.stop, tiles)):
        pixel = min(tile * rows, last)
        count = min(rows, out_width - pixel)
        columns = columns_inside(row, pixel, count)
        stop = inner.stop if tile in inner else tile + 1
        if runs and (runs[-1].rows, runs[-1].columns) == (count, columns):
            runs[-1] = replace(runs[-1], stop=stop)
        else:
            runs.append(TileRun(tile, stop, count, columns, last))
    return tuple(runs)


def columns_inside(row: Row, pixel: int, count: int) -> tuple[tuple[int, int], ...] | None:
    """`TileRun.columns` for `count` pixels from `pixel` on."""
    columns: list[tuple[int, int]] = []
    for s in range(row.kernel):
        first = pixel * row.stride - row.before + s * row.dilation
        low = min(max(0, _ceil_div(-first, row.stride)), count)
        high = max(min(count, _ceil_div(row.size - first, row.stride)), low)
        columns.append((low, high) if low < high else (0, 0))
    return None if all(c == (0, count) for c in columns) else tuple(columns)


def _inner_tiles(row: Row, rows: int, last: int) -> range:
    """The tiles of `rows` pixels, one behind the other, all of whose filter columns are inside the image."""
    stride, reach = row.stride, (row.kernel - 1) * row.dilation
    tiles = _ceil_div(row.outputs, rows)
    start = min(_ceil_div(_ceil_div(row.before, stride), rows), tiles)
    inside = (row.size - 1 + row.before - reach) // stride + 1  # pixels up to the last such one
    return range(start, max(start, min(inside, row.outputs, last + rows) // rows))


def _row_runs(row: Row, rows: int, ends: tuple[int, ...]) -> tuple[TileRun, ...]:
    """The tiles of a row, the last of which has the least number of the ends that is enough, or `rows`."""
    width = row.outputs
    rest = width % rows or rows
    return tile_runs(row, rows, width - next((end for end in ends if rest <= end), rows))


Kind = tuple[int, "tuple[tuple[int, int], ...] | None"]


@cache
def run_kinds(*cut: int) -> tuple[Kind, ...]:
    """Pixels and filter columns of all runs that rows may have, which `_row_runs` cuts: for any size.

    The numbers are taps, stride, padding before and behind, dilation; `rows`; how many pixels more than
    that any row has; what a size is above a multiple of the stride, or -1; the ends.
    """
    kernel, stride, before, after, dilation, rows, more, phase, *ends = cut
    least = (rows + more - 1) * stride + dilation * (kernel - 1) + 1 - before - after
    # Of any longer row the ends are those of one of these.
    count = 3 * rows + _ceil_div(max(0, before), stride) + _ceil_div(max(0, after), stride)
    sizes = range(max(1, least), least + count * stride)
    if phase >= 0:
        sizes = range(sizes.start + (phase - sizes.start) % stride, sizes.stop, stride)
    found = (
        _row_runs(Row(size, kernel, stride, before, after, dilation), rows, tuple(ends)) for size in sizes
    )
    return tuple(dict.fromkeys((run.rows, run.columns) for runs in found for run in runs))


def run_numbers(size: int, *cut: int) -> list[int]:
    """Start, stop and last pixel of each of the `run_kinds` in a row, 0 of those that it has not."""
    kernel, stride, before, after, dilation, rows, _, _, *ends = cut
    runs = _row_runs(Row(size, kernel, stride, before, after, dilation), rows, tuple(ends))
    known = {(run.rows, run.columns): (run.start, run.stop, run.last) for run in runs}
    return [n for kind in run_kinds(*cut) for n in known.get(kind, (0, 0, 0))]
