"""Programs for any size: the numbers that a run works out from the sizes of its inputs before it starts.

The code of such a program reads them from a table: where buffers lie in the arena, how far views and
scratch are, and the sizes that kernels take. Buffers are placed for sizes rounded up, so that many sizes
share one plan of the memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from glow_backends.cpu.memory import ALIGN, rounded
from glow_dialects.core.conditions import Condition, Symbol
from glow_dialects.core.extent import Extent

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

KEPT = 256
"""Sizes whose numbers are kept."""


@dataclass(frozen=True)
class Life:
    """A buffer: the steps that it lives from and to, and its bytes."""

    start: int
    end: int
    bytes: int


@dataclass
class Numbers:
    """What a program of open sizes reads from its table, in order: the scratch's place, those of buffers,
    then numbers that follow from sizes."""

    lives: list[Life] = field(default_factory=list[Life])
    values: list[int] = field(default_factory=list[int])
    scratch: list[int] = field(default_factory=list[int])
    conditions: list[Condition] = field(default_factory=list[Condition])

    def place(self, buffer: int) -> int:
        """Where in the table the place of a buffer stands."""
        return 1 + buffer

    def add(self, values: Sequence[int]) -> int:
        """Where in the table some numbers stand, which are added to it."""
        self.values += values
        return 1 + len(self.lives) + len(self.values) - len(values)


@dataclass(frozen=True)
class Sized:
    """The table for some sizes, the bytes of the arena with its scratch, and the symbols' values."""

    table: Array
    bytes: int
    sizes: Mapping[Symbol, int]


class SizeTables:
    """The tables of a program by the sizes of its symbols."""

    def __init__(self, numbers: Numbers, symbols: Sequence[Symbol]) -> None:
        self.symbols = list(symbols)
        self._numbers = numbers
        self._kept: OrderedDict[tuple[int, ...], Sized] = OrderedDict()
        #: Places of buffers and bytes of the arena, by the rounded sizes that they are for.
        self._plans: dict[tuple[int, ...], tuple[list[int], list[int], int]] = {}

    def holds(self, values: tuple[int, ...]) -> bool:
        """Whether the program is for these sizes."""
        if values in self._kept:
            return True
        sizes = dict(zip(self.symbols, values, strict=True))
        if any(not s.least <= sizes[s] <= s.most for s in self.symbols):
            return False
        return all(c.holds(sizes) for c in self._numbers.conditions)

    def excludes(self, values: tuple[int, ...]) -> bool:
        """Whether only conditions that sizes are not equal keep the program from being for these."""
        sizes = dict(zip(self.symbols, values, strict=True))
        broken = [c for c in self._numbers.conditions if not c.holds(sizes)]
        return bool(broken) and all(c.relation == "!=" for c in broken)

    def of(self, values: tuple[int, ...]) -> Sized:
        """The table for some sizes."""
        found = self._kept.get(values)
        if found is None:
            found = self._kept[values] = self._made(values)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def _made(self, values: tuple[int, ...]) -> Sized:
        sizes = dict(zip(self.symbols, values, strict=True))
        known: dict[Extent, int] = {}

        def at(value: int) -> int:
            if not isinstance(value, Extent):
                return value
            if value not in known:
                known[value] = value.at(sizes)
            return known[value]

        places, arena = self._placed(values, [at(life.bytes) for life in self._numbers.lives])
        scratch = max((at(s) for s in self._numbers.scratch), default=0)
        table = np.array([arena, *places, *map(at, self._numbers.values)], np.int64)
        return Sized(table, arena + rounded(scratch), sizes)

    def _placed(self, values: tuple[int, ...], needed: list[int]) -> tuple[list[int], int]:
        """Places of buffers of at least these bytes, and of the arena's end."""
        above = tuple(map(_rounded_up, values))
        if above not in self._plans:
            sizes = dict(zip(self.symbols, above, strict=True))
            most = [
                max(life.bytes.at(sizes), n) if isinstance(life.bytes, Extent) else life.bytes
                for life, n in zip(self._numbers.lives, needed, strict=True)
            ]
            self._plans[above] = self._planned(most)
        places, room, arena = self._plans[above]
        if any(have < n for have, n in zip(room, needed, strict=True)):  # fewer elements take more bytes
            both = [max(have, n) for have, n in zip(room, needed, strict=True)]
            self._plans[above] = places, room, arena = self._planned(both)
        return places, arena

    def _planned(self, sizes: list[int]) -> tuple[list[int], list[int], int]:
        from glow_passes.instr.plan_memory import plan_offsets

        lives = self._numbers.lives
        places = plan_offsets([(life.start, life.end, n) for life, n in zip(lives, sizes, strict=True)])
        ends = (place + n for place, n in zip(places, sizes, strict=True))
        return places, sizes, rounded(max(ends, default=0))


def _rounded_up(value: int) -> int:
    """The next of the sizes that plans are made for: at most a quarter more."""
    step = max(ALIGN, 1 << max(0, value.bit_length() - 3))
    return -(-value // step) * step
