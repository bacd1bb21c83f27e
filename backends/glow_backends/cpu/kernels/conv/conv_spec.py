"""Common parts of blocked convolutions: their spec, and the filter taps inside the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from glow_backends.cpu.calls import dtype_name, shape
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.filters import sizes_of
from glow_backends.cpu.emit.memory import Index, ceil_div, maximum, minimum
from glow_backends.cpu.emit.open_blocks import cut_open
from glow_backends.cpu.emit.register_blocks import may_overlap
from glow_backends.cpu.emit.row_runs import cut_alike
from glow_backends.cpu.emit.tile_runs import Row, TileRun, run_kinds, run_numbers
from glow_backends.cpu.emit.windows import pair, window
from glow_backends.cpu.fused_body import program_of
from glow_backends.cpu.kernel import inplace, once_per_operation
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp
from glow_dialects.core.errors import OpenSizes
from glow_dialects.core.estimates import estimate, usually
from glow_dialects.core.extent import Extent, computed
from glow_dialects.ops.conv import ConvOp as PlainConvOp
from glow_dialects.ops.windows import output_sizes


@dataclass(frozen=True)
class DirectConvSpec:
    """y = steps(conv(x, w) + bias), computed in f32.

    x is (N, C / c, H, W, c), channels padded with zeros to a multiple of c = target.lanes; with
    `plain_input` it is (N, C, H, W), which suits few channels. y and the extras are
    (N, K / c, OH, OW, c), bias (K padded to c); w is what `pack_conv` made of (K, C/g, R, S).
    `stored`: the elements of y, of the extras and of a blocked x in memory (f32, f16, bf16).
    `uneven`: weights may lie in register blocks of two sizes, which only `pack_conv` can do.
    Operands: y, x, w, [bias], [extras].
    """

    batch: int
    in_channels: int
    out_channels: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    group: int = 1
    plain_input: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)
    stored: str = "f32"
    uneven: bool = False

    @property
    def out_size(self) -> tuple[int, int]:
        """(OH, OW)."""
        height, width = output_sizes(self.size, self.kernel, self.strides, self.pads, self.dilations)
        return height, width

    @property
    def row(self) -> Row:
        """A row of the image, and how the filter passes over it."""
        return Row(
            self.size[1], self.kernel[1], self.strides[1], self.pads[1], self.pads[3], self.dilations[1]
        )

    @property
    def flops(self) -> int:
        """Products and sums."""
        taps = prod(self.kernel) * self.in_channels // self.group
        return 2 * prod((self.batch, *self.out_size)) * self.out_channels * taps

    @property
    def line(self) -> bool:
        """Whether the filter is one row or one column."""
        return min(self.kernel) == 1 < max(self.kernel)

    def whole_groups(self, lanes: int) -> bool:
        """Whether every group has whole blocks of input and output channels."""
        counts = (self.in_channels // self.group, self.out_channels // self.group)
        return self.group == 1 or not any(count % lanes for count in counts)


def last_pixel(spec: DirectConvSpec, rows: int) -> int:
    """Where the last tile of a row begins at the latest."""
    width = spec.out_size[1]
    return width if spec.epilogue.inplace or not may_overlap(width, rows) else width - rows


def open_runs(spec: DirectConvSpec, rows: int, ends: Sequence[int] = ()) -> tuple[TileRun, ...]:
    """As `tile_runs`, for rows of pixels whose number the run tells: all that may occur, some of them empty.

    The last tile has the least number of the `ends` that is enough, or `rows`, and begins early enough
    to end with the row.
    """
    size, out, stride = spec.size[1], spec.out_size[1], spec.strides[1]
    outside = ceil_div(max(0, spec.pads[3]), stride)
    alone = estimate(out) < rows + outside  # a tile may be at both ends of a row
    assert out >= rows + (0 if alone else outside), "rows are those of a usual size"
    phase = estimate(size) % stride
    if stride <= _PHASES or not usually((size - phase) % stride, "==", 0):
        phase = -1
    numbers_of_row = spec.kernel[1], stride, spec.pads[1], spec.pads[3], spec.dilations[1]
    more = 0 if alone else outside
    cut = (*numbers_of_row, rows, more, phase, *(end for end in ends if end < rows))
    kinds, numbers = run_kinds(*cut), computed(run_numbers, size, *cut)
    if len(kinds) > _MOST_KINDS:
        raise OpenSizes("a convolution's rows end in too many ways")
    thirds = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    return tuple(
        TileRun(start, stop, count, columns, last, once=spec.epilogue.inplace)
        for (start, stop, last), (count, columns) in zip(thirds, kinds, strict=True)
    )


_PHASES = 2
"""Strides that rows of all sizes share code for: what is outside the image depends on what they leave."""
_MOST_KINDS = 24
"""Kinds of runs of a kernel, each of which is code of its own."""


def alike_runs(width: int, rows: int, once: bool = False) -> tuple[TileRun, ...]:
    """The tiles of a row of `width` pixels, no filter column of which is outside, as `cut_alike` has them."""
    runs = cut_open(width, rows, once) if isinstance(width, Extent) else cut_alike(width, rows)
    return tuple(TileRun(r.start, r.stop, r.rows, None, r.last) for r in runs)


def filter_rows(k: KernelBuilder, spec: DirectConvSpec, row: Index) -> tuple[Index, Index]:
    """The filter rows [low, high) inside the image for an output row, in a sized kernel."""
    height, count, dilation = spec.size[0], spec.kernel[0], spec.dilations[0]
    reach = (spec.out_size[0] - 1) * spec.strides[0] - spec.pads[0] + (count - 1) * dilation
    if spec.pads[0] == 0 and (spec.pads[2] == 0 or (not isinstance(height, Extent) and reach < height)):
        return 0, count
    top = k.b.sub(k.i(spec.pads[0]), k.i(k.mul(row, spec.strides[0])))
    before = maximum(k, k.add(top, dilation - 1), 0)
    inside = maximum(k, k.add(top, k.size(height - 1 + dilation)), 0)
    if dilation > 1:
        before = k.b.udiv(k.i(before), k.i(dilation))
        inside = k.b.udiv(k.i(inside), k.i(dilation))
    high = minimum(k, inside, count)
    return minimum(k, before, high), high


@once_per_operation
def conv_spec(op: ConvOp) -> DirectConvSpec:
    """The convolution of a `glow_cpu.conv` node or instruction."""
    size = shape(op.input)
    out, inner, kernel = sizes_of(shape(op.filter), op.form)
    return DirectConvSpec(
        batch=size[0],
        in_channels=inner * op.group,
        out_channels=out,
        size=(size[2], size[3]),
        kernel=kernel,
        **window(op.strides, op.pads, op.dilations),
        group=op.group,
        plain_input=len(size) == 4,
        epilogue=Epilogue(
            bias=op.bias is not None,
            program=program_of(op.body),
            inplace=inplace(op.result, op.extras),
        ),
        stored=dtype_name(op.result),
    )


@once_per_operation
def plain_conv_spec(op: PlainConvOp) -> DirectConvSpec:
    """The spec of a convolution of one or two spatial axes on blocks."""
    batch, channels, size = op.sizes(op.input)
    out, _, kernel = op.sizes(op.filter)
    return DirectConvSpec(
        batch,
        channels,
        out,
        pair(size, 1),
        pair(kernel, 1),
        **window(op.strides, op.pads, op.dilations),
        group=op.group,
        stored=dtype_name(op.input),
    )
