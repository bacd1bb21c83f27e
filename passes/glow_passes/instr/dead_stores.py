"""glow-dead-stores: drop instructions whose results nobody reads, and allocs nobody uses."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.instr_op import InstrOp
from glow_dialects.instr.flights import asynchronous, touched
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import (
    AllocOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    instr_functions,
    origin,
)
from glow_passes.contract import InstructionPass


def eliminate(function: InstrFuncOp) -> int:
    """One backward scan: keep an instruction if a buffer it writes is read later or is a weight."""
    wanted: set[SSAValue] = {w.result for w in function.weights()}
    removed = 0
    for op in reversed(list(function.block.ops)):
        if isinstance(op, ForOp):
            wanted.update(touched(op))
        elif isinstance(op, InstrOp) and not isinstance(op, DeallocOp):
            outs = {origin(v) for v in op.written()}
            if outs & wanted or asynchronous(op):
                _update(op, wanted)
            else:
                _erase(op)
                removed += 1
        elif type(op) is ViewOp and op.result.first_use is None:
            _erase(op)
    for op in list(function.block.ops):
        if type(op) is AllocOp and all(isinstance(u.operation, DeallocOp) for u in op.result.uses):
            for use in list(op.result.uses):
                _erase(use.operation)
            _erase(op)
        elif type(op) is WeightOp and op.result.first_use is None:
            _erase(op)
    return removed


def _update(op: InstrOp, wanted: set[SSAValue]) -> None:
    # A whole buffer written and not read: earlier contents are dead.
    wanted.difference_update(v for v in op.written() if isinstance(v.owner, AllocOp))
    wanted.update(origin(v) for v in op.read())


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()


@dataclass(frozen=True)
class DeadStoresPass(InstructionPass):
    """Dead-store elimination and removal of dead allocs."""

    name = "glow-dead-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            eliminate(function)
