"""From a graph module to planned instructions: the phases of the paper, each timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from glow_backends.base import Backend
from glow_backends.phases import phases
from glow_dialects.core.quiet_gc import quiet_gc
from glow_dialects.dialects import context
from glow_passes.contract import check_order
from glow_passes.pipeline import PassRunner

Progress = Callable[[str], None]
#: Names and passes of phases, in order.
Phases = Sequence[tuple[str, Sequence[ModulePass]]]


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
