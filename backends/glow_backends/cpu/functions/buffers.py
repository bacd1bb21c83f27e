"""Abstract values of `ownership`: the buffers that arrays of a program may lie in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from glow_backends.cpu.functions.layout import flat, unflat
from glow_dialects.fn.domain import Type
from glow_dialects.fn.values import V

#: A buffer: a parameter's, one that an operation makes, or memory that is never written.
Buffer = tuple[Any, ...]
FOREIGN: Buffer = ("foreign",)
#: The zeros of the program, which a select may give in place of another array: code looks which it is.
ZEROS: Buffer = ("zeros",)
#: In place of the operation that a view comes from: a copy that the program asks for.
COPY = "copy"


@dataclass(frozen=True)
class Held:
    """Buffers that a value may lie in, each with the operation that made a smaller view of it or None.

    `reads` are those that it would be computed from, where it waits.
    """

    buffers: frozenset[tuple[Buffer, Any]] = frozenset()
    reads: frozenset[Buffer] = frozenset()

    @property
    def places(self) -> frozenset[Buffer]:
        """The buffers."""
        return frozenset(b for b, _ in self.buffers)

    def __or__(self, other: Held) -> Held:
        return Held(self.buffers | other.buffers, self.reads | other.reads)


NUMBER = Held()
FIXED, NOUGHT = (Held(frozenset({(b, None)})) for b in (FOREIGN, ZEROS))


def registers_of(code: Any) -> list[Held]:
    """The registers of a code."""
    registers: Any = flat(code)
    return registers


def coded(kind: Type, held: Iterable[Held]) -> Any:
    """The code of a value from its registers."""
    registers: Any = iter(held)
    return unflat(kind, registers)


def together(held: Sequence[Held]) -> Held:
    """Any of some values."""
    buffers = frozenset(b for h in held for b in h.buffers)
    return Held(buffers, frozenset(r for h in held for r in h.reads))


def pending(values: Sequence[V]) -> frozenset[Buffer]:
    """What is read to compute an operator of some values."""
    held = together([h for v in values for h in registers_of(v.code)])
    return held.reads | held.places
