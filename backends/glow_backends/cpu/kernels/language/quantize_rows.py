"""Activations as integers of eight bits with a scale for each block, or rounded to such."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, shape
from glow_backends.cpu.emit import common
from glow_backends.cpu.emit.builder import F32, I8, I32, KernelBuilder
from glow_backends.cpu.emit.integer import I16
from glow_backends.cpu.emit.values import Vec, splat, with_element
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.language.integer_blocks_ops import QuantizeRowsOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.round_blocks import LARGEST, LEAST, RoundBlocksOp


@dataclass(frozen=True)
class QuantizeRowsSpec:
    """`blocks` runs of `block` f32 elements as codes of `bits`, or of 0 bits: as what codes stand for.

    Operands: codes, factors [blocks, 2], x; without codes: result, x.
    """

    blocks: int
    block: int
    bits: int
    point: float = 0.0

    def lanes(self, target: CpuTarget) -> int:
        """Elements of a vector: a power of two that divides a block."""
        return min(target.lanes, self.block & -self.block)


def emit_quantize_rows(
    module: ir.Module, name: str, spec: QuantizeRowsSpec, target: CpuTarget
) -> ir.Function:
    """Emit the codes block by block."""
    k = KernelBuilder(module, name, 3 if spec.bits else 2, target, sized=True)
    result, x = k.operands[0], k.operands[-1]
    lanes = spec.lanes(target)
    starts = range(0, spec.block, lanes)
    with common.nest(k, [spec.blocks], 5 * spec.blocks * spec.block) as (number,):
        first = k.mul(number, spec.block)
        loaded = [Vec(k, k.load(x, k.add(first, s), lanes=lanes)) for s in starts]
        peak = _largest(k, [v.abs() for v in loaded], lanes)
        inverse = peak.of(LARGEST) / peak.at_least(LEAST)
        scale = peak * (1 / LARGEST)
        wide = Vec(k, splat(k, inverse.v, lanes))
        whole = [(v * wide).unary("rint") for v in loaded]
        if not spec.bits:
            factor = Vec(k, splat(k, scale.v, lanes))
            for s, value in zip(starts, whole, strict=True):
                k.store((value * factor).v, result, k.add(first, s))
        else:
            _store(k, spec, first, whole)
            k.store(scale.v, k.operands[1], k.mul(number, 2))
            total = Vec(k, _total(k, whole, lanes))
            corrected = scale * total * -spec.point
            k.store(corrected.v, k.operands[1], k.add(k.mul(number, 2), 1))
    return k.finish()


def _store(k: KernelBuilder, spec: QuantizeRowsSpec, first: int | ir.Value, whole: list[Vec]) -> None:
    """Whole numbers as integers of the codes' bits."""
    kind, lanes = (I8 if spec.bits == 8 else I16), spec.lanes(k.target)
    for i, value in enumerate(whole):
        numbers = k.b.fptosi(value.v, with_element(value.v.type, I32))
        codes = k.b.trunc(numbers, with_element(value.v.type, kind))
        k.store(codes, k.operands[0], k.add(first, i * lanes), kind)


def _largest(k: KernelBuilder, values: list[Vec], lanes: int) -> Vec:
    peak = values[0]
    for value in values[1:]:
        peak = peak.where(peak.compare(">", value), value)
    return peak if lanes == 1 else Vec(k, k.intrinsic("vector.reduce.fmax", [peak.v], F32))


def _total(k: KernelBuilder, values: list[Vec], lanes: int) -> ir.Value:
    """The sum of whole numbers, which is exact in any order."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    if lanes == 1:
        return total.v
    numbers = k.b.fptosi(total.v, with_element(total.v.type, I32))
    return k.b.sitofp(k.intrinsic("vector.reduce.add", [numbers], I32), F32)


class QuantizeRows(Kernel[QuantizeRowsOp, QuantizeRowsSpec]):
    """Activations as integers."""

    OPS = (QuantizeRowsOp,)
    emit = staticmethod(emit_quantize_rows)

    def match(self, op: QuantizeRowsOp, context: CallContext) -> QuantizeRowsSpec | None:
        blocks = prod(shape(op.input)) // op.block
        return QuantizeRowsSpec(blocks, op.block, 16 if op.wide else 8, op.point)


class RoundBlocks(Kernel[RoundBlocksOp, QuantizeRowsSpec]):
    """Activations rounded, where no product takes the integers."""

    OPS = (RoundBlocksOp,)
    emit = staticmethod(emit_quantize_rows)

    def match(self, op: RoundBlocksOp, context: CallContext) -> QuantizeRowsSpec | None:
        count = prod(shape(op.input))
        if not count or op.predicate is not None:
            return None
        return QuantizeRowsSpec(count // op.block, op.block, 0)
