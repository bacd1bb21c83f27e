"""Linear interpolation onto another grid: each result is a weighted sum of neighbouring elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape, table
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I8, I64, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.values import Active
from glow_backends.cpu.kernel import Kernel, float_typed, known
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.extent import is_open
from glow_dialects.core.types import Array
from glow_dialects.ops.resize import ResizeOp, is_linear, taps

Line = tuple[Index, ir.Value | None]
"""A line along the last axis: where it begins, and its weight where one of the axes before is sampled."""
_ALIGN = 64


@dataclass(frozen=True)
class Axis:
    """`taps` elements of `size` make each of `new_size` results; 0: an axis that is copied."""

    size: int
    new_size: int
    taps: int


@dataclass(frozen=True)
class InterpolateSpec:
    """[planes, *sizes, inner] -> [planes, *new_sizes, inner].

    Operands: result, input, for every axis that is sampled its places (i32) and its weights (of the
    compute type), [taps, new_size] each, then scratch where there is some.
    """

    planes: int
    axes: tuple[Axis, ...]
    inner: int
    dtype: str

    @property
    def lines(self) -> tuple[int, int]:
        """How many lines along the last axis a plane of the input has, and one of the result."""
        return prod(a.size for a in self.axes[:-1]), prod(a.new_size for a in self.axes[:-1])

    @property
    def flat(self) -> bool:
        """Whether there is no axis behind the last: vectors lie along it."""
        return not is_open((self.inner,)) and self.inner == 1

    @property
    def spread(self) -> bool:
        """Whether lines are spread to their new size, tap by tap, before they are added up, more often."""
        return self.flat and len(self.axes) > 1 and self.lines[1] >= self.lines[0]

    @property
    def real(self) -> str:
        """The type of weights."""
        return "f64" if self.dtype == "f64" else "f32"

    @property
    def scratch(self) -> int:
        """Bytes of work space a worker: spread lines, or the weights of one line of the result."""
        last = self.axes[-1]
        count, kind = prod(a.taps or 1 for a in self.axes), self.real
        if self.flat:
            count, kind = self.lines[0] * last.taps * self.spread, self.dtype
        return -(-count * last.new_size * values.size(kind) // _ALIGN) * _ALIGN


def emit_interpolate(module: ir.Module, name: str, spec: InterpolateSpec, target: CpuTarget) -> ir.Function:
    """Emit the sums; see `InterpolateSpec` for the operands."""
    tables = 2 * sum(a.taps > 0 for a in spec.axes)
    k = KernelBuilder(module, name, 2 + tables + (spec.scratch > 0), target, sized=True)
    if spec.planes * spec.inner * prod(a.new_size for a in spec.axes):
        _Interpolation(k, spec).emit()
    return k.finish()


class _Interpolation:
    """The code of a spec. Every product and every sum is rounded, in the order of the places."""

    def __init__(self, k: KernelBuilder, spec: InterpolateSpec) -> None:
        self.k, self.spec, self.last = k, spec, spec.axes[-1]
        self.lanes = max(1, k.target.vector_bytes // values.width(spec.dtype))
        if spec.scratch:
            self.own = k.gep(k.operands[-1], k.mul(k.worker, k.size(spec.scratch)), I8)

    def emit(self) -> None:
        """Loops over the lines of the result."""
        k, spec, last = self.k, self.spec, self.last
        read, written = (
            n * size * spec.inner for n, size in zip(spec.lines, (last.size, last.new_size), strict=True)
        )
        extents = [a.new_size for a in spec.axes[:-1]]
        size = spec.planes * (read + written) * values.size(spec.dtype)
        shared = [spec.planes, *([] if spec.spread else extents)]
        with common.nest(k, shared, size) as (plane, *places):
            source, goal = (k.mul(plane, common.length(k, n)) for n in (read, written))
            if not spec.spread:
                self._line(source, goal, places)
                return
            self._spread(source)
            with common.nest(k, extents, 0, shared=False) as places:
                self._line(0, goal, places)

    def _line(self, source: Index, goal: Index, places: Sequence[Index]) -> None:
        """A line of the result, from those around it."""
        k, spec, axes = self.k, self.spec, self.spec.axes[:-1]
        width = self.last.new_size if spec.spread else self.last.size
        lines: list[Line] = [(source, None)]
        for axis, step in enumerate(common.row_major((*(a.size for a in axes), width * spec.inner))[:-1]):
            lines = self._sampled(lines, axis, places[axis], common.length(k, step))
        steps = common.row_major((*(a.new_size for a in axes), self.last.new_size * spec.inner))[:-1]
        goal = k.add(goal, common.offset(k, places, steps))
        if not spec.flat:
            self._of_vectors(lines, goal)
            return
        for place, lanes, active in common.strips(k, 0, self.last.new_size, self.lanes, 1):
            own = self._taps(len(axes), place, lanes, active)
            found = [
                self._spread_element(at, tap, place, lanes, active)
                if spec.spread
                else self._gathered(at, index, lanes)
                for at, _ in lines
                for tap, (index, _) in enumerate(own)
            ]
            self._store(found, self._weights(lines, own, lanes), k.add(goal, place), active)

    def _of_vectors(self, lines: Sequence[Line], goal: Index) -> None:
        """A line of vectors: the weights of all its places, then the sums."""
        k, spec, axis = self.k, self.spec, len(self.spec.axes) - 1
        width = common.length(k, self.last.new_size)
        most = k.target.vector_bytes // values.size(spec.real)
        for place, lanes, active in common.strips(k, 0, self.last.new_size, most, 1):
            weights = self._weights(lines, self._taps(axis, place, lanes, active), lanes)
            for number, weight in enumerate(weights):
                values.store(k, weight, self.own, k.add(place, k.mul(number, width)), spec.real, active)
        inner = common.length(k, spec.inner)
        with k.loop(0, width) as place:
            own = [k.mul(k.b.sext(index, I64), inner) for index, _ in self._taps(axis, place)]
            ends = [k.add(at, move) for at, _ in lines for move in own]
            numbers = [k.add(place, k.mul(n, width)) for n in range(len(ends))]
            weights = [k.load(self.own, at, values.compute(spec.real)) for at in numbers]
            to = k.add(goal, k.mul(place, inner))
            for at, lanes, active in common.sized_strips(k, 0, spec.inner, self.lanes, 2):
                found = [
                    values.load(k, k.operands[1], k.add(end, at), spec.dtype, lanes, active) for end in ends
                ]
                self._store(found, [values.splat(k, w, lanes) for w in weights], k.add(to, at), active)

    def _spread(self, source: Index) -> None:
        """Each line of a plane at its new size, [taps, lines, new_size]."""
        k, spec = self.k, self.spec
        with k.loop(0, common.length(k, spec.lines[0])) as line:
            at = k.add(source, k.mul(line, common.length(k, self.last.size)))
            to = k.mul(line, common.length(k, self.last.new_size))
            for place, lanes, active in common.strips(k, 0, self.last.new_size, self.lanes, 1):
                for tap, (index, _) in enumerate(self._taps(len(spec.axes) - 1, place, lanes, active)):
                    value = self._gathered(at, index, lanes)
                    values.store(k, value, self.own, self._place(to, tap, place), spec.dtype, active)

    def _spread_element(self, at: Index, tap: int, place: Index, lanes: int, active: Active) -> ir.Value:
        return values.load(self.k, self.own, self._place(at, tap, place), self.spec.dtype, lanes, active)

    def _place(self, line: Index, tap: int, place: Index) -> Index:
        """Where an element of a spread line lies."""
        part = common.length(self.k, tap * self.spec.lines[0] * self.last.new_size)
        return self.k.add(self.k.add(line, part), place)

    def _sampled(self, lines: Sequence[Line], axis: int, place: Index, step: Index) -> list[Line]:
        """The lines that one position reads along one more axis."""
        k = self.k
        if not self.spec.axes[axis].taps:
            return [(k.add(at, k.mul(place, step)), weight) for at, weight in lines]
        own = [(k.mul(k.b.sext(index, I64), step), weight) for index, weight in self._taps(axis, place)]
        return [(k.add(at, move), w if v is None else k.b.fmul(v, w)) for at, v in lines for move, w in own]

    def _taps(
        self, axis: int, place: Index, lanes: int = 1, active: Active = 1
    ) -> list[tuple[ir.Value, ir.Value]]:
        """(index, weight) of each tap of `lanes` places on a sampled axis."""
        k, own = self.k, self.spec.axes[axis]
        number = 2 + 2 * sum(a.taps > 0 for a in self.spec.axes[:axis])
        places = [k.add(place, common.length(k, tap * own.new_size)) for tap in range(own.taps)]
        indices, weights = k.operands[number : number + 2]
        return [
            (
                values.load(k, indices, at, "i32", lanes, active),
                values.load(k, weights, at, self.spec.real, lanes, active),
            )
            for at in places
        ]

    def _weights(
        self, lines: Sequence[Line], own: Sequence[tuple[ir.Value, ir.Value]], lanes: int
    ) -> list[ir.Value]:
        """The weight of every line and tap of the last axis."""
        k = self.k
        wide = [None if v is None else values.splat(k, v, lanes) for _, v in lines]
        return [w if v is None else k.b.fmul(v, w) for v in wide for _, w in own]

    def _gathered(self, line: Index, index: ir.Value, lanes: int) -> ir.Value:
        """Elements of a line of the input."""
        k, dtype = self.k, self.spec.dtype
        if lanes == 1:
            return values.load(k, k.operands[1], k.add(line, k.b.sext(index, I64)), dtype)
        kind = values.storage(dtype)
        return values.to_compute(k, k.gather(k.gep(k.operands[1], line, kind), index, kind), dtype)

    def _store(
        self, found: Sequence[ir.Value], weights: Sequence[ir.Value], to: Index, active: Active
    ) -> None:
        k = self.k
        total = reduce(k.b.fadd, map(k.b.fmul, found, weights))
        values.store(k, total, k.operands[0], to, self.spec.dtype, active)


class Interpolate(Kernel[ResizeOp, InterpolateSpec]):
    """Linear sampling of all axes at once, by tables of places and weights."""

    OPS = (ResizeOp,)
    emit = staticmethod(emit_interpolate)

    def match(self, op: ResizeOp, context: CallContext) -> InterpolateSpec | None:
        size, new = shape(op.input), op.sizes
        if not is_linear(op) or not known(op) or float_typed(op) is None:
            return None
        sampled = {t.axis: t for t in taps(op, size)}
        if any(t.outside is not None and t.outside.any() for t in sampled.values()):
            return None
        first, last = min(sampled), max(sampled)
        axes = [
            Axis(size[a], new[a], sampled[a].indices.shape[1] if a in sampled else 0)
            for a in range(first, last + 1)
        ]
        inner = _behind(op, last, context.target)
        if inner is None:
            inner, each = 1, prod(size[last + 1 :])
            axes[-1] = Axis(axes[-1].size * each, axes[-1].new_size * each, axes[-1].taps)
        return InterpolateSpec(prod(size[:first]), tuple(axes), inner, dtype_name(op.input))

    def operands(self, op: ResizeOp, spec: InterpolateSpec, context: CallContext) -> list[Operand]:
        size, real = shape(op.input), np.float64 if spec.dtype == "f64" else np.float32
        operands: list[Operand] = [op.result, op.input]
        sampled = taps(op, size)
        for tap in sampled:
            indices, weights = tap.indices.T, tap.weights.T
            if tap is sampled[-1] and _behind(op, tap.axis, context.target) is None:
                indices, weights = _widened(indices, weights, prod(size[tap.axis + 1 :]))
            operands.append(table("places", np.ascontiguousarray(indices.astype(np.int32))))
            operands.append(table("weights", np.ascontiguousarray(weights.astype(real))))
        return operands

    def scratch(self, spec: InterpolateSpec, target: CpuTarget) -> int:
        return spec.scratch * target.threads


def _behind(op: ResizeOp, axis: int, target: CpuTarget) -> int | None:
    """How many elements lie behind an axis; None where they are fewer than a vector, and part of the axis."""
    inner = prod(shape(op.input)[axis + 1 :])
    return inner if is_open((inner,)) or inner >= target.vector_bytes // 4 else None


def _widened(indices: Array, weights: Array, each: int) -> tuple[Array, Array]:
    """Places and weights, [taps, size] each, of an axis that has `each` elements in place of one."""
    wide = indices[:, :, None] * each + np.arange(each)
    return wide.reshape(len(indices), -1), np.repeat(weights, each, 1)
