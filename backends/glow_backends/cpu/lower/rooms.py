"""What a contraction works on: views, room for packed operands, and the steps of its finish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineMap

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.memory import ceil_div
from glow_backends.cpu.emit.pointwise import Pointwise
from glow_backends.cpu.fused_body import steps_of
from glow_backends.cpu.lower.units import LINE
from glow_backends.cpu.quantized_steps import Steps
from glow_backends.nests.dialect import KernelOp
from glow_backends.nests.operations import NestOp, NumberOp, PackOp, YieldOp
from glow_backends.nests.schedule import Schedule

Shape = Sequence[int]
"""Sizes, of which the run may tell some."""


@dataclass
class View:
    """A view: where it begins, its element type and sizes, and how many elements its axes are apart."""

    start: ir.Value
    kind: str
    shape: Shape

    def stride(self, index: AffineMap, dim: int) -> int:
        """How many elements a step of a loop is, where the index is linear in it."""
        zero, one = [0] * index.num_dims, [int(i == dim) for i in range(index.num_dims)]
        total: int = 0
        for axis, e in enumerate(index.results):
            step = e.eval(one, []) - e.eval(zero, [])
            if step:
                total = total + step * prod(self.shape[axis + 1 :])
        return total

    def first(self, index: AffineMap) -> int:
        """The element where all loops are at their beginning."""
        at = [e.eval([0] * index.num_dims, []) for e in index.results]
        return sum(n * prod(self.shape[axis + 1 :]) for axis, n in enumerate(at) if n)


@dataclass(frozen=True)
class Rooms:
    """What a kernel needs room for: rows and panels that it packs, sums of rows and of columns."""

    pack_a: bool
    pack_b: bool
    sum_rows: bool
    sum_columns: bool

    def bytes(self, s: Schedule, rows: int, depth: int) -> list[int]:
        """Bytes of a worker's rooms: for these four, and for the sums of a block."""
        unit, steps = s.unit, ceil_div(depth, s.unit.k)
        line = (steps // 2 * 2 + 1) * unit.k * values.size(unit.a)
        sizes = [
            unit.parts * rows * line + LINE if self.pack_a else 0,
            unit.parts * steps * s.width * unit.k * values.size(unit.b) if self.pack_b else 0,
            4 * rows if self.sum_rows else 0,
            4 * s.width if self.sum_columns else 0,
            (1 + (unit.deepest > 0)) * 4 * s.rows * unit.m * s.width if unit.is_tile else 0,
        ]
        return [ceil_div(n, LINE) * LINE for n in sizes]


def rooms_of(kernel: KernelOp) -> Rooms:
    """What a description needs room for."""
    *before, nest = kernel.body.block.ops
    assert isinstance(nest, NestOp)
    packed = {op.result for op in before if isinstance(op, PackOp)}
    summed = {op.loops.data[-2].name for op in before if isinstance(op, NestOp)}
    return Rooms(nest.ins[0] in packed, nest.ins[1] in packed, "i" in summed, "j" in summed)


def program_of(block: Block) -> tuple[Pointwise, list[SSAValue]]:
    """The steps of a finish; the numbers of the call that it reads are inputs behind its own."""
    numbers = [op.number for op in block.ops if isinstance(op, NumberOp)]
    taken: list[SSAValue] = [*block.args, *(op.result for op in block.ops if isinstance(op, NumberOp))]
    place = {value: i for i, value in enumerate(taken)}
    parts = Steps(len(taken))
    outputs: list[int] = []
    for op in block.ops:
        if isinstance(op, YieldOp):
            outputs.append(place[op.value])
        elif not isinstance(op, NumberOp):
            place[op.results[0]] = steps_of(op, [place[v] for v in op.operands], parts)
    kinds = tuple(dtype_name(v) for v in taken)
    return Pointwise(len(taken), tuple(parts.steps), tuple(outputs), kinds), numbers
