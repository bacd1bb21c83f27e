"""Winograd tiles of one output less: which there are, and which points they leave out."""

import pytest

from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.winograd_order import LOW, NARROW, point_bits, tile_order


def square(batch: int, channels: int, size: tuple[int, int], stride: int = 1) -> DirectConvSpec:
    return DirectConvSpec(batch, channels, 32, size, (3, 3), (stride, stride), (1, 1, 1, 1))


@pytest.mark.parametrize("tile", [2, 4])
def test_tiles_cover_their_axis(tile: int) -> None:
    for outputs in range(1, 40):
        order = tile_order(square(1, 16, (outputs, 1)), tile)
        full, short = order.full[0], order.short[0]
        assert full + short == -(-outputs // tile)
        assert tile * full + (tile - 1) * short >= outputs
        if full:
            assert tile * full + (tile - 1) * short == outputs


def test_points_are_left_out_by_short_tiles_alone() -> None:
    spec = square(2, 16, (14, 8))  # 4 4 3 3 down, 4 4 across
    order, bits = tile_order(spec, 4), point_bits(spec, 4)
    assert (order.full, order.short, order.total) == ((2, 2), (2, 0), 16)
    assert [order.needed(kind) for kind in (0, LOW, NARROW, LOW | NARROW)] == [
        range(16),
        range(8),
        range(16),
        range(8),
    ]
    assert bits.count(0) == 25
    assert bits.count(LOW | NARROW) == 1
    strided = point_bits(square(1, 16, (14, 14), 2), 4)
    assert (len(strided), strided.count(0), strided.count(LOW)) == (81, 49, 14)
    line = DirectConvSpec(1, 16, 16, (1, 30), (1, 3), pads=(0, 1, 0, 1))
    assert point_bits(line, 4) == (0, 0, 0, 0, 0, NARROW)
