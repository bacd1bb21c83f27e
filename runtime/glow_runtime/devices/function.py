"""DeviceFunction: a function that a device loads, in this process or another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from glow_backends.base import STEP_TIMES, Backend, Program, TimedStep

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

    def moved(self, folder: Path) -> Recipe:
        """The recipe, where its files are in another folder."""
        paths = {f.name: getattr(self, f.name) for f in fields(self)}  # pyright: ignore[reportArgumentType]
        there = {n: folder / value.name for n, value in paths.items() if isinstance(value, Path)}
        return replace(self, **there)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class ProgramRecipe(Recipe):
    """A program that a backend wrote to a folder; its constants are mapped, and so shared by processes."""

    backend: Backend
    folder: Path

    def runner(self) -> Runner:
        program = self.backend.read_program(self.folder)
        if program is None:
            raise OSError(f"{self.folder} contains no program for backend {self.backend.name}")
        return program


@dataclass(frozen=True)
class ModuleRecipe(Recipe):
    """A module in a file, with its constants beside it: for programs that cannot be written.

    It is `planned`, unless it has branches or loops.
    """

    backend: Backend
    file: Path
    timed: bool = False
    planned: bool = True

    def runner(self) -> Runner:
        from glow_dialects.dialects import context
        from glow_dialects.parse import parse_module
        from glow_runtime.weights import attach_weights

        ctx = context()
        for name, load in self.backend.dialects().items():
            ctx.register_dialect(name, load)
        module = parse_module(self.file.read_text(encoding="utf-8"), str(self.file), ctx)
        attach_weights(module, self.file)
        if not self.planned:
            from glow_runtime.compile import compile_module

            return compile_module(module, self.backend, own=True)
        return self.backend.compile_timed(module) if self.timed else self.backend.consume(module)


@dataclass(frozen=True)
class CallRecipe(Recipe):
    """A function of a module that can be imported, and its arguments: it makes the runner."""

    call: Callable[..., Runner]
    arguments: Mapping[str, Any]

    def runner(self) -> Runner:
        return self.call(**self.arguments)


@dataclass(frozen=True)
class ChainRecipe(Recipe):
    """Recipes of functions that run one after another, each with the names of its inputs."""

    links: Sequence[tuple[Recipe, Sequence[str]]]
    outputs: Sequence[str]

    def runner(self) -> Runner:
        return Chain([(recipe.runner(), names) for recipe, names in self.links], self.outputs)

    def moved(self, folder: Path) -> Recipe:
        links = [(r.moved(folder / str(i)), names) for i, (r, names) in enumerate(self.links)]
        return ChainRecipe(links, self.outputs)


class Chain:
    """Runners that run one after another, each on inputs of those names, for some of what they give."""

    def __init__(self, links: Sequence[tuple[Runner, Sequence[str]]], outputs: Sequence[str]) -> None:
        self._links, self._outputs = links, outputs

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name."""
        values, times = dict(inputs), list[Any]()
        for runner, names in self._links:
            made = runner.run({name: values[name] for name in names})
            times += [made.pop(STEP_TIMES)] if STEP_TIMES in made else []
            values.update(made)
        outputs = {name: values[name] for name in self._outputs}
        return outputs | ({STEP_TIMES: np.concatenate(times)} if times else {})


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

    @property
    def programs(self) -> Sequence[Program]:
        """What it is made of, where that is known."""
        return ()

    @abstractmethod
    def runner(self) -> Runner:
        """The function in this process; the same object at each call."""

    @abstractmethod
    def recipe(self, folder: Path) -> Recipe:
        """The function for another process, which may read what is written to the empty `folder`."""


@dataclass
class ProgramFunction(DeviceFunction):
    """A compiled partition; with its module, where the backend cannot write the program.

    The module is `planned`, unless it has branches or loops.
    """

    program: Program
    backend: Backend
    module: ModuleOp | None
    planned: bool = True

    @property
    def steps(self) -> Sequence[TimedStep]:
        return self.program.steps

    @property
    def programs(self) -> Sequence[Program]:
        return [self.program]

    def runner(self) -> Runner:
        return self.program

    def recipe(self, folder: Path) -> Recipe:
        if self.module is None:
            self.backend.write_program(self.program, folder / "program")
            return ProgramRecipe(self.backend, folder / "program")
        from glow_runtime.weights import SUFFIX, write

        file = folder / "module.mlir"
        file.write_text(str(self.module), encoding="utf-8")
        write(self.module, file.with_suffix(SUFFIX))
        return ModuleRecipe(self.backend, file, bool(self.program.steps), self.planned)


@dataclass
class ChainFunction(DeviceFunction):
    """Compiled pieces of one partition, which run one after another: what is around branches and loops."""

    pieces: Sequence[ProgramFunction]

    @property
    def steps(self) -> Sequence[TimedStep]:
        return [step for piece in self.pieces for step in piece.steps]

    @property
    def programs(self) -> Sequence[Program]:
        return [piece.program for piece in self.pieces]

    def runner(self) -> Runner:
        return Chain([(piece.program, piece.inputs) for piece in self.pieces], self.outputs)

    def recipe(self, folder: Path) -> Recipe:
        links: list[tuple[Recipe, Sequence[str]]] = []
        for number, piece in enumerate(self.pieces):
            (folder / str(number)).mkdir()
            links.append((piece.recipe(folder / str(number)), piece.inputs))
        return ChainRecipe(links, self.outputs)


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
