"""Reductions over any axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values, vecmath
from glow_backends.cpu.emit.builder import F32, I32, KernelBuilder, shuffle_mask
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.pointwise import cast
from glow_backends.cpu.emit.pointwise_rules import INTEGER, maximum, minimum
from glow_backends.cpu.emit.values import Active, Vec
from glow_backends.cpu.kernel import Kernel, known, operator_of
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.extent import Extent
from glow_dialects.core.operator import Operator
from glow_dialects.ops.reduce import (
    ReduceL1Op,
    ReduceL2Op,
    ReduceLogSumExpOp,
    ReduceLogSumOp,
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
    ReduceSumSquareOp,
    ReductionOp,
)

_CHUNK = 512  # terms of a running sum before it is added to the total, so that errors stay small

Combine = Callable[[KernelBuilder, ir.Value, ir.Value], ir.Value]
Term = Callable[[ir.Value], ir.Value]


@dataclass(frozen=True)
class ReduceSpec:
    """result = op over `axes` of a tensor of `shape`.

    op: sum, mean, max, min, prod, sum_square, l1, l2, log_sum, log_sum_exp. Operands: result (the
    kept dimensions, same dtype), input. f16 and bf16 are summed in f32.
    """

    op: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    dtype: str = "f32"


def combiner(op: str, dtype: str) -> Combine:
    """The associative operation of a reduction on values of compute type: sum, prod, max or min.

    "largest" and "least" are max and min of floats that may lose a NaN.
    """
    if op in ("largest", "least"):
        sign = ">" if op == "largest" else "<"
        return lambda k, x, y: k.b.select(k.b.fcmp_ordered(sign, x, y), x, y)
    signed = values.is_signed(dtype)
    if values.is_float(dtype):
        if op == "sum":
            return lambda k, x, y: k.b.fadd(x, y)
        if op == "prod":
            return lambda k, x, y: k.b.fmul(x, y)
        rule = maximum if op == "max" else minimum
        return lambda k, x, y: rule(Vec(k, x), Vec(k, y)).v
    name = {"sum": "add", "prod": "mul"}.get(op, op)
    return lambda k, x, y: INTEGER[name](k, [x, y], signed, ())


def identity(op: str, dtype: str) -> float:
    """The neutral element of `combiner(op)`."""
    if op in ("sum", "prod"):
        return 0 if op == "sum" else 1
    if values.is_float(dtype):
        return -math.inf if op in ("max", "largest") else math.inf
    bits = 8 * values.size(dtype)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if not values.is_signed(dtype):
        low, high = 0, (1 << bits) - 1
    return low if op == "max" else high


def horizontal(k: KernelBuilder, vector: ir.Value, combine: Combine) -> ir.Value:
    """All lanes combined to a scalar, halves with halves."""
    lanes = values.lanes_of(vector.type)
    undefined = ir.Constant(vector.type, ir.Undefined) if lanes > 1 else None
    while lanes > 1:
        lanes //= 2
        halves = [
            k.b.shuffle_vector(
                vector,
                ir.Constant(vector.type, ir.Undefined),
                shuffle_mask(tuple(range(start, start + lanes))),
            )
            for start in (0, lanes)
        ]
        vector = combine(k, halves[0], halves[1])
    if undefined is None:
        return vector
    return k.b.extract_element(vector, ir.Constant(I32, 0))


def keep_active(k: KernelBuilder, value: ir.Value, active: Active, other: float) -> ir.Value:
    """The `active` lanes of the value, `other` in the rest."""
    lanes = values.lanes_of(value.type)
    if isinstance(active, int) and active >= lanes:
        return value
    mask = values.mask(lanes, active) if isinstance(active, int) else active
    return k.b.select(mask, value, values.constant(value.type, other))


def row_reduce(
    k: KernelBuilder,
    count: int,
    lanes: int,
    load: Callable[[Index, int, Active], ir.Value],
    combine: Combine,
    neutral: float,
    kind: ir.Type,
    unroll: int = 4,
) -> ir.Value:
    """Combine `load(position, lanes, active)` over range(count) to one scalar of `kind`.

    `load` gives the terms of `lanes` adjacent positions of which the first `active` exist.
    """
    if not isinstance(count, Extent):
        unroll = max(1, min(unroll, count // lanes))
    vector = ir.VectorType(kind, lanes) if lanes > 1 else kind
    start: list[ir.Value] = [values.constant(vector, neutral)] * unroll
    totals = _accumulate_row(k, count, lanes, load, combine, neutral, start)
    return horizontal(k, _tree(k, totals, combine), combine)


def _tree(k: KernelBuilder, parts: Sequence[ir.Value], combine: Combine) -> ir.Value:
    parts = list(parts)
    while len(parts) > 1:
        pairs = [combine(k, parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + ([parts[-1]] if len(parts) % 2 else [])
    return parts[0]


def _accumulate_row(
    k: KernelBuilder,
    count: int,
    lanes: int,
    load: Callable[[Index, int, Active], ir.Value],
    combine: Combine,
    neutral: float,
    totals: list[ir.Value],
) -> list[ir.Value]:
    """Add a contiguous row to the accumulators, one vector each in turn."""
    unroll = len(totals)
    step = unroll * lanes
    done = count // step * step

    def body(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        return [combine(k, c, load(k.add(i, p * lanes), lanes, lanes)) for p, c in enumerate(carried)]

    if isinstance(done, Extent) or done:
        totals = chunked(k, done, step, totals, body, combine, neutral)
    if isinstance(count, Extent):  # whole vectors behind them, then the lanes of a mask
        whole = k.i(count // lanes * lanes)
        totals[:1] = k.reduce_loop(
            done, whole, lanes, totals[:1], lambda i, held: [combine(k, held[0], load(i, lanes, lanes))]
        )
        active = values.first_lanes(k, lanes, k.i(count % lanes))
        term = keep_active(k, load(whole, lanes, active), active, neutral)
        return [combine(k, totals[0], term), *totals[1:]]
    for part, start in enumerate(range(done, count, lanes)):
        active = min(lanes, count - start)
        term = keep_active(k, load(start, lanes, active), active, neutral)
        totals = list(totals)
        totals[part % unroll] = combine(k, totals[part % unroll], term)
    return totals


def chunked(
    k: KernelBuilder,
    stop: int,
    step: int,
    totals: Sequence[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
    combine: Combine,
    neutral: float,
) -> list[ir.Value]:
    """A carried loop whose long runs are accumulated in chunks, then chunk by chunk."""
    run, length = _CHUNK * step, common.length(k, stop)
    if stop < 2 * run:
        return k.reduce_loop(0, length, step, totals, body)
    fresh = [values.constant(t.type, neutral) for t in totals]

    def chunk(start: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        end = k.b.add(start, k.i(run))
        end = k.b.select(k.b.icmp_signed("<", end, k.i(length)), end, k.i(length))
        parts = k.reduce_loop(start, end, step, fresh, body)
        return [combine(k, c, p) for c, p in zip(carried, parts, strict=True)]

    return k.reduce_loop(0, length, run, totals, chunk)


_BASE = {
    "mean": "sum", "sum_square": "sum", "l1": "sum", "l2": "sum", "log_sum": "sum",
    "log_sum_exp": "sum",
}  # fmt: skip


@dataclass(frozen=True)
class _Axis:
    extent: int
    stride: int
    reduced: bool


def _axes(shape: Sequence[int], axes: Sequence[int]) -> list[_Axis]:
    """Neighbouring kept (or reduced) dimensions merged, unit ones dropped."""
    chosen = {a % len(shape) for a in axes}
    merged: list[_Axis] = []
    for axis, (extent, stride) in enumerate(zip(shape, common.row_major(shape), strict=True)):
        if extent == 1:
            continue
        reduced = axis in chosen
        if merged and merged[-1].reduced == reduced:
            merged[-1] = _Axis(merged[-1].extent * extent, stride, reduced)
        else:
            merged.append(_Axis(extent, stride, reduced))
    return merged


def emit_reduce(module: ir.Module, name: str, spec: ReduceSpec, target: CpuTarget) -> ir.Function:
    """Emit the reduction; see `ReduceSpec` for the operands."""
    k = KernelBuilder(module, name, 2, target, sized=True)
    if spec.dtype == "i1":
        spec = replace(spec, dtype="u8")
    _Reduction(k, spec).emit()
    return k.finish()


class _Reduction:
    """One reduction: the kept dimensions outside, the reduced ones inside."""

    def __init__(self, k: KernelBuilder, spec: ReduceSpec) -> None:
        self.k = k
        self.spec = spec
        self.dtype = spec.dtype
        dims = _axes(spec.shape, spec.axes)
        self.kept = [d for d in dims if not d.reduced]
        self.reduced = [d for d in dims if d.reduced]
        self.inner_kept = bool(dims) and not dims[-1].reduced
        self.count = common.product([d.extent for d in self.reduced])
        self.lanes = max(1, k.target.vector_bytes // values.width(spec.dtype))
        self.base = _BASE.get(spec.op, spec.op)
        self.bytes = common.product(spec.shape) * values.size(spec.dtype)

    def emit(self) -> None:
        """Emit for both orders: the innermost dimension kept, or reduced."""
        k = self.k
        if common.product([d.extent for d in self.kept]) == 0:
            return
        outer = self.kept[:-1] if self.inner_kept else self.kept
        extents = [d.extent for d in outer]
        few = common.product(extents) < k.target.threads
        divided = self.inner_kept and few
        with common.nest(k, extents, self.bytes, shared=not divided) as indices:
            base = common.offset(k, indices, [d.stride for d in outer])
            inner = self.kept[-1].extent if self.inner_kept else 1
            strides = [s * inner for s in common.row_major(extents)]
            result = common.offset(k, indices, strides)
            if self.inner_kept:
                self._columns(base, result, inner, divided)
            else:
                self._store(self._row(base), result, None)

    # The innermost dimension is kept: vectors of independent results.
    def _columns(self, base: Index, result: Index, inner: int, divided: bool) -> None:
        k, unroll = self.k, 4 if inner >= 4 * self.lanes else 1
        if not isinstance(inner, Extent):
            unroll = max(1, min(4, inner // self.lanes))
        block = unroll * self.lanes
        blocks = inner // block
        low, high = common.share(k, blocks, self.bytes) if divided else (0, common.length(k, blocks))
        with k.loop(low, high) as i:
            start = k.mul(i, block)
            self._column_block(
                base,
                result,
                [k.add(start, p * self.lanes) for p in range(unroll)],
                self.lanes,
                None,
            )
        with common.last_worker(k) if divided else nullcontext():
            if isinstance(inner, Extent):
                begin, rest = k.i(blocks * block), inner % block
                for start, lanes, active in common.sized_strips(k, begin, rest, self.lanes, 1):
                    self._column_block(base, result, [start], lanes, active)
                return
            for start in range(blocks * block, inner, self.lanes):
                active = min(self.lanes, inner - start)
                lanes = common.power_of_two(active)
                self._column_block(base, result, [start], lanes, active)

    def _column_block(
        self, base: Index, result: Index, starts: Sequence[Index], lanes: int, active: Active | None
    ) -> None:
        k = self.k

        def load(part: int, place: Index) -> ir.Value:
            position = k.add(k.add(base, starts[part]), place)
            return values.load(k, k.operands[1], position, self.dtype, lanes, active)

        def sweep(term: Callable[[int, ir.Value], ir.Value], op: str) -> list[ir.Value]:
            combine, neutral = combiner(op, self.dtype), identity(op, self.dtype)
            kind = (
                ir.VectorType(values.compute(self.dtype), lanes) if lanes > 1 else values.compute(self.dtype)
            )
            initial = [values.constant(kind, neutral)] * len(starts)

            def body(place: Index, carried: list[ir.Value]) -> list[ir.Value]:
                return [combine(k, c, term(p, load(p, place))) for p, c in enumerate(carried)]

            return self._nest(self.reduced, 0, initial, body, combine, neutral)

        peaks: list[ir.Value] = []
        if self.spec.op == "log_sum_exp":
            peaks = sweep(lambda _, x: x, "max")
        shifts = [_finite(k, m) for m in peaks]
        totals = sweep(lambda p, x: self._term(x, shifts[p] if shifts else None), self.base)
        for part, total in enumerate(totals):
            value = self._finish(total, peaks[part] if peaks else None)
            self._store(value, k.add(result, starts[part]), active)

    def _nest(
        self,
        dims: Sequence[_Axis],
        place: Index,
        totals: Sequence[ir.Value],
        body: Callable[[Index, list[ir.Value]], list[ir.Value]],
        combine: Combine,
        neutral: float,
    ) -> list[ir.Value]:
        """Loops over the given reduced dimensions around `body(offset, totals)`."""
        k = self.k
        if not dims:
            return body(place, list(totals))

        def step(i: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            here = k.add(place, k.mul(i, common.length(k, dims[0].stride)))
            return self._nest(dims[1:], here, carried, body, combine, neutral)

        return chunked(k, dims[0].extent, 1, totals, step, combine, neutral)

    # The innermost dimension is reduced: vectors along it, added up across lanes at the end.
    def _row(self, base: Index) -> ir.Value:
        if self.spec.op == "log_sum_exp":
            peak = self._row_sweep(base, lambda x: x, "max")
            shift = _finite(self.k, peak)
            total = self._row_sweep(base, lambda x: self._term(x, shift), "sum")
            return self._finish(total, peak)
        return self._finish(self._row_sweep(base, lambda x: self._term(x, None), self.base), None)

    def _row_sweep(self, base: Index, term: Term, op: str) -> ir.Value:
        k = self.k
        combine, neutral = combiner(op, self.dtype), identity(op, self.dtype)
        extent = self.reduced[-1].extent if self.reduced else 1
        lanes = common.lanes_for(extent, self.lanes)
        kind = values.compute(self.dtype)
        unroll = 4 if isinstance(extent, Extent) else max(1, min(4, extent // lanes))
        vector = ir.VectorType(kind, lanes) if lanes > 1 else kind
        initial = [values.constant(vector, neutral)] * unroll

        def body(place: Index, carried: list[ir.Value]) -> list[ir.Value]:
            def load(i: Index, width: int, active: Active) -> ir.Value:
                position = k.add(k.add(base, place), i)
                return term(values.load(k, k.operands[1], position, self.dtype, width, active))

            return _accumulate_row(k, extent, lanes, load, combine, neutral, carried)

        totals = self._nest(self.reduced[:-1], 0, initial, body, combine, neutral)
        return horizontal(k, _tree(k, totals, combine), combine)

    # The value that is accumulated, and the function of the total.
    def _term(self, x: ir.Value, shift: ir.Value | None) -> ir.Value:
        k, op = self.k, self.spec.op
        if shift is not None:
            shifts = values.splat(k, shift, values.lanes_of(x.type)) if shift.type != x.type else shift
            return vecmath.exp_nonpositive(Vec(k, k.b.fsub(x, shifts))).v
        if op in ("sum_square", "l2"):
            return k.b.fmul(x, x) if values.is_float(self.dtype) else k.b.mul(x, x)
        if op == "l1":
            if values.is_float(self.dtype):
                return Vec(k, x).abs().v
            return INTEGER["abs"](k, [x], values.is_signed(self.dtype), ())
        return x

    def _finish(self, total: ir.Value, peak: ir.Value | None) -> ir.Value:
        k, op = self.k, self.spec.op
        if op not in ("mean", "l2", "log_sum", "log_sum_exp"):
            return total
        if not values.is_float(self.dtype):
            wide = self._finish_float(Vec(k, cast(k, total, self.dtype, "f64")), None)
            return cast(k, wide.v, "f64", self.dtype)
        return self._finish_float(Vec(k, total), peak).v

    def _finish_float(self, total: Vec, peak: ir.Value | None) -> Vec:
        op = self.spec.op
        if op == "mean":
            return total / self._divisor(total)
        if op == "l2":
            return total.sqrt()
        result = vecmath.log(total)
        if peak is None:
            return result
        largest = Vec(self.k, peak)
        infinite = largest.abs().compare("==", math.inf)
        return largest.where(infinite, result + largest)

    def _divisor(self, total: Vec) -> Vec | float:
        """The number of terms of a mean; an argument of the call where it is a vector like another."""
        k = self.k
        if total.v.type != ir.VectorType(F32, k.target.lanes):
            return number_like(total, self.count)
        return Vec(k, k.number(self.count, "terms"))

    def _store(self, value: ir.Value, place: Index, active: Active | None) -> None:
        values.store(self.k, value, self.k.operands[0], place, self.dtype, active)


def number_like(value: Vec, number: int) -> Vec | float:
    """A whole number as a factor or divisor of a value, whether it is known or not."""
    if not isinstance(number, Extent):
        return float(number)
    k, kind = value.k, value.v.type
    return Vec(k, values.splat(k, k.b.sitofp(k.i(number), values.element_of(kind)), values.lanes_of(kind)))


def _finite(k: KernelBuilder, x: ir.Value) -> ir.Value:
    """x, or 0 where it is infinite (so that inf - inf is not formed)."""
    value = Vec(k, x)
    return value.of(0.0).where(value.abs().compare("==", math.inf), value).v


_OF_FLOATS: dict[type[Operator], str] = {
    ReduceMeanOp: "mean",
    ReduceL2Op: "l2",
    ReduceLogSumOp: "log_sum",
    ReduceLogSumExpOp: "log_sum_exp",
}
_OF_NUMBERS: dict[type[Operator], str] = {
    ReduceSumOp: "sum",
    ReduceSumSquareOp: "sum_square",
    ReduceL1Op: "l1",
}
_OF_ALL: dict[type[Operator], str] = {ReduceMaxOp: "max", ReduceMinOp: "min", ReduceProdOp: "prod"}


class Reduce(Kernel[ReductionOp, ReduceSpec]):
    """A reduction over axes."""

    OPS = (*_OF_ALL, *_OF_NUMBERS, *_OF_FLOATS)
    emit = staticmethod(emit_reduce)

    def match(self, op: ReductionOp, context: CallContext) -> ReduceSpec | None:
        _, source = op.operands[:2]
        kind = dtype_name(source)
        names = dict(_OF_ALL)
        if kind != "i1":
            names |= _OF_NUMBERS
        if values.is_float(kind):
            names |= _OF_FLOATS
        name = names.get(operator_of(op))
        return ReduceSpec(name, shape(source), op.axes, kind) if name is not None and known(op) else None
