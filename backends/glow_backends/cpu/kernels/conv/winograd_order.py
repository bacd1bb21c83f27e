"""The order of Winograd tiles, some of which are short: they need neither their last output nor infinity.

Tiles of t outputs rarely cover an axis without a rest. The point at infinity counts for the last output
alone, so a tile of t - 1 outputs is one of t for which its products are left out: nothing else changes.
14 outputs are two tiles of 4 and two of 3, whose products are 22 a line where four tiles of 4 take 24.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_backends.cpu.emit.row_runs import short_tiles
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.winograd_tiles import tap_steps, tile_shape, tiles_across, window_side
from glow_dialects.core.extent import computed

LOW, NARROW = 2, 1
"""Bits of a point: tiles of one row (column) less leave it out."""


@dataclass(frozen=True)
class TileOrder:
    """`full` tiles down and across, followed by `short` ones of one output less, on `images`.

    They are taken in four groups: narrow ones, whole ones, low ones, low and narrow ones. All those that
    need a point then follow each other.
    """

    images: int
    full: tuple[int, int]
    short: tuple[int, int]

    @property
    def ends(self) -> tuple[int, int, int, int]:
        """Where each group ends."""
        (down, across), (low, narrow) = self.full, self.short
        sizes = (down * narrow, down * across, low * across, low * narrow)
        a, b, c, d = (self.images * size for size in sizes)
        return a, a + b, a + b + c, a + b + c + d

    @property
    def total(self) -> int:
        """The number of tiles."""
        return self.ends[-1]

    def needed(self, point: int) -> range:
        """The tiles that need a point with such bits."""
        a, b, c, total = self.ends
        return {0: range(total), NARROW: range(a, c), LOW: range(b), LOW | NARROW: range(a, b)}[point]


def tile_order(conv: DirectConvSpec, tile: int) -> TileOrder:
    """As few tiles of `tile` as there can be, as many of them short as can be; with dilation none is."""
    full: list[int] = []
    short: list[int] = []
    rows = zip(tiles_across(conv, tile), conv.out_size, tile_shape(conv, tile), tap_steps(conv), strict=True)
    for count, outputs, length, step in rows:
        (few,) = computed(short_tiles, outputs, length) if step == 1 else (0,)
        full.append(count - few)
        short.append(few)
    return TileOrder(conv.batch, (full[0], full[1]), (short[0], short[1]))


def point_bits(conv: DirectConvSpec, tile: int) -> tuple[int, ...]:
    """`LOW` and `NARROW` of each point: which short tiles leave it out."""
    side = window_side(conv, tile)
    last = {side // 2, side - 1} if conv.strides == (2, 2) else {side - 1}
    if conv.line:
        return tuple((NARROW if conv.kernel[0] == 1 else LOW) * (i in last) for i in range(side))
    return tuple(LOW * (i in last) + NARROW * (j in last) for i in range(side) for j in range(side))
