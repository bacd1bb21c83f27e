"""Attention over key-value caches: online softmax, one block of positions at a time.

A few rows (heads that share keys, of one or some tokens) pass over the places of their sequence together,
so that a block of keys and values comes from memory once. How many places there are is known when it runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit.builder import I32, I64, KernelBuilder, shuffle_mask
from glow_backends.cpu.emit.hyperbolic import tanh
from glow_backends.cpu.emit.memory import (
    Index,
    ceil_div,
    load_first,
    maximum,
    minimum,
    split_index,
    store_first,
)
from glow_backends.cpu.emit.row_sums import sums_of
from glow_backends.cpu.emit.values import Vec, splat
from glow_backends.cpu.emit.vecmath import exp_nonpositive
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.language.rotary import number
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import present
from glow_dialects.ops.cached_attention import CachedAttentionOp

_ROWS = 16
"""Rows that share a block of keys and values."""
_BLOCK = 2048
"""Elements of a block's keys: with the values they stay in the L1 cache."""
_LINE = 16
"""Elements of a cache line."""


@dataclass(frozen=True)
class CachedAttentionSpec:
    """result [batch, tokens, heads, width] of q [batch, tokens, heads, depth], f32; see the card.

    Operands: result, q, keys [sequences, shared, capacity, depth], values [sequences, shared, capacity,
    width], slots and starts (i32, one a batch), where `sinks` those [heads].
    """

    batch: int
    tokens: int
    heads: int
    sequences: int
    shared: int
    capacity: int
    depth: int
    width: int
    scale: float
    window: int
    softcap: float
    sinks: bool = False

    @property
    def parts(self) -> int:
        """Into how many parts the heads that share keys are taken apart, so that workers share them."""
        return ceil_div(self.heads // self.shared, _ROWS)

    @property
    def each(self) -> int:
        """Heads of a part; the last one overlaps the one before it where they do not divide."""
        return ceil_div(self.heads // self.shared, self.parts)

    @property
    def tile(self) -> int:
        """Tokens whose rows pass over the places together."""
        return min(self.tokens, max(1, _ROWS // self.each))

    def block(self, target: CpuTarget) -> int:
        """Places of a block: vectors of scores."""
        lanes = target.lanes
        return max(lanes, min(64, _BLOCK // max(self.depth, self.width)) // lanes * lanes)


class _Emission:
    def __init__(self, k: KernelBuilder, spec: CachedAttentionSpec) -> None:
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        self.result, self.q, self.keys, self.values, self.slots, self.starts, *self.sinks = k.operands
        self.block = spec.block(k.target)
        self.chunks = ceil_div(spec.width, self.lanes)
        rows = spec.tile * spec.each
        self.scores = k.stack(self.block)
        self.sums = k.stack(rows * self.chunks * self.lanes)
        self.peaks, self.totals = k.stack(rows), k.stack(rows)
        self.last_place = k.size(spec.capacity - 1)

    def emit(self) -> None:
        """Items: sequences of the batch, heads of keys, parts of those that share them, tiles of tokens."""
        k, spec = self.k, self.spec
        tiles = ceil_div(spec.tokens, spec.tile)
        sizes = (0, spec.shared, spec.parts, k.size(tiles))
        with k.items(k.size(spec.batch * spec.shared * spec.parts * tiles)) as item:
            batch, group, part, tile = split_index(k, item, sizes)
            # The last tile overlaps the one before it where the tokens do not divide.
            self.token = minimum(k, k.mul(tile, spec.tile), k.size(spec.tokens - spec.tile))
            self.begin = k.add(number(k, self.starts, batch), self.token)
            slot = maximum(k, minimum(k, number(k, self.slots, batch), k.size(spec.sequences - 1)), 0)
            plane = k.mul(k.add(k.mul(slot, spec.shared), group), k.size(spec.capacity))
            self.own_keys = k.gep(self.keys, k.mul(plane, spec.depth))
            self.own_values = k.gep(self.values, k.mul(plane, spec.width))
            first = k.add(k.mul(batch, k.size(spec.tokens)), self.token)
            own = spec.heads // spec.shared
            self.head = k.add(k.mul(group, own), minimum(k, k.mul(part, spec.each), k.size(own - spec.each)))
            self.first_row = k.add(k.mul(first, spec.heads), self.head)
            self._tile()

    def _tile(self) -> None:
        """All blocks of places that a tile's rows see."""
        k, spec = self.k, self.spec
        with k.loop(0, spec.tile) as token, k.loop(0, spec.each) as head:
            row = k.add(k.mul(token, spec.each), head)
            sink = k.load(self.sinks[0], k.add(self.head, head)) if self.sinks else k.splat(-math.inf, 1)
            k.store(sink, self.peaks, row)
            k.store(k.splat(1.0 if self.sinks else 0.0, 1), self.totals, row)
            for c in range(self.chunks):
                at = k.add(k.mul(row, self.chunks * self.lanes), c * self.lanes)
                k.store(k.splat(0.0, self.lanes), self.sums, at)
        low = self._range(0)[0]
        low = k.mul(k.b.sdiv(k.i(low), k.i(self.block)), self.block)
        high = self._range(spec.tile - 1)[1]
        with k.loop(low, high, self.block) as place, k.loop(0, spec.tile) as token:
            self._look_ahead(place, low, high)
            first, end = self._range(token)
            first = maximum(k, k.b.sub(k.i(first), place), 0)
            end = minimum(k, k.b.sub(k.i(end), place), self.block)
            with k.b.if_then(k.b.icmp_signed("<", k.i(first), k.i(end))), k.loop(0, spec.each) as head:
                row = k.add(k.mul(token, spec.heads), head)
                self._row(k.add(k.mul(token, spec.each), head), row, place, first, end)
        with k.loop(0, spec.tile) as token, k.loop(0, spec.each) as head:
            self._finish(k.add(k.mul(token, spec.each), head), k.add(k.mul(token, spec.heads), head))

    def _look_ahead(self, place: Index, low: Index, high: Index) -> None:
        """Where the next block begins: after the last one the first of the next head."""
        k = self.k
        self.here, following = k.i(place), k.add(place, self.block)
        inside = k.b.icmp_signed("<", k.i(following), k.i(high))
        self.next = k.b.select(inside, k.i(following), k.i(k.add(low, k.size(self.spec.capacity))))

    def _fetch(self, plane: ir.Value, row: Index, size: int) -> None:
        """Ask for a row of the next block, which one token's attention reads once.

        Places of a head are few, and the processor's own prefetching begins anew with each: 10 GB/s
        without, 17 with.
        """
        k = self.k
        for line in range(0, size, _LINE) if self.spec.tokens == 1 else ():
            k.prefetch(k.gep(plane, k.add(k.mul(row, size), line)))

    def _range(self, token: Index) -> tuple[Index, Index]:
        """The places [first, end) that a token of the tile sees."""
        k, spec = self.k, self.spec
        place = maximum(k, minimum(k, k.add(self.begin, token), self.last_place), 0)
        end = k.add(place, 1)
        return (maximum(k, k.add(end, -spec.window), 0) if spec.window else 0), end

    def _row(self, state: Index, row: Index, place: Index, first: Index, end: Index) -> None:
        """One row over the places [first, end) of a block."""
        k, spec, lanes = self.k, self.spec, self.lanes
        q = k.gep(self.q, k.mul(k.add(self.first_row, row), spec.depth))
        low = k.b.udiv(k.i(first), k.i(lanes))
        high = k.b.udiv(k.i(k.add(end, lanes - 1)), k.i(lanes))
        peak = splat(k, k.splat(-math.inf, 1), lanes)

        def score(group: Index, carried: list[ir.Value]) -> list[ir.Value]:
            at = k.mul(group, lanes)
            value = self._masked(self._dots(q, k.add(place, at)), at, first, end)
            k.store(value.v, self.scores, at)
            return [Vec(k, carried[0]).where(Vec(k, carried[0]).compare(">", value), value).v]

        largest = k.reduce_loop(low, high, 1, [peak], score)[0]
        old = k.load(self.peaks, state)
        new = Vec(k, k.intrinsic("vector.reduce.fmax", [largest], largest.type.element))
        new = new.where(new.compare(">", Vec(k, old)), Vec(k, old))
        k.store(new.v, self.peaks, state)
        shift = Vec(k, splat(k, new.v, lanes))

        def weight(group: Index, carried: list[ir.Value]) -> list[ir.Value]:
            at = k.mul(group, lanes)
            value = exp_nonpositive(Vec(k, k.load(self.scores, at, lanes=lanes)) - shift)
            k.store(value.v, self.scores, at)
            return [k.b.fadd(carried[0], value.v)]

        weights = k.reduce_loop(low, high, 1, [k.splat(0.0, lanes)], weight)[0]
        factor = exp_nonpositive(Vec(k, old) - new)
        total = _total(k, weights)
        k.store((Vec(k, k.load(self.totals, state)).fma(factor, Vec(k, total))).v, self.totals, state)
        self._weigh(state, place, first, end, factor.v)

    def _masked(self, value: Vec, at: Index, first: Index, end: Index) -> Vec:
        """Scores scaled and capped, and those of places that are not seen without weight."""
        k, spec = self.k, self.spec
        value = value * spec.scale
        if spec.softcap:
            value = tanh(value * (1.0 / spec.softcap)) * spec.softcap
        steps = ir.Constant(ir.VectorType(I64, self.lanes), [ir.Constant(I64, i) for i in range(self.lanes)])
        places = k.b.add(splat(k, k.i(at), self.lanes), steps)
        seen = k.b.icmp_signed("<", places, splat(k, k.i(end), self.lanes))
        if spec.window:
            late = k.b.icmp_signed(">=", places, splat(k, k.i(first), self.lanes))
            seen = k.b.and_(seen, late)
        return value.where(seen, -math.inf)

    def _dots(self, q: ir.Value, place: Index) -> Vec:
        """Products of a row of q with the keys of as many places as a vector has lanes."""
        k, spec, lanes = self.k, self.spec, self.lanes
        rows: list[Index] = [k.add(place, i) for i in range(lanes)]
        if spec.capacity % self.block:
            rows = [minimum(k, row, self.last_place) for row in rows]
        starts = [k.mul(row, spec.depth) for row in rows]
        ahead = k.add(self.next, k.b.sub(k.i(place), self.here))
        for i in range(lanes):
            self._fetch(self.own_keys, k.add(ahead, i), spec.depth)
        sums: list[ir.Value | None] = [None] * lanes
        for d in range(0, spec.depth, lanes):
            live = min(lanes, spec.depth - d)
            part = load_first(k, q, d, lanes, live)
            for i, start in enumerate(starts):
                key = load_first(k, self.own_keys, k.add(start, d), lanes, live)
                before = sums[i]
                sums[i] = k.b.fmul(part, key) if before is None else k.fma(part, key, before)
        return Vec(k, sums_of(k, [s for s in sums if s is not None]))

    def _weigh(self, state: Index, place: Index, first: Index, end: Index, factor: ir.Value) -> None:
        """sums = factor sums + weights values, some vectors of columns at a time."""
        k, spec, lanes = self.k, self.spec, self.lanes
        most = max(1, k.target.registers // 2)
        base = k.mul(state, self.chunks * lanes)
        wide = splat(k, factor, lanes)
        for start in range(0, self.chunks, most):
            count = min(most, self.chunks - start)
            places = [k.add(base, (start + c) * lanes) for c in range(count)]
            sums = [k.b.fmul(k.load(self.sums, at, lanes=lanes), wide) for at in places]

            def add(i: Index, carried: list[ir.Value], start: int = start) -> list[ir.Value]:
                if not start:
                    self._fetch(self.own_values, k.add(self.next, i), spec.width)
                weight = k.splat(k.load(self.scores, i), lanes)
                row = k.mul(k.add(place, i), spec.width)
                after: list[ir.Value] = []
                for c, total in enumerate(carried):
                    column = (start + c) * lanes
                    live = min(lanes, spec.width - column)
                    value = load_first(k, self.own_values, k.add(row, column), lanes, live)
                    after.append(k.fma(weight, value, total))
                return after

            sums = k.reduce_loop(first, end, 1, sums, add)
            for at, total in zip(places, sums, strict=True):
                k.store(total, self.sums, at)

    def _finish(self, state: Index, row: Index) -> None:
        """A row of the result: sums over the total of their weights."""
        k, spec, lanes = self.k, self.spec, self.lanes
        total = 1.0 / Vec(k, k.load(self.totals, state))
        wide = splat(k, total.v, lanes)
        at = k.mul(k.add(self.first_row, row), spec.width)
        for c in range(self.chunks):
            value = k.load(self.sums, k.add(k.mul(state, self.chunks * lanes), c * lanes), lanes=lanes)
            live = min(lanes, spec.width - c * lanes)
            store_first(k, k.b.fmul(value, wide), self.result, k.add(at, c * lanes), live)


def _total(k: KernelBuilder, value: ir.Value) -> ir.Value:
    """The sum of a vector's lanes."""
    lanes = half = value.type.count
    while half > 1:
        half //= 2
        order = tuple(range(half, 2 * half)) + (0,) * (lanes - half)
        value = k.b.fadd(value, k.b.shuffle_vector(value, value, shuffle_mask(order)))
    return k.b.extract_element(value, ir.Constant(I32, 0))


def emit_cached_attention(
    module: ir.Module, name: str, spec: CachedAttentionSpec, target: CpuTarget
) -> ir.Function:
    """Emit the kernel of a spec."""
    k = KernelBuilder(module, name, 7 if spec.sinks else 6, target, sized=True)
    _Emission(k, spec).emit()
    return k.finish()


class CachedAttention(Kernel[CachedAttentionOp, CachedAttentionSpec]):
    """Attention over caches of f32."""

    OPS = (CachedAttentionOp,)
    emit = staticmethod(emit_cached_attention)

    def match(self, op: CachedAttentionOp, context: CallContext) -> CachedAttentionSpec | None:
        floats = (op.q, op.keys, op.values, *present(op.sinks))
        if op.predicate is not None or any(dtype_name(v) != "f32" or 0 in shape(v) for v in floats):
            return None
        (batch, tokens, heads, depth), keys = shape(op.q), shape(op.keys)
        width = shape(op.values)[3]
        return CachedAttentionSpec(
            batch,
            tokens,
            heads,
            *keys[:3],
            depth=depth,
            width=width,
            scale=op.scale,
            window=op.window,
            softcap=op.softcap,
            sinks=op.sinks is not None,
        )

    def flops(self, spec: CachedAttentionSpec) -> int:
        return spec.batch * spec.tokens * spec.heads * spec.capacity * (spec.depth + spec.width)
