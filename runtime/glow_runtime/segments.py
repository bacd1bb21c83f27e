"""A program of compiled segments around host steps, in the form of any other program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glow_backends.base import Port, Program, Report

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
