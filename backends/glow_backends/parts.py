"""Programs of several parts, each by a backend of its own, that hand values on as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend, Port, Program, ports
from glow_backends.phases import phases
from glow_backends.program_data import zeros
from glow_backends.report import Report
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.ops.module import FuncOp, GetOp, PlaceholderOp, SaveOp
from glow_passes.instr.simulate import Timeline
from glow_passes.pipeline import PassRunner


@dataclass(frozen=True)
class Part:
    """The program of a part, and the name of the backend that made it."""

    backend: str
    program: Program


def compiled_part(module: ModuleOp, backend: Backend) -> Program:
    """The program of a module that `extract` made."""
    PassRunner(context()).run(module, [p for _, passes in phases(backend) for p in passes])
    return backend.consume(module)


class PartsProgram(Program):
    """Runs parts in order; states are one set of arrays for all of them."""

    def __init__(self, parts: Sequence[Part], inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self.parts = parts
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.state = self.new_state()
        self.use_state(self.state)
        reports = [part.program.report for part in parts]
        self.report = Report(
            kernels=sum(r.kernels for r in reports),
            arena_bytes=max((r.arena_bytes for r in reports), default=0),
            weight_bytes=sum(r.weight_bytes for r in reports),
            notes={"parts": dict(Counter(part.backend for part in parts))},
        )

    def new_state(self) -> dict[str, Array]:
        made: dict[str, Array] = {}
        for program in (part.program for part in self.parts):
            first = program.new_state() if state_of(program) else {}
            for name, array in first.items():
                if name not in made:
                    made[name] = zeros(array.shape, array.dtype)
                    made[name][...] = array
        return made

    def use_state(self, state: Mapping[str, Array]) -> None:
        super().use_state(state)
        for part in self.parts:
            if state_of(part.program):
                part.program.use_state(self.state)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        values = dict(inputs)
        for part in self.parts:
            values |= self.step(part, values)
        return {port.name: values[port.name] for port in self.outputs}

    def step(self, part: Part, values: Mapping[str, Array]) -> dict[str, Array]:
        """The results of a part."""
        return part.program.run({port.name: values[port.name] for port in part.program.inputs})

    def timeline(self) -> Timeline | None:
        """The cycles of those parts whose backend counts them, one after another."""
        known = [t for part in self.parts if (t := part.program.timeline()) is not None]
        return Timeline.joined(known) if known else None


def state_of(program: Program) -> Mapping[str, Array]:
    """The states of a program; none where it has left them out."""
    return getattr(program, "state", {})


def ports_of(module: ModuleOp, function: FuncOp) -> tuple[list[Port], list[Port]]:
    """Inputs and outputs of a module with one function."""
    return ports(module, "input"), ports(module, "output", function)


def check_states(made: Sequence[FuncOp], who: str) -> None:
    """UnsupportedError where a part reads a state that a part before it writes: it would read the new one."""
    written: set[str] = set()
    for function in made:
        for op in function.walk():
            if isinstance(op, GetOp) and (name := op.symbol.root_reference.data) in written:
                raise UnsupportedError(
                    f"{who}: one part updates '{name}', and a later one needs the old value; "
                    "compile for one backend"
                )
        written |= {name for op in function.walk() if isinstance(op, SaveOp) and (name := _held(op))}


def _held(op: SaveOp) -> str:
    """The state that a node writes; "" for an output, or a value for a later part."""
    target = op.target()
    kept = isinstance(target, PlaceholderOp) and target.kind.data in ("state", "trainable")
    return op.symbol.root_reference.data if kept else ""
