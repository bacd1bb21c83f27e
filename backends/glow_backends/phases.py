"""The passes of a compilation for a backend, in phases: of the graph, of instructions, of planned ones."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.passes import ModulePass

from glow_backends.base import Backend
from glow_backends.declare_memories import DeclareMemoriesPass
from glow_backends.legalize import LegalizePass
from glow_passes.lower.drop_predicates import DropPredicatesPass
from glow_passes.pipeline import INSTR, LOWER, match_integers, optimize

Phase = tuple[str, Sequence[ModulePass]]


def phases(backend: Backend) -> list[Phase]:
    """Names and passes of every phase, in order."""
    return [*common_phases(backend), *target_phases(backend), *instruction_phases(backend)]


def common_phases(backend: Backend) -> list[Phase]:
    """Phases on the graph that do not depend on where its nodes run."""
    return [
        ("drop predicates", () if backend.PREDICATED else (DropPredicatesPass(),)),
        ("match integers", match_integers(backend.exact)),
        ("optimize", optimize()),
    ]


def target_phases(backend: Backend) -> list[Phase]:
    """Phases on the graph for one backend."""
    return [
        ("lower", (LegalizePass(backend),)),
        ("optimize lowered", optimize(lowered=True)),
        ("target", backend.graph_passes()),
    ]


def instruction_phases(backend: Backend) -> list[Phase]:
    """Those from the lowered graph on; none for a backend that compiles graphs."""
    if backend.compiles_graphs():
        return []
    declared = (DeclareMemoriesPass(backend),) if backend.memories() else ()
    return [
        ("generate instructions", LOWER),
        ("target instructions", (*declared, *backend.instr_passes())),
        ("plan memory", INSTR),
        ("target planned", backend.planned_passes()),
    ]
