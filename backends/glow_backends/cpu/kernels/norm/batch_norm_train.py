"""Batch normalisation by the batch's statistics, and its gradient, channel by channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, shape
from glow_backends.cpu.emit import common
from glow_backends.cpu.emit.builder import F32, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.memory import load_first, store_first
from glow_backends.cpu.kernel import Kernel, plain_f32
from glow_backends.cpu.kernels.norm.normalize import around_channels
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.instr_op import is_instr_of
from glow_dialects.ops.batch_norm import BatchNormBackwardOp, BatchNormTrainOp

_CHAINS = 4  # independent partial sums


@dataclass(frozen=True)
class BatchNormTrainSpec:
    """[outer, channels, inner] data, f32.

    Forward operands: y, mean, variance, x, scale, bias. Backward ones: dx, dscale, dbias, x, scale,
    mean, variance, dy.
    """

    outer: int
    channels: int
    inner: int
    epsilon: float
    backward: bool = False


class _Channel:
    """The elements of one channel."""

    def __init__(self, k: KernelBuilder, spec: BatchNormTrainSpec, channel: Index) -> None:
        self.k, self.spec = k, spec
        self.base = k.mul(channel, spec.inner)
        self.lanes = min(k.target.lanes, common.power_of_two(spec.inner))

    def rows(self, body: Callable[[Index], None]) -> None:
        """body(offset) for each run of `inner` elements."""
        with self.k.loop(0, self.spec.outer) as row:
            body(self.k.add(self.base, self.k.mul(row, self.spec.channels * self.spec.inner)))

    def load(self, pointer: ir.Value, at: Index, live: int) -> ir.Value:
        """A vector of the channel."""
        if self.lanes == 1:
            return self.k.load(pointer, at)
        return load_first(self.k, pointer, at, self.lanes, live)

    def each(self, row: Index, body: Callable[[Index, int], None]) -> None:
        """body(offset, live lanes) over a run."""
        k, count = self.k, self.spec.inner
        whole = count // self.lanes * self.lanes
        with k.loop(row, k.add(row, whole), self.lanes) as at:
            body(at, self.lanes)
        if count > whole:
            body(k.add(row, whole), count - whole)

    def store(self, value: ir.Value, pointer: ir.Value, at: Index, live: int) -> None:
        """Write the live lanes."""
        store_first(self.k, value, pointer, at, live)

    def sums(self, count: int, terms: Callable[[Index, int], Sequence[ir.Value]]) -> list[ir.Value]:
        """Totals over the channel of `count` terms that are 0 in dead lanes."""
        k, inner = self.k, self.spec.inner
        step = self.lanes * _CHAINS
        zero = [k.splat(0.0, self.lanes)] * (count * _CHAINS)

        def add(held: list[ir.Value], at: Index, chain: int, live: int) -> None:
            for i, term in enumerate(terms(at, live)):
                place = i * _CHAINS + chain
                held[place] = k.b.fadd(held[place], term)

        def run(row: ir.Value, held: list[ir.Value]) -> list[ir.Value]:
            base = k.add(self.base, k.mul(row, self.spec.channels * inner))

            def wide(at: ir.Value, inside: list[ir.Value]) -> list[ir.Value]:
                for chain in range(_CHAINS):
                    add(inside, k.add(at, chain * self.lanes), chain, self.lanes)
                return inside

            whole = inner // step * step
            if whole:
                held = k.reduce_loop(base, k.add(base, whole), step, held, wide)
            for chain, at in enumerate(range(whole, inner, self.lanes)):
                add(held, k.add(base, at), chain, min(self.lanes, inner - at))
            return held

        sums = k.reduce_loop(0, self.spec.outer, 1, zero, run)
        return [self._total(sums[i * _CHAINS : (i + 1) * _CHAINS]) for i in range(count)]

    def _total(self, chains: list[ir.Value]) -> ir.Value:
        k, value = self.k, chains[0]
        for other in chains[1:]:
            value = k.b.fadd(value, other)
        if self.lanes == 1:
            return value
        name = f"llvm.vector.reduce.fadd.v{self.lanes}f32"
        kind = ir.FunctionType(F32, [F32, value.type])
        callee = k.module.globals.get(name) or ir.Function(k.module, kind, name)
        return k.b.call(callee, [ir.Constant(F32, 0.0), value], fastmath=("reassoc",))

    def spread(self, value: ir.Value) -> ir.Value:
        """A number in every lane."""
        return self.k.splat(value, self.lanes)

    def kept(self, value: ir.Value, live: int) -> ir.Value:
        """The vector with zeros in dead lanes."""
        if live == self.lanes:
            return value
        lanes = [ir.Constant(F32, 1.0 if i < live else 0.0) for i in range(self.lanes)]
        return self.k.b.fmul(value, ir.Constant(value.type, lanes))


def emit_batch_norm_train(
    module: ir.Module, name: str, spec: BatchNormTrainSpec, target: CpuTarget
) -> ir.Function:
    """Emit either form; see the spec for the operands."""
    k = KernelBuilder(module, name, 8 if spec.backward else 6, target)
    size = 4 * spec.outer * spec.channels * spec.inner
    with common.nest(k, [spec.channels], size) as (channel,):
        (_backward if spec.backward else _forward)(k, spec, _Channel(k, spec, channel), channel)
    return k.finish()


def _inverse(k: KernelBuilder, variance: ir.Value, epsilon: float) -> ir.Value:
    root = k.intrinsic("sqrt", [k.b.fadd(variance, ir.Constant(F32, epsilon))])
    return k.b.fdiv(ir.Constant(F32, 1.0), root)


def _forward(k: KernelBuilder, spec: BatchNormTrainSpec, c: _Channel, channel: Index) -> None:
    y, means, variances, x, scales, biases = k.operands
    count = ir.Constant(F32, float(spec.outer * spec.inner))
    (total,) = c.sums(1, lambda at, live: [c.load(x, at, live)])
    mean = k.b.fdiv(total, count)
    centre = c.spread(mean)

    def square(at: Index, live: int) -> Sequence[ir.Value]:
        d = c.kept(k.b.fsub(c.load(x, at, live), centre), live)
        return [k.b.fmul(d, d)]

    (squares,) = c.sums(1, square)
    variance = k.b.fdiv(squares, count)
    k.store(mean, means, channel)
    k.store(variance, variances, channel)
    factor = c.spread(k.b.fmul(k.load(scales, channel), _inverse(k, variance, spec.epsilon)))
    bias = c.spread(k.load(biases, channel))

    def write(at: Index, live: int) -> None:
        d = k.b.fsub(c.load(x, at, live), centre)
        c.store(k.fma(d, factor, bias), y, at, live)

    c.rows(lambda row: c.each(row, write))


def _backward(k: KernelBuilder, spec: BatchNormTrainSpec, c: _Channel, channel: Index) -> None:
    dx, scale_grads, bias_grads, x, scales, means, variances, dy = k.operands
    centre = c.spread(k.load(means, channel))
    inverse = _inverse(k, k.load(variances, channel), spec.epsilon)

    def terms(at: Index, live: int) -> Sequence[ir.Value]:
        grad = c.load(dy, at, live)
        return [grad, k.b.fmul(grad, k.b.fsub(c.load(x, at, live), centre))]

    bias, raw = c.sums(2, terms)
    scale = k.b.fmul(raw, inverse)
    k.store(bias, bias_grads, channel)
    k.store(scale, scale_grads, channel)
    # dx = a (dy - bias / n - (x - mean) b), a = scale inverse, b = inverse scaleG / n
    share = ir.Constant(F32, 1 / (spec.outer * spec.inner))
    a = c.spread(k.b.fmul(k.load(scales, channel), inverse))
    b = c.spread(k.b.fmul(k.b.fmul(inverse, scale), share))
    rest = c.spread(k.b.fmul(bias, share))

    def write(at: Index, live: int) -> None:
        d = k.b.fsub(c.load(x, at, live), centre)
        inner = k.b.fsub(k.b.fsub(c.load(dy, at, live), rest), k.b.fmul(d, b))
        c.store(k.b.fmul(a, inner), dx, at, live)

    c.rows(lambda row: c.each(row, write))


class BatchNormTrain(Kernel[BatchNormTrainOp | BatchNormBackwardOp, BatchNormTrainSpec]):
    """Normalisation by the batch's own statistics, and its gradient."""

    OPS = (BatchNormTrainOp, BatchNormBackwardOp)
    emit = staticmethod(emit_batch_norm_train)

    def match(
        self, op: BatchNormTrainOp | BatchNormBackwardOp, context: CallContext
    ) -> BatchNormTrainSpec | None:
        if not plain_f32(op):
            return None
        sizes, backward = around_channels(shape(op.input), op.layout), is_instr_of(op, BatchNormBackwardOp)
        return BatchNormTrainSpec(*sizes, op.epsilon, backward)
