"""DeviceFunction: what a device loads, in this process or in another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from glow_backends.base import Backend, Program, TimedStep

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_runtime.executable import Executable


class Runner(Protocol):
    """Something that runs: a program, or an executable."""

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name."""
        ...


class Recipe(ABC):
    """How another process makes a runner. It is pickled; files that it names are those of its folder."""

    @abstractmethod
    def runner(self) -> Runner:
        """The runner, in the process that calls this."""


@dataclass(frozen=True)
class ProgramRecipe(Recipe):
    """A program that a backend wrote to a folder; its constants are mapped, and so shared by processes."""

    backend: Backend
    folder: Path

    def runner(self) -> Runner:
        program = self.backend.read_program(self.folder)
        if program is None:
            raise OSError(f"{self.folder} holds no program for backend {self.backend.name}")
        return program


@dataclass(frozen=True)
class ModuleRecipe(Recipe):
    """A planned module in a file, with its constants beside it: for programs that cannot be written."""

    backend: Backend
    file: Path
    timed: bool = False

    def runner(self) -> Runner:
        from glow_dialects.dialects import context
        from glow_dialects.parse import parse_module
        from glow_runtime.weights import attach_weights

        ctx = context()
        for name, load in self.backend.dialects().items():
            ctx.register_dialect(name, load)
        module = parse_module(self.file.read_text(encoding="utf-8"), str(self.file), ctx)
        attach_weights(module, self.file)
        return self.backend.compile_timed(module) if self.timed else self.backend.consume(module)


@dataclass(frozen=True)
class CallRecipe(Recipe):
    """A function of a module that can be imported, and its arguments: it makes the runner."""

    call: Callable[..., Runner]
    arguments: Mapping[str, Any]

    def runner(self) -> Runner:
        return self.call(**self.arguments)


@dataclass
class DeviceFunction(ABC):
    """A function to load: its name, the names of its inputs and outputs, the bytes of its constants."""

    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    constant_bytes: int

    @property
    def steps(self) -> Sequence[TimedStep]:
        """Steps whose times its runs give, as `Program.steps`."""
        return ()

    @abstractmethod
    def runner(self) -> Runner:
        """The function in this process; the same object at each call."""

    @abstractmethod
    def recipe(self, folder: Path) -> Recipe:
        """The function for another process, which may read what is written to the empty `folder`."""


@dataclass
class ProgramFunction(DeviceFunction):
    """A compiled partition; with its planned module, where the backend cannot write the program."""

    program: Program
    backend: Backend
    planned: ModuleOp | None

    @property
    def steps(self) -> Sequence[TimedStep]:
        return self.program.steps

    def runner(self) -> Runner:
        return self.program

    def recipe(self, folder: Path) -> Recipe:
        if self.planned is None:
            self.backend.write_program(self.program, folder / "program")
            return ProgramRecipe(self.backend, folder / "program")
        from glow_runtime.weights import SUFFIX, write

        file = folder / "module.mlir"
        file.write_text(str(self.planned), encoding="utf-8")
        write(self.planned, file.with_suffix(SUFFIX))
        return ModuleRecipe(self.backend, file, bool(self.program.steps))


@dataclass
class ModelFunction(DeviceFunction):
    """A whole model, compiled here; `elsewhere` says how another process compiles it."""

    net: Executable
    backend: Backend
    elsewhere: Callable[[Path], Recipe]

    def runner(self) -> Runner:
        return self.net

    def recipe(self, folder: Path) -> Recipe:
        program = self.net.only_program
        if program is not None and self.backend.can_write(program):
            self.backend.write_program(program, folder / "program")
            return ProgramRecipe(self.backend, folder / "program")
        return self.elsewhere(folder)
