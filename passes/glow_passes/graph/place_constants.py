"""glow-place-constants: literals and splats that are read from memory become module constants.

A constant is in memory when the program starts; a literal or splat is written there in every run.
Element-wise operators keep their splats: those become numbers in the code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import shape_of, typed
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.module import GetOp
from glow_dialects.ops.splat import SplatOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, rewrite
from glow_passes.graph.match import users


def place(op: LiteralOp | SplatOp, r: Rewriter) -> SSAValue | None:
    """literal -> get of a constant; splat the same unless only element-wise operators read it."""
    if isinstance(op, SplatOp) and all(
        isinstance(user, GraphOp) and type(user).DATA_PARALLEL for user in users(op.result)
    ):
        return None
    return _constant(op, r)


def _constant(op: LiteralOp | SplatOp, r: Rewriter) -> SSAValue | None:
    kind = typed(op.result)
    if is_open(shape_of(kind)):  # written by the run
        return None
    symbol = r.symbols.add(op.array(), kind, op.result.name_hint or "constant")
    return r.insert(GetOp.of(symbol)).result


PATTERNS = (Pattern((LiteralOp, SplatOp), place),)


def place_constants(module: ModuleOp, where: Callable[[LiteralOp | SplatOp], bool]) -> None:
    """Turn the literals and splats for which `where` holds into constants of the module."""
    if any(isinstance(op, LiteralOp | SplatOp) and where(op) for op in module.walk()):
        rule = lambda op, r: _constant(op, r) if where(op) else None  # noqa: E731
        rewrite(module, (Pattern((LiteralOp, SplatOp), rule),))


@dataclass(frozen=True)
class PlaceConstantsPass(GraphPass):
    """Turn literals, and splats that kernels read as memory, into constants."""

    name = "glow-place-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, PATTERNS)
