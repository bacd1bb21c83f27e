"""glow-plan-memory: every alloc gets its offset in the arena, or in the memory that its type names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from glow_dialects.core.arena import Request, plan_offsets
from glow_dialects.core.errors import CompileError, UnsupportedError
from glow_dialects.core.extent import is_open
from glow_dialects.instr.memory import AllocOp, InstrFuncOp, instr_functions, origin
from glow_dialects.instr.spaces import MAIN, Memory, space_of
from glow_passes.analysis import Cost, Dependencies, Liveness, Readers, analysis
from glow_passes.contract import InstructionPass


def lives_of(function: InstrFuncOp, liveness: Liveness | None = None) -> dict[AllocOp, Request]:
    """The life of every buffer, in steps of the function, and its bytes."""
    lives = (liveness or Liveness(function)).lives
    return {cast(AllocOp, buffer.owner): life for buffer, life in lives.items()}


def plan_function(function: InstrFuncOp, alignment: int = 64) -> None:
    """Write `offset` on every alloc and the arena's size on the function; open sizes are left to the run.

    Every memory is planned by itself. CompileError where the buffers of one do not fit.
    """
    lives = lives_of(function, analysis(Liveness, function))
    if is_open([size for _, _, size in lives.values()]):
        return
    memories = function.spaces()
    spaces: dict[str, dict[AllocOp, Request]] = {MAIN: {}}
    for alloc, life in lives.items():
        spaces.setdefault(space_of(alloc.result), {})[alloc] = life
    for space, there in spaces.items():
        memory = memories.get(space)
        step = alignment if memory is None else memory.alignment
        offsets = plan_offsets(list(there.values()), step, search=True)
        top = 0
        for (alloc, (_, _, size)), offset in zip(there.items(), offsets, strict=True):
            alloc.place(offset)
            top = max(top, offset + -(-size // step) * step)
        if memory is None:
            function.properties["arena"] = IntegerAttr(top, i64)
        elif top > memory.size:
            raise full(function, space, memory, there)


def full(function: InstrFuncOp, space: str, memory: Memory, there: Mapping[AllocOp, Request]) -> CompileError:
    """The error of a memory whose buffers do not fit: which, how many bytes, and at which instruction."""
    rounded = {a: -(-size // memory.alignment) * memory.alignment for a, (_, _, size) in there.items()}
    worst, at, live = 0, 0, list(there)
    for start, _, _ in there.values():
        now = [a for a, (low, high, _) in there.items() if low <= start < high]
        if (total := sum(rounded[a] for a in now)) > worst:
            worst, at, live = total, start, now
    after = [op for step, op in enumerate(function.walk()) if step > at]
    users = {a.result for a in live}
    user = next(op.name for op in after if any(origin(v) in users for v in op.operands))
    largest = sorted(live, key=lambda a: -rounded[a])[:4]
    shown = ", ".join(str(a.result.type) for a in largest) + (", ..." if len(live) > len(largest) else "")
    fit = "" if worst > memory.size else ", which leave gaps"
    return CompileError(
        f"@{function.sym_name.data}: memory '{space}' of {memory.size} bytes is full at {user}: buffers of "
        f"{worst} bytes live there{fit} ({shown}); use smaller tiles, or fewer buffers at a time"
    )


@dataclass(frozen=True)
class PlanMemoryPass(InstructionPass):
    """Assign offsets in their memories to the allocs of every instruction function."""

    name = "glow-plan-memory"
    PLANS = True
    PRESERVES = (Cost, Dependencies, Liveness, Readers)
    alignment: int = 64

    def __post_init__(self) -> None:
        if self.alignment < 1:
            raise UnsupportedError(f"alignment must be positive, got {self.alignment}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            plan_function(function, self.alignment)
