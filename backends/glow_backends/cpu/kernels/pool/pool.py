"""Max and average pooling over any number of spatial axes.

Tensors are seen as [outer, *spatial, inner]: NCHW has inner 1, NHWC inner C, NCHWc inner c. With
inner > 1 vectors hold neighbouring channels. With inner 1 the rows of a window are combined first, and
vectors of results then read off that row: in registers, or in memory where its ends are padded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import KernelBuilder, shuffle_mask
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.memory import float_table, maximum, minimum
from glow_backends.cpu.emit.values import Active
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.pool.pool_ops import PoolOp
from glow_backends.cpu.kernels.pool.pool_spec import AnyPool, PoolSpec, pool_spec
from glow_backends.cpu.kernels.reduction.reduce import ReduceSpec, combiner, emit_reduce, identity
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import Extent, are_equal, is_open
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.max_pool import MaxPoolOp

_ROW = 8192  # longest padded row, in elements, that is kept on the stack
_UNROLLED = 32  # widest window that is written out
_PIECES = 4  # vectors of a row that are held in registers


def emit_pool(module: ir.Module, name: str, spec: PoolSpec, target: CpuTarget) -> ir.Function:
    """Emit the pool; see `PoolSpec` for the operands."""
    k = KernelBuilder(module, name, 2, target)
    if common.product((spec.outer, spec.inner, *spec.out_size)):
        # Axes with a window of one element are not pooled: they count as outer or inner.
        spec = _simplified(spec)
        if spec.inner == 1 and _suits_rows(spec):
            _Rows(k, spec).emit()
        else:
            _Channels(k, spec).emit()
    return k.finish()


def _suits_rows(spec: PoolSpec) -> bool:
    """Whether `_Rows` takes a pool of neighbouring results."""
    pads = spec.pads[len(spec.size) - 1], spec.pads[-1]
    means = spec.mode == "avg" and not spec.count_include_pad
    if any(pads) and means and isinstance(spec.size[-1], Extent):
        return False  # how many elements each window has
    width = spec.size[-1] + sum(pads)
    return width <= _ROW and spec.kernel[-1] <= _UNROLLED and spec.strides[-1] <= 4


def _simplified(spec: PoolSpec) -> PoolSpec:
    """Leading axes whose windows are single elements joined with the outer ones."""
    while len(spec.size) > 1 and spec.kernel[0] == spec.strides[0] == 1:
        rank = len(spec.size)
        if spec.pads[0] or spec.pads[rank]:
            break
        spec = replace(
            spec,
            outer=spec.outer * spec.size[0],
            size=spec.size[1:],
            kernel=spec.kernel[1:],
            strides=spec.strides[1:],
            dilations=spec.dilations[1:],
            pads=spec.pads[1:rank] + spec.pads[rank + 1 :],
        )
    return spec


Bounds = list[tuple[Index, Index]]
Parts = list[tuple[int, Active]]


class _Pool:
    """The base of both forms: the operation, window bounds, the division of means."""

    def __init__(self, k: KernelBuilder, spec: PoolSpec) -> None:
        self.k, self.spec = k, spec
        self.rank = len(spec.size)
        op = "max" if spec.mode == "max" else "sum"
        dtype = "u8" if spec.dtype == "i1" else spec.dtype
        self.dtype = dtype
        self.combine = combiner(op, dtype)
        self.neutral = identity(op, dtype)
        self.kind = values.compute(dtype)
        self.lanes = max(1, k.target.vector_bytes // values.width(dtype))
        self.result, self.source = k.operands

    def start(self, lanes: int) -> ir.Value:
        """The neutral element in every lane."""
        vector = ir.VectorType(self.kind, lanes) if lanes > 1 else self.kind
        return values.constant(vector, self.neutral)

    def bounds(self, axis: int, place: Index) -> tuple[Index, Index]:
        """Kernel positions that meet the input, for a window place known only at run time."""
        k, spec = self.k, self.spec
        if not spec.pads[axis] and not spec.pads[axis + self.rank]:
            return 0, spec.kernel[axis]
        step = spec.dilations[axis]
        first = k.add(k.mul(place, spec.strides[axis]), -spec.pads[axis])
        before = maximum(k, k.mul(first, -1), 0)
        after = maximum(k, k.add(k.mul(first, -1), spec.size[axis] - 1 + step), 0)
        if step > 1:
            before = k.b.sdiv(k.i(k.add(before, step - 1)), k.i(step))
            after = k.b.sdiv(k.i(after), k.i(step))
        return minimum(k, before, spec.kernel[axis]), minimum(k, after, spec.kernel[axis])

    def mean(self, total: ir.Value, counts: Sequence[Index], columns: ir.Value | None = None) -> ir.Value:
        """total / product of counts (/ columns); the total itself where the mode is max."""
        k, spec = self.k, self.spec
        if spec.mode == "max":
            return total
        if spec.count_include_pad:
            counts, columns = spec.kernel, None
        known = [c for c in counts if isinstance(c, int)]
        count: ir.Value = values.constant(self.kind, common.product(known))
        for part in counts:
            if not isinstance(part, int):
                count = k.b.fmul(count, k.b.sitofp(part, self.kind))
        if len(known) < len(counts):
            # A window in the padding alone has the sum 0 and is divided by 1.
            empty = k.b.fcmp_ordered("==", count, values.zero(self.kind))
            count = k.b.select(empty, values.constant(self.kind, 1), count)
        count = values.splat(k, count, values.lanes_of(total.type))
        return k.b.fdiv(total, count if columns is None else k.b.fmul(count, columns))

    def window(
        self,
        bounds: Bounds,
        strides: Sequence[int],
        totals: list[ir.Value],
        body: Callable[[Index, list[ir.Value]], list[ir.Value]],
        place: Index = 0,
    ) -> list[ir.Value]:
        """Loops over kernel positions around `body(offset in the input, totals)`."""
        k = self.k
        if not bounds:
            return body(place, totals)
        low, high = bounds[0]

        def step(i: Index, carried: list[ir.Value]) -> list[ir.Value]:
            here = k.add(place, k.mul(i, strides[0]))
            return self.window(bounds[1:], strides[1:], carried, body, here)

        if low == 0 and isinstance(high, int) and high <= 2:
            for i in range(high):
                totals = step(i, totals)
            return totals
        return k.reduce_loop(low, high, 1, totals, step)


class _Channels(_Pool):
    """Vectors of neighbouring channels."""

    def __init__(self, k: KernelBuilder, spec: PoolSpec) -> None:
        super().__init__(k, spec)
        self.lanes = min(self.lanes, common.power_of_two(spec.inner))
        strides = common.row_major((*spec.size, spec.inner))[:-1]
        self.steps = [s * d for s, d in zip(strides, spec.dilations, strict=True)]
        self.moves = [s * t for s, t in zip(strides, spec.strides, strict=True)]
        self.origin = -sum(p * s for p, s in zip(spec.pads, strides, strict=False))

    def emit(self) -> None:
        """Borders of the last axis by run-time bounds, its interior with the window written out."""
        k, spec = self.k, self.spec
        *rows, columns = spec.out_size
        kernel = spec.kernel[-1]
        low, high = spec.full_windows(self.rank - 1)
        vectors = -(-spec.inner // self.lanes)
        if kernel * min(vectors, 4) > 2 * _UNROLLED:
            low = high = columns
        with common.nest(k, [spec.outer, *rows], spec.bytes_touched) as (o, *places):
            outer_bounds = [self.bounds(axis, p) for axis, p in enumerate(places)]
            base = k.index(
                (o, common.product(spec.size) * spec.inner), *zip(places, self.moves, strict=False)
            )
            base = k.add(base, self.origin)
            to = k.index(
                *zip([o, *places], common.row_major([spec.outer, *spec.out_size, spec.inner]), strict=False)
            )
            for start, stop in ((0, low), (high, columns)):
                if is_open((start, stop)) or start < stop:
                    with k.loop(start, stop) as column:
                        bounds = [*outer_bounds, self.bounds(self.rank - 1, column)]
                        self._pixels(base, to, column, 1, bounds, [0], self.steps)
            if are_equal(low, high):
                return
            together = max(1, min(4 if vectors == 1 else 1, _UNROLLED // kernel))
            taps = [i * self.steps[-1] for i in range(kernel)]
            stop = low + (high - low) // together * together
            for start, end, pixels in ((low, stop, together), (stop, high, 1)):
                if is_open((start, end)) or start < end:
                    with k.loop(start, end, pixels) as column:
                        self._pixels(base, to, column, pixels, outer_bounds, taps, self.steps[:-1])

    def _pixels(
        self,
        base: Index,
        to: Index,
        column: Index,
        pixels: int,
        bounds: Bounds,
        taps: Sequence[int],
        steps: Sequence[int],
    ) -> None:
        """Neighbouring results: loops over `bounds`, the taps of the last axis written out."""
        k, spec = self.k, self.spec
        here = k.add(base, k.mul(column, self.moves[-1]))
        there = k.add(to, k.mul(column, spec.inner))
        counts = [k.b.sub(k.i(h), k.i(l)) if not (isinstance(h, int) and isinstance(l, int)) else h - l
                  for l, h in bounds]  # fmt: skip
        if len(bounds) < self.rank:
            counts.append(len(taps))
        group = 4 if pixels == 1 else 1
        lanes = self.lanes
        whole = spec.inner // (lanes * group) * (lanes * group)

        def channels(first: Index, parts: Sequence[tuple[int, int]]) -> None:
            """`parts`: (offset, active lanes) of each vector beside `first`."""
            spots = [(p, part) for p in range(pixels) for part in parts]
            totals = [self.start(lanes) for _ in spots]

            def body(place: Index, carried: list[ir.Value]) -> list[ir.Value]:
                new = list(carried)
                for tap in taps:
                    for number, (pixel, (offset, active)) in enumerate(spots):
                        at = k.add(k.add(k.add(here, place), first), tap + pixel * self.moves[-1] + offset)
                        x = values.load(k, self.source, at, self.dtype, lanes, active)
                        new[number] = self.combine(k, new[number], x)
                return new

            totals = self.window(bounds, steps, totals, body)
            for (pixel, (offset, active)), total in zip(spots, totals, strict=True):
                at = k.add(k.add(there, first), pixel * spec.inner + offset)
                values.store(k, self.mean(total, counts), self.result, at, self.dtype, active)

        if whole:
            parts = [(i * lanes, lanes) for i in range(group)]
            if whole == lanes * group:
                channels(0, parts)
            else:
                with k.loop(0, whole, lanes * group) as c:
                    channels(c, parts)
        rest = [(c, min(lanes, spec.inner - c)) for c in range(whole, spec.inner, lanes)]
        if rest:
            channels(0, rest)


class _Rows(_Pool):
    """Vectors of neighbouring results along the last axis."""

    def emit(self) -> None:
        """The rows of a window combined into one padded row, then windows along it."""
        k, spec = self.k, self.spec
        before, after = spec.pads[self.rank - 1], spec.pads[-1]
        width = spec.size[-1]
        temporary = "f32" if spec.dtype in values.NARROW else self.dtype
        rows = spec.out_size[:-1]
        if not before and not after and self._reach(self.lanes) <= _PIECES * self.lanes:
            self._in_registers()
            return
        direct = not rows and not before and not after and spec.strides[-1] == 1 and temporary == self.dtype
        room = _ROW if isinstance(width, Extent) else before + width + after
        row = values.stack(k, values.storage(temporary), room + 4 * self.lanes)
        if not direct:
            for at in [*range(0, before, self.lanes), before + width]:
                values.store(k, self.start(self.lanes), row, at, temporary)
            for at in range(0, after, self.lanes):
                values.store(k, self.start(self.lanes), row, before + width + at, temporary)
        for base, to, bounds, counts in self._places():
            if not direct:
                self._column_sums(base, bounds, row, before, temporary)
            line = (self.source, base) if direct else (row, 0)
            self._along(*line, to, counts, temporary)

    @property
    def _steps(self) -> list[int]:
        """Elements between the taps of each axis but the last."""
        strides = common.row_major(self.spec.size)
        return [s * d for s, d in zip(strides, self.spec.dilations, strict=True)][:-1]

    def _places(self) -> Iterator[tuple[Index, Index, Bounds, list[Index]]]:
        """For each row of results: where it starts in the input and in the result, bounds and their sizes."""
        k, spec = self.k, self.spec
        strides, rows = common.row_major(spec.size), spec.out_size[:-1]
        moves = [s * t for s, t in zip(strides, spec.strides, strict=True)][:-1]
        origin = -sum(p * s for p, s in zip(spec.pads[: self.rank - 1], strides, strict=False))
        with common.nest(k, [spec.outer, *rows], spec.bytes_touched) as (o, *places):
            bounds = [self.bounds(axis, p) for axis, p in enumerate(places)]
            base = k.index((o, common.product(spec.size)), *zip(places, moves, strict=True))
            to = k.index(*zip([o, *places], common.row_major([spec.outer, *spec.out_size]), strict=False))
            counts = [
                h - l if isinstance(h, int) and isinstance(l, int) else k.b.sub(k.i(h), k.i(l))
                for l, h in bounds
            ]
            yield k.add(base, origin), to, bounds, counts

    def _reach(self, count: int) -> int:
        """How many elements of a row the windows of `count` neighbouring results span."""
        spec = self.spec
        return (count - 1) * spec.strides[-1] + (spec.kernel[-1] - 1) * spec.dilations[-1] + 1

    def _in_registers(self) -> None:
        """Vectors of a row of windows combined, and the taps of the last axis picked from them."""
        k, spec, lanes = self.k, self.spec, self.lanes
        stride, dilation, kernel = spec.strides[-1], spec.dilations[-1], spec.kernel[-1]
        for base, to, bounds, counts in self._places():
            for place, _, active in common.covered(k, 0, spec.out_size[-1], lanes, 1):
                start = k.add(base, k.mul(place, stride))
                parts = self._parts(active)

                def rows(
                    at: Index, carried: list[ir.Value], start: Index = start, parts: Parts = parts
                ) -> list[ir.Value]:
                    loaded = [
                        values.load(k, self.source, k.add(k.add(start, at), i), self.dtype, lanes, live)
                        for i, live in parts
                    ]
                    return [self.combine(k, c, x) for c, x in zip(carried, loaded, strict=True)]

                pieces = self.window(bounds, self._steps, [self.start(lanes) for _ in parts], rows)
                wanted = active if isinstance(active, int) else lanes
                total = _pick(k, pieces, 0, stride, lanes, wanted)
                for tap in range(1, kernel):
                    picked = _pick(k, pieces, tap * dilation, stride, lanes, wanted)
                    total = self.combine(k, total, picked)
                value = self.mean(total, [*counts, kernel])
                values.store(k, value, self.result, k.add(to, place), self.dtype, active)

    def _parts(self, active: Active) -> list[tuple[int, Active]]:
        """The vectors that `active` neighbouring windows read: where they lie, and the lanes that count."""
        k, lanes = self.k, self.lanes
        if isinstance(active, int):
            reach = self._reach(active)
            return [(i, min(lanes, reach - i)) for i in range(0, reach, lanes)]
        count = k.i(self.spec.out_size[-1] % lanes)
        reach = k.add(k.mul(k.b.sub(count, k.i(1)), self.spec.strides[-1]), self._reach(1))
        starts = range(0, self._reach(lanes), lanes)
        here = (maximum(k, minimum(k, k.add(reach, -i), lanes), 0) for i in starts)
        return [(i, values.first_lanes(k, lanes, k.i(n))) for i, n in zip(starts, here, strict=True)]

    def _column_sums(self, base: Index, bounds: Bounds, row: ir.Value, before: int, dtype: str) -> None:
        """row[before + x] = the window's rows combined at column x."""
        k, width = self.k, self.spec.size[-1]
        group = max(1, min(4, estimate(width) // self.lanes))
        block = group * self.lanes

        def vectors(first: Index, parts: Sequence[tuple[int, int, Active]]) -> None:
            def body(place: Index, carried: list[ir.Value]) -> list[ir.Value]:
                at = k.add(k.add(base, place), first)
                return [
                    self.combine(
                        k, c, values.load(k, self.source, k.add(at, offset), self.dtype, lanes, active)
                    )
                    for c, (offset, lanes, active) in zip(carried, parts, strict=True)
                ]

            totals = self.window(bounds, self._steps, [self.start(lanes) for _, lanes, _ in parts], body)
            for total, (offset, _, active) in zip(totals, parts, strict=True):
                values.store(k, total, row, k.add(first, before + offset), dtype, active)

        whole = width // block * block
        if isinstance(width, Extent) or whole:
            with k.loop(0, whole, block) as x:
                vectors(x, [(i * self.lanes, self.lanes, self.lanes) for i in range(group)])
        if isinstance(width, Extent):
            for x, lanes, active in common.covered(k, 0, width - whole, self.lanes, 1):
                vectors(k.add(x, whole), [(0, lanes, active)])
            return
        rest = [(x, self.lanes, min(self.lanes, width - x)) for x in range(whole, width, self.lanes)]
        if rest:
            vectors(0, rest)

    def _along(self, row: ir.Value, start: Index, to: Index, counts: Sequence[Index], dtype: str) -> None:
        """Windows along a row whose borders are padded."""
        k, spec = self.k, self.spec
        axis = self.rank - 1
        columns, stride = spec.out_size[-1], spec.strides[-1]
        if isinstance(columns, Extent):  # no means of windows that the border cuts: see `_suits_rows`
            widths, same = None, spec.kernel[-1]
        else:
            spans = [spec.span(axis, o) for o in range(columns)]
            widths = np.array([max(1, high - low) for low, high in spans], np.float64)
            same = int(widths[0]) if (widths == widths[0]).all() else None
        table = None
        if spec.mode == "avg" and widths is not None and same is None and not spec.count_include_pad:
            table = float_table(k, widths, self.kind)
        if same is not None:
            counts = [*counts, same]
        for place, lanes, active in common.covered(k, 0, columns, self.lanes, 2):
            total = self.start(lanes)
            for tap in range(spec.kernel[-1]):
                at = k.add(k.add(start, k.mul(place, stride)), tap * spec.dilations[-1])
                total = self.combine(k, total, self._strided(row, at, stride, lanes, active, dtype))
            divisor = None if table is None else k.load(table, place, self.kind, lanes)
            value = self.mean(total, counts, divisor)
            values.store(k, value, self.result, k.add(to, place), self.dtype, active)

    def _strided(
        self, row: ir.Value, at: Index, stride: int, lanes: int, active: Active, dtype: str
    ) -> ir.Value:
        """`lanes` elements `stride` apart, of which `active` are wanted."""
        k = self.k
        if stride == 1 or lanes == 1:
            return values.load(k, row, at, dtype, lanes, active)
        active = active if isinstance(active, int) else lanes  # there is room behind a row
        wanted = (active - 1) * stride + 1
        pieces = [values.load(k, row, k.add(at, i * lanes), dtype, lanes) for i in range(-(-wanted // lanes))]
        return _pick(k, pieces, 0, stride, lanes, active)


def _pick(
    k: KernelBuilder, pieces: Sequence[ir.Value], first: int, stride: int, lanes: int, active: int
) -> ir.Value:
    """`active` elements from `first` on of adjacent vectors, `stride` apart; other lanes are undefined."""
    result: ir.Value = ir.Constant(pieces[0].type, ir.Undefined)
    for number, piece in enumerate(pieces):
        places = [first + i * stride - number * lanes for i in range(lanes)]
        inside = [0 <= place < lanes and i < active for i, place in enumerate(places)]
        if any(inside):
            order = [
                lanes + p if taken else i for i, (p, taken) in enumerate(zip(places, inside, strict=True))
            ]
            result = k.b.shuffle_vector(result, piece, shuffle_mask(tuple(order)))
    return result


class GlobalPool(Kernel[AnyPool, ReduceSpec]):
    """A pool with one window, of all elements: a reduction."""

    OPS = (MaxPoolOp, AvgPoolOp, PoolOp)
    emit = staticmethod(emit_reduce)

    def match(self, op: AnyPool, context: CallContext) -> ReduceSpec | None:
        spec = pool_spec(op)
        if spec is None or spec.kernel != spec.size or any(spec.pads) or set(spec.dilations) != {1}:
            return None
        mode = "mean" if spec.mode == "avg" else "max"
        return ReduceSpec(mode, (spec.outer, prod(spec.size), spec.inner), (1,), spec.dtype)


class Pool(Kernel[AnyPool, PoolSpec]):
    """Any other pool."""

    OPS = (MaxPoolOp, AvgPoolOp, PoolOp)
    emit = staticmethod(emit_pool)

    def match(self, op: AnyPool, context: CallContext) -> PoolSpec | None:
        return pool_spec(op)
