"""Common parts of blocked convolutions: their spec, and which filter taps lie inside the image."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from glow_backends.cpu.calls import dtype_name, shape
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.filters import sizes_of
from glow_backends.cpu.emit.memory import Index, ceil_div, maximum, minimum
from glow_backends.cpu.emit.register_blocks import cut_alike, may_overlap
from glow_backends.cpu.emit.windows import pair, window
from glow_backends.cpu.kernel import inplace, kept
from glow_backends.cpu.ops.layers import ConvOp
from glow_backends.cpu.steps import steps_of
from glow_dialects.ops.conv import ConvOp as PlainConvOp


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
        sizes = [
            (self.size[d] + self.pads[d] + self.pads[d + 2] - self.dilations[d] * (r - 1) - 1)
            // self.strides[d]
            + 1
            for d, r in enumerate(self.kernel)
        ]
        return sizes[0], sizes[1]

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


@dataclass(frozen=True)
class TileRun:
    """Tiles [start, stop) of a row, of `rows` pixels each, that read the same filter columns.

    `columns`: for each filter column the half-open range of the tile's pixels inside the image;
    None when all are. A tile begins at pixel `last` at the latest.
    """

    start: int
    stop: int
    rows: int
    columns: tuple[tuple[int, int], ...] | None
    last: int


def last_pixel(spec: DirectConvSpec, rows: int) -> int:
    """Where the last tile of a row begins at the latest."""
    width = spec.out_size[1]
    return width if spec.epilogue.inplace or not may_overlap(width, rows) else width - rows


def tile_runs(spec: DirectConvSpec, rows: int, last: int) -> tuple[TileRun, ...]:
    """The tiles of an output row in runs of the same kind, `rows` pixels in each full tile.

    The last tile begins at pixel `last` at the latest.
    """
    out_width = spec.out_size[1]
    runs: list[TileRun] = []
    if spec.kernel[1] == 1 and not (spec.pads[1] or spec.pads[3]) and last + rows <= out_width:
        return (TileRun(0, ceil_div(out_width, rows), rows, None, last),)  # the usual case, and a long row
    tiles, inner = ceil_div(out_width, rows), _inner_tiles(spec, rows, last)
    for tile in (*range(inner.start), *inner[:1], *range(inner.stop, tiles)):
        pixel = min(tile * rows, last)
        count = min(rows, out_width - pixel)
        columns = columns_inside(spec, pixel, count)
        stop = inner.stop if tile in inner else tile + 1
        if runs and (runs[-1].rows, runs[-1].columns) == (count, columns):
            runs[-1] = replace(runs[-1], stop=stop)
        else:
            runs.append(TileRun(tile, stop, count, columns, last))
    return tuple(runs)


def alike_runs(width: int, rows: int) -> tuple[TileRun, ...]:
    """The tiles of a row of `width` pixels, no filter column of which is outside, as `cut_alike` has them."""
    return tuple(TileRun(r.start, r.stop, r.rows, None, r.last) for r in cut_alike(width, rows))


def columns_inside(spec: DirectConvSpec, pixel: int, count: int) -> tuple[tuple[int, int], ...] | None:
    """`TileRun.columns` for `count` pixels from `pixel` on."""
    columns: list[tuple[int, int]] = []
    for s in range(spec.kernel[1]):
        first = pixel * spec.strides[1] - spec.pads[1] + s * spec.dilations[1]
        low = min(max(0, ceil_div(-first, spec.strides[1])), count)
        high = max(min(count, ceil_div(spec.size[1] - first, spec.strides[1])), low)
        columns.append((low, high) if low < high else (0, 0))
    return None if all(c == (0, count) for c in columns) else tuple(columns)


def _inner_tiles(spec: DirectConvSpec, rows: int, last: int) -> range:
    """The tiles of `rows` pixels, one behind the other, all of whose filter columns are inside the image."""
    stride, reach = spec.strides[1], (spec.kernel[1] - 1) * spec.dilations[1]
    tiles = ceil_div(spec.out_size[1], rows)
    start = min(ceil_div(ceil_div(spec.pads[1], stride), rows), tiles)
    inside = (spec.size[1] - 1 + spec.pads[1] - reach) // stride + 1  # pixels up to the last such one
    return range(start, max(start, min(inside, spec.out_size[1], last + rows) // rows))


def filter_rows(k: KernelBuilder, spec: DirectConvSpec, row: Index) -> tuple[Index, Index]:
    """The filter rows [low, high) inside the image for an output row, in a sized kernel."""
    height, count, dilation = spec.size[0], spec.kernel[0], spec.dilations[0]
    reach = (spec.out_size[0] - 1) * spec.strides[0] - spec.pads[0] + (count - 1) * dilation
    if spec.pads[0] == 0 and reach < height:
        return 0, count
    top = k.b.sub(k.i(spec.pads[0]), k.i(k.mul(row, spec.strides[0])))
    before = maximum(k, k.add(top, dilation - 1), 0)
    inside = maximum(k, k.add(top, k.size(height - 1 + dilation)), 0)
    if dilation > 1:
        before = k.b.udiv(k.i(before), k.i(dilation))
        inside = k.b.udiv(k.i(inside), k.i(dilation))
    high = minimum(k, inside, count)
    return minimum(k, before, high), high


@kept
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
            steps=steps_of(op.properties["steps"]),
            inplace=inplace(op.result, op.extras),
        ),
        stored=dtype_name(op.result),
    )


@kept
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
