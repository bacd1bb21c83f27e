"""Random dropout: a mask from a counter-based generator (SplitMix64), as the operator defines it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common
from glow_backends.cpu.emit.builder import I8, I64, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.dropout import DropoutTrainOp

_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class DropoutSpec:
    """`count` elements, f32. Operands: result, mask (a byte each), input, step (one i64)."""

    count: int
    ratio: float
    seed: int


def emit_dropout(module: ir.Module, name: str, spec: DropoutSpec, target: CpuTarget) -> ir.Function:
    """Emit the kernel; see the spec for the operands."""
    k = KernelBuilder(module, name, 4, target)
    result, mask, source, step = k.operands
    seeded = (spec.seed * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) & _WORD
    key = k.b.add(
        k.b.mul(k.load(step, 0, I64), ir.Constant(I64, 0xAF251AF3B0F025B5)), ir.Constant(I64, seeded)
    )
    # u = (z >> 40) / 2^24 >= ratio, with the ratio as f32
    limit = ceil(float(np.float32(spec.ratio)) * 2**24)
    scale = float(np.float32(1 / (1 - spec.ratio)))

    def some(at: Index, lanes: int) -> None:
        def words(values: list[int]) -> ir.Constant:
            if lanes == 1:
                return ir.Constant(I64, values[0] & _WORD)
            return ir.Constant(ir.VectorType(I64, lanes), [ir.Constant(I64, v & _WORD) for v in values])

        def same(value: int) -> ir.Constant:
            return words([value] * lanes)

        def mixed(z: ir.Value, shift: int, factor: int) -> ir.Value:
            return k.b.mul(k.b.xor(z, k.b.lshr(z, same(shift))), same(factor))

        golden = 0x9E3779B97F4A7C15
        first = k.b.add(key, k.b.mul(k.i(at), ir.Constant(I64, golden)))
        spread = k.splat(first, lanes, I64)
        z = k.b.add(spread, words([(i + 1) * golden for i in range(lanes)]))
        z = mixed(z, 30, 0xBF58476D1CE4E5B9)
        z = mixed(z, 27, 0x94D049BB133111EB)
        z = k.b.xor(z, k.b.lshr(z, same(31)))
        keep = k.b.icmp_unsigned(">=", k.b.lshr(z, same(40)), same(limit))
        value = k.b.fmul(k.load(source, at, lanes=lanes), k.splat(scale, lanes))
        k.store(k.b.select(keep, value, k.splat(0.0, lanes)), result, at)
        bytes_of_mask = ir.VectorType(I8, lanes) if lanes > 1 else I8
        k.store(k.b.zext(keep, bytes_of_mask), mask, at, I8)

    lanes, whole = target.lanes, spec.count // target.lanes * target.lanes
    low, high = common.share(k, spec.count // lanes, 9 * spec.count)
    with k.loop(low, high) as block:
        some(k.mul(block, lanes), lanes)
    if spec.count > whole:
        with common.last_worker(k), k.loop(whole, spec.count) as at:
            some(at, 1)
    return k.finish()


class Dropout(Kernel[DropoutTrainOp, DropoutSpec]):
    """Elements left out at random."""

    OPS = (DropoutTrainOp,)
    emit = staticmethod(emit_dropout)

    def match(self, op: DropoutTrainOp, context: CallContext) -> DropoutSpec | None:
        if op.predicate is not None or dtype_name(op.input) != "f32":
            return None
        return DropoutSpec(prod(shape(op.input)), op.ratio, op.seed)
