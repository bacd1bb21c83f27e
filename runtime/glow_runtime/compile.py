"""From a graph module to a program for a backend."""

from __future__ import annotations

import hashlib
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from glow_backends.base import Backend, Program, get_backend
from glow_dialects.core.errors import CompileError, GlowError, OpenSizes, UnsupportedError
from glow_dialects.core.forks import ForkLock
from glow_dialects.core.packages import package_of
from glow_dialects.core.quiet_gc import quiet_gc
from glow_dialects.core.time_limit import NOTE, limited
from glow_dialects.ops.control import has_control
from glow_dialects.ops.module import has_open_ports
from glow_passes.partition.predicates import has_predicates
from glow_runtime.lowering import Phases, Progress, lower
from glow_runtime.weights import resources


def compile_module(
    module: ModuleOp,
    backend: Backend | str = "cpu",
    threads: int = 1,
    verify: bool = False,
    progress: Progress | None = None,
    ctx: Context | None = None,
    own: bool = False,
    steps: Phases | None = None,
    budget: float | None = None,
) -> Program:
    """Compile a copy of `module`; raises CompileError where the module does not verify.

    `own`: the module was made for this and is valid. It is changed, not copied, and gives up
    constants as soon as it has others made of them. One module is compiled at a time.
    After `budget` seconds what is optional is left out; the report's notes say so.
    """
    chosen = get_backend(backend, threads=threads) if isinstance(backend, str) else backend
    with _COMPILING, limited(budget) as limit:
        program = _compiled(module, chosen, verify, progress, ctx, own, steps)
        if limit is not None and (note := limit.note()):
            program.report.notes[NOTE] = note
        return program


_COMPILING = ForkLock()
"""Compiling is Python, of which one thread runs at a time: two compilations at once only take turns."""


def _compiled(
    module: ModuleOp,
    chosen: Backend,
    verify: bool,
    progress: Progress | None,
    ctx: Context | None,
    own: bool,
    steps: Phases | None,
) -> Program:
    try:
        if not own:
            module.verify()
    except VerifyException as error:
        raise CompileError(f"the module is not valid: {_first_line(error)}") from None
    if has_control(module):
        if steps is not None:
            raise UnsupportedError("a custom pipeline only works for models without branches and loops")
        if has_open_ports(module):
            work = module if own else module.clone()
            outline(work, chosen)
            return _lowered(work, chosen, verify, progress, ctx)
        turns = module.clone()
        if chosen.outline(turns):
            try:
                return _lowered(turns, chosen, verify, progress, ctx)
            except OpenSizes:  # of what runs on the host
                pass
        from glow_runtime.control import ControlProgram  # few programs need all that it imports

        return ControlProgram(module, chosen)
    if chosen.SKIPS and steps is None and has_predicates(module):
        from glow_backends.predicated import predicated  # as few programs need it

        if (program := predicated(module, chosen)) is not None:
            return program
    return _lowered(module if own else module.clone(), chosen, verify, progress, ctx, steps)


def _lowered(
    work: ModuleOp,
    chosen: Backend,
    verify: bool,
    progress: Progress | None,
    ctx: Context | None,
    steps: Phases | None = None,
) -> Program:
    """The program of a module without control flow, which is changed."""
    stages = lower(work, chosen, verify, progress, ctx, steps)
    if progress is not None:
        progress("generate code")
    with quiet_gc():
        program = _coded(chosen, work)
    program.report.stages = {**stages, **program.report.stages}
    return program


def outline(module: ModuleOp, backend: Backend) -> None:
    """Take the loops of a module of open sizes to functions, in place.

    OpenSizes where that is not for all of its control flow: where data decide a branch, or when a loop ends.
    """
    if not backend.outline(module):
        raise OpenSizes("data decide a branch, or end a loop")


def _coded(backend: Backend, module: ModuleOp) -> Program:
    """The backend's program; what breaks in one of a package is told with its name."""
    try:
        return backend.consume(module)
    except Exception as error:
        foreign = not type(backend).__module__.startswith("glow_backends.")
        if not foreign or isinstance(error, GlowError):
            raise
        raise CompileError(
            f"backend {backend.name}{package_of(type(backend))} failed to "
            "compile a node that it claims to support: "
            f"{type(error).__name__}: {error} (glow_backends.conformance.check_backend finds the operators)"
        ) from error


def module_key(module: ModuleOp) -> str | None:
    """A digest of a module's text and of its weights; None where some have no values."""
    digest = hashlib.sha256(str(module).encode())
    for resource, _ in resources(module):
        if resource.array is None or resource.array.dtype == object:
            return None
        plain = np.ascontiguousarray(resource.array).reshape(-1).view(np.uint8)
        digest.update(memoryview(cast(Any, plain)))
    return f"module {digest.hexdigest()}"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
