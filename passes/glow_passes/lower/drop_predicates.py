"""glow-drop-predicates: nodes without the predicates that a backend would not look at."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.module import bodies
from glow_passes.contract import GraphPass


@dataclass(frozen=True)
class DropPredicatesPass(GraphPass):
    """Predicates are advice: a backend that skips nothing by them is better off without.

    relu %x pred %p -> relu %x
    """

    name = "glow-drop-predicates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in bodies(op):
            for node in function.walk():
                if isinstance(node, GraphOp) and node.predicate is not None:
                    node.set_predicate(None)
