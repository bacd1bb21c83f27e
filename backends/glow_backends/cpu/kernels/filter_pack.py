"""Filters that change at run time, brought into the order that the blocked convolutions read.

Compile-time filters are packed by the same functions in NumPy; here a kernel does it at every run,
the Winograd transform included. A filter may also stand for the adjoint convolution's (channels
exchanged, taps reversed), whose plain form is then never made.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.builder import KernelBuilder
from glow_backends.cpu.kernels.memory import (
    Index,
    ceil_div,
    load_first,
    load_strided,
    minimum,
    split_index,
    transpose,
)
from glow_backends.cpu.kernels.packing import pad_to
from glow_backends.cpu.kernels.winograd_line import line_filter
from glow_backends.cpu.target import CpuTarget
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
    made = np.empty((len(matrix), k // width, c // lanes, lanes, width), np.float32)
    for panel, block in np.ndindex(k // width, c // lanes):
        taps = np.ascontiguousarray(parts[panel, :, block].transpose(2, 3, 1, 0), np.float64)
        made[:, panel, block] = (matrix @ taps.reshape(r * s, -1)).reshape(-1, lanes, width)
    return made


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
        step, found = 1, dict[str, int]()
        taps = prod(self.kernel)
        sizes = {"O": self.out_channels, "I": self.in_channels, "H": taps, "W": 1}
        for axis in reversed(self.form):
            found[axis] = step
            step *= sizes[axis]
        return found["O"], found["I"], found["H"]


class FilterTaps:
    """Vectors of a filter's taps, read in any form, and their Winograd transform."""

    def __init__(self, k: KernelBuilder, spec: FilterPackSpec, filters: ir.Value) -> None:
        self.k, self.spec, self.filter, self.vector = k, spec, filters, k.target.lanes
        self.taps = prod(spec.kernel)

    def read(self, first: Index, channel: Index) -> list[ir.Value]:
        """The taps of output channels `first` and following (the last one repeated) and one input."""
        k, spec, lanes = self.k, self.spec, self.vector
        out, inner, tap = spec.strides
        base = k.gep(self.filter, k.mul(channel, inner))
        whole = spec.out_channels % spec.width == 0
        taps: list[ir.Value] = []
        if whole and tap != 1:
            at = k.mul(first, out)
            taps = [
                load_strided(k, base, k.add(at, t * tap), out, lanes, ir.FloatType())
                for t in range(self.taps)
            ]
        else:
            limit = spec.out_channels - 1
            rows = [k.add(first, lane) for lane in range(lanes)]
            rows = [k.mul(row if whole else minimum(k, row, limit), out) for row in rows]
            for begin in range(0, self.taps, lanes):
                live = min(lanes, self.taps - begin)
                taps += self._square(base, rows, begin, live)
        return taps[::-1] if spec.form[0] == "I" else taps

    def _square(self, base: ir.Value, rows: list[Index], begin: int, live: int) -> list[ir.Value]:
        """Taps [begin, begin + live) of the rows, each a vector over the rows."""
        k, lanes, tap = self.k, self.vector, self.spec.strides[2]
        if tap == 1:
            read = [load_first(k, base, k.add(row, begin), lanes, live) for row in rows]
            return transpose(k, read)[:live]
        taps: list[ir.Value] = []
        for t in range(begin, begin + live):
            value: ir.Value = ir.Constant(ir.VectorType(ir.FloatType(), lanes), ir.Undefined)
            for lane, row in enumerate(rows):
                element = k.load(base, k.add(row, t * tap))
                value = k.b.insert_element(value, element, ir.Constant(ir.IntType(32), lane))
            taps.append(value)
        return taps

    def transformed(self, taps: list[ir.Value]) -> list[ir.Value]:
        """G w G^T."""
        half = [self._line(taps[c::3]) for c in range(3)]
        return [value for r in range(len(half[0])) for value in self._line([half[c][r] for c in range(3)])]

    def _line(self, w: list[ir.Value]) -> list[ir.Value]:
        """G w."""
        k, lanes = self.k, self.vector
        made: list[ir.Value] = []
        for row in FILTER[self.spec.tile]:
            total: ir.Value | None = None
            for factor, value in zip(row.tolist(), w, strict=True):
                if factor:
                    scale = k.splat(float(factor), lanes)
                    if total is None:
                        total = value if factor == 1 else k.b.fmul(value, scale)
                    else:
                        total = k.fma(value, scale, total)
            assert total is not None
            made.append(total)
        return made

    def emit(self, packed: ir.Value) -> None:
        """A vector of output channels and one input channel after another."""
        k, spec = self.k, self.spec
        filters, blocks = ceil_div(spec.out_channels, spec.width), ceil_div(spec.in_channels, spec.lanes)
        vectors = spec.width // self.vector
        low, high = k.share(filters * vectors * blocks)
        with k.loop(low, high) as item:
            output, vector, block = split_index(k, item, [filters, vectors, blocks])
            own = k.mul(k.add(k.mul(output, vectors), vector), self.vector)
            first = k.mul(block, spec.lanes)
            last = minimum(k, k.add(first, spec.lanes), spec.in_channels)
            with k.loop(first, last) as channel:
                values = self.read(own, channel)
                inside = k.mul(k.b.sub(channel, k.i(first)), spec.width)
                at = k.add(inside, k.mul(vector, self.vector))
                size, tile = spec.lanes * spec.width, spec.tile
                if tile:
                    at = k.add(at, k.index((output, blocks * size), (block, size)))
                    step, values = filters * blocks * size, self.transformed(values)
                else:
                    at = k.add(at, k.index((output, blocks * self.taps * size), (block, self.taps * size)))
                    step = size
                for i, value in enumerate(values):
                    k.store(value, packed, k.add(at, i * step))


def emit_filter_pack(module: ir.Module, name: str, spec: FilterPackSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(packed, filter, worker)` of a spec."""
    assert spec.form in FORMS and spec.width % target.lanes == 0
    k = KernelBuilder(module, name, 2, target)
    packed, filters = k.operands
    FilterTaps(k, spec, filters).emit(packed)
    return k.finish()
