"""Lines of a tensor (its elements along one axis), on which normalising kernels work.

A line is either contiguous, and then its elements fill the lanes of vectors, or strided, and then
the lanes hold neighbouring lines. The formulas of a kernel are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.values import Active, Vec
from glow_backends.cpu.emit.vecmath import exp_nonpositive
from glow_backends.cpu.kernels.reduction.reduce import chunked, combiner, horizontal, identity, row_reduce
from glow_backends.cpu.kernels.reduction.reduce import keep_active as keep
from glow_dialects.core.extent import Extent


@dataclass(frozen=True)
class At:
    """Where a vector stands: the position along the line, its lanes, and how many of them exist."""

    place: Index
    lanes: int
    active: Active


Formula = Callable[[Vec, At], Vec]


def same(x: Vec, at: At) -> Vec:
    """The element itself."""
    del at
    return x


class Line:
    """The elements at base + i * stride, 0 <= i < count, of `source`; results go to `target`.

    stride 1: one contiguous line. Otherwise `lanes` neighbouring lines, `active` of which exist.
    A short contiguous line is read once and kept in registers.
    """

    def __init__(
        self,
        k: KernelBuilder,
        target: ir.Value,
        source: ir.Value,
        base: Index,
        count: int,
        dtype: str,
        stride: Index = 1,
        lanes: int = 0,
        active: Active = 0,
    ) -> None:
        self.k, self.target, self.source, self.base = k, target, source, base
        self.count, self.dtype, self.stride = count, dtype, stride
        full = max(1, k.target.vector_bytes // values.width(dtype))
        self.contiguous = isinstance(stride, int) and stride == 1
        self.lanes = common.lanes_for(count, full) if self.contiguous else lanes
        self.active = active
        self.held: list[tuple[Vec, At]] | None = None
        short = not isinstance(count, Extent) and count <= self.lanes * max(2, k.target.registers // 4)
        if self.contiguous and short:
            pieces = [At(i, self.lanes, min(self.lanes, count - i)) for i in range(0, count, self.lanes)]
            self.held = [(self._load(at), at) for at in pieces]

    def spread(self, total: Vec, lanes: int) -> Vec:
        """A result of `reduce` beside vectors of the line."""
        if self.contiguous and lanes > 1:
            return Vec(self.k, values.splat(self.k, total.v, lanes))
        return total

    def reduce(self, op: str, term: Formula) -> Vec:
        """sum, max, ... of the terms: a scalar, or one value a lane when lines stand in lanes."""
        return self._sweep(op, term, store=False)

    def update(self, op: str, term: Formula) -> Vec:
        """The same, and the terms become the elements of the line (through the target buffer)."""
        if self.held is not None:
            self.held = [(term(x, at), at) for x, at in self.held]
            return self._sweep(op, same, store=False)
        total = self._sweep(op, term, store=True)
        self.source = self.target
        return total

    def finish(self, formula: Formula) -> None:
        """Store formula(element) into the target."""
        if self.held is not None:
            for x, at in self.held:
                self._store(formula(x, at), at)
        elif self.contiguous:
            for place, lanes, active in common.covered(self.k, 0, self.count, self.lanes, 2):
                at = At(place, lanes, active)
                self._store(formula(self._load(at), at), at)
        else:
            with self.k.loop(0, self.count) as i:
                at = At(i, self.lanes, self.active)
                self._store(formula(self._load(at), at), at)

    def _sweep(self, op: str, term: Formula, store: bool) -> Vec:
        k = self.k
        combine, neutral = combiner(op, self.dtype), identity(op, self.dtype)

        def value(at: At) -> ir.Value:
            x = term(self._load(at), at)
            if store:
                self._store(x, at)
            return x.v

        if self.held is not None:
            terms = [keep(k, term(x, at).v, at.active, neutral) for x, at in self.held]
            while len(terms) > 1:
                pairs = [combine(k, a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
                terms = pairs + ([terms[-1]] if len(terms) % 2 else [])
            return Vec(k, horizontal(k, terms[0], combine))
        kind = values.compute(self.dtype)
        if self.contiguous:
            return Vec(
                k,
                row_reduce(
                    k,
                    self.count,
                    self.lanes,
                    lambda i, lanes, active: value(At(i, lanes, active)),
                    combine,
                    neutral,
                    kind,
                ),
            )
        vector = ir.VectorType(kind, self.lanes) if self.lanes > 1 else kind
        (total,) = chunked(
            k,
            self.count,
            1,
            [values.constant(vector, neutral)],
            lambda i, c: [combine(k, c[0], value(At(i, self.lanes, self.active)))],
            combine,
            neutral,
        )
        return Vec(k, total)

    def _place(self, at: At) -> Index:
        return self.k.add(self.base, self.k.mul(at.place, self.stride))

    def _load(self, at: At) -> Vec:
        k = self.k
        return Vec(k, values.load(k, self.source, self._place(at), self.dtype, at.lanes, at.active))

    def _store(self, value: Vec, at: At) -> None:
        values.store(self.k, value.v, self.target, self._place(at), self.dtype, at.active)


def for_lines(
    k: KernelBuilder,
    shape: tuple[int, ...],
    axis: int,
    dtype: str,
    body: Callable[[Line, Index], None],
) -> None:
    """Call body(line, line number) for every line along `axis`; operand 0 is target, 1 source.

    When lines stand in lanes the number is that of the first one. The body is emitted once for
    contiguous lines, and for strided ones once a kind of strip (full vectors, tail).
    """
    axis %= len(shape)
    outer, count = common.product(shape[:axis]), shape[axis]
    inner = common.product(shape[axis + 1 :])
    if outer * inner == 0:
        return
    size = 2 * common.product(shape) * values.size(dtype)
    target, source = k.operands[0], k.operands[1]
    if inner == 1:
        with common.nest(k, [outer], size) as (row,):
            body(Line(k, target, source, k.mul(row, count), count, dtype), row)
        return
    lanes = max(1, k.target.vector_bytes // values.width(dtype))
    divided = outer < k.target.threads
    with common.nest(k, [outer], size, shared=not divided) as (o,):
        step = common.length(k, inner)
        base, number = k.mul(o, common.length(k, count * inner)), k.mul(o, step)
        whole = inner // lanes
        low, high = common.share(k, whole, size) if divided else (0, common.length(k, whole))
        with k.loop(low, high) as i:
            start = k.mul(i, lanes)
            line = Line(k, target, source, k.add(base, start), count, dtype, step, lanes, lanes)
            body(line, k.add(number, start))
        if isinstance(inner, Extent):
            with common.last_worker(k) if divided else nullcontext():
                for start, width, active in common.sized_strips(
                    k, k.i(whole * lanes), inner % lanes, lanes, 1
                ):
                    line = Line(k, target, source, k.add(base, start), count, dtype, step, width, active)
                    body(line, k.add(number, start))
        elif inner % lanes:
            start, rest = common.length(k, whole * lanes), inner % lanes
            with common.last_worker(k) if divided else nullcontext():
                width = common.power_of_two(rest)
                line = Line(k, target, source, k.add(base, start), count, dtype, step, width, rest)
                body(line, k.add(number, start))


def exponentials(line: Line, masked: bool = False) -> Vec:
    """The line becomes e^(element - largest); returns one over their sum.

    Where nothing but -inf stands all is NaN, or 0 if the line is `masked`.
    """
    peak = line.reduce("largest", same)  # a NaN makes the sum one
    peak = finite(peak) if masked else peak
    total = line.update("sum", lambda x, at: exp_nonpositive(x - line.spread(peak, at.lanes)))
    return share(total, masked)


def finite(peak: Vec) -> Vec:
    """The largest of a line, the least finite number for -inf: from it a difference is no NaN."""
    return peak.at_least(float(np.finfo(np.float32 if peak.single else np.float64).min))


def share(total: Vec, masked: bool) -> Vec:
    """One over a sum of exponentials; of none, which only a masked line has, 0."""
    part = 1.0 / total
    return total.of(0.0).where(total.compare("==", 0.0), part) if masked else part
