"""Interpolation onto another grid, one axis at a time, with tables of indices and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape, table
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I8, I32, I64, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.memory import maximum, minimum
from glow_backends.cpu.emit.values import Active
from glow_backends.cpu.kernel import Kernel, float_typed, known
from glow_backends.cpu.kernels.data.copy import CopySpec, emit_copy
from glow_backends.cpu.kernels.data.layouts import transpose_spec
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.errors import OpenSizes
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import Extent, is_open
from glow_dialects.ops.resize import ResizeOp, Taps, taps

_ALIGN = 64


@dataclass(frozen=True)
class AxisPass:
    """[outer, size, inner] -> [outer, new_size, inner]: sums of weights[j, t] * input[places[j, t]].

    `repeat` f > 0 says that result[j] is input[j / f], and no weights are read; nor are places where
    the run tells the size.
    """

    outer: int
    size: int
    new_size: int
    inner: int
    taps: int = 1
    repeat: int = 0


@dataclass(frozen=True)
class ResizeSpec:
    """Passes over each of `planes` equal parts of the input.

    Operands: result, input, for every pass its places (i32 [new_size, taps]) and, if `weighted`, its
    weights ([new_size, taps] of the compute type), then scratch where there are several passes.
    """

    planes: int
    passes: tuple[AxisPass, ...]
    dtype: str
    weighted: bool

    @property
    def working(self) -> str:
        """The element type between passes."""
        return "f32" if self.weighted and self.dtype in values.NARROW else self.dtype

    @property
    def scratch(self) -> int:
        """Bytes of work space a worker: two buffers, each with room for any intermediate result."""
        sizes = [p.outer * p.new_size * p.inner for p in self.passes[:-1]]
        most = sum(sizes) if is_open(sizes) else max(sizes, default=0)
        return 2 * -(-most * values.size(self.working) // _ALIGN) * _ALIGN


def emit_resize(module: ir.Module, name: str, spec: ResizeSpec, target: CpuTarget) -> ir.Function:
    """Emit the passes; see `ResizeSpec` for the operands."""
    tables = len(spec.passes) * (2 if spec.weighted else 1)
    k = KernelBuilder(module, name, 2 + tables + (spec.scratch > 0), target, sized=True)
    first, last = spec.passes[0], spec.passes[-1]
    read = first.outer * first.size * first.inner
    written = last.outer * last.new_size * last.inner
    if not spec.planes * read * written:
        return k.finish()
    buffers: list[ir.Value] = []
    if spec.scratch:
        own = k.gep(k.operands[-1], k.mul(k.worker, k.size(spec.scratch)), I8)
        buffers = [own, k.gep(own, k.size(spec.scratch // 2), I8)]
    size = spec.planes * (read + written) * values.size(spec.dtype)
    with common.nest(k, [spec.planes], size) as (plane,):
        source, origin, kind = k.operands[1], k.mul(plane, common.length(k, read)), spec.dtype
        for number, step in enumerate(spec.passes):
            final = number == len(spec.passes) - 1
            goal = k.operands[0] if final else buffers[number % 2]
            to = k.mul(plane, common.length(k, written)) if final else 0
            goal_kind = spec.dtype if final else spec.working
            at = 2 + number * (2 if spec.weighted else 1)
            weights = k.operands[at + 1] if spec.weighted else None
            _Pass(k, spec, step, (source, origin, kind), (goal, to, goal_kind)).emit(k.operands[at], weights)
            source, origin, kind = goal, to, goal_kind
    return k.finish()


Place = tuple[ir.Value, Index, str]


class _Pass:
    """One axis: `source` and `goal` are pointer, offset and element type."""

    def __init__(
        self, k: KernelBuilder, spec: ResizeSpec, step: AxisPass, source: Place, goal: Place
    ) -> None:
        self.k, self.spec, self.step = k, spec, step
        if not spec.weighted:
            raw = f"u{8 * values.size(spec.dtype)}"
            source, goal = (*source[:2], raw), (*goal[:2], raw)
        self.source, self.goal = source, goal
        self.lanes = max(1, k.target.vector_bytes // values.width(source[2]))

    def emit(self, places: ir.Value, weights: ir.Value | None) -> None:
        """Vectors along the axes behind this one; along this one where it is the last."""
        k, step = self.k, self.step
        read, written, inner = (common.length(k, n * step.inner) for n in (step.size, step.new_size, 1))
        with k.loop(0, common.length(k, step.outer)) as o:
            base = k.add(self.source[1], k.mul(o, read))
            to = k.add(self.goal[1], k.mul(o, written))
            if step.repeat and step.inner == 1 and self.lanes % step.repeat == 0:
                self._repeated(base, to)
                return
            with k.loop(0, common.length(k, step.new_size)) as j:
                starts = [k.add(base, k.mul(place, inner)) for place in self._sources(places, j)]
                factors: list[ir.Value] = []
                if weights is not None:
                    factors = [
                        k.load(weights, k.add(k.mul(j, step.taps), t), values.compute(self.spec.dtype))
                        for t in range(step.taps)
                    ]
                self._line(starts, factors, k.add(to, k.mul(j, inner)))

    def _sources(self, places: ir.Value, result: ir.Value) -> list[ir.Value]:
        """The elements of the axis that a result is made of."""
        k, step = self.k, self.step
        if step.repeat and isinstance(step.new_size, Extent):
            return [k.b.udiv(result, k.i(step.repeat))]
        at = k.mul(result, step.taps)
        return [k.b.sext(k.load(places, k.add(at, t), I32), I64) for t in range(step.taps)]

    def _line(self, starts: Sequence[Index], factors: Sequence[ir.Value], to: Index) -> None:
        """One result of the axis, for every position behind it."""
        k = self.k
        pointer, _, kind = self.source
        for place, lanes, active in common.sized_strips(k, 0, self.step.inner, self.lanes, 2):
            total: ir.Value | None = None
            for number, start in enumerate(starts):
                x = values.load(k, pointer, k.add(start, place), kind, lanes, active)
                if not factors:
                    total = x
                    continue
                factor = values.splat(k, factors[number], lanes)
                total = k.b.fmul(x, factor) if total is None else k.fma(x, factor, total)
            assert total is not None
            values.store(k, total, self.goal[0], k.add(to, place), self.goal[2], active)

    def _repeated(self, base: Index, to: Index) -> None:
        """Every element of a contiguous row `repeat` times, by shuffles."""
        k, repeat = self.k, self.step.repeat
        pointer, _, kind = self.source
        size = self.step.size
        for place, lanes, active in common.covered(k, 0, size, self.lanes, 1):
            x = values.load(k, pointer, k.add(base, place), kind, lanes, active)
            for part in range(repeat):
                exist: Active
                if isinstance(active, int):
                    exist = min(lanes, active * repeat - part * lanes)
                    if exist <= 0:
                        break
                else:
                    left = k.add(k.mul(k.i(size % self.lanes), repeat), -part * lanes)
                    exist = values.first_lanes(k, lanes, k.i(maximum(k, minimum(k, left, lanes), 0)))
                value = x
                if lanes > 1:
                    order = [ir.Constant(I32, (part * lanes + i) // repeat) for i in range(lanes)]
                    value = k.b.shuffle_vector(x, x, ir.Constant(ir.VectorType(I32, lanes), order))
                at = k.add(k.add(to, k.mul(place, repeat)), part * lanes)
                values.store(k, value, self.goal[0], at, self.goal[2], exist)


class ResizeCopy(Kernel[ResizeOp, CopySpec]):
    """A resize to the same size."""

    OPS = (ResizeOp,)
    emit = staticmethod(emit_copy)

    def match(self, op: ResizeOp, context: CallContext) -> CopySpec | None:
        size = shape(op.input)
        if not known(op) or taps(op, size):
            return None
        return transpose_spec((prod(size),), (0,), values.size(dtype_name(op.input)))

    def operands(self, op: ResizeOp, spec: CopySpec, context: CallContext) -> list[Operand]:
        return [op.result, op.input]


class Resize(Kernel[ResizeOp, ResizeSpec]):
    """Sampling of one axis after another by tables of places and weights; the order that moves the least."""

    OPS = (ResizeOp,)
    emit = staticmethod(emit_resize)

    def match(self, op: ResizeOp, context: CallContext) -> ResizeSpec | None:
        size, sampled = list(shape(op.input)), _in_order(op)
        weighted = _weighted(sampled)
        if weighted and any(t.repeat for t in sampled):
            raise OpenSizes("an axis is interpolated, another repeated")
        if not known(op) or any(t.outside is not None and t.outside.any() for t in sampled):
            return None
        if weighted and float_typed(op) is None:
            return None
        first = min(t.axis for t in sampled)
        passes: list[AxisPass] = []
        for tap in sampled:
            axis, new_size, each = tap.axis, op.sizes[tap.axis], tap.indices.shape[1]
            repeat = 0 if weighted else tap.repeat or _repeat(tap, size[axis])
            passes.append(
                AxisPass(prod(size[first:axis]), size[axis], new_size, prod(size[axis + 1 :]), each, repeat)
            )
            size[axis] = new_size
        return ResizeSpec(prod(size[:first]), tuple(passes), dtype_name(op.input), weighted)

    def operands(self, op: ResizeOp, spec: ResizeSpec, context: CallContext) -> list[Operand]:
        real = np.float64 if spec.dtype == "f64" else np.float32
        operands: list[Operand] = [op.result, op.input]
        for tap in _in_order(op):
            indices = np.zeros((1, 1)) if tap.repeat else tap.indices
            operands.append(table("places", np.ascontiguousarray(indices.astype(np.int32))))
            if spec.weighted:
                operands.append(table("weights", np.ascontiguousarray(tap.weights.astype(real))))
        return operands

    def scratch(self, spec: ResizeSpec, target: CpuTarget) -> int:
        return spec.scratch * target.threads


def _in_order(op: ResizeOp) -> list[Taps]:
    """The axes that are sampled, in the order of the passes."""
    size = shape(op.input)
    growing = estimate(prod(shape(op.result))) > estimate(prod(size))
    return sorted(taps(op, list(size)), key=lambda t: -t.axis if growing else t.axis)


def _weighted(sampled: list[Taps]) -> bool:
    return any(not t.single for t in sampled)


def _repeat(tap: Taps, size: int) -> int:
    """f where each element is taken f times in a row, else 0."""
    new_size = len(tap.indices)
    if not size:
        return 0
    factor = new_size // size
    same = factor * size == new_size and (tap.indices[:, 0] == np.arange(new_size) // factor).all()
    return factor if same else 0
