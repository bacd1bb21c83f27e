"""Named sizes: parsed from text, and computed from the sizes of a call.

The text of a size: `n`, `2*n+1`, `(n+3) floordiv 4`, `n mod 8`; names other than Python's stand in quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from math import inf

from glow_dialects.core.conditions import Conditions, Symbol
from glow_dialects.core.errors import ShapeError
from glow_dialects.core.extent import Extent

#: Sizes above it are not expected of a symbol, unless it is said.
LARGEST = 1 << 20
#: No size is larger, nor any number in the text of one.
MOST = (1 << 63) - 1
_TOKEN = re.compile(
    r'\s*(?:(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<sign>[-+*()]))'
)
#: Examples of symbols whose size nothing tells yet: odd, unlike each other and what models have in them.
_EXAMPLES = 61, 30


def symbol(
    conditions: Conditions,
    name: str,
    example: int,
    least: int = 2,
    most: float = LARGEST,
    usual: int = 0,
    divisor: int = 1,
) -> Extent:
    """A new size that only the run tells, from `least` to `most`; what is decided about it is a condition.

    It is a multiple of `divisor`, and so is the example.
    """
    assert example % divisor == 0, f"{name}: {example} is no multiple of {divisor}"
    limits = -(-least // divisor), most if most == inf else most // divisor
    made = Symbol(name, example // divisor, conditions, *limits, usual // divisor, divisor)
    conditions.symbols.append(made)
    return extent_of(made)


def extent_of(symbol: Symbol) -> Extent:
    """The size that a symbol stands for."""
    return Extent({(symbol,): symbol.divisor}, symbol.conditions)


class Symbols:
    """The named sizes of one graph; a name that is new gets a symbol of any size."""

    def __init__(self, conditions: Conditions | None = None) -> None:
        self.conditions = conditions or Conditions()
        self._known = {s.name: s for s in self.conditions.symbols}

    def declare(
        self, name: str, least: int = 0, most: float = inf, divisor: int = 1, example: int | None = None
    ) -> Extent:
        """A new symbol from `least` to `most`, a multiple of `divisor`; ShapeError where it cannot be."""
        if not name:
            raise ShapeError("a size needs a name")
        if name in self._known:
            raise ShapeError(f"size '{name}' already exists; give its limits where it is first used")
        if divisor < 1 or least < 0 or most < least or (most != inf and most > MOST):
            raise ShapeError(
                f"size '{name}' is from {least} to {most}, a multiple of {divisor}: there is no such number"
            )
        if example is None:
            example = _example(len(self._known), least, most, divisor)
        if not least <= example <= most or example % divisor:
            raise ShapeError(f"size '{name}': no multiple of {divisor} lies between {least} and {most}")
        made = symbol(self.conditions, name, example, least, most, divisor=divisor)
        self._known[name] = self.conditions.symbols[-1]
        return made

    def named(self, name: str) -> Extent:
        """The size of a name."""
        known = self._known.get(name)
        return self.declare(name) if known is None else extent_of(known)

    def size(self, text: str) -> int:
        """The size that a text stands for; ShapeError where it is none."""
        return parse_size(text, self.named)


def _example(number: int, least: int, most: float, divisor: int) -> int:
    """An example within limits: the next odd multiple of those that others have, if there is room."""
    first, step = _EXAMPLES
    wanted = max(-(-least // divisor), min(first + step * number, most // divisor))
    return int(wanted) * divisor


def parse_size(text: str, named: Callable[[str], int]) -> int:
    """The size that a text stands for, its names looked up; ShapeError where it is none."""
    parser = _SizeParser(text, named)
    made = parser.sum()
    if parser.next is not None:
        raise parser.wrong()
    return made


class _SizeParser:
    """Sums of products of numbers, names and what is in parentheses."""

    def __init__(self, text: str, named: Callable[[str], int]) -> None:
        self._text, self._named, self._place, self._depth = text, named, 0, 0
        self.next: tuple[str, str] | None = None
        self._advance()

    def wrong(self) -> ShapeError:
        """The error of a text that is no size."""
        return ShapeError(f"'{self._text}' is not a size; write for example n, 2*n+1 or (n+3) floordiv 4")

    def _advance(self) -> None:
        if not self._text[self._place :].strip():
            self.next = None
            return
        found = _TOKEN.match(self._text, self._place)
        if found is None:
            raise self.wrong()
        self._place = found.end()
        kind = str(found.lastgroup)
        self.next = kind, found[kind]

    def _take(self, *texts: str) -> str | None:
        """The next token, where it is one of these."""
        if self.next is None or self.next[1] not in texts:
            return None
        text = self.next[1]
        self._advance()
        return text

    def sum(self) -> int:
        """A sum."""
        total = -self._product() if self._take("-") else self._product()
        while sign := self._take("+", "-"):
            total = total + self._product() if sign == "+" else total - self._product()
        return total

    def _product(self) -> int:
        value = self._factor()
        while sign := self._take("*", "floordiv", "mod"):
            other = self._factor()
            if sign != "*" and not isinstance(other, Extent) and other < 1:
                raise ShapeError(f"'{self._text}': a size is divided by {other}")
            value = value * other if sign == "*" else value // other if sign == "floordiv" else value % other
        return value

    def _factor(self) -> int:
        kind, text = self.next or ("", "")
        self._advance()
        if kind == "number":
            if int(text) > MOST:
                raise ShapeError(f"'{self._text}': {text} is larger than any size")
            return int(text)
        if kind in ("name", "text"):
            return self._named(json.loads(text) if kind == "text" else text)
        if text != "(" or self._depth > 50:
            raise self.wrong()
        self._depth += 1
        inner = self.sum()
        self._depth -= 1
        if self._take(")") is None:
            raise self.wrong()
        return inner


def solved(sizes: Iterable[tuple[int, int]]) -> dict[Symbol, int]:
    """The symbols of sizes whose numbers (or extents of other symbols) are known, in units of their divisors.

    From those that have one symbol in them, by a factor; ShapeError where numbers contradict each other.
    """
    known: dict[Symbol, int] = {}
    pairs = list(sizes)
    for extent, value in pairs:
        linear = extent.linear if isinstance(extent, Extent) else None
        if linear is not None and linear[1] not in known:
            factor, unknown, constant = linear
            if (value - constant) % factor:
                wanted = f"expected a multiple of {factor}" if not constant else f"which no {unknown} gives"
                raise ShapeError(f"{extent} is {value}, {wanted}")
            known[unknown] = (value - constant) // factor
    for extent, value in pairs:
        if isinstance(extent, Extent) and not extent.symbols() <= known.keys():
            continue
        expected = extent.at(known) if isinstance(extent, Extent) else extent
        if expected != value:
            raise ShapeError(f"{extent} is {value}, expected {expected}{_because(extent, known)}")
    return known


def _because(extent: int, known: Mapping[Symbol, int]) -> str:
    if not isinstance(extent, Extent):
        return ""
    texts = [f"{s} = {known[s] * s.divisor}" for s in sorted(extent.symbols(), key=lambda s: s.name)]
    return f" where {', '.join(texts)}"
