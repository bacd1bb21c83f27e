"""Common parts of Winograd kernels: tiles of blocked images, and the transform of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from llvmlite import ir

from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.line_builder import vector
from glow_backends.cpu.emit.memory import Index, ceil_div, split_index
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec

A, B = sqrt(0.5), sqrt(2.0)
"""The interpolation points of 4 x 4 tiles are 0, +-A, +-B and infinity."""


def window_side(conv: DirectConvSpec, tile: int) -> int:
    """The height and width of the inputs that a tile of a convolution reads, or the length of their line."""
    return conv.strides[0] * (tile - 1) + max(conv.kernel)


def tile_shape(conv: DirectConvSpec, tile: int) -> tuple[int, int]:
    """Rows and columns of outputs of a tile: those of a filter of one row (column) lie in one as well."""
    height, width = conv.kernel
    return 1 if height == 1 else tile, 1 if width == 1 else tile


def tap_steps(conv: DirectConvSpec) -> tuple[int, int]:
    """Pixels between two taps of a filter, which are also those between two outputs of a tile."""
    height, width = (d if taps > 1 else 1 for d, taps in zip(conv.dilations, conv.kernel, strict=True))
    return height, width


def tiles_across(conv: DirectConvSpec, tile: int) -> tuple[int, int]:
    """How many tiles there are down and across; a dilation makes tiles of every so manieth pixel."""
    shape, steps = tile_shape(conv, tile), tap_steps(conv)
    down, across = (d * ceil_div(n, t * d) for n, t, d in zip(conv.out_size, shape, steps, strict=True))
    return down, across


class TileEmission:
    """A sized kernel on tiles of outputs, `tile` of them along each axis of the filter."""

    def __init__(self, k: KernelBuilder, conv: DirectConvSpec, tile: int) -> None:
        self.k, self.conv, self.size = k, conv, tile
        self.lanes, self.side, self.shape = k.target.lanes, window_side(conv, tile), tile_shape(conv, tile)
        self.across = tuple(k.size(count) for count in tiles_across(conv, tile))
        self.steps: list[Index] = [d if d == 1 else k.size(d) for d in tap_steps(conv)]
        self.image_size = k.size(conv.size[0]), k.size(conv.size[1])
        self.image_plane = k.size(conv.size[0] * conv.size[1] * self.lanes)
        self.image_kind = values.storage(conv.stored)
        self.zeros = k.stack(self.lanes)
        k.store(values.zero(vector(self.image_kind, self.lanes)), self.zeros, 0, self.image_kind)

    def place(self, tile: Index) -> tuple[Index, Index, Index]:
        """(image, first output row, first output column) of a tile."""
        image, *numbers = split_index(self.k, tile, [0, *self.across])
        row, column = (self._first_pixel(number, axis) for axis, number in enumerate(numbers))
        return image, row, column

    def _first_pixel(self, number: Index, axis: int) -> Index:
        """The first output of a tile by its number along an axis."""
        k, step, count = self.k, self.steps[axis], self.shape[axis]
        if isinstance(step, int):
            return k.mul(number, count)
        passed, within = k.b.udiv(k.i(number), step), k.b.urem(k.i(number), step)
        return k.add(k.mul(k.mul(passed, step), count), within)

    def within(self, first: Index, count: int, size: Index, step: Index = 1) -> list[ir.Value]:
        """Whether first + i step is in range(size), for each i < count."""
        k = self.k
        places = (k.i(k.add(first, k.mul(step, i))) for i in range(count))
        return [k.b.icmp_unsigned("<", place, k.i(size)) for place in places]

    def vector(self, pointer: ir.Value, offset: Index) -> ir.Value:
        """f32 values of a block of channels."""
        return self.k.load(pointer, offset, lanes=self.lanes)

    def pixel(self, pointer: ir.Value, offset: Index) -> ir.Value:
        """One pixel of a block of channels, as the image holds it."""
        return self.k.load(pointer, offset, self.image_kind, self.lanes)

    def image_at(self, image: ir.Value, offset: Index) -> ir.Value:
        """The address of an element of an image."""
        return self.k.gep(image, offset, self.image_kind)

    def scale(self, factor: float, x: ir.Value, y: ir.Value) -> ir.Value:
        """factor * x + y."""
        return self.k.fma(x, self.k.splat(factor, self.lanes), y)

    def window(
        self, image: ir.Value, size: tuple[Index, Index], first: tuple[Index, Index], side: int
    ) -> list[list[ir.Value]]:
        """Addresses of the pixels of a square window of one block of an image, row by row.

        Elements outside the image are read from zeros, without branches, as small images are all border.
        """
        k, lanes, width = self.k, self.lanes, size[1]
        corner = self.image_at(image, k.mul(k.add(k.mul(first[0], width), first[1]), lanes))
        down, across = k.mul(k.mul(width, lanes), self.steps[0]), k.mul(lanes, self.steps[1])
        rows, columns = (
            self.within(at, side, n, step) for at, n, step in zip(first, size, self.steps, strict=True)
        )
        lines = [self.image_at(corner, k.mul(down, r)) for r in range(side)]
        return [
            [
                k.b.select(k.b.and_(row, column), self.image_at(line, k.mul(across, c)), self.zeros)
                for c, column in enumerate(columns)
            ]
            for row, line in zip(rows, lines, strict=True)
        ]

    def input_tile(self, x: ir.Value, blocks: Index, channel: Index, tile: Index) -> list[ir.Value]:
        """B^T d B of a tile of block `channel` of `blocks`, row by row."""
        k, conv, side = self.k, self.conv, self.side
        image, row, column = self.place(tile)
        block = k.add(k.mul(image, blocks), channel)
        source = self.image_at(x, k.mul(block, self.image_plane))
        step = conv.strides[0]
        first = (k.add(k.mul(row, step), -conv.pads[0]), k.add(k.mul(column, step), -conv.pads[1]))
        places = self.window(source, self.image_size, first, side)
        # Columns first, then rows; a column of the result is a row of points.
        half: list[list[ir.Value]] = []
        for c in range(side):
            pixels = [self.pixel(line[c], 0) for line in places]
            half.append(self.input_line([values.to_compute(k, p, conv.stored) for p in pixels]))
        return [v for r in range(side) for v in self.input_line([half[c][r] for c in range(side)])]

    def input_line(self, d: Sequence[ir.Value]) -> list[ir.Value]:
        """B^T d."""
        add, sub = self.k.b.fadd, self.k.b.fsub
        if self.size == 2:
            return [sub(d[0], d[2]), add(d[1], d[2]), sub(d[2], d[1]), sub(d[3], d[1])]
        first = self.scale(-2.5, d[2], add(d[0], d[4]))
        last = self.scale(-2.5, d[3], add(d[1], d[5]))
        even_a, odd_a = self.scale(-2.0, d[2], d[4]), self.scale(-2.0, d[1], d[3])
        even_b, odd_b = self.scale(-0.5, d[2], d[4]), self.scale(-0.5, d[1], d[3])
        return [
            first,
            self.scale(A, odd_a, even_a),
            self.scale(-A, odd_a, even_a),
            self.scale(B, odd_b, even_b),
            self.scale(-B, odd_b, even_b),
            last,
        ]
