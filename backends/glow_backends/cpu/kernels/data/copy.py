"""Copies between strided boxes, for transposes, slices, concatenations and layout changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from llvmlite import ir

from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I32, I64, KernelBuilder, shuffle_mask
from glow_backends.cpu.emit.common import Dim, Index
from glow_backends.cpu.emit.memory import ceil_div, minimum, transpose
from glow_backends.cpu.emit.values import Active
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.extent import Extent

FILL = -1
"""As the source of a box: the spec's fill pattern."""

_TILE = 16  # largest square that is transposed in registers


@dataclass(frozen=True)
class Box:
    """result[to + i . to_strides] = source[start + i . from_strides] for every i below `extents`.

    Offsets and strides count elements; `source` numbers the source operands, or is FILL.
    `padded`: the last dimension, whose to_stride is 1, is filled with the spec's pattern from its
    extent up to `padded` (0: not).
    """

    extents: tuple[int, ...]
    to: int
    to_strides: tuple[int, ...]
    source: int = FILL
    start: int = 0
    from_strides: tuple[int, ...] = ()
    padded: int = 0


@dataclass(frozen=True)
class CopySpec:
    """Boxes copied one after another. Operands: result, then `sources` sources.

    `width`: bytes of an element (1, 2, 4, 8). `fill`: a bit pattern of that many bytes. `ordered`:
    later boxes write over earlier ones, so that one worker does all.
    """

    width: int
    sources: int
    boxes: tuple[Box, ...]
    fill: int = 0
    ordered: bool = False


def emit_copy(module: ir.Module, name: str, spec: CopySpec, target: CpuTarget) -> ir.Function:
    """Emit the copies; see `CopySpec` for the operands."""
    k = KernelBuilder(module, name, 1 + spec.sources, target, sized=True)
    with common.first_worker(k) if spec.ordered else nullcontext():
        if spec.ordered:
            k.target = replace(target, threads=1)
        for box in spec.boxes:
            if common.product(box.extents):
                _Copy(k, spec, box).emit()
    k.target = target
    return k.finish()


def _dims(box: Box) -> list[Dim]:
    """Loop dimensions in the order of the result's memory, neighbours merged where nothing is padded."""
    sources = box.from_strides or (0,) * len(box.extents)
    order = sorted(range(len(box.extents)), key=lambda d: -abs(box.to_strides[d]))
    if box.padded:
        last = len(box.extents) - 1
        assert box.to_strides[last] == 1
        order = [d for d in order if d != last]
        outer = common.collapse(
            [box.extents[d] for d in order],
            [[box.to_strides[d] for d in order], [sources[d] for d in order]],
        )
        return [*outer, Dim(box.extents[last], (1, sources[last]))]
    return common.collapse(
        [box.extents[d] for d in order],
        [[box.to_strides[d] for d in order], [sources[d] for d in order]],
    )


class _Copy:
    """One box: contiguous runs, square tiles transposed in registers, or single elements."""

    def __init__(self, k: KernelBuilder, spec: CopySpec, box: Box) -> None:
        self.k = k
        self.box = box
        self.width = spec.width
        self.dtype = f"u{8 * spec.width}"
        self.fill = values.constant(values.storage(self.dtype), spec.fill)
        self.lanes = max(1, k.target.vector_bytes // spec.width)
        self.dims = _dims(box)
        self.size = 2 * spec.width * common.product(box.extents)
        self.target = k.operands[0]
        self.source = None if box.source == FILL else k.operands[1 + box.source]

    def emit(self) -> None:
        """Choose the form by the strides of the innermost dimension of the result."""
        *outer, inner = self.dims
        to, origin = inner.strides
        unit = next((i for i, d in enumerate(outer) if abs(d.strides[1]) == 1), None)
        tiled = to == 1 and self.source is not None and abs(origin) != 1 and origin != 0
        tiled = tiled and (inner.extent > 1 or self.box.padded > 0)
        if tiled and unit is not None and outer[unit].strides[1] == 1:
            across = outer.pop(unit)
            self._tiles(outer, across, inner)
            return
        if to == 1 and (origin in (0, 1, -1) or self.source is None):
            self._runs(outer, inner)
        else:
            assert not self.box.padded, "padding needs a contiguous side"
            self._elements(outer, inner)

    def _bases(self, outer: Sequence[Dim], indices: Sequence[Index]) -> tuple[Index, Index]:
        k = self.k
        to = common.offset(k, indices, [d.strides[0] for d in outer])
        origin = common.offset(k, indices, [d.strides[1] for d in outer])
        return k.add(to, common.length(k, self.box.to)), k.add(origin, common.length(k, self.box.start))

    # Contiguous runs.
    def _runs(self, outer: list[Dim], inner: Dim) -> None:
        """Each run by vectors; a single long run is divided among workers."""
        k = self.k
        extents = [d.extent for d in outer]
        divided = common.product(extents) < k.target.threads
        extent, step = max(inner.extent, self.box.padded), inner.strides[1]
        with common.nest(k, extents, self.size, shared=not divided) as indices:
            to, origin = self._bases(outer, indices)
            same = None
            if self.source is None:
                same = self.fill
            elif step == 0:
                same = values.load(k, self.source, origin, self.dtype)

            def move(place: Index, lanes: int, active: Active) -> None:
                value = self._run_value(origin, place, step, lanes, active, same)
                values.store(k, value, self.target, k.add(to, place), self.dtype, active)

            if self.box.padded:  # a channel block: a few vectors
                with common.last_worker(k) if divided else nullcontext():
                    for at in range(0, extent, self.lanes):
                        active = min(self.lanes, extent - at)
                        move(at, common.power_of_two(active), active)
                return
            start = 0
            block = self.lanes * 4
            if divided and k.target.threads > 1:
                start = extent // block * block
                low, high = common.share(k, extent // block, self.size)
                with k.loop(k.mul(low, block), k.mul(high, block), block) as i:
                    for part in range(4):
                        move(k.add(i, part * self.lanes), self.lanes, self.lanes)
            with common.last_worker(k) if divided else nullcontext():
                cover = common.sized_strips if step in (0, 1) or self.source is None else _backwards
                for place, lanes, active in cover(k, common.length(k, start), extent - start, self.lanes, 4):
                    move(place, lanes, active)

    def _run_value(
        self,
        origin: Index,
        place: Index,
        step: int,
        lanes: int,
        active: Active,
        same: ir.Value | None,
    ) -> ir.Value:
        """The vector for the `active` positions of a run from `place` on."""
        k = self.k
        if same is not None:
            return values.splat(k, same, lanes)
        assert self.source is not None
        if self.box.padded:
            assert isinstance(place, int) and isinstance(active, int), "a padded run is short"
            exist = max(0, min(active, self.box.extents[-1] - place))
            fill = values.constant(self._vector(lanes), 0)
            if exist == 0:
                return values.splat(k, self.fill, lanes)
            value = values.load(k, self.source, k.add(origin, place), self.dtype, lanes, exist, fill)
            return k.b.select(values.mask(lanes, exist), value, values.splat(k, self.fill, lanes))
        if step == 1 or lanes == 1:
            here = k.add(origin, k.mul(place, step))
            return values.load(k, self.source, here, self.dtype, lanes, active)
        # A run backwards: the vector that ends at the first element, reversed.
        assert isinstance(active, int)
        here = k.add(k.add(origin, k.mul(place, -1)), 1 - active)
        value = values.load(k, self.source, here, self.dtype, lanes, active)
        mirror = [max(0, active - 1 - i) for i in range(lanes)]
        return _shuffle(k, value, value, mirror)

    def _vector(self, lanes: int) -> ir.Type:
        kind = values.storage(self.dtype)
        return ir.VectorType(kind, lanes) if lanes > 1 else kind

    # Squares.
    def _tiles(self, outer: list[Dim], across: Dim, inner: Dim) -> None:
        """Rows along `across` (contiguous in the source) become rows along `inner` (in the result)."""
        k = self.k
        limit = min(_TILE, self.lanes)
        # Prefer full-width rows; short sides use smaller squares.
        side = common.lanes_for(max(inner.extent, self.box.padded), limit)
        side = max(2, common.lanes_for(across.extent, side))
        if any(isinstance(d.extent, Extent) and not d.extent >= side for d in (across, inner)):
            self._elements([*outer, across], inner)
            return
        extents = [d.extent for d in outer]
        divided = common.product(extents) < k.target.threads
        whole, across_step = across.extent // side, common.length(k, across.strides[0])
        if isinstance(across.extent, Extent):  # the last square has rows of the one before it, too
            whole = ceil_div(across.extent, side)
        with common.nest(k, extents, self.size, shared=not divided) as indices:
            to, origin = self._bases(outer, indices)
            low, high = common.share(k, whole, self.size) if divided else (0, common.length(k, whole))

            def column(a: Index, rows: int) -> None:
                here = k.add(to, k.mul(a, across_step))
                there = k.add(origin, a)
                self._tile_column(here, there, across, inner, side, rows)

            if isinstance(across.extent, Extent):
                with k.loop(low, high) as tile:
                    column(minimum(k, k.mul(tile, side), across.extent - side), side)
                return
            if whole:
                with k.loop(low, high) as tile:
                    column(k.mul(tile, side), side)
            if across.extent % side:
                with common.last_worker(k) if divided else nullcontext():
                    column(common.length(k, whole * side), across.extent % side)

    def _tile_column(self, to: Index, origin: Index, across: Dim, inner: Dim, side: int, rows: int) -> None:
        """All squares along `inner` at one place across; `rows` of its lanes exist."""
        k = self.k
        total = max(inner.extent, self.box.padded)
        whole = inner.extent // side
        if isinstance(inner.extent, Extent):
            with k.loop(0, ceil_div(inner.extent, side) * side, side) as i:
                at = minimum(k, i, inner.extent - side)
                there = k.add(origin, k.mul(at, inner.strides[1]))
                self._tile(k.add(to, at), there, across, inner, side, rows, side)
            return
        if whole:
            with k.loop(0, common.length(k, whole * side), side) as i:
                self._tile(
                    k.add(to, i), k.add(origin, k.mul(i, inner.strides[1])), across, inner, side, rows, side
                )
        done = whole * side
        while done < total:
            exist = max(0, min(side, inner.extent - done))
            stored = min(side, total - done)
            self._tile(
                k.add(to, common.length(k, done)),
                k.add(origin, common.length(k, done * inner.strides[1])),
                across,
                inner,
                side,
                rows,
                exist,
                stored,
            )
            done += side

    def _tile(
        self,
        to: Index,
        origin: Index,
        across: Dim,
        inner: Dim,
        side: int,
        rows: int,
        exist: int,
        stored: int = 0,
    ) -> None:
        """One square: `exist` source rows of `rows` elements -> `rows` result rows."""
        k = self.k
        blank = values.splat(k, self.fill, side)
        loaded = [
            values.load(k, self.source, k.add(origin, k.mul(inner.strides[1], i)), self.dtype, side, rows)
            if self.source is not None and i < exist
            else blank
            for i in range(side)
        ]
        turned = _bytes_of_words(k, loaded) if self.width == 1 and side == 8 else transpose(k, loaded)
        for row, value in enumerate(turned[:rows]):
            place = k.add(to, k.mul(across.strides[0], row))
            values.store(k, value, self.target, place, self.dtype, stored or exist)

    # Anything else.
    def _elements(self, outer: list[Dim], inner: Dim) -> None:
        """Element by element, in the order of the result."""
        k = self.k
        dims = [*outer, inner]
        with common.nest(k, [d.extent for d in dims], self.size) as indices:
            to, origin = self._bases(dims, indices)
            value = self.fill
            if self.source is not None:
                value = values.load(k, self.source, origin, self.dtype)
            values.store(k, value, self.target, to, self.dtype)


def _bytes_of_words(k: KernelBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Eight rows of eight bytes transposed: each word of 64 bits gets a byte of every row."""
    words = ir.VectorType(I64, 8)
    total: ir.Value | None = None
    for i, row in enumerate(rows):
        part = k.b.zext(row, words)
        part = k.b.shl(part, ir.Constant(words, [8 * i] * 8)) if i else part
        total = part if total is None else k.b.or_(total, part)
    assert total is not None
    lanes = [k.b.extract_element(total, ir.Constant(I32, i)) for i in range(8)]
    return [k.b.bitcast(lane, rows[0].type) for lane in lanes]


def _backwards(
    k: KernelBuilder, low: Index, count: int, lanes: int, unroll: int
) -> Iterator[tuple[Index, int, Active]]:
    """As `strips`: where only the run tells how many there are, the last ones one by one."""
    if not isinstance(count, Extent):
        yield from common.strips(k, low, count, lanes, unroll)
        return
    whole = k.add(low, count // lanes * lanes)
    with k.loop(low, whole, lanes) as i:
        yield i, lanes, lanes
    with k.loop(whole, k.add(low, count)) as i:
        yield i, 1, 1


def _shuffle(k: KernelBuilder, x: ir.Value, y: ir.Value, order: Sequence[int]) -> ir.Value:
    mask = shuffle_mask(tuple(order))
    return k.b.shuffle_vector(x, y, mask)
