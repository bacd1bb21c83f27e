"""glow-one-memory: move the buffers of all memories to the main memory."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, NoneAttr
from xdsl.rewriter import Rewriter

from glow_dialects.instr.memory import AllocOp, InstrFuncOp, instr_functions
from glow_passes.contract import InstructionPass


def join_memories(function: InstrFuncOp) -> None:
    """alloc : memref<4xf32, "scratch">   ->   alloc : memref<4xf32>; places are to be planned again."""
    for op in function.walk():
        for value in op.results:
            kind = value.type
            if isinstance(kind, MemRefType) and not isinstance(kind.memory_space, NoneAttr):
                plain = MemRefType(kind.element_type, kind.shape, kind.layout)
                Rewriter.replace_value_with_new_type(value, plain)
        if isinstance(op, AllocOp):
            op.properties.pop("offset", None)
    function.properties.pop("arena", None)
    function.properties.pop("memories", None)


@dataclass(frozen=True)
class OneMemoryPass(InstructionPass):
    """Forget the memories of a device, for backends that have the main one alone."""

    name = "glow-one-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            if function.memories is not None:
                join_memories(function)
