"""Subscripts of arrays, as stored in the attributes of `getitem`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.attributes import to_attribute, to_python
from glow_dialects.core.extent import Extent, size


class UnknownNumber(VerifyException):
    """A number that decides a shape is not known when compiling."""


@dataclass(frozen=True)
class At:
    """The index is the value of an operand: a number that the run tells, or an array."""

    place: int


Entry = int | slice | EllipsisType | At | None


def key_of(attributes: Mapping[str, Attribute]) -> tuple[Any, ...]:
    """The subscript of a getitem: numbers, slices, `...` and None for a new axis."""
    key = attributes["key"]
    assert isinstance(key, ArrayAttr)
    return tuple(_entry(e) for e in key.data)


def operands_of(attributes: Mapping[str, Attribute]) -> list[int]:
    """The numbers of the operands that are indices in a key."""
    key = attributes["key"]
    assert isinstance(key, ArrayAttr)
    texts = [a.data for a in key.data if isinstance(a, StringAttr)]
    return [int(t[1:]) for t in texts if t.startswith("$") and ":" not in t]


def shifted(attribute: Attribute, by: int) -> ArrayAttr[Attribute]:
    """A key of no bounds that the run tells, with operands of other numbers."""
    assert isinstance(attribute, ArrayAttr)
    return ArrayAttr(
        [StringAttr(f"${e.place + by}") if isinstance(e := _entry(a), At) else a for a in attribute.data]
    )


def _entry(attribute: Attribute) -> Entry:
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    if isinstance(attribute, ArrayAttr):  # bounds of which the run tells some
        return slice(*[to_python(p) if isinstance(p, IntegerAttr) else None for p in attribute.data])
    assert isinstance(attribute, StringAttr)
    if attribute.data in ("...", "new"):
        return ... if attribute.data == "..." else None
    if attribute.data.startswith("$") and ":" not in attribute.data:
        return At(int(attribute.data[1:]))
    return slice(*[int(p) if p else None for p in attribute.data.split(":")])


def with_bounds(attributes: Mapping[str, Attribute], numbers: Sequence[Any]) -> Mapping[str, Attribute]:
    """The attributes with the numbers that bounds of slices and options refer to.

    `$1:` in a key is from argument 1 on, `$2` in an option is argument 2, which may be a text; an option that
    is None is left out. Raises UnknownNumber where a number is `...`: it is not known when compiling.
    """
    named = [n for n, a in attributes.items() if _refers(a)]
    if not named:
        return attributes
    result = dict(attributes)
    for name in named:
        if name != "key" and attributes[name] in [
            StringAttr(f"${i}") for i, n in enumerate(numbers) if n is None
        ]:
            del result[name]
        else:
            result[name] = _with_numbers(attributes[name], numbers, name)
    return result


def option_places(attributes: Mapping[str, Attribute]) -> set[int]:
    """The arguments that are options: these may be texts and None."""
    return {
        int(a.data[1:])
        for n, a in attributes.items()
        if n != "key" and isinstance(a, StringAttr) and a.data.startswith("$")
    }


def _refers(attribute: Attribute) -> bool:
    """Whether an option names an argument."""
    if isinstance(attribute, ArrayAttr):
        return any(map(_refers, attribute.data))
    return isinstance(attribute, StringAttr) and "$" in attribute.data


def _with_numbers(attribute: Attribute, numbers: Sequence[Any], name: str) -> Attribute:
    def number(text: str, what: str, hint: str) -> Any:
        number = numbers[int(text[1:])]
        known = int | float | np.integer | np.floating | Extent
        if not isinstance(number, known) and (name == "key" or not isinstance(number, str | Sequence)):
            raise UnknownNumber(f"{what} must be known at compile time; {hint}")
        return number

    if isinstance(attribute, ArrayAttr):
        return ArrayAttr([_with_numbers(e, numbers, name) for e in attribute.data])
    if not isinstance(attribute, StringAttr) or "$" not in attribute.data:
        return attribute
    if name != "key":
        return to_attribute(number(attribute.data, f"'{name}'", "use a number, or x.shape"))
    if ":" not in attribute.data:
        return attribute  # an index that the run tells
    hint = "use numbers, x.shape, or a row at a time"
    bounds = [
        size(number(b, "the bounds of a slice", hint)) if b.startswith("$") else int(b) if b else None
        for b in attribute.data.split(":")
    ]
    if any(isinstance(b, Extent) for b in bounds):
        return ArrayAttr([UnitAttr() if b is None else to_attribute(b) for b in bounds])
    return StringAttr(":".join("" if b is None else str(b) for b in bounds))


@dataclass(frozen=True)
class Run:
    """Positions on an axis: `count` of them from the first on, by steps."""

    first: int
    step: int
    count: int

    @property
    def last(self) -> int:
        """The last one; of none, the one before the first."""
        return self.first + (self.count - 1) * self.step


def positions(entry: int | slice, size: int) -> Run:
    """The positions of a number or slice on an axis; VerifyException for a number out of range."""
    if isinstance(entry, slice):
        step = 1 if entry.step is None else entry.step
        if step == 0:
            raise ValueError("slice step cannot be zero")
        low, high = (0, size) if step > 0 else (-1, size - 1)
        first, last = (low, high) if step > 0 else (high, low)
        start = first if entry.start is None else _clipped(entry.start, size, low, high)
        stop = last if entry.stop is None else _clipped(entry.stop, size, low, high)
        way = (stop - start) if step > 0 else (start - stop)
        return Run(start, step, (way + abs(step) - 1) // abs(step) if way > 0 else 0)
    if not -size <= entry < size:
        raise VerifyException(f"index {entry} of an axis of {size}; it counts from 0")
    return Run(entry + size if entry < 0 else entry, 1, 1)


def _clipped(bound: int, size: int, low: int, high: int) -> int:
    """A bound of a slice as a position, as Python counts it."""
    at = bound + size if bound < 0 else bound
    return low if at < low else high if at > high else at


def padded_key(key: Sequence[Entry], rank: int) -> list[Entry]:
    """The subscript with `...` and missing axes written out."""
    used = sum(e is not None and e is not ... for e in key)
    if used > rank:
        raise VerifyException(f"{used} indices for an array of {rank} axes; leave some out")
    rest: list[Entry] = [slice(None)] * (rank - used)
    if ... not in key:
        return [*key, *rest]
    at = list(key).index(...)
    return [*key[:at], *rest, *key[at + 1 :]]
