"""Attention of few rows: reads keys and values in place, because packing would cost more."""

from __future__ import annotations

from llvmlite import ir

from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.memory import Index, ceil_div, load_first, minimum, split_index, store_first
from glow_backends.cpu.emit.row_sums import sums_of
from glow_backends.cpu.emit.values import Vec
from glow_backends.cpu.kernels.gemm.attention_spec import AttentionSpec
from glow_backends.cpu.kernels.reduction.line import Line, exponentials, same
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.extent import Extent

_CHAINS = 2
"""Sums of a column, so that one addition need not wait for the one before it."""


def row_scratch(spec: AttentionSpec, target: CpuTarget) -> int:
    """Elements of one worker's scratch: the scores of a row."""
    return ceil_div(spec.keys, target.lanes) * target.lanes


class RowsEmission:
    """The kernel of a spec of few rows, whose keys lie row by row."""

    def __init__(self, k: KernelBuilder, spec: AttentionSpec) -> None:
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        own = k.mul(k.worker, row_scratch(spec, k.target)) if k.target.threads > 1 else 0
        self.scores = k.gep(k.operands[-1], own)

    def emit(self) -> None:
        """Items of work are heads."""
        k, spec = self.k, self.spec
        low, high = k.share(spec.batch * spec.heads)
        with k.loop(low, high) as item:
            batch, head = split_index(k, item, (spec.batch, spec.heads))
            places = spec.places(k, batch, head)
            result, q, key, value = (k.gep(p, at) for p, at in zip(k.operands, places, strict=False))
            mask = None
            if spec.mask is not None:
                mask = k.gep(k.operands[4], k.index((batch, spec.mask[0]), (head, spec.mask[1])))
            with k.loop(0, spec.rows) as row:
                own = None if mask is None or spec.mask is None else k.gep(mask, k.mul(row, spec.mask[2]))
                self._scores(k.gep(q, k.mul(row, spec.q[2])), key, own)
                part = self._softmax()
                self._results(k.gep(result, k.mul(row, spec.result[2])), value, part)

    def _scores(self, q: ir.Value, keys: ir.Value, mask: ir.Value | None) -> None:
        """scale q k' + mask, as many keys at a time as a vector has lanes."""
        k, spec, lanes = self.k, self.spec, self.lanes

        def block(at: Index, live: Index) -> None:
            rows: list[Index] = [k.add(at, i) for i in range(lanes)]
            if live is not lanes:  # behind the last key it is the last again
                rows = [minimum(k, row, spec.keys - 1) for row in rows]
            value = Vec(k, self._dots(q, keys, [k.mul(row, spec.k[2]) for row in rows]))
            if spec.scale is not None:
                value = value * spec.scale
            if mask is not None and spec.mask is not None:
                value = value + self._mask(mask, at, live, spec.mask[3])
            k.store(value.v, self.scores, at)

        whole = spec.keys // lanes * lanes
        with k.loop(0, whole, lanes) as at:
            block(at, lanes)
        with k.loop(whole, spec.keys, lanes) as at:
            block(
                at, k.b.sub(k.i(spec.keys), k.i(at)) if isinstance(spec.keys, Extent) else spec.keys - whole
            )

    def _mask(self, mask: ir.Value, at: Index, live: Index, step: int) -> Vec:
        k = self.k
        if step == 0:
            return Vec(k, k.splat(k.load(mask, 0), self.lanes))
        return Vec(k, load_first(k, mask, at, self.lanes, live))

    def _dots(self, q: ir.Value, keys: ir.Value, starts: list[Index]) -> ir.Value:
        """Products of a row of q with keys, one in each lane."""
        k, spec, lanes = self.k, self.spec, self.lanes
        sums: list[ir.Value] = []
        for d in range(0, spec.depth, lanes):
            live = min(lanes, spec.depth - d)
            part = load_first(k, q, d, lanes, live)
            read = [load_first(k, keys, k.add(start, d), lanes, live) for start in starts]
            if d:
                sums = [k.fma(part, key, before) for key, before in zip(read, sums, strict=True)]
            else:
                sums = [k.b.fmul(part, key) for key in read]
        return sums_of(k, sums)

    def _softmax(self) -> ir.Value:
        """Scores as e^(score - largest); one over their sum."""
        k = self.k
        line = Line(k, self.scores, self.scores, 0, self.spec.keys, "f32")
        part = exponentials(line, self.spec.masked)
        if line.held is not None:
            line.finish(same)
        return part.v

    def _results(self, result: ir.Value, values: ir.Value, part: ir.Value) -> None:
        """The exponentials times the values, over their sum, some vectors of columns at a time."""
        k, spec, lanes = self.k, self.spec, self.lanes
        vectors, most = ceil_div(spec.width, lanes), max(1, k.target.registers // (2 * _CHAINS))
        for first in range(0, vectors, most):
            count = min(most, vectors - first)
            columns = [(c * lanes, min(lanes, spec.width - c * lanes)) for c in range(first, first + count)]

            def add(
                i: Index, sums: list[ir.Value], columns: list[tuple[int, int]] = columns
            ) -> list[ir.Value]:
                weight = k.splat(k.load(self.scores, i), lanes)
                row = k.mul(i, spec.v[2])
                read = [load_first(k, values, k.add(row, at), lanes, live) for at, live in columns]
                return [k.fma(weight, value, total) for value, total in zip(read, sums, strict=True)]

            def several(i: Index, sums: list[ir.Value], count: int = count) -> list[ir.Value]:
                parts = [add(k.add(i, c), sums[c * count : (c + 1) * count]) for c in range(_CHAINS)]
                return [value for part in parts for value in part]

            whole = k.opened(spec.keys // _CHAINS * _CHAINS)
            zero = [k.splat(0.0, lanes)] * (count * _CHAINS)
            sums = k.reduce_loop(0, whole, _CHAINS, zero, several)
            total = sums[:count]
            for chain in range(1, _CHAINS):
                total = [k.b.fadd(a, b) for a, b in zip(total, sums[chain * count :], strict=False)]
            total = k.reduce_loop(whole, k.opened(spec.keys), 1, total, add)
            wide = k.splat(part, lanes)
            for (at, live), value in zip(columns, total, strict=True):
                store_first(k, k.b.fmul(value, wide), result, at, live)
