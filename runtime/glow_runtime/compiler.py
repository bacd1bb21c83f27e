"""Compiler: a backend, which may remember programs, and how modules are compiled for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glow_backends.base import Backend, Program

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_runtime.pipelines import Pipeline


@dataclass(frozen=True)
class Compiler:
    """A backend, and how modules are compiled for it: `verify` after each pass, `progress` told each phase.

    `pipeline` is one in place of the backend's.

    What compiles is imported when it is needed: programs that are remembered start without it.
    """

    backend: Backend
    verify: bool = False
    progress: Callable[[str], None] | None = None
    pipeline: Pipeline | None = None

    def keyed(self, key: str | None) -> str | None:
        """The key of a program, by that of its model: one of another pipeline is another program."""
        return key if key is None or self.pipeline is None else f"{key} {self.pipeline.key()}"

    def compile(self, module: ModuleOp, own: bool = False) -> Program:
        """The program of a module, as `compile_module` makes it."""
        from glow_runtime.compile import compile_module

        steps = None if self.pipeline is None else self.pipeline.phases
        return compile_module(module, self.backend, 1, self.verify, self.progress, own=own, steps=steps)

    def recall(self, module: ModuleOp) -> Program:
        """The program that the backend remembers for such a module; else it is compiled, and remembered.

        The module was made for this, and is given up.
        """
        from glow_runtime.compile import module_key

        key = self.keyed(module_key(module)) if self.backend.remembers else None
        program = None if key is None else self.backend.recall(key)
        if program is None:
            program = self.compile(module, own=True)
            if key is not None:
                self.backend.remember(key, program)
        return program
