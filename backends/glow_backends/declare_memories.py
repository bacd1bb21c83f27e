"""glow-declare-memories: declare the memories of a backend's device in instruction functions."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend
from glow_backends.named import BackendSpec
from glow_dialects.instr.memory import instr_functions
from glow_passes.contract import InstructionPass


@dataclass(frozen=True)
class DeclareMemoriesPass(BackendSpec, InstructionPass):
    """Write the memories of `backend` on every instruction function."""

    name = "glow-declare-memories"
    KEEPS_PLAN = True
    backend: Backend

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            function.declare(self.backend.memories())
