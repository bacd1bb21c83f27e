"""Contracts of passes: their level, what they invalidate, and the resulting order."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.ops.module import bodies
from glow_passes.analysis import Analysis


class Level(Enum):
    """The forms that functions of a module have, and the pass that makes the next."""

    FUNCTIONS = "functions (glow_fn.func)"
    GRAPH = "graphs (glow.func)"
    INSTRUCTIONS = "instructions (glow_instr.func)"


class OrderError(UnsupportedError):
    """A pass stands where its level is not, or where the pass before it rules it out."""


class LevelPass(ModulePass):
    """A pass on one level: modules without functions of it are none of its business.

    `MAKES` are the levels that those functions have afterwards. `PLANS` gives buffers places in the arena,
    `NEEDS_PLAN` reads these, `KEEPS_PLAN` leaves them right. `PRESERVES` are analyses that it leaves true.
    Programs are right without one that is `OPTIONAL`, or with some of its rewrites: it is left out where a
    compilation has no time left (time_limit.py).
    """

    LEVEL: ClassVar[Level]
    MAKES: ClassVar[tuple[Level, ...]] = ()
    PLANS: ClassVar[bool] = False
    NEEDS_PLAN: ClassVar[bool] = False
    KEEPS_PLAN: ClassVar[bool] = False
    PRESERVES: ClassVar[tuple[type[Analysis], ...]] = ()
    OPTIONAL: ClassVar[bool] = False


class FunctionPass(LevelPass):
    """A pass on functions of `glow_fn`."""

    LEVEL = Level.FUNCTIONS


class GraphPass(LevelPass):
    """A pass on graphs, lowered ones and those of a target too; with `BODIES` in a func.func, too."""

    LEVEL = Level.GRAPH
    BODIES: ClassVar[bool] = True


class InstructionPass(LevelPass):
    """A pass on instructions and their buffers."""

    LEVEL = Level.INSTRUCTIONS


def preserved(item: ModulePass) -> tuple[type[Analysis], ...]:
    """The analyses that a pass leaves true."""
    return item.PRESERVES if isinstance(item, LevelPass) else ()


def is_optional(item: ModulePass) -> bool:
    """Whether programs are right without a pass."""
    return isinstance(item, LevelPass) and item.OPTIONAL


_LEVELS = {"glow_fn.func": Level.FUNCTIONS, "glow.func": Level.GRAPH, "glow_instr.func": Level.INSTRUCTIONS}
"""By name: most programs have no need for the classes of all."""


def levels_of(module: ModuleOp) -> set[Level]:
    """The levels of the functions of a module."""
    levels = {_LEVELS[op.name] for op in module.ops if op.name in _LEVELS}
    return levels | {Level.GRAPH} if any(True for _ in bodies(module)) and levels else levels


def check_order(module: ModuleOp, passes: Sequence[ModulePass]) -> None:
    """OrderError, which names the pass, where one of a pipeline has nothing to work on or comes too late.

    Passes without a contract, of xDSL or of users, may stand anywhere.
    """
    levels = levels_of(module)
    if not levels:
        _check_bodies(module, passes)
        return
    maker: dict[Level, str] = {}
    planned: str | None = None
    moved: ModulePass | None = None
    for item in passes:
        if not isinstance(item, LevelPass):
            continue
        if item.LEVEL not in levels:
            there = " and ".join(sorted(f"{level.value}{maker.get(level, '')}" for level in levels))
            raise OrderError(f"pass {item.spec()} works on {item.LEVEL.value}; the program there is {there}")
        if item.PLANS:
            planned, moved = item.name, None
        elif item.NEEDS_PLAN and moved is not None:
            raise OrderError(
                f"pass {item.spec()} reads offsets of buffers, which pass {moved.name} has invalidated"
            )
        elif item.LEVEL is Level.INSTRUCTIONS and planned is not None and not item.KEEPS_PLAN:
            moved = item
        if item.MAKES:
            levels = (levels - {item.LEVEL}) | set(item.MAKES)
            maker |= dict.fromkeys(item.MAKES, f", made by {item.name}")
    if moved is not None:
        raise OrderError(
            f"pass {moved.spec()} changes buffers after {planned} planned the memory; run it before"
        )


def _check_bodies(module: ModuleOp, passes: Sequence[ModulePass]) -> None:
    """OrderError for a pass that does nothing to MLIR's functions, where there are no others."""
    if not any(True for _ in bodies(module)):
        return
    for item in passes:
        if isinstance(item, LevelPass) and not (isinstance(item, GraphPass) and item.BODIES):
            what = f"pass {item.spec()} works on {item.LEVEL.value}"
            raise OrderError(f"{what}; the program there is functions of MLIR (func.func)")
