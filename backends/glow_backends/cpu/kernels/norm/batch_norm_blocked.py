"""Batch normalisation by the batch's statistics, and its gradient, on channel-blocked activations.

A vector holds as many channels; each block of channels is read twice: for its sums, and for what is
written. Sums are taken image by image, so that their rounding grows with the square root of the
counts, and the squares about the mean of the first pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, shape
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.memory import Index, ceil_div, load_first, store_first
from glow_backends.cpu.fused_body import program_of
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.norm.batch_norm_ops import BatchNormBackwardOp, BatchNormTrainOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.instr_op import is_instr_of

_CHAINS = 4  # independent partial sums
_FIRST = 16
"""Pixels whose mean the squares are taken about."""


@dataclass(frozen=True)
class BlockedNormSpec:
    """[batch, C / c, plane, c] data, f32.

    Forward operands: y, mean, variance, x, scale, bias, [extras]. Backward ones: dx, dscale, dbias,
    x, scale, mean, variance, dy, [gate].
    """

    batch: int
    channels: int
    plane: int
    epsilon: float
    backward: bool = False
    gate: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)


class _Emission:
    def __init__(self, k: KernelBuilder, spec: BlockedNormSpec) -> None:
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        self.blocks = ceil_div(spec.channels, self.lanes)
        self.chains = max(c for c in (1, 2, _CHAINS) if spec.plane % c == 0)

    def emit(self) -> None:
        """Blocks of channels, shared by the workers; the last one may be partly filled."""
        k = self.k
        rest = self.spec.channels % self.lanes
        whole = self.blocks - (rest > 0)
        body = self._backward if self.spec.backward else self._forward
        low, high = k.share(self.blocks)
        with k.loop(low, high) as block:
            self.block = block
            if not rest:
                body(self.lanes)
            elif not whole:
                body(rest)
            else:
                with k.b.if_else(k.b.icmp_signed("<", block, k.i(whole))) as (then, otherwise):
                    with then:
                        body(self.lanes)
                    with otherwise:
                        body(rest)

    # --- pieces ---------------------------------------------------------------------------------
    def _image(self, image: Index) -> Index:
        """Where a block of an image starts."""
        size = self.spec.plane * self.lanes
        return self.k.index((image, self.blocks * size), (self.block, size))

    def _row(self, pointer: ir.Value, live: int) -> ir.Value:
        return load_first(self.k, pointer, self.k.mul(self.block, self.lanes), self.lanes, live)

    def _write_row(self, value: ir.Value, pointer: ir.Value, live: int) -> None:
        store_first(self.k, value, pointer, self.k.mul(self.block, self.lanes), live)

    def _at(self, pointer: ir.Value, at: Index) -> ir.Value:
        return self.k.load(pointer, at, lanes=self.lanes)

    def _number(self, value: float) -> ir.Value:
        return self.k.splat(value, self.lanes)

    def _sums(self, terms: Callable[[Index], Sequence[ir.Value]]) -> list[ir.Value]:
        """Totals of the two terms of every element of the block."""
        k, lanes, chains = self.k, self.lanes, self.chains
        zeros = [self._number(0.0)] * (2 * chains)

        def image(number: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
            start = self._image(number)

            def pixels(at: ir.Value, held: list[ir.Value]) -> list[ir.Value]:
                for chain in range(chains):
                    for i, term in enumerate(terms(k.add(at, chain * lanes))):
                        held[2 * chain + i] = k.b.fadd(held[2 * chain + i], term)
                return held

            end = k.add(start, self.spec.plane * lanes)
            sums = k.reduce_loop(start, end, chains * lanes, zeros, pixels)
            return [k.b.fadd(t, f) for t, f in zip(totals, sums, strict=True)]

        sums = k.reduce_loop(0, self.spec.batch, 1, zeros, image)
        for other in range(2, 2 * chains, 2):
            sums[:2] = [k.b.fadd(sums[i], sums[other + i]) for i in range(2)]
        return sums[:2]

    def _each(self, value: Callable[[Index], ir.Value], result: ir.Value) -> None:
        """result = value(offset) for every vector of the block."""
        k, lanes = self.k, self.lanes
        with k.loop(0, self.spec.batch) as image:
            start = self._image(image)
            end = k.add(start, self.spec.plane * lanes)
            with k.loop(start, end, self.chains * lanes) as at:
                places = [k.add(at, chain * lanes) for chain in range(self.chains)]
                for place, result_value in zip(places, [value(p) for p in places], strict=True):
                    k.store(result_value, result, place)

    def _inverse(self, variance: ir.Value) -> ir.Value:
        root = self.k.intrinsic("sqrt", [self.k.b.fadd(variance, self._number(self.spec.epsilon))])
        return self.k.b.fdiv(self._number(1.0), root)

    # --- the two kernels ------------------------------------------------------------------------
    def _forward(self, live: int) -> None:
        k, spec = self.k, self.spec
        y, means, variances, x, scales, biases, *extras = k.operands
        share = self._number(1 / (spec.batch * spec.plane))
        first, centre = min(_FIRST, spec.plane), self._number(0.0)
        start = self._image(0)
        for i in range(first):
            centre = k.b.fadd(centre, self._at(x, k.add(start, i * self.lanes)))
        centre = k.b.fmul(centre, self._number(1 / first))

        def terms(at: Index) -> Sequence[ir.Value]:
            d = k.b.fsub(self._at(x, at), centre)
            return [d, k.b.fmul(d, d)]

        total, squares = self._sums(terms)
        shift = k.b.fmul(total, share)
        mean = k.b.fadd(centre, shift)
        spread = k.b.fsub(k.b.fmul(squares, share), k.b.fmul(shift, shift))
        variance = k.intrinsic("maxnum", [spread, self._number(0.0)])
        self._write_row(mean, means, live)
        self._write_row(variance, variances, live)
        factor = k.b.fmul(self._row(scales, live), self._inverse(variance))
        bias = self._row(biases, live)

        def value(at: Index) -> ir.Value:
            y = k.fma(k.b.fsub(self._at(x, at), mean), factor, bias)
            return spec.epilogue.apply(k, y, None, extras, lambda extra: self._at(extra, at))

        self._each(value, y)

    def _backward(self, live: int) -> None:
        k, spec = self.k, self.spec
        dx, scale_grads, bias_grads, x, scales, means, variances, dy, *gate = k.operands
        mean = self._row(means, live)
        inverse = self._inverse(self._row(variances, live))
        zero = self._number(0.0)

        def grad(at: Index) -> ir.Value:
            value = self._at(dy, at)
            if not gate:
                return value
            return k.b.select(k.b.fcmp_ordered(">", self._at(gate[0], at), zero), value, zero)

        def terms(at: Index) -> Sequence[ir.Value]:
            value = grad(at)
            return [value, k.b.fmul(value, k.b.fsub(self._at(x, at), mean))]

        bias, raw = self._sums(terms)
        scale = k.b.fmul(raw, inverse)
        self._write_row(bias, bias_grads, live)
        self._write_row(scale, scale_grads, live)
        # dx = a (dy - bias / n - (x - mean) b), a = scale inverse, b = inverse scaleG / n
        share = self._number(1 / (spec.batch * spec.plane))
        a = k.b.fmul(self._row(scales, live), inverse)
        b = k.b.fmul(k.b.fmul(inverse, scale), share)
        rest = k.b.fmul(bias, share)

        def value(at: Index) -> ir.Value:
            d = k.b.fsub(self._at(x, at), mean)
            inner = k.b.fsub(k.b.fsub(grad(at), rest), k.b.fmul(d, b))
            return k.b.fmul(a, inner)

        self._each(value, dx)


def emit_batch_norm_blocked(
    module: ir.Module, name: str, spec: BlockedNormSpec, target: CpuTarget
) -> ir.Function:
    """Emit either form; see the spec for the operands."""
    count = 8 + spec.gate if spec.backward else 6 + spec.epilogue.extras
    k = KernelBuilder(module, name, count, target)
    _Emission(k, spec).emit()
    return k.finish()


class BlockedBatchNorm(Kernel[BatchNormTrainOp | BatchNormBackwardOp, BlockedNormSpec]):
    """Normalisation of training on channel blocks, and its gradient."""

    OPS = (BatchNormTrainOp, BatchNormBackwardOp)
    emit = staticmethod(emit_batch_norm_blocked)

    def match(
        self, op: BatchNormTrainOp | BatchNormBackwardOp, context: CallContext
    ) -> BlockedNormSpec | None:
        batch, _, height, width, lanes = shape(op.input)
        if lanes != context.target.lanes:
            return None
        backward, gate, epilogue = is_instr_of(op, BatchNormBackwardOp), False, Epilogue()
        if is_instr_of(op, BatchNormBackwardOp):
            gate = op.gate is not None
        elif is_instr_of(op, BatchNormTrainOp):
            epilogue = Epilogue(program=program_of(op.body))
        channels = shape(op.scale)[0]
        return BlockedNormSpec(batch, channels, height * width, op.epsilon, backward, gate, epilogue)
