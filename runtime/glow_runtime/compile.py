"""From a graph module to a program: the phases of the paper, each timed."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from glow_backends.base import Backend, Program, get_backend
from glow_dialects.core.errors import CompileError
from glow_dialects.dialects import context
from glow_passes.fn.outline_control import has_control
from glow_passes.pipeline import INSTR, LOWER, PassRunner, decompose_for, match_integers, optimize

Progress = Callable[[str], None]


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


def phases(backend: Backend) -> list[tuple[str, Sequence[ModulePass]]]:
    """Names and passes of every phase, in order."""
    return [
        ("match integers", match_integers()),
        ("optimize", optimize()),
        ("lower", decompose_for(backend.supports)),
        ("optimize lowered", optimize(lowered=True)),
        ("target", backend.graph_passes()),
        ("generate instructions", LOWER),
        ("target instructions", backend.instr_passes()),
        ("plan memory", INSTR),
    ]


def compile_module(
    module: ModuleOp,
    backend: Backend | str = "cpu",
    threads: int = 1,
    verify: bool = False,
    progress: Progress | None = None,
    ctx: Context | None = None,
    own: bool = False,
) -> Program:
    """Compile a copy of `module`; raises CompileError where the module does not verify.

    `own`: the module was made for this and is valid. It is changed, not copied, and gives up
    constants as soon as it has others made of them.
    """
    made = get_backend(backend, threads=threads) if isinstance(backend, str) else backend
    try:
        if not own:
            module.verify()
    except VerifyException as error:
        raise CompileError(f"the module is not valid: {_first_line(error)}") from None
    if has_control(module):
        from glow_runtime.control import ControlProgram

        return ControlProgram(module, made.name)
    work = module if own else module.clone()
    stages = lower(work, made, verify, progress, ctx)
    if progress is not None:
        progress("generate code")
    with quiet_gc():
        program = made.consume(work)
    program.report.stages = {**stages, **program.report.stages}
    return program


def lower(
    module: ModuleOp,
    backend: Backend,
    verify: bool = False,
    progress: Progress | None = None,
    ctx: Context | None = None,
) -> dict[str, float]:
    """Take a graph module to planned instructions, in place; returns the seconds of each phase."""
    runner = PassRunner(ctx or context(), verify)
    stages: dict[str, float] = {}
    with quiet_gc():
        for name, passes in phases(backend):
            if progress is not None:
                progress(name)
            start = time.perf_counter()
            runner.run(module, passes)
            stages[name] = time.perf_counter() - start
    return stages


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
