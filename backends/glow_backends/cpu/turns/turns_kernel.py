"""The code of a loop: it sets the pointers of an iteration to its rows and calls the body."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.emit.builder import I8, I64, PTR, KernelBuilder
from glow_backends.cpu.support import BARRIER
from glow_backends.cpu.target import CpuTarget


@dataclass(frozen=True)
class TurnsSpec:
    """`turns` calls, at least one, of the function of a turn.

    Operands: that function, the table of pointers, the program's constants, the turn's arena; where the state
    is first, where it is last, and spare places for it; then tensors of which a turn has a row. `state` are
    the numbers of the entries of the table for what a turn reads and writes, `rows` the entry of each tensor
    and its bytes a row (0 where every turn has all of it).
    """

    turns: int
    state: tuple[tuple[int, int], ...]
    rows: tuple[tuple[int, int], ...]
    #: Where the table has the workers' barrier.
    barrier: int

    @property
    def operands(self) -> int:
        """How many pointers the code takes."""
        return 4 + 3 * len(self.state) + len(self.rows)


def emit_turns(module: ir.Module, name: str, spec: TurnsSpec, target: CpuTarget) -> ir.Function:
    """Emit the loop. Turns take the state from one of two places and leave it in the other."""
    k = KernelBuilder(module, name, spec.operands, target, shared=True)
    turn, io, weights, arena = k.operands[:4]
    count = len(spec.state)
    first, last, spare = (k.operands[4 + i * count : 4 + (i + 1) * count] for i in range(3))
    kind = ir.FunctionType(ir.VoidType(), [PTR, PTR, PTR, I64])
    turn.type = ir.PointerType(kind)  # which a call asks for; in code pointers are of no type

    def point(slot: int, where: ir.Value) -> None:
        k.store(where, io, slot, PTR)

    def points(number: ir.Value) -> None:
        left = k.b.sub(k.i(spec.turns), number)
        even = k.b.icmp_signed("==", k.b.and_(left, k.i(1)), k.i(0))
        begins = k.b.icmp_signed("==", number, k.i(0))
        for (read, written), start, end, other in zip(spec.state, first, last, spare, strict=True):
            point(read, k.b.select(begins, start, k.b.select(even, end, other)))
            point(written, k.b.select(even, other, end))
        for (slot, row), base in zip(spec.rows, k.operands[4 + 3 * count :], strict=True):
            point(slot, k.gep(base, k.mul(number, row), I8))

    several = target.threads > 1
    with k.loop(0, spec.turns) as number:
        if several:
            meet = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, I64]), BARRIER)
            with k.b.if_then(k.b.icmp_signed("==", k.worker, k.i(0))):
                points(number)
            k.b.call(meet, [io, k.i(spec.barrier)])
        else:
            points(number)
        k.b.call(turn, [io, weights, arena, k.worker])
    return k.finish()
