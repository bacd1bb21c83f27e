"""Scale and zero point of a tensor's bytes: its smallest and its largest number, in one sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import F32, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.pointwise import Pointwise, Step, emit_pointwise
from glow_backends.cpu.emit.values import Active
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.reduction.reduce import combiner, horizontal
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.byte_scale import MOST, ByteScaleOp


@dataclass(frozen=True)
class ByteScaleSpec:
    """Of `count` f32 elements. Operands: scale (f32), zero point (u8), elements.

    The count is no part of the code: one kernel serves all tensors of all programs.
    """

    count: int


_VECTORS = 4
"""Vectors of a turn of the loop: each has its own smallest and largest numbers."""
_EXTREMES = combiner("min", "f32"), combiner("largest", "f32")
"""A NaN need not get into both: of either one the scale becomes NaN."""

_FROM_EXTREMES = Pointwise(
    2,
    (
        Step("constant", (), (0.0,)),
        Step("min", (0, 2)),
        Step("relu", (1,)),
        Step("sub", (4, 3)),
        Step("constant", (), (float(MOST),)),
        Step("div", (5, 6)),
        Step("div", (3, 7)),
        Step("sub", (2, 8)),
        Step("clip", (9,), (0.0, float(MOST))),
        Step("round", (10,)),
        Step("cast", (11,), (True,), "u8"),
    ),
    (7, 12),
)
"""Scale and zero point from the smallest and the largest number: the steps of the card, in their order."""


def emit_byte_scale(module: ir.Module, name: str, spec: ByteScaleSpec, target: CpuTarget) -> ir.Function:
    """Emit the sweep: turns of several vectors, then those that are left, the last of them masked."""
    k = KernelBuilder(module, name, 3, target, sized=True)
    scale, zero, source = k.operands
    lanes, turn = target.lanes, target.lanes * _VECTORS
    turns, count = k.size(spec.count // turn * turn), k.size(spec.count)

    def taken(held: Sequence[ir.Value], place: Index, active: Active) -> list[ir.Value]:
        """The extremes so far and those of a vector; its other lanes are 0, which is in every range."""
        x = values.load(k, source, place, "f32", lanes, active)
        return [combine(k, extreme, x) for combine, extreme in zip(_EXTREMES, held, strict=True)]

    def several(i: ir.Value, held: list[ir.Value]) -> list[ir.Value]:
        parts = [taken(held[2 * p : 2 * p + 2], k.add(i, p * lanes), lanes) for p in range(_VECTORS)]
        return [extreme for part in parts for extreme in part]

    def left(i: ir.Value, held: list[ir.Value]) -> list[ir.Value]:
        return taken(held, i, values.first_lanes(k, lanes, k.b.sub(count, i)))

    with common.first_worker(k):
        zeros = values.constant(ir.VectorType(F32, lanes), 0.0)
        held = k.reduce_loop(0, turns, turn, [zeros] * 2 * _VECTORS, several)
        while len(held) > 2:
            half = len(held) // 2
            held = [_EXTREMES[i % 2](k, held[i], held[i + half]) for i in range(half)]
        held = k.reduce_loop(turns, count, lanes, held, left)
        extremes = [horizontal(k, v, combine) for v, combine in zip(held, _EXTREMES, strict=True)]
        results = emit_pointwise(k, _FROM_EXTREMES, extremes)
        for value, operand, kind in zip(results, (scale, zero), ("f32", "u8"), strict=True):
            values.store(k, value, operand, 0, kind)
    return k.finish()


class ByteScale(Kernel[ByteScaleOp, ByteScaleSpec]):
    """Scale and zero point of bytes."""

    OPS = (ByteScaleOp,)
    emit = staticmethod(emit_byte_scale)

    def match(self, op: ByteScaleOp, context: CallContext) -> ByteScaleSpec | None:
        return ByteScaleSpec(prod(shape(op.input))) if op.predicate is None else None
