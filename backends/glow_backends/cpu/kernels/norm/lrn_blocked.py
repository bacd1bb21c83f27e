"""Local response normalisation across the channels of blocked tensors."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I32, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.values import Vec
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.norm.lrn_op import BlockedLrnOp
from glow_backends.cpu.kernels.norm.normalize import divide_by_power
from glow_backends.cpu.target import CpuTarget


@dataclass(frozen=True)
class BlockedLrnSpec:
    """x / (bias + alpha / size * sum of squares of `size` neighbouring channels)^beta, f32.

    Result and input are [batch, C / lanes, plane, lanes]; lanes behind the last channel may hold
    anything and count as zero. size <= 2 lanes + 1. Operands: result, input.
    """

    batch: int
    channels: int
    plane: int
    lanes: int
    size: int
    alpha: float
    beta: float
    bias: float


def emit_lrn_blocked(module: ir.Module, name: str, spec: BlockedLrnSpec, target: CpuTarget) -> ir.Function:
    """Emit the normalisation: a block's window reaches into the blocks beside it."""
    k = KernelBuilder(module, name, 2, target)
    blocks = -(-spec.channels // spec.lanes)
    step = spec.plane * spec.lanes
    size = 8 * spec.batch * blocks * step
    if not size:
        return k.finish()
    for block in _kinds(blocks):
        low, high = block
        with common.nest(k, [spec.batch, high - low, spec.plane], size) as (n, b, pixel):
            number = k.add(b, low)
            at = k.index((n, blocks * step), (number, step), (pixel, spec.lanes))
            first, last = low == 0, high == blocks
            _pixel(k, spec, at, step, first, last, high - low == 1 and last)
    return k.finish()


def _kinds(blocks: int) -> list[tuple[int, int]]:
    """Ranges of blocks that have the same neighbours: the first, those between, the last."""
    if blocks == 1:
        return [(0, 1)]
    ranges = [(0, 1), (1, blocks - 1), (blocks - 1, blocks)]
    return [(low, high) for low, high in ranges if low < high]


def _pixel(
    k: KernelBuilder, spec: BlockedLrnSpec, at: Index, step: int, first: bool, last: bool, partial: bool
) -> None:
    lanes, rest = spec.lanes, spec.channels % spec.lanes
    result, source = k.operands
    x = Vec(k, values.load(k, source, at, "f32", lanes))
    zero = x.of(0.0)

    def square(value: Vec, is_last: bool) -> Vec:
        product = value * value
        if rest and is_last:
            return product.where(values.mask(lanes, rest), 0.0)
        return product

    own = square(x, partial)
    before = zero if first else square(Vec(k, values.load(k, source, k.add(at, -step), "f32", lanes)), False)
    after = zero
    if not last:
        neighbour = Vec(k, values.load(k, source, k.add(at, step), "f32", lanes))
        after = square(neighbour, False) if not rest else _tail(k, spec, neighbour, at, step)
    total = own
    for distance in range(-((spec.size - 1) // 2), spec.size // 2 + 1):
        if distance:
            left, right = (before, own) if distance < 0 else (own, after)
            start = lanes + distance if distance < 0 else distance
            order = [ir.Constant(I32, start + i) for i in range(lanes)]
            mask = ir.Constant(ir.VectorType(I32, lanes), order)
            total = total + Vec(k, k.b.shuffle_vector(left.v, right.v, mask))
    base = total.fma(spec.alpha / spec.size, spec.bias)
    values.store(k, divide_by_power(x, base, spec.beta).v, result, at, "f32")


def _tail(k: KernelBuilder, spec: BlockedLrnSpec, neighbour: Vec, at: Index, step: int) -> Vec:
    """The squares of the block behind, which may be the last one with lanes that hold no channel."""
    blocks = -(-spec.channels // spec.lanes)
    block = k.b.urem(k.b.udiv(k.i(at), k.i(step)), k.i(blocks))
    is_last = k.b.icmp_signed("==", block, k.i(blocks - 2))
    product = neighbour * neighbour
    kept = product.where(values.mask(spec.lanes, spec.channels % spec.lanes), 0.0)
    return kept.where(is_last, product)


class BlockedLrn(Kernel[BlockedLrnOp, BlockedLrnSpec]):
    """Local response normalisation on channel blocks."""

    OPS = (BlockedLrnOp,)
    emit = staticmethod(emit_lrn_blocked)

    def match(self, op: BlockedLrnOp, context: CallContext) -> BlockedLrnSpec | None:
        batch, _, height, width, lanes = shape(op.input)
        if dtype_name(op.input) != "f32" or op.size > 2 * lanes + 1:
            return None
        numbers = op.size, op.alpha, op.beta, op.bias
        return BlockedLrnSpec(batch, op.channels, height * width, lanes, *numbers)
