"""From a graph module to planned instructions: the phases of the paper, each timed."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from glow_backends.base import Backend
from glow_backends.declare_memories import instr_passes
from glow_backends.legalize import LegalizePass
from glow_dialects.dialects import context
from glow_passes.contract import check_order
from glow_passes.lower.drop_predicates import DropPredicatesPass
from glow_passes.pipeline import INSTR, LOWER, PassRunner, match_integers, optimize

Progress = Callable[[str], None]
#: Names and passes of phases, in order.
Phases = Sequence[tuple[str, Sequence[ModulePass]]]


@contextmanager
def quiet_gc() -> Generator[None]:
    """Python's garbage collector paused: compiling makes many objects and drops few."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def common_phases(backend: Backend) -> Phases:
    """Phases on the graph that do not depend on where its nodes run."""
    return [
        ("drop predicates", () if backend.PREDICATED else (DropPredicatesPass(),)),
        ("match integers", match_integers()),
        ("optimize", optimize()),
    ]


def target_phases(backend: Backend) -> Phases:
    """Phases on the graph for one backend."""
    return [
        ("lower", (LegalizePass(backend),)),
        ("optimize lowered", optimize(lowered=True)),
        ("target", backend.graph_passes()),
    ]


def instruction_phases(backend: Backend) -> Phases:
    """Phases from the target's graph to planned instructions."""
    return [
        ("generate instructions", LOWER),
        ("target instructions", instr_passes(backend)),
        ("plan memory", INSTR),
    ]


def phases(backend: Backend) -> Phases:
    """Names and passes of every phase, in order."""
    return [*common_phases(backend), *target_phases(backend), *instruction_phases(backend)]


def lower(
    module: ModuleOp,
    backend: Backend,
    verify: bool = False,
    progress: Progress | None = None,
    ctx: Context | None = None,
    steps: Phases | None = None,
) -> dict[str, float]:
    """Take a graph module to planned instructions, in place; returns the seconds of each phase.

    `steps` are those of a pipeline other than the backend's, whose order is checked.
    """
    if steps is not None:
        check_order(module, [p for _, passes in steps for p in passes])
    runner = PassRunner(ctx or context(), verify)
    stages: dict[str, float] = {}
    with quiet_gc():
        for name, passes in steps or phases(backend):
            if progress is not None:
                progress(name)
            start = time.perf_counter()
            runner.run(module, passes)
            stages[name] = time.perf_counter() - start
    return stages
