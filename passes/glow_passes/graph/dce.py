"""glow-dce: drop nodes whose results nobody uses, and constants that no function names."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.ops.module import FuncOp, bodies
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import is_dead
from glow_passes.graph.symbols import Symbols


def eliminate(function: FuncOp) -> None:
    """One backward scan; definitions come before uses, so one is enough."""
    op = function.body.block.last_op
    while op is not None:
        before = op.prev_op
        if is_dead(op):
            op.detach()
            op.erase()
        op = before


@dataclass(frozen=True)
class DcePass(GraphPass):
    """Dead-code elimination on nodes and constants; placeholders are the module's interface."""

    name = "glow-dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in bodies(op):
            eliminate(function)
        Symbols(op).sweep()
