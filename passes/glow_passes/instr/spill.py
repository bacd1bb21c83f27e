"""glow-spill: where a device's memory is full, buffers that wait for their next use do so in the main one."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.core.arena import plan_offsets
from glow_dialects.core.types import element_of, shape_of
from glow_dialects.instr.flights import touched
from glow_dialects.instr.memory import (
    AllocOp,
    DeallocOp,
    InstrFuncOp,
    StartCopyOp,
    ViewOp,
    WaitOp,
    instr_functions,
    origin,
)
from glow_dialects.instr.spaces import Memory, space_of
from glow_passes.contract import InstructionPass
from glow_passes.instr.plan_memory import lives_of
from glow_passes.instr.shrink_lives import shrink


def spill(function: InstrFuncOp) -> int:
    """I a; J b; K a   ->   I a; store a; J b; load a; K a, where a and b do not fit; the number of stores.

    Of the buffers that live where a memory is fullest the one goes that is needed last, in the order in which
    instructions are written. Where none can go the memory stays full, which its plan reports.
    """
    count = 0
    shrink(function.block)
    for name, memory in function.spaces().items():
        while (full := _fullest(function, name, memory)) is not None and _spill_one(function, name, full):
            count += 1
    return count


def _fullest(function: InstrFuncOp, space: str, memory: Memory) -> Operation | None:
    """The operation of the function's block at which most of a memory lives; None where all of it fits."""
    there = [life for a, life in lives_of(function).items() if space_of(a.result) == space]
    offsets = plan_offsets(there, memory.alignment, search=True)
    if all(at + size <= memory.size for at, (_, _, size) in zip(offsets, there, strict=True)):
        return None
    live = {at: sum(n for low, high, n in there if low <= at < high) for at, _, _ in there}
    worst = max(live, key=lambda at: live[at])
    steps = list(function.walk())
    op: Operation | None = steps[worst]
    while op is not None and op.parent is not function.block:
        op = op.parent_op()
    return op


def _spill_one(function: InstrFuncOp, space: str, full: Operation) -> bool:
    """Store what is needed last after `full`, and load it before it is needed; whether there is such."""
    block, ops = function.block, list(function.block.ops)
    at = ops.index(full)
    while isinstance(ops[at], AllocOp | ViewOp) and at + 1 < len(ops):  # what follows is their first use
        at += 1
    uses: dict[SSAValue, list[int]] = {}
    for place, op in enumerate(ops):
        if not isinstance(op, AllocOp | DeallocOp | ViewOp):
            for buffer in touched(op):
                uses.setdefault(buffer, []).append(place)
    best: tuple[int, SSAValue, int] | None = None
    for buffer, places in uses.items():
        before, after = [p for p in places if p < at], [p for p in places if p > at]
        if not before or not after or at in places or space_of(buffer) != space:
            continue
        if not ops[before[-1]].results and (best is None or after[0] > best[0]):
            best = after[0], buffer, before[-1]  # nothing that is under way has a part in it
    if best is None:
        return False
    needed, buffer, last = best
    _move(block, buffer, ops[last], ops[needed:])
    return True


def _move(block: Block, buffer: SSAValue, last: Operation, later: list[Operation]) -> None:
    """Let a buffer lie in the main memory between its last use and the operations from `later` on."""
    made = AllocOp.of(MemRefType(element_of(buffer), shape_of(buffer)))
    store = StartCopyOp(made.result, buffer)
    for op in (DeallocOp(buffer), WaitOp(store.results), store, made):
        block.insert_op_after(op, last)
    again = AllocOp.of(buffer.type)  # pyright: ignore[reportArgumentType] # a buffer's type
    load = StartCopyOp(again.result, made.result)
    known: dict[SSAValue, SSAValue] = {buffer: again.result}
    moved: list[Operation] = [again, load, WaitOp(load.results), DeallocOp(made.result)]
    first = list(block.ops).index(later[0])
    for op in list(block.ops)[:first]:
        if isinstance(op, ViewOp) and origin(op.result) is buffer:
            moved.append(view := op.clone(known))
            known[op.result] = view.result
    for op in moved:
        block.insert_op_before(op, later[0])
    inside = {inner for op in later for inner in op.walk()}
    for old, new in known.items():
        old.replace_uses_with_if(new, lambda use: use.operation in inside)


@dataclass(frozen=True)
class SpillPass(InstructionPass):
    """Spill from full memories to the main one; in `instr_passes` it stands before what schedules."""

    name = "glow-spill"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            spill(function)
