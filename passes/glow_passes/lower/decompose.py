"""glow-decompose: replace nodes by their decompositions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.builder import decomposed
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops import card_of
from glow_dialects.ops.module import FuncOp, bodies
from glow_passes.contract import GraphPass

Legal = Callable[[GraphOp], bool]


def decompose(function: FuncOp, legal: Legal) -> None:
    """Decompose every node that is not legal, and the nodes of its decomposition.

    A node that is neither is left for the backend's own check, which names it to the user.
    """
    stack = [op for op in function.body.block.ops if isinstance(op, GraphOp)][::-1]
    while stack:
        op = stack.pop()
        if not op.can_decompose() or legal(op):
            continue
        expansion = decomposed(op)
        if expansion is not None:
            stack += [part for part in reversed(expansion[1]) if isinstance(part, GraphOp)]


@dataclass(frozen=True)
class DecomposePass(GraphPass):
    """Decompose the operators named in `ops`, or every one that can be where none is named."""

    name = "glow-decompose"
    ops: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.ops:
            if "." not in name and card_of(name) is None:
                raise UnsupportedError(f"there is no operator '{name}'")

    def legal(self, op: GraphOp) -> bool:
        """Whether `op` may stay."""
        return bool(self.ops) and op.name.removeprefix("glow.") not in self.ops

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in bodies(op):
            decompose(function, self.legal)
