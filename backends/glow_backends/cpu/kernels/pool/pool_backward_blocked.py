"""Gradients of max and average pooling on channel-blocked activations: a vector of channels at a time."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, shape
from glow_backends.cpu.emit.builder import F32, I32, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.memory import maximum, minimum, split_index
from glow_backends.cpu.emit.windows import pair, window
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.pool.pool_backward import PoolBackwardSpec
from glow_backends.cpu.kernels.pool.pool_ops import PoolBackwardOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import present

MOST_TAPS = 64
"""Windows are unrolled up to this size."""


def supports_pool_backward_blocked(spec: PoolBackwardSpec) -> bool:
    """Whether `emit_pool_backward_blocked` takes a spec."""
    return prod(spec.kernel) <= MOST_TAPS or (spec.mode == "avg" and _is_global(spec))


def _is_global(spec: PoolBackwardSpec) -> bool:
    """Whether there is one window, of all elements."""
    return spec.kernel == spec.size and not any(spec.pads) and spec.dilations == (1, 1)


def _tiles(spec: PoolBackwardSpec) -> bool:
    """Whether every element is in exactly one window: none is added to, all are written."""
    whole = all(o * t == n for o, t, n in zip(spec.outputs, spec.strides, spec.size, strict=True))
    plain = spec.dilations == (1, 1) and not any(spec.pads)
    return spec.kernel == spec.strides and plain and whole


class _Emission:
    def __init__(self, k: KernelBuilder, spec: PoolBackwardSpec) -> None:
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        self.tiles = _tiles(spec)

    def emit(self) -> None:
        """Planes, shared by the workers; window after window."""
        k, spec, lanes = self.k, self.spec, self.lanes
        plane, places = prod(spec.size) * lanes, prod(spec.outputs) * lanes
        low, high = k.share(spec.planes)
        with k.loop(low, high) as number:
            dx = k.gep(k.operands[0], k.mul(number, plane))
            dy = k.gep(k.operands[-1], k.mul(number, places))
            x = k.gep(k.operands[1], k.mul(number, plane)) if spec.mode == "max" else None
            if x is None and _is_global(spec):
                share = k.b.fmul(k.load(dy, lanes=lanes), k.splat(1 / prod(spec.size), lanes))
                self._fill(dx, share)
            else:
                self._windows(dx, x, dy)

    def _fill(self, dx: ir.Value, value: ir.Value) -> None:
        with self.k.loop(0, prod(self.spec.size) * self.lanes, self.lanes) as at:
            self.k.store(value, dx, at)

    def _windows(self, dx: ir.Value, x: ir.Value | None, dy: ir.Value) -> None:
        k, spec = self.k, self.spec
        if not self.tiles:
            self._fill(dx, k.splat(0.0, self.lanes))
        with k.loop(0, prod(spec.outputs)) as place:
            row, column = split_index(k, place, spec.outputs)
            grad = k.load(dy, k.mul(place, self.lanes), lanes=self.lanes)
            taps = self._taps((row, column))
            if x is None:
                self._to_all(dx, grad, taps, (row, column))
            else:
                self._to_maximum(dx, x, grad, taps)

    def _taps(self, place: tuple[Index, Index]) -> list[tuple[Index, ir.Value | None]]:
        """The element of each tap, moved into the plane, and whether it was there (None: always)."""
        k, spec = self.k, self.spec
        axes: list[list[tuple[Index, ir.Value | None]]] = []
        for axis, at in enumerate(place):
            first, last = k.add(k.mul(at, spec.strides[axis]), -spec.pads[axis]), spec.size[axis] - 1
            own: list[tuple[Index, ir.Value | None]] = []
            for tap in range(spec.kernel[axis]):
                where = k.add(first, tap * spec.dilations[axis])
                inside = None
                if spec.pads[axis] or spec.pads[axis + 2]:
                    inside = k.b.icmp_unsigned("<=", k.i(where), k.i(last))
                    where = minimum(k, maximum(k, where, 0), last)
                own.append((where, inside))
            axes.append(own)
        taps: list[tuple[Index, ir.Value | None]] = []
        for y, inside_y in axes[0]:
            for x, inside_x in axes[1]:
                tests = [t for t in (inside_y, inside_x) if t is not None]
                inside = None if not tests else tests[0] if len(tests) == 1 else k.b.and_(*tests)
                taps.append((k.mul(k.add(k.mul(y, spec.size[1]), x), self.lanes), inside))
        return taps

    def _put(self, dx: ir.Value, at: Index, value: ir.Value, inside: ir.Value | None) -> None:
        k = self.k
        if inside is not None:
            value = k.b.select(inside, value, k.splat(0.0, self.lanes))
        if not self.tiles:
            value = k.b.fadd(k.load(dx, at, lanes=self.lanes), value)
        k.store(value, dx, at)

    def _to_maximum(
        self, dx: ir.Value, x: ir.Value, grad: ir.Value, taps: Sequence[tuple[Index, ir.Value | None]]
    ) -> None:
        """Each lane's first maximum of the window takes its gradient."""
        k, lanes = self.k, self.lanes
        best, where = k.splat(-inf, lanes), self._number(0)
        for tap, (at, inside) in enumerate(taps):
            value = k.load(x, at, lanes=lanes)
            better = k.b.fcmp_unordered(">", value, best)
            if inside is not None:
                none = ir.Constant(better.type, [0] * lanes)
                better = k.b.select(inside, better, none)
            best = k.b.select(better, value, best)
            where = k.b.select(better, self._number(tap), where)
        for tap, (at, inside) in enumerate(taps):
            chosen = k.b.icmp_signed("==", where, self._number(tap))
            self._put(dx, at, k.b.select(chosen, grad, k.splat(0.0, lanes)), inside)

    def _number(self, value: int) -> ir.Constant:
        return ir.Constant(ir.VectorType(I32, self.lanes), [value] * self.lanes)

    def _to_all(
        self,
        dx: ir.Value,
        grad: ir.Value,
        taps: Sequence[tuple[Index, ir.Value | None]],
        place: tuple[Index, Index],
    ) -> None:
        """Every element of the window takes an even share."""
        k, spec = self.k, self.spec
        count: ir.Value = k.splat(1.0, 1)
        for axis, at in enumerate(place):
            number: Index = spec.kernel[axis]
            if (spec.pads[axis] or spec.pads[axis + 2]) and not spec.count_include_pad:
                first = k.add(k.mul(at, spec.strides[axis]), -spec.pads[axis])
                winner: ir.Value = k.i(0)
                for tap in range(spec.kernel[axis]):
                    where = k.i(k.add(first, tap * spec.dilations[axis]))
                    inside = k.b.icmp_unsigned("<", where, k.i(spec.size[axis]))
                    winner = k.b.add(winner, k.b.zext(inside, winner.type))
                number = winner
            count = k.b.fmul(count, k.b.sitofp(k.i(number), F32))
        share = k.b.fmul(grad, k.splat(k.b.fdiv(k.splat(1.0, 1), count), self.lanes))
        for at, inside in taps:
            self._put(dx, at, share, inside)


def emit_pool_backward_blocked(
    module: ir.Module, name: str, spec: PoolBackwardSpec, target: CpuTarget
) -> ir.Function:
    """The gradient of `spec`, each of whose planes is one of vectors of channels."""
    k = KernelBuilder(module, name, 3 if spec.mode == "max" else 2, target)
    _Emission(k, spec).emit()
    return k.finish()


class BlockedPoolBackward(Kernel[PoolBackwardOp, PoolBackwardSpec]):
    """The same on channel blocks."""

    OPS = (PoolBackwardOp,)
    emit = staticmethod(emit_pool_backward_blocked)

    def match(self, op: PoolBackwardOp, context: CallContext) -> PoolBackwardSpec | None:
        batch, blocks, height, width, lanes = shape(op.result)
        if lanes != context.target.lanes:
            return None
        return PoolBackwardSpec(
            op.mode,
            batch * blocks,
            (height, width),
            pair(op.kernel, 1),
            **window(op.strides, op.pads, op.dilations),
            count_include_pad=op.count_include_pad,
        )

    def operands(self, op: PoolBackwardOp, spec: PoolBackwardSpec, context: CallContext) -> list[Operand]:
        return [op.result, *present(op.input), op.grad]
