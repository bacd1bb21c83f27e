"""A program of compiled segments around host steps, in the form of any other program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glow_backends.base import Bound, Port, Program, Report
from glow_dialects.core.errors import BindingError

#: Values by name; sequences are lists, empty optionals None, strings object arrays.
HostRun = Callable[[Mapping[str, Any]], dict[str, Any]]


class SegmentedProgram(Program):
    """Runs a model whose shapes depend on data, or whose values are not all tensors.

    `run` walks the model; `hosted` names the operators that it ran on the host.
    """

    def __init__(self, inputs: Sequence[Port], run: HostRun, hosted: set[str]) -> None:
        self.inputs = list(inputs)
        self.outputs: list[Port] = []
        self._run = run
        self.report = Report(notes={"host": hosted})

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return self._run(inputs)

    def bind(self, inputs: Mapping[str, Any]) -> Bound:
        raise BindingError(
            "outputs that are strings or maps, or whose shapes depend on data, cannot be bound"
        )


class FinishedProgram(Program):
    """A program and the steps on the host that follow it (see `glow_frontends.onnx.finish`)."""

    def __init__(self, program: Program, finish: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        self.inputs, self.outputs = program.inputs, list[Port]()
        self.report = program.report
        self._program, self._finish = program, finish

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return self._finish(self._program.run(inputs))

    def bind(self, inputs: Mapping[str, Any]) -> Bound:
        raise BindingError("outputs that are strings or maps cannot be bound; call run")
