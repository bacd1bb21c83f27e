"""How a direct convolution is cut: register block, rows and tiles of an item of work, chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import prod

from glow_backends.cpu.emit.memory import ceil_div
from glow_backends.cpu.emit.register_blocks import (
    Block,
    choose_block,
    even_tiles,
    fits,
    may_overlap,
    shared_block,
)
from glow_backends.cpu.emit.tile_runs import TileRun, tile_runs
from glow_backends.cpu.kernels.conv.conv_spec import (
    DirectConvSpec,
    alike_runs,
    last_pixel,
    open_runs,
)
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import Extent

_MANY_WEIGHTS = 4
"""Weights of a block, as a multiple of L1, from which on every tile waits for all of them."""


@dataclass(frozen=True)
class ConvPlan:
    """How a convolution is cut; `spec` is the given one with a 1x1 image flattened to one row.

    Groups that share blocks of channels are taken together (`groups` is 1 then); `bands` has the
    first input block, the number of full ones and of partial ones that each block of output
    channels reads. With `images_inside` a block of output channels takes all images before the next.
    A tile has the pixels of `lines` rows.
    """

    spec: DirectConvSpec
    block: Block
    groups: int
    in_blocks: int
    in_rest: int
    out_blocks: int
    runs: tuple[TileRun, ...]
    #: Tiles of a row.
    tiles: int
    rows_an_item: int
    tiles_an_item: int
    bands: tuple[tuple[int, int, int], ...] = ()
    images_inside: bool = False
    lines: int = 1
    chunk: int = 0
    first: int = 0
    count: int = 0
    rest: ConvPlan | None = None

    @property
    def filters(self) -> int:
        """Register blocks that the output channels of a group make."""
        return self.count // self.block.vectors

    @property
    def tiles_inside(self) -> int:
        """Tiles of an item of work."""
        return ceil_div(self.rows_an_item, self.lines) * self.tiles_an_item

    @property
    def tile_sums(self) -> int:
        """Vectors of sums of a tile."""
        return self.lines * self.block.rows * self.block.vectors

    @property
    def depth_blocks(self) -> int:
        """Input blocks that the weights of a block of output channels stand for."""
        if self.bands:
            return max(full + rest for _, full, rest in self.bands)
        return self.in_blocks + (self.in_rest > 0)


_WORTH = 0.95
"""Two register blocks are more code: they have to save as much."""


def bands_of(spec: DirectConvSpec, width: int, lanes: int) -> tuple[tuple[int, int, int], ...]:
    """(first block, full blocks, partial blocks) of the inputs of each `width` output channels."""
    rows, columns = spec.in_channels // spec.group, spec.out_channels // spec.group
    whole = spec.in_channels // lanes
    bands: list[tuple[int, int, int]] = []
    for first in range(0, spec.out_channels, width):
        last = min(first + width, spec.out_channels) - 1
        low = first // columns * rows // lanes
        high = ceil_div((last // columns + 1) * rows, lanes)
        bands.append((low, min(high, whole) - low, int(high > whole)))
    return tuple(bands)


def _banded_block(spec: DirectConvSpec, rows: int, outputs: int, target: CpuTarget) -> Block:
    """The register block with the least estimated cycles where blocks read bands of the input."""
    best, least = Block(1, 1), float("inf")
    for vectors in (v for v in range(1, 5) if outputs % v == 0):
        reads = sum(a + b for _, a, b in bands_of(spec, vectors * target.lanes, target.lanes))
        limit = max(r for r in range(1, 33) if fits(Block(r, vectors), target))
        size, full, rest = even_tiles(rows, limit)
        cycles = full * Block(size, vectors).cycles() + (Block(rest, vectors).cycles() if rest else 0)
        if reads * cycles < least:
            best, least = Block(size, vectors), reads * cycles
    return best


def _row_pair(rows: int, outputs: int, single: Block, target: CpuTarget) -> Block | None:
    """The register block of two whole rows of pixels in which half of them costs less than in `single`."""
    blocks = [Block(2 * rows, v) for v in range(1, 5) if outputs % v == 0]
    costs = {b: b.cycles() / b.vectors for b in blocks if fits(b, target)}
    size, full, rest = even_tiles(rows, single.rows)
    alone = full * Block(size, single.vectors).cycles()
    alone += Block(rest, single.vectors).cycles() if rest else 0.0
    best = min(costs, key=lambda b: costs[b], default=None)
    return best if best is not None and costs[best] < 2 * alone / single.vectors else None


def lying(spec: DirectConvSpec) -> DirectConvSpec:
    """A convolution along a column of pixels, which has the same memory as one along a row."""
    top, _, bottom, _ = spec.pads
    return replace(
        spec,
        size=spec.size[::-1],
        kernel=spec.kernel[::-1],
        strides=spec.strides[::-1],
        pads=(0, top, 0, bottom),
        dilations=spec.dilations[::-1],
    )


def plan_conv(spec: DirectConvSpec, target: CpuTarget) -> ConvPlan:
    """Choose the register block and how many rows and tiles one item of work has: for the usual sizes."""
    if spec.kernel == (1, 1) and spec.strides == (1, 1) and not any(spec.pads):
        spec = replace(spec, size=(1, prod(spec.size)))
    if spec.size[1] == 1 and spec.kernel[1] == 1 and not (spec.pads[1] or spec.pads[3]):
        spec = lying(spec)
    usual = estimate(spec)
    plan = _planned(usual, target)
    return plan if usual is spec else _opened(plan, spec)


def _opened(plan: ConvPlan, spec: DirectConvSpec) -> ConvPlan:
    """The plan for any size: with tiles of a row that suit any number of pixels."""
    rest, width, rows = plan.rest and _opened(plan.rest, spec), spec.out_size[1], plan.block.rows
    if not isinstance(width, Extent):
        return replace(plan, spec=spec, rest=rest)
    if not (spec.pads[1] or spec.pads[3]):
        assert width >= rows, "rows are those of a usual size"
        runs = alike_runs(width, rows, spec.epilogue.inplace)
        tiles = runs[-1].stop
    else:
        runs, tiles = open_runs(spec, rows, _ENDS), ceil_div(width, rows)
    return replace(plan, spec=spec, rest=rest, runs=runs, tiles=tiles)


_ENDS = (4, 8)
"""Pixels of the last tile of a row, where that is not as long as the others and the run tells how many."""


@cache
def _planned(spec: DirectConvSpec, target: CpuTarget) -> ConvPlan:
    """The plan for known sizes."""
    lanes = target.lanes
    banded = not spec.whole_groups(lanes)
    groups = 1 if banded else spec.group
    inputs, outputs = spec.in_channels // groups, ceil_div(spec.out_channels // groups, lanes)
    in_blocks, in_rest = (inputs, 0) if spec.plain_input else divmod(inputs, lanes)
    base = ConvPlan(spec, Block(1, 1), groups, in_blocks, in_rest, outputs, (), 0, 0, 0)
    whole = (
        _whole_blocks(spec.out_size[1], outputs, target)
        if spec.uneven and groups == 1 and not banded
        else outputs
    )
    plan = _cut(base, 0, whole, target, banded)
    return plan if whole == outputs else replace(plan, rest=_cut(base, whole, outputs - whole, target, False))


def _whole_blocks(rows: int, outputs: int, target: CpuTarget) -> int:
    """How many blocks of output channels take the first register block, where the rest gets another one."""

    def cycles(count: int) -> float:
        block = choose_block(rows, count, target, whole=True)
        size, full, rest = even_tiles(rows, block.rows)
        tiles = full * Block(size, block.vectors).cycles()
        tiles += Block(rest, block.vectors).cycles() if rest else 0.0
        return count // block.vectors * tiles

    best = min(range(1, outputs), key=lambda count: cycles(count) + cycles(outputs - count), default=outputs)
    together = cycles(outputs)
    return best if best < outputs and cycles(best) + cycles(outputs - best) < _WORTH * together else outputs


def _cut(base: ConvPlan, first: int, outputs: int, target: CpuTarget, banded: bool) -> ConvPlan:
    """The plan of `outputs` blocks of output channels from `first` on."""
    spec, groups, lanes = base.spec, base.groups, target.lanes
    height, width = spec.out_size
    shared = None
    if not banded and spec.kernel[1] == 1 and not (spec.pads[1] or spec.pads[3] or spec.epilogue.inplace):
        shared = shared_block(width, outputs, target, whole=True)
    alike = shared is not None and not may_overlap(width, shared.rows)
    if banded:
        block = _banded_block(spec, width, outputs, target)
    else:
        block = shared or choose_block(width, outputs, target, whole=True)
    lines = 1
    # The filter rows of a pair are three loops a block of channels: too many for blocks of one.
    single = banded or height == 1 or spec.plain_input
    pair = None if single else _row_pair(width, outputs, block, target)
    if pair is not None:
        alike, block, lines = False, Block(width, pair.vectors), 2
    last = last_pixel(spec, block.rows)
    runs = alike_runs(width, block.rows) if alike else tile_runs(spec.row, block.rows, last)
    tiles = runs[-1].stop
    # An item's pixels of all input channels stay in L2 while the weights pass, which stay there if they can.
    room = target.l2 // 8 if _weight_bytes(spec) <= target.l2 // 2 else target.l2 // 2
    pixels = room // (4 * spec.in_channels // groups * prod(spec.strides))
    tiles_an_item = min(tiles, max(1, pixels // block.rows))
    rows_an_item = min(height, max(1, pixels // width))
    if target.threads > 1:
        others = spec.batch * groups * (outputs // block.vectors)
        wanted = ceil_div(4 * target.threads, others)
        rows_an_item = min(rows_an_item, max(1, height // wanted))
        if height < wanted:
            tiles_an_item = min(tiles_an_item, max(1, tiles * height // wanted))
    return replace(
        base,
        block=block,
        runs=runs,
        tiles=tiles,
        rows_an_item=rows_an_item,
        tiles_an_item=tiles_an_item,
        bands=bands_of(spec, block.vectors * lanes, lanes) if banded else (),
        images_inside=_images_inside(spec, groups * outputs // block.vectors, target),
        lines=lines,
        first=first,
        count=outputs,
    )


def in_chunks(plan: ConvPlan, target: CpuTarget) -> ConvPlan:
    """The plan with chunks of input blocks, where few tiles share many weights."""
    sums = 4 * plan.tiles_inside * plan.tile_sums * target.lanes
    weights = 4 * prod(plan.spec.kernel) * plan.block.vectors * target.lanes**2
    if plan.bands or plan.in_rest or plan.tiles_inside == 1 or sums > target.l1 // 4:
        return plan
    if plan.in_blocks * weights < _MANY_WEIGHTS * target.l1:
        return plan
    chunks = ceil_div(plan.in_blocks, max(1, target.l1 // 2 // weights))
    return replace(plan, chunk=ceil_div(plan.in_blocks, chunks))


def _weight_bytes(spec: DirectConvSpec) -> int:
    """Bytes of all weights."""
    return 4 * spec.out_channels * spec.in_channels // spec.group * prod(spec.kernel)


def _images_inside(spec: DirectConvSpec, filters: int, target: CpuTarget) -> bool:
    """Whether all images pass before the next of `filters` blocks of output channels.

    Otherwise all weights pass for each image, which is more memory where images are small or stay in
    the cache.
    """
    weights = _weight_bytes(spec)
    image = 4 * spec.in_channels // spec.group * prod(spec.size)
    if spec.batch == 1 or weights < target.l2 // 2:
        return False
    passes = 1 if spec.batch * image <= target.l2 // 2 else filters  # how often the images come from memory
    return weights + passes * spec.batch * image < spec.batch * weights
