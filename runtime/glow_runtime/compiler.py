"""Compiler: a backend, which may remember programs, and how modules are compiled for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glow_backends.base import Backend, Program
from glow_dialects.core.errors import OpenSizes
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import Extent
from glow_dialects.core.time_limit import NOTE

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_runtime.lowering import Phases
    from glow_runtime.pipelines import Pipeline


@dataclass(frozen=True)
class Compiler:
    """A backend, and how modules are compiled for it: `verify` after each pass, `progress` told each phase.

    `pipeline` is one in place of the backend's. After `budget` seconds of a program what is optional is left
    out of it.

    What compiles is imported when it is needed: programs that are remembered start without it.
    """

    backend: Backend
    verify: bool = False
    progress: Callable[[str], None] | None = None
    pipeline: Pipeline | None = None
    budget: float | None = None

    @property
    def phases(self) -> Phases | None:
        """The phases of the pipeline in place of the backend's."""
        return None if self.pipeline is None else self.pipeline.phases

    def keyed(self, key: str | None) -> str | None:
        """The key of a program, by that of its model: one of another pipeline is another program."""
        if key is not None and self.backend.exact:
            key += " exact"
        return key if key is None or self.pipeline is None else f"{key} {self.pipeline.key()}"

    def compile(self, module: ModuleOp, own: bool = False) -> Program:
        """The program of a module, as `compile_module` makes it."""
        from glow_runtime.compile import compile_module

        return compile_module(
            module,
            self.backend,
            1,
            self.verify,
            self.progress,
            own=own,
            steps=self.phases,
            budget=self.budget,
        )

    def remember(self, key: str | None, program: Program) -> None:
        """Have the backend remember a program, unless it lacks what there was no time for."""
        if key is not None and NOTE not in program.report.notes:
            self.backend.remember(key, program)

    def open(
        self, key: str | None, shapes: Mapping[str, Sequence[int]], make: Callable[[], Program | None]
    ) -> Program | None:
        """A program for shapes with open sizes: one that the backend remembers, else what `make` gives.

        None where there cannot be one; OpenSizes where one of the sizes would be fixed.
        """
        backend = self.backend
        if not backend.OPEN_SIZES:
            return None
        if key is None:
            return _checked(shapes, make())
        examples = {n: tuple(map(estimate, s)) for n, s in shapes.items()}
        number = 0
        while (program := backend.recall(f"open {number} {key}")) is not None:
            if program.fits(examples):
                return program
            number += 1
        note = f"open {key} like {sorted(examples.items())}"  # other sizes may share one
        failure = backend.recall_note(note)
        if failure is not None:
            raise OpenSizes(failure)
        try:
            program = _checked(shapes, make())
        except OpenSizes as error:
            if self.budget is None:
                backend.remember_note(note, str(error))
            raise
        if program is not None:
            self.remember(f"open {number} {key}", program)
        return program

    def recall(self, module: ModuleOp) -> Program:
        """The program that the backend remembers for such a module; else it is compiled, and remembered.

        The module was made for this, and is given up.
        """
        from glow_runtime.compile import module_key

        key = self.keyed(module_key(module)) if self.backend.remembers else None
        program = None if key is None else self.backend.recall(key)
        if program is None:
            program = self.compile(module, own=True)
            self.remember(key, program)
        return program


def _checked(shapes: Mapping[str, Sequence[int]], program: Program | None) -> Program | None:
    """A program that was made for shapes; OpenSizes where their sizes are fixed by what it is."""
    extents = (d for shape in shapes.values() for d in shape if isinstance(d, Extent))
    if program is not None and any(s.least == s.most for e in extents for s in e.symbols()):
        raise OpenSizes("the code for them would be for one size only")
    return program
