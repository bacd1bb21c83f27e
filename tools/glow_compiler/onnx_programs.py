"""The programs of an ONNX model, one for each set of shapes of its inputs."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from glow_backends.base import Port, Program
from glow_compiler.onnx_model import OnnxModel
from glow_dialects.core.errors import UnsupportedError
from glow_runtime.cache_counts import as_numbers
from glow_runtime.compiler import Compiler
from glow_runtime.kept_states import States, kept_states
from glow_runtime.planned import PlannedProgram
from glow_runtime.program_source import Implied, ProgramSource, Signature

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_dialects.core.types import Array
    from glow_frontends.onnx import ModelPlan

Dims = dict[str, tuple[int, ...]]


class OnnxPrograms(ProgramSource):
    """A model and a compiler. A program is the one that the backend remembers, else the plan's of the model.

    `inputs` are those that every call gives, `chosen` those of them that have a default value.
    """

    def __init__(
        self,
        model: OnnxModel,
        compiler: Compiler,
        inputs: Sequence[Signature],
        chosen: Container[str],
        states: States = None,
    ) -> None:
        known = model.description
        self.inputs, self.outputs = inputs, known.outputs
        self.keep_states(kept_states(states, inputs, known.outputs))
        self.defaults = [s for s in known.defaults if s.name not in chosen]
        self.value_inputs, self.cache_counts = known.value_inputs, known.cache_counts
        self._model, self._compiler = model, compiler
        self.backend = compiler.backend
        self.phases = compiler.phases
        self._counts = {s.name: s.dtype for s in inputs if s.name in self.cache_counts}
        #: By the inputs with default values that are replaced.
        self._plans: dict[frozenset[str], ModelPlan] = {}

    def hint(self, name: str) -> str:
        return self._model.hint(name)

    def accept(self, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, Array]) -> None:
        replaced = frozenset(self._replaced(shapes))
        plan = self._plans.get(replaced) or self._plan(replaced)
        plan.first(self.plain(shapes), as_numbers(values, self._counts, shapes))

    def implied(self) -> Implied:
        from glow_frontends.onnx.implied import compared_numbers, implied_sizes

        return Implied(compared_numbers(self._model.proto), implied_sizes(self._model.proto))

    def program(self, shapes: Dims, values: dict[str, Array]) -> Program:
        key = self._compiler.keyed(self.keyed(self._model.key(shapes, values)))
        backend = self._compiler.backend
        program = None if key is None else backend.recall(key)
        if program is None:
            from glow_dialects.core.quiet_gc import quiet_gc

            with quiet_gc():
                program = self._planned(shapes, values)
            if not isinstance(program, PlannedProgram):
                self._compiler.remember(key, program)
        return program

    def open_program(self, shapes: Mapping[str, tuple[int, ...]], values: dict[str, Array]) -> Program | None:
        key = self._compiler.keyed(self.keyed(self._model.key(shapes, values)))
        return self._compiler.open(key, shapes, lambda: self._open(shapes, values))

    def imported(self, shapes: Dims) -> ModuleOp:
        stage = self._plan(frozenset(self._replaced(shapes))).first(self.plain(shapes), {})
        if stage is None or stage.module is None:
            raise UnsupportedError(
                "nodes of this model run one by one, on the host: there is no graph to see"
            )
        return self.kept(stage.module, shapes) if stage.whole else stage.module

    def _open(self, shapes: Mapping[str, tuple[int, ...]], values: dict[str, Array]) -> Program | None:
        """A program for any size, compiled."""
        from glow_dialects.core.quiet_gc import quiet_gc

        values = as_numbers(values, self._counts, shapes)
        with quiet_gc():
            stage = self._plan(frozenset(self._replaced(shapes))).first(self.plain(shapes), values)
            if stage is None or not stage.whole or stage.module is None:
                return None
            return self._compiler.compile(self.kept(stage.module, shapes), own=True)

    def _replaced(self, shapes: Container[str]) -> list[str]:
        """The inputs with default values that a call gives."""
        return [s.name for s in self._model.description.defaults if s.name in shapes]

    def _planned(self, shapes: Dims, values: dict[str, Array]) -> Program:
        """The program of the whole model where its first stage is that, else one that follows the plan."""
        replaced = frozenset(self._replaced(shapes))
        plan = self._plans.get(replaced) or self._plan(replaced)
        plain, values = self.plain(shapes), as_numbers(values, self._counts, shapes)
        stage = plan.first(plain, values)
        if stage is not None and stage.whole:
            assert stage.module is not None
            return self._compiler.compile(self.kept(stage.module, shapes), own=True)
        self._plans[replaced] = plan  # of others no more is needed
        report = None
        if stage is not None:
            stage.compile(self._compiler.recall)
            report = None if stage.program is None else cast(Program, stage.program).report
        known = self._model.description
        inputs = {s.name: s for s in [*known.inputs, *known.defaults] if s.name in plain}
        ports = [Port(s.name, plain.get(s.name, ()), s.dtype) for s in inputs.values()]
        return PlannedProgram(ports, plan, values, stage, report)

    def _plan(self, replaced: Container[str]) -> ModelPlan:
        from glow_frontends.onnx import ModelPlan

        return ModelPlan(self._model.proto, self._model.path, self._compiler.recall, replaced)
