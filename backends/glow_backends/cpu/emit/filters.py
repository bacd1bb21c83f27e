"""Filters: the orders of their axes, and the orders that the blocked convolutions read."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from glow_backends.cpu.emit.memory import ceil_div
from glow_backends.cpu.emit.winograd_line import line_filter
from glow_dialects.core.blocks import pad_to
from glow_dialects.core.types import Array

FORMS = ("OIHW", "OHWI", "IOHW", "IHWO")
"""Orders of a filter's axes. With the inputs first it is read reversed: the adjoint's filter."""

FILTER = {
    # G: rows are 1, p, p^2 over the product of differences of point p from the others.
    4: np.array(
        [[1, 0, 0]]
        + [[1 / -1.5, p / -1.5, 0.5 / -1.5] for p in (0.5**0.5, -(0.5**0.5))]
        + [[1 / 6, p / 6, 2 / 6] for p in (2**0.5, -(2**0.5))]
        + [[0, 0, 1]]
    ),
    2: np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]),
}
"""The filter transform of Winograd tiles of 4 x 4 and 2 x 2 outputs."""

C, D = 0.5, 1.25
"""The points of 4 x 4 tiles of stride 2 are +-C, +-D and infinity: of those tried the least error."""
STRIDED_FILTER = np.array(
    [
        [1 / n, 0, p / n]
        for p, n in ((s * p, s * 2 * p * (p**2 - q**2)) for p, q in ((C, D), (D, C)) for s in (1, -1))
    ]
    + [[0, 0, 1], [0, 1, 0]]
)
"""Their filter transform: that of the first and last tap, then the middle tap."""


def sizes_of(shape: tuple[int, ...], form: str) -> tuple[int, int, tuple[int, int]]:
    """(output channels, input channels, kernel) of a filter of four axes."""
    size = dict(zip(form, shape, strict=True))
    return size["O"], size["I"], (size["H"], size["W"])


def plain_filter(array: Array, form: str) -> Array:
    """The OIHW filter that an array of some form stands for."""
    turned = array.transpose([form.index(axis) for axis in "OIHW"])
    return turned[:, :, ::-1, ::-1] if form[0] == "I" else turned


def pack_filter(weights: Array, lanes: int, width: int, tile: int = 0, stride: int = 1) -> Array:
    """OIHW to (K / width, C / lanes, R, S, lanes, width), channels padded with zeros.

    With a Winograd tile (4 or 2) to transformed (xi, K / width, C / lanes, lanes, width).
    """
    padded = pad_to(pad_to(weights, 0, width), 1, lanes)
    k, c, r, s = padded.shape
    parts = padded.reshape(k // width, width, c // lanes, lanes, r, s)
    if not tile:
        return np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 3, 1))
    # vec(G w G^T) = kron(G, G) vec(w), in float64, rounded once. A few numbers at a time stay in the
    # cache, and one thread has them: BLAS wakes others for larger products, which then wait for more.
    if r == s == 3:
        line = FILTER[tile] if stride == 1 else STRIDED_FILTER
    else:
        line = line_filter(max(r, s), tile)
    matrix = np.kron(line, line) if r == s else line
    packed = np.empty((len(matrix), k // width, c // lanes, lanes, width), np.float32)
    for panel, block in np.ndindex(k // width, c // lanes):
        taps = np.ascontiguousarray(parts[panel, :, block].transpose(2, 3, 1, 0), np.float64)
        packed[:, panel, block] = (matrix @ taps.reshape(r * s, -1)).reshape(-1, lanes, width)
    return packed


@dataclass(frozen=True)
class FilterPackSpec:
    """`pack_filter` of a filter of a form, f32; `lanes` is 1 for convolutions of plain images.

    Operands: packed, filter. Input channels that fill up the last block are not written.
    """

    out_channels: int
    in_channels: int
    kernel: tuple[int, int]
    form: str
    lanes: int
    width: int
    tile: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the packed filter."""
        filters, blocks = ceil_div(self.out_channels, self.width), ceil_div(self.in_channels, self.lanes)
        if self.tile:
            return ((self.tile + 2) ** 2, filters, blocks, self.lanes, self.width)
        return (filters, blocks, *self.kernel, self.lanes, self.width)

    @property
    def strides(self) -> tuple[int, int, int]:
        """Elements of the filter between output channels, input channels and taps."""
        step, strides = 1, dict[str, int]()
        taps = prod(self.kernel)
        sizes = {"O": self.out_channels, "I": self.in_channels, "H": taps, "W": 1}
        for axis in reversed(self.form):
            strides[axis] = step
            step *= sizes[axis]
        return strides["O"], strides["I"], strides["H"]
