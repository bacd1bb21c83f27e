"""Dynamic sizes as data, for files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from math import inf
from typing import Any

from glow_dialects.core.conditions import Condition, Conditions, Symbol
from glow_dialects.core.extent import Atom, Computed, Extent, Quotient

#: What functions of `Computed` belong to: nothing else is looked up by a name in a file.
_OWN = "glow_"


class SizeWriter:
    """Writes sizes; the symbols in them are numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[Symbol, int] = {}

    def size(self, value: int) -> Any:
        """An int as it is, an extent as the list of its terms: [factor, [atom, ...]]."""
        if not isinstance(value, Extent):
            return int(value)
        return [[factor, [self._atom(a) for a in product]] for product, factor in value.terms.items()]

    def sizes(self, values: Iterable[int]) -> list[Any]:
        """`size` of each."""
        return [self.size(v) for v in values]

    def condition(self, condition: Condition) -> list[Any]:
        """[extent, relation]."""
        return [self.size(condition.extent), condition.relation]

    def symbols(self) -> list[Any]:
        """[name, example, least, most, divisor] of the symbols so far, most being null without a limit."""
        limits = ((s, None if s.most == inf else s.most) for s in self._numbers)
        return [[s.name, s.example, s.least, most, s.divisor] for s, most in limits]

    def _atom(self, atom: Atom) -> Any:
        if isinstance(atom, Symbol):
            return self._numbers.setdefault(atom, len(self._numbers))
        if isinstance(atom, Quotient):
            return [atom.kind, self.size(atom.top), self.size(atom.bottom)]
        place = f"{atom.function.__module__}:{atom.function.__qualname__}"
        return [place, self.sizes(atom.arguments), atom.index, self.size(atom.known)]


class SizeReader:
    """Reads what a `SizeWriter` wrote; ValueError, TypeError or LookupError for anything else."""

    def __init__(self, symbols: Sequence[Sequence[Any]]) -> None:
        self._conditions = Conditions()
        for name, example, least, most, *divisor in symbols:
            made = Symbol(name, example, self._conditions, least, inf if most is None else most)
            made.divisor = divisor[0] if divisor else 1
            self._conditions.symbols.append(made)

    def size(self, data: Any) -> int:
        """An int or an extent."""
        if isinstance(data, int):
            return data
        terms = {tuple(self._atom(a) for a in product): int(factor) for factor, product in data}
        return Extent(terms, self._conditions)

    def sizes(self, data: Iterable[Any]) -> tuple[int, ...]:
        """`size` of each."""
        return tuple([self.size(d) for d in data])

    def condition(self, data: Sequence[Any]) -> Condition:
        """A condition on an extent."""
        extent, relation = data
        value = self.size(extent)
        if not isinstance(value, Extent) or relation not in ("==", "!=", "<", ">="):
            raise ValueError(f"not a condition: {data}")
        return Condition(value, relation)

    def _atom(self, data: Any) -> Atom:
        if isinstance(data, int):
            return self._conditions.symbols[data]
        if data[0] in ("//", "%"):
            kind, top, bottom = data
            return Quotient(kind, self._extent(top), self.size(bottom))
        place, arguments, index, known = data
        module, _, name = place.partition(":")
        if not module.startswith(_OWN):
            raise ValueError(f"not a function of sizes: {place}")
        function = getattr(import_module(module), name)
        return Computed(function, self.sizes(arguments), index, self._extent(known))

    def _extent(self, data: Any) -> Extent:
        value = self.size(data)
        if not isinstance(value, Extent):
            raise ValueError(f"not an extent: {data}")
        return value
