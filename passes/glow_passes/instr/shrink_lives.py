"""glow-shrink-lives: allocs sink to their first use, deallocs rise to their last."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.instr.flights import touched
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import AllocOp, DeallocOp, instr_functions
from glow_passes.contract import InstructionPass


def shrink(block: Block) -> None:
    """alloc a; I; J a; K; dealloc a   ->   I; alloc a; J a; dealloc a; K.

    A buffer that an instruction under way uses lives until that is waited for.
    """
    first: dict[SSAValue, Operation] = {}
    last: dict[SSAValue, Operation] = {}
    deallocs: dict[SSAValue, DeallocOp] = {}
    for op in block.ops:
        if isinstance(op, DeallocOp):
            deallocs[op.buffer] = op
            continue
        for base in touched(op):
            if isinstance(base.owner, AllocOp):
                first.setdefault(base, op)
                last[base] = op
        if isinstance(op, ForOp):
            shrink(op.block)
    for buffer, dealloc in deallocs.items():
        alloc = buffer.owner
        assert isinstance(alloc, AllocOp)
        if buffer not in first:
            continue
        alloc.detach()
        block.insert_op_before(alloc, first[buffer])
        dealloc.detach()
        block.insert_op_after(dealloc, last[buffer])


@dataclass(frozen=True)
class ShrinkLivesPass(InstructionPass):
    """Sink allocs and hoist deallocs (Glow: SinkAllocas and HoistDealloc)."""

    name = "glow-shrink-lives"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            shrink(function.block)
