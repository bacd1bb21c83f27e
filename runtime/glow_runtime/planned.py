"""A model that is no one static program, in the form of any other program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from glow_backends.base import Bound, Port, Program
from glow_backends.report import Report
from glow_dialects.core.errors import BindingError

if TYPE_CHECKING:
    from glow_dialects.core.types import Array


class Plan(Protocol):
    """How each node of a model runs; sequences are lists, empty optionals None, strings object arrays."""

    @property
    def hosted(self) -> set[str]:
        """The operators that ran on the host so far."""
        ...

    def run(self, inputs: Mapping[str, Any], known: Mapping[str, Array], first: Any = None) -> dict[str, Any]:
        """Outputs by name; the contents of `known` inputs are part of the specialisation.

        `first` is the plan's first stage for the shapes of the inputs, where it is known.
        """
        ...


class PlannedProgram(Program):
    """Runs a model by its plan, for some shapes of its inputs and the contents of the `known` ones.

    `first` is the plan's stage for these, compiled; `report` that of its program.
    """

    def __init__(
        self,
        inputs: Sequence[Port],
        plan: Plan,
        known: Mapping[str, Array],
        first: Any = None,
        report: Report | None = None,
    ) -> None:
        self.inputs = list(inputs)
        self.outputs: list[Port] = []
        self._plan, self._known, self._first = plan, dict(known), first
        self.report = report or Report()
        self.report.notes["host"] = plan.hosted

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return self._plan.run(inputs, self._known, self._first)

    def bind(self, inputs: Mapping[str, Any]) -> Bound:
        raise BindingError(
            "outputs that are strings or maps, or whose shapes depend on data, cannot be bound"
        )
