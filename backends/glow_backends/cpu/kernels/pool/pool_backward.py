"""Gradients of max and average pooling, plane by plane."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, shape
from glow_backends.cpu.emit import common
from glow_backends.cpu.emit.builder import F32, KernelBuilder, shuffle_mask
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.memory import load_first, maximum, minimum, store_first
from glow_backends.cpu.emit.windows import pair, window
from glow_backends.cpu.kernel import Kernel, plain_f32
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.instr_op import is_instr_of
from glow_dialects.ops.avg_pool import AvgPoolBackwardOp
from glow_dialects.ops.max_pool import MaxPoolBackwardOp


@dataclass(frozen=True)
class PoolBackwardSpec:
    """dx of a pool over `planes` planes of two axes; f32.

    Operands: dx, x, dy for mode "max" (the first maximum of a window takes all), dx, dy for "avg".
    """

    mode: str
    planes: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]
    count_include_pad: bool = False

    @property
    def outputs(self) -> tuple[int, int]:
        """Sizes of a plane of dy."""
        return (self._output(0), self._output(1))

    def _output(self, axis: int) -> int:
        reach = self.dilations[axis] * (self.kernel[axis] - 1) + 1
        return (self.size[axis] + self.pads[axis] + self.pads[axis + 2] - reach) // self.strides[axis] + 1


def emit_pool_backward(
    module: ir.Module, name: str, spec: PoolBackwardSpec, target: CpuTarget
) -> ir.Function:
    """Emit the gradient; see the spec for the operands."""
    k = KernelBuilder(module, name, 3 if spec.mode == "max" else 2, target)
    plane, places = prod(spec.size), prod(spec.outputs)
    with common.nest(k, [spec.planes], 4 * spec.planes * (2 * plane + places)) as (number,):
        dx = k.gep(k.operands[0], k.mul(number, plane))
        dy = k.gep(k.operands[-1], k.mul(number, places))
        x = k.gep(k.operands[1], k.mul(number, plane)) if spec.mode == "max" else None
        if x is None and spec.kernel == spec.size and not any(spec.pads):
            _fill(k, dx, plane, k.b.fmul(k.load(dy), ir.Constant(F32, 1 / plane)))
        elif x is not None and _halves(spec):
            _halved(k, spec, dx, x, dy)
        else:
            _fill(k, dx, plane, ir.Constant(F32, 0.0))
            with k.loop(0, spec.outputs[0]) as row, k.loop(0, spec.outputs[1]) as column:
                grad = k.load(dy, k.add(k.mul(row, spec.outputs[1]), column))
                if x is not None:
                    _to_maximum(k, spec, dx, x, grad, (row, column))
                else:
                    _to_all(k, spec, dx, grad, (row, column))
    return k.finish()


def _fill(k: KernelBuilder, target: ir.Value, count: int, value: ir.Value) -> None:
    lanes = k.target.lanes
    vector, whole = k.splat(value, lanes), count // lanes * lanes
    with k.loop(0, whole, lanes) as at:
        k.store(vector, target, at)
    if count > whole:
        store_first(k, vector, target, whole, count - whole)


def _halves(spec: PoolBackwardSpec) -> bool:
    """Whether the windows are the 2 x 2 squares that tile the plane."""
    even = tuple(2 * n for n in spec.outputs) == spec.size
    return spec.kernel == spec.strides == (2, 2) and spec.dilations == (1, 1) and even and not any(spec.pads)


def _halved(k: KernelBuilder, spec: PoolBackwardSpec, dx: ir.Value, x: ir.Value, dy: ir.Value) -> None:
    """Squares of 2 x 2 in vectors: every element of dx is written once."""
    lanes, width = k.target.lanes, spec.outputs[1]

    def shuffled(a: ir.Value, b: ir.Value, places: list[int]) -> ir.Value:
        mask = shuffle_mask(tuple(places))
        return k.b.shuffle_vector(a, b, mask)

    def some(row: Index, at: Index, live: int) -> None:
        """`live` windows of row `row` from window `at` on."""
        counts = (min(lanes, 2 * live), max(0, 2 * live - lanes))
        lines = [k.gep(x, k.add(k.mul(k.add(k.mul(row, 2), i), spec.size[1]), k.mul(at, 2))) for i in (0, 1)]
        values: list[ir.Value] = []
        for line in lines:
            low, high = (
                load_first(k, line, i * lanes, lanes, n) if n else k.splat(0.0, lanes)
                for i, n in enumerate(counts)
            )
            values += [shuffled(low, high, [2 * i + odd for i in range(lanes)]) for odd in (0, 1)]
        best = values[0]
        wins: list[ir.Value] = []
        for value in values[1:]:
            better = k.b.fcmp_unordered(">", value, best)
            best = k.b.select(better, value, best)
            wins.append(better)
        grad = load_first(k, dy, k.add(k.mul(row, width), at), lanes, live)
        zero, shares = k.splat(0.0, lanes), list[ir.Value]()
        # The last window element that was better than all before it takes the gradient.
        for win in reversed(wins):
            shares.insert(0, k.b.select(win, grad, zero))
            grad = k.b.select(win, zero, grad)
        shares.insert(0, grad)
        for i in (0, 1):
            line = k.gep(dx, k.add(k.mul(k.add(k.mul(row, 2), i), spec.size[1]), k.mul(at, 2)))
            for half, n in enumerate(counts):
                if n:
                    places = [(j + half * lanes) // 2 + (j % 2) * lanes for j in range(lanes)]
                    store_first(k, shuffled(shares[2 * i], shares[2 * i + 1], places), line, half * lanes, n)

    whole = width // lanes * lanes
    with k.loop(0, spec.outputs[0]) as row:
        with k.loop(0, whole, lanes) as at:
            some(row, at, lanes)
        if width > whole:
            some(row, whole, width - whole)


def _to_maximum(
    k: KernelBuilder,
    spec: PoolBackwardSpec,
    dx: ir.Value,
    x: ir.Value,
    grad: ir.Value,
    place: tuple[Index, Index],
) -> None:
    """Add `grad` where x is largest in the window."""
    firsts = [k.add(k.mul(p, spec.strides[a]), -spec.pads[a]) for a, p in enumerate(place)]
    best: ir.Value = ir.Constant(F32, -inf)
    where = k.i(-1)  # of a window of nothing but -inf the first element is the largest
    for down in range(spec.kernel[0]):
        y, inside_y = _position(k, spec, 0, k.add(firsts[0], down * spec.dilations[0]))
        for across in range(spec.kernel[1]):
            at, inside_x = _position(k, spec, 1, k.add(firsts[1], across * spec.dilations[1]))
            offset = k.i(k.add(k.mul(y, spec.size[1]), at))
            value = k.load(x, offset)
            better = k.b.or_(k.b.fcmp_unordered(">", value, best), k.b.icmp_signed("<", where, k.i(0)))
            for inside in (inside_y, inside_x):
                better = better if inside is None else k.b.and_(better, inside)
            best = k.b.select(better, value, best)
            where = k.b.select(better, offset, where)
    where = maximum(k, where, 0)
    k.store(k.b.fadd(k.load(dx, where), grad), dx, where)


def _position(
    k: KernelBuilder, spec: PoolBackwardSpec, axis: int, at: Index
) -> tuple[Index, ir.Value | None]:
    """A position moved into the plane, and whether it was there (None: always)."""
    if not spec.pads[axis] and not spec.pads[axis + 2]:
        return at, None
    last = spec.size[axis] - 1
    inside = k.b.icmp_unsigned("<=", k.i(at), k.i(last))
    return minimum(k, maximum(k, at, 0), last), inside


def _to_all(
    k: KernelBuilder, spec: PoolBackwardSpec, dx: ir.Value, grad: ir.Value, place: tuple[Index, Index]
) -> None:
    """Add an even share of `grad` to the elements of the window."""
    bounds: list[tuple[Index, Index]] = []
    count: ir.Value = ir.Constant(F32, 1.0)
    firsts = [k.add(k.mul(p, spec.strides[a]), -spec.pads[a]) for a, p in enumerate(place)]
    for axis, first in enumerate(firsts):
        step, size = spec.dilations[axis], spec.size[axis]
        low: Index = 0
        high: Index = spec.kernel[axis]
        if spec.pads[axis] or spec.pads[axis + 2]:
            low = k.b.sdiv(k.i(maximum(k, k.add(k.mul(first, -1), step - 1), 0)), k.i(step))
            behind = maximum(k, k.add(k.mul(first, -1), size - 1 + step), 0)
            high = minimum(k, k.b.sdiv(k.i(behind), k.i(step)), spec.kernel[axis])
        bounds.append((low, high))
        inside = k.i(spec.kernel[axis] if spec.count_include_pad else k.add(high, k.mul(low, -1)))
        count = k.b.fmul(count, k.b.sitofp(inside, F32))
    share = k.b.fdiv(grad, count)
    with k.loop(*bounds[0]) as down, k.loop(*bounds[1]) as across:
        y = k.add(firsts[0], k.mul(down, spec.dilations[0]))
        at = k.add(firsts[1], k.mul(across, spec.dilations[1]))
        offset = k.add(k.mul(y, spec.size[1]), at)
        k.store(k.b.fadd(k.load(dx, offset), share), dx, offset)


class PoolBackward(Kernel[MaxPoolBackwardOp | AvgPoolBackwardOp, PoolBackwardSpec]):
    """Gradients of pools over one or two axes, NCHW."""

    OPS = (MaxPoolBackwardOp, AvgPoolBackwardOp)
    emit = staticmethod(emit_pool_backward)

    def match(
        self, op: MaxPoolBackwardOp | AvgPoolBackwardOp, context: CallContext
    ) -> PoolBackwardSpec | None:
        batch, channels, *size = shape(op.result)
        if not plain_f32(op) or op.layout != "NCHW" or len(size) not in (1, 2):
            return None
        average = is_instr_of(op, AvgPoolBackwardOp)
        return PoolBackwardSpec(
            "avg" if average else "max",
            batch * channels,
            pair(size, 1),
            pair(op.kernel, 1),
            **window(op.strides, op.pads, op.dilations),
            count_include_pad=is_instr_of(op, AvgPoolBackwardOp) and op.count_include_pad,
        )
