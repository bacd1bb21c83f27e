"""Conditions: what a program requires of the sizes of a call, as decided for example sizes."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from glow_dialects.core.errors import OpenSizes

if TYPE_CHECKING:
    from glow_dialects.core.extent import Extent

#: Least and largest value.
Range: TypeAlias = tuple[float, float]


@dataclass(eq=False)
class Symbol:
    """A size that the run tells: its name, an example, and the least and largest value it may have.

    The example decides; costs are those of the `usual` size. With a divisor, example and limits count
    multiples of it.
    """

    name: str
    example: int
    conditions: Conditions
    least: int = 2
    most: float = inf
    usual: int = 0
    divisor: int = 1

    def __post_init__(self) -> None:
        self.usual = self.usual or self.example

    def __str__(self) -> str:
        plain = self.name.isidentifier() and self.name.isascii() and self.name not in _WORDS
        return self.name if plain else json.dumps(self.name, ensure_ascii=False)


#: Words of the text of sizes, which no name is without quotes.
_WORDS = frozenset({"floordiv", "mod", "from", "to", "by", "where"})


@dataclass(frozen=True)
class Condition:
    """`extent relation 0`, the relation one of `==`, `!=`, `<`, `>=`."""

    extent: Extent
    relation: str

    def holds(self, sizes: Mapping[Symbol, int]) -> bool:
        """Whether it does for some sizes; not where a size in it is divided by 0."""
        try:
            return holds(self.extent.at(sizes), self.relation)
        except ZeroDivisionError:
            return False

    def __str__(self) -> str:
        return f"{self.extent} {self.relation} 0"


@dataclass(eq=False)
class Conditions:
    """What a program assumes of the sizes that it is for."""

    symbols: list[Symbol] = field(default_factory=list[Symbol])
    #: In the order in which they were met.
    met: dict[Condition, None] = field(default_factory=dict[Condition, None])

    def decide(self, extent: Extent, relation: str, value: int | None = None) -> bool:
        """Whether `extent relation 0` holds: for all sizes, or for the example and then as a condition.

        Another `value` of the extent may decide in place of the example's.
        """
        proven = _proven(extent.range(), relation)
        if proven is not None:
            return proven
        known = self._known(extent, relation)
        if known is not None:
            return known
        answer = holds(extent.example if value is None else value, relation)
        self._assume(Condition(extent, relation if answer else _OPPOSITE[relation]))
        return answer

    def fixed(self, extent: Extent) -> int:
        """The number that the extent is from here on: the example's."""
        self.decide(extent - extent.example, "==")
        return extent.example

    def check_open(self) -> None:
        """OpenSizes where a size was fixed, so that what was made is for one size only."""
        fixed = next((c for c in self.met if c.relation == "=="), None)
        if fixed is not None:
            raise OpenSizes(f"the program would be valid for {fixed} only")

    @contextmanager
    def provisional(self) -> Generator[None]:
        """What is decided meanwhile is forgotten: it will be decided again for the sizes of a call."""
        limits = [(s, s.least, s.most) for s in self.symbols]
        met = dict(self.met)
        try:
            yield
        finally:
            self.met = met
            for symbol, least, most in limits:
                symbol.least, symbol.most = least, most

    def _known(self, extent: Extent, relation: str) -> bool | None:
        """What earlier conditions say."""
        for mine, answer in ((relation, True), (_OPPOSITE[relation], False)):
            if Condition(extent, mine) in self.met:
                return answer
            if mine in ("==", "!=") and Condition(-extent, mine) in self.met:
                return answer
        return None

    def _assume(self, condition: Condition) -> None:
        self.met[condition] = None
        self._narrow(condition)

    def _narrow(self, condition: Condition) -> None:
        """Let a symbol's limits say what a condition on it alone does."""
        terms = dict(condition.extent.terms)
        constant = terms.pop((), 0)
        if len(terms) != 1 or condition.relation == "!=":
            return
        ((product, factor),) = terms.items()
        if len(product) != 1 or not isinstance(product[0], Symbol):
            return
        symbol = product[0]
        if condition.relation == "==":
            symbol.least = symbol.most = -constant // factor
        elif condition.relation == ">=" and factor > 0:  # factor * s + constant >= 0
            symbol.least = max(symbol.least, -(constant // factor))
        elif condition.relation == ">=":
            symbol.most = min(symbol.most, constant // -factor)
        elif factor > 0:  # factor * s + constant < 0
            symbol.most = min(symbol.most, -(constant // factor) - 1)
        else:
            symbol.least = max(symbol.least, constant // -factor + 1)


_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<"}


def holds(value: int, relation: str) -> bool:
    """Whether a number stands in a relation to 0."""
    match relation:
        case "==":
            return value == 0
        case "!=":
            return value != 0
        case "<":
            return value < 0
        case _:
            return value >= 0


def _proven(limits: Range, relation: str) -> bool | None:
    low, high = limits
    match relation:
        case "==" | "!=":
            if low > 0 or high < 0:
                return relation == "!="
            return relation == "==" if low == high == 0 else None
        case _:
            if high < 0 or low >= 0:
                return (high < 0) == (relation == "<")
            return None


__all__ = ["Condition", "Conditions", "Range", "Symbol", "holds"]
