"""A program for any size: its memory and tables follow the sizes of the inputs of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from glow_backends.base import Bound
from glow_backends.cpu.bundle import Bundle, slots_of
from glow_backends.cpu.open_sizes import Shapes, Sized, SizeTables
from glow_backends.cpu.program import CpuProgram
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.errors import ShapeError

if TYPE_CHECKING:
    from glow_dialects.core.types import Array


class OpenProgram(CpuProgram):
    """A program whose ports have sizes that only the run tells, for those that meet its conditions."""

    def __init__(self, bundle: Bundle, target: CpuTarget) -> None:
        assert bundle.numbers is not None
        super().__init__(bundle, target)
        self._tables = SizeTables(bundle.numbers, self.inputs, self.outputs)
        ((self._slot, _),) = slots_of(bundle, ["numbers"])

    def fits(self, shapes: Shapes) -> bool:
        return self._tables.of(shapes) is not None

    def excludes(self, shapes: Shapes) -> bool:
        return self._tables.excludes(shapes)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        sized = self._sized(inputs)
        memory = self.memories.take()
        try:
            memory.use_sizes(self._slot, sized)
            return memory.run(self, inputs, sized.outputs)
        finally:
            self.memories.give(memory)

    def bind(self, inputs: Mapping[str, Array]) -> Bound:
        shapes = zip(self.outputs, self._sized(inputs).outputs, strict=True)
        return Bound(self, inputs, {p.name: np.zeros(s, p.dtype) for p, s in shapes})

    def _sized(self, inputs: Mapping[str, Array]) -> Sized:
        """The program for the shapes of inputs; ShapeError where it is not for them."""
        shapes = {n: a.shape for n, a in inputs.items()}
        sized = self._tables.of(shapes)
        if sized is None:
            raise ShapeError(
                f"the program is for other sizes than {self._tables.text(shapes)}; run the model"
            )
        return sized
