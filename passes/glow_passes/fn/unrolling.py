"""Unrolling of array loops whose number of iterations is known from types, into one graph."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from glow_dialects.fn.domain import EnvType, FnType, Scalar, TensorType, Text, TupleType, Type

#: Turns that a loop of tensors may have to be unrolled.
TURNS = 32
#: Operations visited after which no further turns become instances of their own, where that is not needed.
LONG = 2500
#: Times that inference starts again because a loop proved too long, before no loop is unrolled.
ATTEMPTS = 12


#: How much larger than usual a program of unrolled loops is at most, first and where nothing else works.
ROOM, MOST_ROOM = 2, 8


class TooLong(Exception):
    """A loop that was being unrolled has too many turns; the argument names its function."""


@dataclass
class Unrolling:
    """Which calls of loops are kept apart: those where a known int differs from turn to turn.

    `rolled` are functions of loops that stay loops, whatever is derived from them; `met` tells whether any
    loop of tensors was met.
    """

    enabled: bool = True
    #: Whether loops of straight bodies become functions of several turns, and whether one did.
    turns: bool = True
    turned: bool = False
    met: bool = False
    #: Whether only loops without branches are unrolled, and of those as much as is compiled soon.
    straight: bool = True
    #: How much larger than usual a program of unrolled loops may become, and whether it wanted to be more.
    room: int = ROOM
    crowded: bool = False
    rolled: set[str] = field(default_factory=set[str])
    depths: dict[Type, int] = field(default_factory=dict[Type, int])

    @property
    def factor(self) -> int:
        """How much larger than usual the program may become."""
        return self.room if self.met else 1

    def unrolls(self, name: str, kinds: Sequence[Type], before: Sequence[Type], turns: int) -> bool:
        """Whether a further turn of a loop is an instance of its own; TooLong where there are too many."""
        if (
            not self.enabled
            or plain(name) in self.rolled
            or not any(has_tensors(k) or has_texts(k) for k in kinds)
        ):
            return False
        self.met = True
        if not any(_moved(old, new) for old, new in zip(before, kinds, strict=True)):
            return False
        if turns > TURNS:
            raise TooLong(name)
        return True

    def shrinks(self, kinds: Sequence[Type], before: Sequence[Type]) -> bool:
        """Whether closures nest less deep than before, as backward steps of turns do one after another."""
        return self.met and self._depth(TupleType(tuple(kinds))) < self._depth(TupleType(tuple(before)))

    def _depth(self, kind: Type) -> int:
        depth = self.depths.get(kind)
        if depth is None:
            match kind:
                case FnType():
                    inner = [self._depth(t) for _, bound in kind.entries for t in bound]
                    depth = 1 + max(inner, default=0)
                case TupleType():
                    depth = max(map(self._depth, kind.items), default=0)
                case _:
                    depth = 0
            self.depths[kind] = depth
        return depth


def _moved(old: Type, new: Type) -> bool:
    """Whether an int is known before and now, and another one."""
    if not isinstance(old, Scalar) or not isinstance(new, Scalar):
        return False
    return "int" == old.kind == new.kind and None not in (old.const, new.const) and old.const != new.const


def plain(name: str) -> str:
    """The function that another one is derived from."""
    return re.split(r"\.(?:fwd|bwd|jvp)(?:\.|$)", name)[0]


def same_step(kinds: Sequence[Type], before: Sequence[Type]) -> bool:
    """Whether a backward step of tensors follows itself: only what it got cotangents from differs.

    The last turn of a loop leaves it, so that its cotangents are those of another function; zeros are added.
    """
    differ = [(a, b) for a, b in zip(kinds, before, strict=True) if a != b]
    return all(isinstance(t, EnvType) for pair in differ for t in pair) and any(map(has_tensors, kinds))


def has_tensors(kind: Type) -> bool:
    """Whether tensors are among the parts of a value or its captured values."""
    match kind:
        case TensorType():
            return True
        case TupleType():
            return any(map(has_tensors, kind.items))
        case FnType():
            return any(has_tensors(t) for _, bound in kind.entries for t in bound)
        case _:
            return False


def has_texts(kind: Type) -> bool:
    """Whether a value is a tuple of texts, or of pairs with texts, as keys and items of a dict are."""
    if not isinstance(kind, TupleType):
        return False
    inner = [t for item in kind.items if isinstance(item, TupleType) for t in item.items]
    return any(isinstance(t, Text) for t in (*kind.items, *inner))


@contextmanager
def deep() -> Generator[None]:
    """Types and calls of unrolled loops nest deeper than Python's limit allows."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
