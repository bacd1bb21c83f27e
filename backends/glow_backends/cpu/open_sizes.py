"""Programs for any size: the numbers that a run works out from the sizes of its inputs before it starts.

The code of such a program reads them from a table: where buffers lie in the arena, how far views and
scratch are, and the sizes that kernels take. Buffers are placed for sizes rounded up, so that many sizes
share one plan of the memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_backends.base import Port
from glow_backends.cpu.memory import rounded
from glow_dialects.core.arena import max_live, plan_like, plan_offsets
from glow_dialects.core.conditions import Condition, Symbol
from glow_dialects.core.extent import Extent
from glow_dialects.core.extent_json import SizeReader, SizeWriter
from glow_dialects.core.size_code import size_function

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

KEPT, PLANS = 256, 64
"""Sizes whose numbers are kept, and rounded sizes whose plans of the memory are."""
_STEP = 64
"""What sizes are rounded up to for a plan, at the least, unless that makes much of little."""
_SPARE = 2, 1 << 26
"""How many times as many bytes as are needed buffers may take together, and how many they may in any case."""
Shapes = Mapping[str, Sequence[int]]


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

    def written(self, writer: SizeWriter) -> dict[str, Any]:
        """As data, of which `read` makes them again."""
        return {
            "lives": [[life.start, life.end, writer.size(life.bytes)] for life in self.lives],
            "values": writer.sizes(self.values),
            "scratch": writer.sizes(self.scratch),
            "conditions": [writer.condition(c) for c in self.conditions],
        }

    @staticmethod
    def read(data: Mapping[str, Any], reader: SizeReader) -> Numbers:
        """The numbers that were `written`."""
        return Numbers(
            [Life(start, end, reader.size(size)) for start, end, size in data["lives"]],
            list(reader.sizes(data["values"])),
            list(reader.sizes(data["scratch"])),
            [reader.condition(c) for c in data["conditions"]],
        )


@dataclass(frozen=True)
class Sized:
    """A program for some sizes: its table, bytes of the arena with its scratch, shapes of its ports.

    `states` are those that keep their values from run to run, by symbol.
    """

    table: Array
    bytes: int
    inputs: dict[str, tuple[int, ...]]
    outputs: list[tuple[int, ...]]
    states: dict[str, Port]


class SizeTables:
    """The tables of a program by the sizes of its symbols, which are read off the shapes of its inputs."""

    def __init__(
        self, numbers: Numbers, inputs: Sequence[Port], outputs: Sequence[Port], states: Mapping[str, Port]
    ) -> None:
        self._numbers, self._inputs, self._outputs, self._states = numbers, inputs, outputs, states
        #: Inputs, their axes and the sizes of these, where they are known.
        self._fixed = [
            (p.name, axis, size)
            for p in inputs
            for axis, size in enumerate(p.shape)
            if not isinstance(size, Extent)
        ]
        #: For each symbol an input and the axis of it that tells its size.
        self._origins = _origins(inputs)
        self._kept: OrderedDict[tuple[int, ...], Sized] = OrderedDict()
        #: Places and bytes of buffers, and bytes of the arena, by the rounded sizes that they are for.
        self._plans: OrderedDict[tuple[int, ...], tuple[list[int], list[int], int]] = OrderedDict()
        #: The last plan that was searched for, and its arena over the bytes that live at once.
        self._last: tuple[list[int], float] | None = None

    def of(self, shapes: Shapes) -> Sized | None:
        """The program for inputs of these shapes; None where it is not for them."""
        values = self._values(shapes)
        if values is None:
            return None
        sized = self._kept.get(values)
        if sized is None:
            if any(tuple(shapes[name][axis : axis + 1]) != (size,) for name, axis, size in self._fixed):
                return None
            if self._broken(self._sizes(values)):
                return None
            sized = self._kept[values] = self._made(values)
            _drop_oldest(self._kept, KEPT)
        return sized if all(tuple(shapes[n]) == s for n, s in sized.inputs.items()) else None

    def excludes(self, shapes: Shapes) -> bool:
        """Whether only conditions that sizes are not equal keep the program from being for these."""
        values = self._values(shapes)
        broken = () if values is None else self._broken(self._sizes(values))
        return bool(broken) and all(c is not None and c.relation == "!=" for c in broken)

    def text(self, shapes: Shapes) -> str:
        """The sizes of the symbols, as messages name them."""
        sizes = (f"{s}={self._of_symbol(s, shapes) * s.divisor}" for s in self._origins)
        return ", ".join(sizes)

    def limits(self, shapes: Shapes) -> str:
        """The limits of the symbols, and the conditions that sizes of these shapes do not meet."""
        texts = [
            f"{s} from {s.least * s.divisor}"
            + (f" to {int(s.most) * s.divisor}" if s.most != inf else "")
            + (f" by {s.divisor}" if s.divisor > 1 else "")
            for s in self._origins
        ]
        values = self._values(shapes)
        broken = () if values is None else self._broken(self._sizes(values))
        return " where ".join([", ".join(texts), *(str(c) for c in broken if c is not None)])

    def _of_symbol(self, symbol: Symbol, shapes: Shapes) -> int:
        """The size of a symbol, in units of its divisor."""
        origin = self._origins[symbol]
        return (shapes[origin.name][origin.axis] - origin.constant) // origin.factor

    def _values(self, shapes: Shapes) -> tuple[int, ...] | None:
        """The sizes of the symbols; None where an input has too few axes."""
        if any(o.axis >= len(shapes[o.name]) for o in self._origins.values()):
            return None
        return tuple([self._of_symbol(s, shapes) for s in self._origins])

    def _sizes(self, values: tuple[int, ...]) -> dict[Symbol, int]:
        return dict(zip(self._origins, values, strict=True))

    def _broken(self, sizes: Mapping[Symbol, int]) -> list[Condition | None]:
        """The conditions that sizes do not meet, None for the limits of a symbol."""
        outside = [None for s, n in sizes.items() if not s.least <= n <= s.most]
        return [*outside, *(c for c in self._numbers.conditions if not c.holds(sizes))]

    @cached_property
    def _numbers_of(self) -> Callable[..., list[int]]:
        """Bytes of buffers, numbers of the table, scratch and sizes of ports, one after another."""
        n = self._numbers
        ports = [*self._inputs, *self._outputs, *self._states.values()]
        sizes = [size for port in ports for size in port.shape]
        return size_function(
            [*(life.bytes for life in n.lives), *n.values, *n.scratch, *sizes], list(self._origins)
        )

    @cached_property
    def _bytes_of(self) -> Callable[..., list[int]]:
        """Bytes of buffers."""
        return size_function([life.bytes for life in self._numbers.lives], list(self._origins))

    def _made(self, values: tuple[int, ...]) -> Sized:
        found = iter(self._numbers_of(*values))
        needed = list(islice(found, len(self._numbers.lives)))
        table = list(islice(found, len(self._numbers.values)))
        scratch = max(islice(found, len(self._numbers.scratch)), default=0)
        places, arena = self._placed(values, needed)

        def shape(port: Port) -> tuple[int, ...]:
            return tuple(islice(found, len(port.shape)))

        return Sized(
            np.array([arena, *places, *table], np.int64),
            arena + rounded(scratch),
            {p.name: shape(p) for p in self._inputs},
            [shape(p) for p in self._outputs],
            {n: Port(p.name, shape(p), p.dtype) for n, p in self._states.items()},
        )

    def _placed(self, values: tuple[int, ...], needed: list[int]) -> tuple[list[int], int]:
        """Places of buffers of at least these bytes, and of the arena's end."""
        most = max(_SPARE[0] * sum(needed), _SPARE[1])
        for step in (_STEP, 1):
            above = tuple([_rounded_up(value, step) for value in values])
            plan = self._plans.get(above)
            room = self._room(above) if plan is None else plan[1]
            if sum(room) <= most:
                break
        if plan is None or any(have < n for have, n in zip(room, needed, strict=True)):
            # Fewer elements may take more bytes.
            plan = self._planned([max(pair) for pair in zip(room, needed, strict=True)])
            self._plans[above] = plan
            _drop_oldest(self._plans, PLANS)
        places, _, arena = plan
        return places, arena

    def _room(self, values: tuple[int, ...]) -> list[int]:
        """The bytes of buffers for some sizes."""
        return self._bytes_of(*values)

    def _planned(self, sizes: list[int]) -> tuple[list[int], list[int], int]:
        """A plan for bytes of buffers: one like the last, if it wastes no more of the arena, or the best."""
        lives = self._numbers.lives
        requests = [(life.start, life.end, n) for life, n in zip(lives, sizes, strict=True)]
        places = None if self._last is None else plan_like(requests, *self._last)
        found = plan_offsets(requests) if places is None else places
        arena = rounded(max((place + n for place, n in zip(found, sizes, strict=True)), default=0))
        if places is None:
            self._last = found, arena / max(max_live(requests), 1)
        return found, sizes, arena


def _rounded_up(value: int, step: int) -> int:
    """The next of the sizes that plans are made for: at most a quarter more, or a multiple of a step."""
    step = max(step, 1 << max(0, value.bit_length() - 3))
    return -(-value // step) * step


def _drop_oldest(kept: OrderedDict[tuple[int, ...], Any], limit: int) -> None:
    while len(kept) > limit:
        kept.popitem(last=False)


@dataclass(frozen=True)
class _Origin:
    """An axis of an input, of `factor` times the size of a symbol and a constant."""

    name: str
    axis: int
    factor: int
    constant: int


def _origins(inputs: Sequence[Port]) -> dict[Symbol, _Origin]:
    """For each symbol what tells its size; what they find is checked by all shapes of the inputs."""
    origins: dict[Symbol, _Origin] = {}
    for port in inputs:
        for axis, extent in enumerate(port.shape):
            linear = extent.linear if isinstance(extent, Extent) else None
            if linear is not None:
                factor, symbol, constant = linear
                origins.setdefault(symbol, _Origin(port.name, axis, factor, constant))
    return origins
