"""Reports of compilations: what `glow.report(net)` and `net.report().html` give."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glow_backends.base import Backend, ports
from glow_backends.phases import phases
from glow_dialects.core.errors import GlowError
from glow_dialects.core.estimates import estimate
from glow_dialects.core.files import whole
from glow_dialects.dialects import context
from glow_passes.instrumentation import Instrumentation, InstrumentedRun
from glow_runtime.lowering import Phases
from glow_runtime.page.page import framed, page
from glow_runtime.page.recording import Recording

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_dialects.core.types import Array
    from glow_runtime.executable import Executable


class CompilationReport:
    """A compilation to look at: each pass with its time and what it changed, memory, kernels, warnings.

    `html` is one page that needs nothing else; notebooks show it.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    @property
    def html(self) -> str:
        """The page."""
        return page(self.recording.data())

    def save(self, path: str | Path) -> None:
        """Write the page to a file, whole or not at all."""
        with whole(Path(path)) as temporary:
            temporary.write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return framed(self.html)

    def __repr__(self) -> str:
        changed = sum("lines" in step for step in self.recording.steps) - 1
        passes = len(self.recording.steps) - 1
        return f"CompilationReport({self.recording.title}: {changed} of {passes} passes changed it)"


def report(net: Executable, title: str = "") -> CompilationReport:
    """Repeat the last compilation of a network and record it.

    Args:
        net: The Executable.
        title: Title of the page.

    Returns:
        A report with the passes, their times and changes, the memory plan and, on the CPU, the time of each
        kernel on random inputs. `save(path)` writes it as a page.

    Raises:
        ShapeError: Nothing has been compiled yet.
        UnsupportedError: The program was loaded from a file.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> g.save(g.relu(g.placeholder("x", (2,))), "y")
        >>> glow.report(glow.compile(g)).save("page.html")
    """
    program = net.program
    shapes = {p.name: tuple(map(estimate, p.shape)) for p in program.inputs}
    recording = Recording(title or repr(net))
    with watched(recording):
        start = time.perf_counter()
        module = net.source.imported(shapes)
        recording.seconds["import"] = time.perf_counter() - start
        record(recording, module, net.backend, net.source.phases)
    for stage, seconds in program.report.stages.items():
        recording.seconds.setdefault(stage, seconds)
    for name, note in program.report.notes.items():
        if name == "sizes" or (name == "host instructions" and note):
            recording.warnings.append(f"{name}: {note}")
    return CompilationReport(recording)


def record(recording: Recording, module: ModuleOp, backend: Backend, steps: Phases | None = None) -> None:
    """Compile a module, in place, as a backend does, and record it."""
    chosen = phases(backend) if steps is None else steps
    named = [(name, item) for name, passes in chosen for item in passes]
    recording.begin(module)
    position = iter(named)
    options = Instrumentation(
        observe=lambda *step: recording.step(module, next(position)[0], *step), verify_each=True
    )
    run = InstrumentedRun(context(), options)
    try:
        run.run(module, [item for _, item in named])
    finally:
        recording.seconds |= run.seconds()
    finish(recording, module, backend)


def finish(recording: Recording, module: ModuleOp, backend: Backend) -> None:
    """What is known when the last pass is done: the plan of the memory, the times of kernels."""
    recording.end(module)
    if not recording.memory:
        return
    start = time.perf_counter()
    try:
        times = backend.kernel_times(module, _inputs(module))
    except GlowError as error:
        recording.warnings.append(f"kernels are not measured: {error}")
        return
    recording.kernels = times
    if times:
        recording.seconds["compile and measure kernels"] = time.perf_counter() - start


@contextmanager
def watched(recording: Recording) -> Generator[None]:
    """Take what is logged and warned of meanwhile into a recording."""

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            recording.warnings.append(record.getMessage())

    log, keep = logging.getLogger("glow"), Keep(logging.WARNING)
    log.addHandler(keep)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        recording.warnings += [
            str(w.message) for w in caught if not issubclass(w.category, DeprecationWarning)
        ]
    finally:
        log.removeHandler(keep)


def _inputs(module: ModuleOp) -> dict[str, Array]:
    """Random numbers for floats, zeros for the rest: they may be subscripts."""
    rng = np.random.default_rng(0)
    return {
        p.name: rng.standard_normal(p.shape).astype(p.dtype)
        if p.dtype.kind == "f"
        else np.zeros(p.shape, p.dtype)
        for p in ports(module, "input")
    }
