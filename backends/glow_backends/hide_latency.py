"""glow-hide-latency: overlap transfers of a device with its computation."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend
from glow_backends.named import BackendSpec
from glow_dialects.instr.memory import instr_functions
from glow_passes.contract import InstructionPass
from glow_passes.instr.hide_latency import hide_latency


@dataclass(frozen=True)
class HideLatencyPass(BackendSpec, InstructionPass):
    """Order instructions by what they cost on `backend`, so that its units work side by side."""

    name = "glow-hide-latency"
    backend: Backend

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            hide_latency(function, self.backend)
