"""Which of several ways to write an instruction as tiles takes a device the fewest cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.ir import Block

from glow_dialects.core.arena import max_live
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import DeallocOp, InstrFuncOp, WeightOp
from glow_dialects.instr.spaces import space_of
from glow_passes.instr.machine import Machine
from glow_passes.instr.plan_memory import lives_of

_S = TypeVar("_S")


class Cheapest:
    """Chooses sizes of tiles, once for instructions that are alike.

    Buffers may fill a part of each memory, `room`: the rest is for the tiles that come next.
    """

    def __init__(self, machine: Machine, room: float = 0.5) -> None:
        self.machine = machine
        self.room = room
        self.known: dict[object, Any] = {}

    def __call__(self, op: InstrOp, sizes: Iterable[_S], write: Callable[[InstrOp, _S], object]) -> _S | None:
        """The sizes of tiles that take the fewest cycles where transfers go on beside computing.

        `write` puts the tiles of some sizes in place of an instruction; it is tried on copies of `op`, in
        modules of their own. None where no tiles fit.
        """
        types = tuple(v.type for v in op.operands)
        key = (type(op), write, types, frozenset(op.properties.items()))
        if key not in self.known:
            costs = [(cost, size) for size in sizes if (cost := self.cost(op, size, write)) is not None]
            self.known[key] = min(costs, key=lambda pair: pair[0])[1] if costs else None
        return self.known[key]

    def cost(self, op: InstrOp, size: _S, write: Callable[[InstrOp, _S], object]) -> float | None:
        """The estimated cycles of an instruction in tiles of a size; None where they do not fit."""
        function = _alone(op)
        write(next(o for o in function.block.ops if isinstance(o, InstrOp)), size)
        return estimated_cycles(function, self.machine) if _fits(function, self.machine, self.room) else None


def estimated_cycles(function: InstrFuncOp, machine: Machine) -> float:
    """About what a program takes whose transfers overlap with computing: the larger of the two, and of the
    smaller what the first of all transfers and the last have nothing beside them for."""
    issued: Counter[bool] = Counter()
    started = _count(function.block, machine, 1, issued)
    return max(issued.values(), default=0) + 2 * min(issued[True], issued[False]) / max(started, 1)


def _count(block: Block, machine: Machine, times: int, issued: Counter[bool]) -> int:
    """Add the cycles of instructions, by whether something else may be issued beside them; those started."""
    started = 0
    for op in block.ops:
        if isinstance(op, ForOp):
            started += _count(op.block, machine, times * len(op.turns), issued)
        elif isinstance(op, InstrOp) and not isinstance(op, DeallocOp) and op.buffers():
            issued[bool(op.results)] += times * machine.work(op).cycles
            started += times * bool(op.results)
    return started


def _fits(function: InstrFuncOp, machine: Machine, room: float) -> bool:
    """Whether the buffers of each memory fit in a part of it."""
    lives = lives_of(function)
    return all(
        max_live([life for a, life in lives.items() if space_of(a.result) == name], memory.alignment)
        <= memory.size * room
        for name, memory in machine.memories().items()
    )


def _alone(op: InstrOp) -> InstrFuncOp:
    """A function of one instruction, in a module: its buffers are weights."""
    function = InstrFuncOp.of("alone")
    ModuleOp([function])
    weights = {
        v: WeightOp.of(StringAttr(f"b{i}"), _plain(v.type), constant=False) for i, v in enumerate(op.operands)
    }
    copy = op.clone({v: w.result for v, w in weights.items()})
    for part in (*weights.values(), copy):
        function.block.add_op(part)
    return function


def _plain(kind: object) -> MemRefType:
    assert isinstance(kind, MemRefType)
    return kind


__all__ = ["Cheapest", "estimated_cycles"]
