"""A program for any size: its memory and tables follow the sizes of the inputs of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from glow_backends.base import Bound
from glow_backends.cpu.bundle import Bundle, slots_of
from glow_backends.cpu.open_sizes import Shapes, Sized, SizeTables
from glow_backends.cpu.program import STATES, CpuProgram, check_places
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.errors import BindingError, ShapeError

if TYPE_CHECKING:
    from glow_dialects.core.types import Array


class OpenProgram(CpuProgram):
    """A program whose ports have sizes that only the run tells, for those that meet its conditions."""

    def __init__(self, bundle: Bundle, target: CpuTarget) -> None:
        assert bundle.numbers is not None
        super().__init__(bundle, target)
        states = {s.symbol: s.port for _, s in slots_of(bundle, STATES)}
        self._tables = SizeTables(bundle.numbers, self.inputs, self.outputs, states)
        ((self._slot, _),) = slots_of(bundle, ["numbers"])

    def fits(self, shapes: Shapes) -> bool:
        return self._tables.of(shapes) is not None

    def excludes(self, shapes: Shapes) -> bool:
        return self._tables.excludes(shapes)

    def limits(self, shapes: Shapes) -> str:
        return self._tables.limits(shapes)

    def run_on(self, inputs: Mapping[str, Array], state: Mapping[str, Array]) -> dict[str, Array]:
        sized = self._sized(inputs)
        for name, port in sized.states.items():
            array = state.get(name)
            if array is None or array.shape != port.shape or array.dtype != port.dtype:
                form = "missing" if array is None else f"{array.dtype} {array.shape}"
                raise BindingError(f"state '{name}' is {form}, expected {port.dtype} {port.shape}")
        memory = self.memories.take()
        try:
            memory.point_to(state)
            memory.use_sizes(self._slot, sized)
            return memory.run(self, inputs, sized.outputs)
        finally:
            self.give_memory(memory)

    def check_state(self, state: Mapping[str, Array]) -> None:
        check_places(state)

    def state_shapes(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        return {name: port.shape for name, port in self._sized_for(shapes).states.items()}

    def bind(self, inputs: Mapping[str, Array]) -> Bound:
        shapes = zip(self.outputs, self._sized(inputs).outputs, strict=True)
        return Bound(self, inputs, {p.name: np.zeros(s, p.dtype) for p, s in shapes})

    def _sized(self, inputs: Mapping[str, Array]) -> Sized:
        """The program for the shapes of inputs; ShapeError where it is not for them."""
        return self._sized_for({n: a.shape for n, a in inputs.items()})

    def _sized_for(self, shapes: Shapes) -> Sized:
        sized = self._tables.of(shapes)
        if sized is None:
            raise ShapeError(
                f"the program is for other sizes than {self._tables.text(shapes)}; run the model"
            )
        return sized
