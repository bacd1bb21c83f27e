"""Attention: softmax(scale q k' + mask) v for a batch of heads, with the scores of a few rows in cache.

The keys and values of a head are packed into panels once; then a tile of rows at a time makes its scores,
their exponentials and its results, so that no matrix of scores is ever stored. Few rows: `attention_rows`.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.common import broadcast_strides
from glow_backends.cpu.emit.memory import (
    Index,
    ceil_div,
    load_first,
    minimum,
    split_index,
    store_first,
    transpose,
)
from glow_backends.cpu.emit.register_blocks import Block, Loop, fits, multiply, zeros
from glow_backends.cpu.emit.values import Vec
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.gemm.attention_op import AttentionOp, four, ordered, result_order, strides_of
from glow_backends.cpu.kernels.gemm.attention_rows import RowsEmission, row_scratch
from glow_backends.cpu.kernels.gemm.attention_spec import AttentionSpec
from glow_backends.cpu.kernels.reduction.line import Line, exponentials, same
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import Extent

_WIDE = 2
"""Vectors of a panel."""


@dataclass(frozen=True)
class _Plan:
    """Rows of a tile, the stride of a row of scores, and how many parts of a head are items of work."""

    tile: int
    tiles: int
    stride: int
    parts: int

    @classmethod
    def of(cls, spec: AttentionSpec, target: CpuTarget) -> _Plan:
        most = max(t for t in range(1, 33) if fits(Block(t, _WIDE), target))
        if isinstance(spec.rows, Extent):
            most = next(t for t in (most, 4, 2) if spec.rows >= t)
        sizes = range(min(max(1, most // 2), spec.rows), min(most, spec.rows) + 1)
        rows = estimate(spec.rows)
        tile = min(sizes, key=lambda t: ceil_div(rows, t) * (t + 1.5))
        tiles = ceil_div(spec.rows, tile)
        vectors = ceil_div(spec.keys, target.lanes)
        if isinstance(spec.keys, Extent):
            vectors = ceil_div(spec.keys, _WIDE * target.lanes) * _WIDE
        stride = (vectors + 1 - vectors % 2) * target.lanes  # an odd number of lines: rows spread over sets
        heads = spec.batch * spec.heads
        spread = target.threads > 1 and heads % target.threads and heads < 4 * target.threads
        return cls(tile, tiles, stride, min(tiles, target.threads) if spread else 1)


def attention_scratch_bytes(spec: AttentionSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand."""
    return 4 * target.threads * _scratch(spec, target)


def _scratch(spec: AttentionSpec, target: CpuTarget) -> int:
    """Elements of one worker's scratch: keys, values, scores and the sums of their rows."""
    if spec.reads_rows(target):
        return row_scratch(spec, target)
    plan, panel = _Plan.of(spec, target), _WIDE * target.lanes
    keys = ceil_div(spec.keys, panel) * panel * spec.depth
    values = ceil_div(spec.width, panel) * panel * spec.keys
    return keys + values + plan.tile * plan.stride + ceil_div(plan.tile, 16) * 16


def emit_attention(module: ir.Module, name: str, spec: AttentionSpec, target: CpuTarget) -> ir.Function:
    """Emit the kernel; items of work are heads, or parts of their rows where there are few heads."""
    k = KernelBuilder(module, name, 5 + (spec.mask is not None), target)
    emission = RowsEmission if spec.reads_rows(target) else _Emission
    emission(k, spec).emit()
    return k.finish()


class _Emission:
    def __init__(self, k: KernelBuilder, spec: AttentionSpec) -> None:
        self.k, self.spec, self.plan = k, spec, _Plan.of(spec, k.target)
        self.lanes = k.target.lanes
        self.panel = _WIDE * self.lanes
        own = k.mul(k.worker, _scratch(spec, k.target)) if k.target.threads > 1 else 0
        self.keys = k.gep(k.operands[-1], own)
        self.values = k.gep(self.keys, ceil_div(spec.keys, self.panel) * self.panel * spec.depth)
        self.scores = k.gep(self.values, ceil_div(spec.width, self.panel) * self.panel * spec.keys)
        self.parts = k.gep(self.scores, self.plan.tile * self.plan.stride)

    def emit(self) -> None:
        k, spec, plan = self.k, self.spec, self.plan
        sizes = (spec.batch, spec.heads, plan.parts)
        low, high = k.share(spec.batch * spec.heads * plan.parts)
        with k.loop(low, high) as item:
            batch, head, part = split_index(k, item, sizes)
            places = spec.places(k, batch, head)
            result, q, key, value = (k.gep(p, at) for p, at in zip(k.operands, places, strict=False))
            mask = None
            if spec.mask is not None:
                mask = k.gep(k.operands[4], k.index((batch, spec.mask[0]), (head, spec.mask[1])))
            if spec.k[3] == 1:
                self._pack_rows(key)
            else:
                self._pack_columns(key, self.keys, spec.depth, spec.keys, spec.k[3])
            self._pack_columns(value, self.values, spec.keys, spec.width, spec.v[2])
            size = ceil_div(plan.tiles, plan.parts)
            first = k.mul(part, size)
            with k.loop(first, minimum(k, k.add(first, size), plan.tiles)) as tile:
                # The last tile overlaps the one before it where the rows do not divide.
                row = minimum(k, k.mul(tile, plan.tile), spec.rows - plan.tile)
                self._scores(k.gep(q, k.mul(row, spec.q[2])), mask, row)
                with k.loop(0, plan.tile) as r:
                    self._softmax(r)
                self._results(k.gep(result, k.mul(row, spec.result[2])))

    # --- panels -------------------------------------------------------------------------------------
    def _panels(self, columns: int) -> list[tuple[int, int, int, Index]]:
        """(first panel, panels, vectors, live lanes of the last one) of the full panels and of the rest."""
        if isinstance(columns, Extent):
            k, full, panel = self.k, columns // self.panel, self.panel
            live = k.b.sub(k.i(columns % panel), k.i(self.lanes * (_WIDE - 1)))
            rest = -(-columns // panel) - full
            return [(0, full, _WIDE, self.lanes), (full, rest, _WIDE, live)]
        full, rest = divmod(columns, self.panel)
        panels: list[tuple[int, int, int, Index]] = [(0, full, _WIDE, self.lanes)] if full else []
        if rest:
            vectors = ceil_div(rest, self.lanes)
            panels.append((full, 1, vectors, rest - (vectors - 1) * self.lanes))
        return panels

    def _live(self, live: Index, v: int, vectors: int) -> Index:
        """The lanes of vector `v` of a panel, of whose last vector `live` are."""
        if isinstance(live, int):
            return live if v == vectors - 1 else self.lanes
        return self.k.add(live, (vectors - 1 - v) * self.lanes)

    def _pack_columns(self, source: ir.Value, target: ir.Value, rows: int, columns: int, stride: int) -> None:
        """rows x columns, the columns adjacent, as panels [columns / panel][rows][panel]."""
        k = self.k
        for first, count, vectors, live in self._panels(columns):
            with k.loop(first, first + count) as panel, k.loop(0, rows) as row:
                start = k.index((row, stride), (panel, self.panel))
                place = k.index((panel, rows * self.panel), (row, self.panel))
                for v in range(vectors):
                    at = k.add(start, v * self.lanes)
                    value = load_first(k, source, at, self.lanes, self._live(live, v, vectors))
                    k.store(value, target, k.add(place, v * self.lanes))

    def _pack_rows(self, source: ir.Value) -> None:
        """Keys as rows of `depth` adjacent elements, transposed a square at a time."""
        k, spec, lanes = self.k, self.spec, self.lanes

        def square(row: Index, live_rows: int, column: Index, live: int, last: Index | None = None) -> None:
            start = k.index((row, spec.k[2]), (column, 1))
            rows = [r * spec.k[2] for r in range(lanes)]
            if last is not None:  # rows behind the last are the last again
                rows = [k.mul(minimum(k, r, k.b.sub(k.i(last), k.i(row))), spec.k[2]) for r in range(lanes)]
            read = [
                load_first(k, source, k.add(start, rows[r]), lanes, live)
                if r < live_rows
                else k.splat(0.0, lanes)
                for r in range(lanes)
            ]
            panel, inside = split_index(k, row, (ceil_div(spec.keys, self.panel), self.panel))
            place = k.index((panel, spec.depth * self.panel), (inside, 1), (column, self.panel))
            for i, value in enumerate(transpose(k, read)[:live]):
                k.store(value, self.keys, k.add(place, i * self.panel))

        def columns(row: Index, live_rows: int, last: Index | None = None) -> None:
            whole = spec.depth // lanes * lanes
            if whole:
                with k.loop(0, whole, lanes) as column:
                    square(row, live_rows, column, lanes, last)
            if spec.depth > whole:
                square(row, live_rows, whole, spec.depth - whole, last)

        whole = spec.keys // lanes * lanes
        if isinstance(whole, Extent) or whole:
            with k.loop(0, whole, lanes) as row:
                columns(row, lanes)
        if isinstance(spec.keys, Extent):
            with k.loop(whole, spec.keys, lanes) as row:
                columns(row, lanes, spec.keys - 1)
        elif spec.keys > whole:
            columns(whole, spec.keys - whole)

    # --- one tile of rows ---------------------------------------------------------------------------
    def _scores(self, q: ir.Value, mask: ir.Value | None, row: Index) -> None:
        """scale q k' + mask of a tile, into its rows of scores."""
        k, spec, plan = self.k, self.spec, self.plan
        offsets = [r * spec.q[2] for r in range(plan.tile)]
        loop = Loop(spec.depth, spec.q[3], self.panel)
        for first, count, vectors, live in self._panels(spec.keys):
            with k.loop(first, first + count) as panel:
                packed = k.gep(self.keys, k.mul(panel, spec.depth * self.panel))
                sums = multiply(k, q, offsets, packed, vectors, [loop], zeros(k, plan.tile * vectors))
                column = k.mul(panel, self.panel)
                for r in range(plan.tile):
                    for v in range(vectors):
                        at = k.add(column, v * self.lanes)
                        value = Vec(k, sums[r * vectors + v])
                        if spec.scale is not None:
                            value = value * spec.scale
                        if mask is not None:
                            rest = self._live(live, v, vectors)
                            value = value + self._mask(mask, k.add(row, r), at, rest)
                        k.store(value.v, self.scores, k.add(at, r * plan.stride))

    def _mask(self, mask: ir.Value, row: Index, column: Index, live: Index) -> Vec:
        k, strides = self.k, self.spec.mask
        assert strides is not None
        at = k.index((row, strides[2]), (column, strides[3]))
        if strides[3] == 0:
            return Vec(k, k.splat(k.load(mask, at), self.lanes))
        return Vec(k, load_first(k, mask, at, self.lanes, live))

    def _softmax(self, row: Index) -> None:
        """Scores as e^(score - largest), and one over their sum."""
        k = self.k
        start = k.mul(row, self.plan.stride)
        line = Line(k, self.scores, self.scores, start, self.spec.keys, "f32")
        part = exponentials(line, self.spec.masked)
        if line.held is not None:
            line.finish(same)
        k.store(part.v, self.parts, row)

    def _results(self, result: ir.Value) -> None:
        """The exponentials times the values, over the sums of their rows."""
        k, spec, plan = self.k, self.spec, self.plan
        offsets = [r * plan.stride for r in range(plan.tile)]
        loop = Loop(spec.keys, 1, self.panel)
        for first, count, vectors, live in self._panels(spec.width):
            with k.loop(first, first + count) as panel:
                packed = k.gep(self.values, k.mul(panel, spec.keys * self.panel))
                start = zeros(k, plan.tile * vectors)
                sums = multiply(k, self.scores, offsets, packed, vectors, [loop], start)
                column = k.mul(panel, self.panel)
                for r in range(plan.tile):
                    part = k.splat(k.load(self.parts, r), self.lanes)
                    for v in range(vectors):
                        at = k.add(column, r * spec.result[2] + v * self.lanes)
                        value = k.b.fmul(sums[r * vectors + v], part)
                        store_first(k, value, result, at, self._live(live, v, vectors))


class Attention(Kernel[AttentionOp, AttentionSpec]):
    """Attention over heads of four axes."""

    OPS = (AttentionOp,)
    emit = staticmethod(emit_attention)

    def match(self, op: AttentionOp, context: CallContext) -> AttentionSpec | None:
        orders = {"q": (op.q, op.q_order), "k": (op.k, op.k_order), "v": (op.v, op.v_order)}
        q, k, v = (ordered(shape(value), order) for value, order in orders.values())
        if dtype_name(op.q) != "f32" or 0 in (*q, *k, *v):
            return None
        strides = {name: strides_of(shape(value), order) for name, (value, order) in orders.items()}
        keys = op.places[0] if op.places else k[2]
        if op.mask is not None:
            strides["mask"] = four(broadcast_strides(shape(op.mask), (*q[:3], keys)))
        spec = AttentionSpec(
            batch=q[0],
            heads=q[1],
            rows=q[2],
            keys=keys,
            depth=q[3],
            width=v[3],
            result=strides_of(shape(op.result), result_order(op.order)),
            scale=op.scale,
            masked=op.masked,
            each=q[1] // k[1],
            **strides,
        )
        adjacent = spec.v[3] == spec.result[3] == 1 and 1 in spec.k[2:]
        return spec if adjacent else None

    def scratch(self, spec: AttentionSpec, target: CpuTarget) -> int:
        return attention_scratch_bytes(spec, target)

    def flops(self, spec: AttentionSpec) -> int:
        return 2 * spec.batch * spec.heads * spec.rows * spec.keys * (spec.depth + spec.width)
