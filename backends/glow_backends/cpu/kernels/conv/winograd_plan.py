"""How a Winograd convolution is cut: its tiles, their blocks, the register block of its products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from glow_backends.cpu.emit.filters import pack_filter
from glow_backends.cpu.emit.memory import ceil_div
from glow_backends.cpu.emit.register_blocks import ALIKE, Block, fits
from glow_backends.cpu.emit.winograd_line import line_tiles
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.winograd_order import LOW, NARROW, TileOrder, point_bits, tile_order
from glow_backends.cpu.kernels.conv.winograd_tiles import window_side
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import estimate


@dataclass(frozen=True)
class WinogradSpec:
    """A convolution of group 1 in tiles of `tile` x `tile` outputs, or `tile` of a line.

    Layouts are those of `DirectConvSpec`, with blocked input; w is what `pack_winograd` made.
    Operands: y, x, w, [bias], [extras], scratch of `winograd_scratch_bytes`.
    """

    conv: DirectConvSpec
    tile: int = 4

    @property
    def strided(self) -> bool:
        """Whether the stride is 2."""
        return self.conv.strides == (2, 2)

    @property
    def matrices(self) -> Sequence[tuple[int, int]]:
        """Numbers of matrices of the transformed filter, and of the points that have each of them."""
        if self.strided:
            return (25, 1), (10, 4), (1, 16)
        side = window_side(self.conv, self.tile)
        return ((side if self.conv.line else side**2, 1),)


def winograd_tiles(spec: DirectConvSpec) -> tuple[int, ...]:
    """The tiles in which a convolution can be taken: of 3x3 and stride 2 only those of 4 x 4."""
    if spec.group != 1 or spec.plain_input or spec.strides != (1, 1) != spec.dilations:
        return ()
    height, width = spec.kernel
    if spec.kernel == (3, 3):
        return {(1, 1): (2, 4), (2, 2): (4,)}.get(spec.strides, ())
    beside = [spec.pads[axis + side] for axis in (0, 1) for side in (0, 2) if spec.kernel[axis] == 1]
    if spec.strides != (1, 1) or any(beside) or not (spec.line or height == width > 1):
        return ()
    return line_tiles(max(spec.kernel), most=8 if spec.line else 6)


def supports_winograd(spec: DirectConvSpec, tile: int = 4) -> bool:
    """Whether a convolution can be taken in Winograd tiles of a size."""
    return tile in winograd_tiles(spec)


@dataclass(frozen=True)
class WinogradPlan:
    """`blocks` blocks of `tiles` tiles (a multiple of block.rows) cover all tiles in their `order`.

    Strides (elements) of V and M along xi keep those planes off each other's cache sets. The output
    channels of a block are taken in `parts`, so that several workers can share it; M holds one part.
    Several of the `points` xi may have the same one of the transformed filter's `matrices`.
    """

    block: Block
    order: TileOrder
    bits: tuple[int, ...]
    tiles: int
    blocks: int
    parts: int
    in_blocks: int
    out_blocks: int
    points: int
    matrices: int
    v_stride: int
    m_stride: int

    @property
    def filters(self) -> int:
        """Blocks of as many output channels as the register block has."""
        return self.out_blocks // self.block.vectors

    @property
    def rows(self) -> float:
        """Rows that the products of a point have, of all blocks, the average over the points."""
        return self.block.rows * _passes(_needed(self.order, self.bits), self.tiles, self.block.rows)

    @property
    def fewest_passes(self) -> int:
        """Over the weights of a point that some tiles leave out along one axis at most, in a block."""
        order, blocks = estimate(self.order), estimate(self.blocks)
        counts = (len(order.needed(kind)) for kind in {0, LOW, NARROW} & set(self.bits))
        return ceil_div(ceil_div(min(counts), blocks), self.block.rows)

    @property
    def scratch(self) -> int:
        """Scratch elements of one worker."""
        return self.points * (self.v_stride + self.m_stride)

    def spilled(self, target: CpuTarget) -> float:
        """Bytes of V and M that move between the L2 cache and the levels behind it."""
        return self.blocks * _spilled(4 * self.scratch, target)


def plan_winograd(spec: WinogradSpec, target: CpuTarget) -> WinogradPlan:
    """How the tiles are cut: for the usual sizes."""
    usual = estimate(spec)
    plan = _planned(usual, target)
    if usual is spec:
        return plan
    order = tile_order(spec.conv, spec.tile)
    return replace(plan, order=order, blocks=ceil_div(order.total, plan.tiles))


@cache
def _planned(spec: WinogradSpec, target: CpuTarget) -> WinogradPlan:
    """Choose the register block, the number of tiles taken at once, and the workers' shares."""
    conv, lanes = spec.conv, target.lanes
    order, bits = tile_order(conv, spec.tile), point_bits(conv, spec.tile)
    total = order.total
    needed = _needed(order, bits)
    points, matrices = sum(n * each for n, each in spec.matrices), sum(n for n, _ in spec.matrices)
    inputs, outputs = ceil_div(conv.in_channels, lanes), ceil_div(conv.out_channels, lanes)
    weights = 4 * matrices * inputs * outputs * lanes**2
    fewest = _fewest_blocks(total, 4 * points * lanes * (inputs + outputs), weights, target)
    parts, threads = 1, target.threads
    if total < _FEW_TILES * threads and weights > target.l2:
        # Workers that share a block each transform its tiles, but fetch only their part of the weights.
        parts = next((p for p in range(threads, outputs + 1) if outputs % p == 0), 1)
    elif threads > 1:
        # The more blocks, the better a worker that the machine holds up is helped.
        fewest = max(fewest, min(4 * threads, total // (2 * _FEW_TILES)))
        fewest = ceil_div(fewest, threads) * threads
    block, tiles = _block(
        order, needed, (fewest, fewest + threads) if parts == 1 else (fewest,), parts, outputs, target
    )
    return WinogradPlan(
        block,
        order,
        bits,
        tiles,
        ceil_div(total, tiles),
        parts,
        inputs,
        outputs,
        points,
        matrices,
        (inputs * tiles + 1) * lanes,
        (outputs // parts * tiles + 1) * lanes,
    )


def _block(
    order: TileOrder,
    needed: list[tuple[range, int]],
    counts: Sequence[int],
    parts: int,
    outputs: int,
    target: CpuTarget,
) -> tuple[Block, int]:
    """The register block and the number of tiles taken at once, for one of some counts of those."""
    total = order.total
    candidates: list[tuple[float, Block, int, int]] = []
    for vectors in (v for v in range(1, 5) if outputs % (v * parts) == 0):
        for rows in range(1, min(total, 28) + 1):
            block = Block(rows, vectors)
            if not fits(block, target):
                break
            for blocks in counts:
                count = ceil_div(ceil_div(total, blocks), rows)
                cut = ceil_div(total, count * rows)
                passes = _passes(needed, count * rows, rows) * ceil_div(cut * parts, target.threads) / cut
                cost = passes * block.cycles() / vectors
                candidates.append((cost, block, count * rows, round(passes * rows)))
    least, best, *_ = min(candidates, key=lambda f: f[0])
    alike = [f for f in candidates if f[0] <= ALIKE * least and f[1].vectors == best.vectors]

    def merit(choice: tuple[float, Block, int, int]) -> tuple[bool, bool, int, int]:
        _, block, tiles, products = choice
        return _fetched_evenly(tiles // block.rows), block.sums >= _MANY, -products, block.rows

    _, block, tiles, _ = max(alike, key=merit)
    return block, tiles


def _needed(order: TileOrder, bits: tuple[int, ...]) -> list[tuple[range, int]]:
    """The tiles that points need, and how many points need those."""
    return [(order.needed(kind), bits.count(kind)) for kind in set(bits)]


def _passes(needed: Sequence[tuple[range, int]], tiles: int, rows: int) -> float:
    """Register blocks of `rows` tiles in all products of a point, in blocks of `tiles`: the average."""
    products = sum(points * _in_blocks(some, tiles, rows) for some, points in needed)
    return products / sum(points for _, points in needed)


def _in_blocks(needed: range, tiles: int, rows: int) -> int:
    """Register blocks of `rows` for some tiles, where none goes across the border of a block of `tiles`."""
    if not needed:
        return 0
    first, last = needed.start // tiles, (needed.stop - 1) // tiles
    if first == last:
        return ceil_div(len(needed), rows)
    begin, end = (first + 1) * tiles - needed.start, needed.stop - last * tiles
    return ceil_div(begin, rows) + (last - first - 1) * ceil_div(tiles, rows) + ceil_div(end, rows)


def _fetched_evenly(passes: int) -> bool:
    """Whether so many passes over a block of weights fetch about as much of the next one each."""
    return passes > 4 or passes.bit_count() == 1


_MANY = 16
"""Fewer vectors of sums ask for their weights faster than these come from the L2 cache when it is busy."""
_FEW_TILES, _SCRATCH = 28, 20 * 1024 * 1024
"""Blocks have at least so many tiles, where there are as many, and at most so many bytes of V and M."""


_SHARE = 0.25
"""The part of the L2 cache in which V and M stay: images, weights and other processes need the rest."""
_FETCHED = 0.35
"""The cost of a byte of weights, which are prefetched, relative to a byte of V or M."""


def _spilled(held: int, target: CpuTarget) -> float:
    """Bytes that go out of the L2 cache and come back where so many are written, then read."""
    return 2 * max(0.0, held - _SHARE * target.l2)


def _fewest_blocks(total: int, tile: int, weights: int, target: CpuTarget) -> int:
    """Into how many blocks to cut `total` tiles so that moving memory past the L2 cache costs least.

    The weights (bytes) pass once a block; V and M of a block, `tile` bytes a tile, go out and come back
    as far as they exceed their share of the cache.
    """

    def traffic(blocks: int) -> float:
        return blocks * (_FETCHED * weights + _spilled(ceil_div(total, blocks) * tile, target))

    most = max(1, total // _FEW_TILES)
    least = min(most, ceil_div(total * tile, _SCRATCH))
    return min(range(least, most + 1), key=traffic)


def winograd_scratch_bytes(spec: WinogradSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand for all workers."""
    return 4 * target.threads * plan_winograd(spec, target).scratch


def pack_winograd(weights: np.ndarray, spec: WinogradSpec, target: CpuTarget) -> np.ndarray:
    """(K, C, R, S) to transformed (xi, K/vc, C/c, c, vc), channels padded with zeros."""
    width = plan_winograd(spec, target).block.vectors * target.lanes
    return pack_filter(weights, target.lanes, width, spec.tile, spec.conv.strides[0])
