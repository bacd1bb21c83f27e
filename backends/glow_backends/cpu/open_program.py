"""A program for any size: its memory and tables follow the sizes of the inputs of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from glow_backends.base import Bound
from glow_backends.cpu.bundle import Bundle, Slot, slots_of
from glow_backends.cpu.open_sizes import Sized, SizeTables
from glow_backends.cpu.program import CpuProgram
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.conditions import Symbol
from glow_dialects.core.errors import ShapeError
from glow_dialects.core.extent import Extent

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

Shapes = Mapping[str, Sequence[int]]


class OpenProgram(CpuProgram):
    """A program whose ports have sizes that only the run tells, for those that meet its conditions."""

    def __init__(self, bundle: Bundle, target: CpuTarget) -> None:
        assert bundle.numbers is not None
        self._origins = _origins([s for _, s in slots_of(bundle, ["input"])])
        self._tables = SizeTables(bundle.numbers, list(self._origins))
        ((self._slot, _),) = slots_of(bundle, ["numbers"])
        super().__init__(bundle, target)

    def fits(self, shapes: Shapes) -> bool:
        values = self._values(shapes)
        if values is None or not self._tables.holds(values):
            return False
        sizes = dict(zip(self._tables.symbols, values, strict=True))
        return all(tuple(shapes[p.name]) == _known(p.shape, sizes) for p in self.inputs)

    def excludes(self, shapes: Shapes) -> bool:
        values = self._values(shapes)
        return values is not None and self._tables.excludes(values)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        sized = self._sized({n: a.shape for n, a in inputs.items()})
        memory = self.memories.take()
        try:
            memory.use_sizes(self._slot, sized)
            return memory.run(self, inputs, [_known(p.shape, sized.sizes) for p in self.outputs])
        finally:
            self.memories.give(memory)

    def bind(self, inputs: Mapping[str, Array]) -> Bound:
        sized = self._sized({n: a.shape for n, a in inputs.items()})
        outputs = {p.name: np.zeros(_known(p.shape, sized.sizes), p.dtype) for p in self.outputs}
        return Bound(self, inputs, outputs)

    def _sized(self, shapes: Shapes) -> Sized:
        """The table for input shapes."""
        values = self._values(shapes)
        if values is None:
            raise ShapeError("the program is for inputs of other shapes")
        return self._tables.of(values)

    def _values(self, shapes: Shapes) -> tuple[int, ...] | None:
        """The sizes of the symbols; None where shapes are of other ranks."""
        values: list[int] = []
        for name, axis in self._origins.values():
            if axis >= len(shapes[name]):
                return None
            values.append(shapes[name][axis])
        return tuple(values)


def _origins(inputs: Sequence[Slot]) -> dict[Symbol, tuple[str, int]]:
    """For each symbol an input and the axis of it that has its size."""
    origins: dict[Symbol, tuple[str, int]] = {}
    for slot in inputs:
        for axis, extent in enumerate(slot.shape):
            symbol = extent.symbol if isinstance(extent, Extent) else None
            if symbol is not None:
                origins.setdefault(symbol, (slot.name, axis))
    return origins


def _known(shape: Sequence[int], sizes: Mapping[Symbol, int]) -> tuple[int, ...]:
    return tuple(d.at(sizes) if isinstance(d, Extent) else d for d in shape)
