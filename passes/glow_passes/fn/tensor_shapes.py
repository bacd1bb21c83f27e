"""Subscripts of arrays as they stand in the attributes of `getitem`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

Entry = int | slice | EllipsisType | None


def key_of(attributes: Mapping[str, Attribute]) -> tuple[Any, ...]:
    """The subscript of a getitem: numbers, slices, `...` and None for a new axis."""
    found = attributes["key"]
    assert isinstance(found, ArrayAttr)
    return tuple(_entry(e) for e in found.data)


def _entry(attribute: Attribute) -> Entry:
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    assert isinstance(attribute, StringAttr)
    if attribute.data in ("...", "new"):
        return ... if attribute.data == "..." else None
    return slice(*[int(p) if p else None for p in attribute.data.split(":")])


def with_bounds(attributes: Mapping[str, Attribute], numbers: Sequence[Any]) -> Mapping[str, Attribute]:
    """The attributes with the numbers that bounds of slices refer to: `$1:` is from argument 1 on.

    Raises VerifyException where a number is None: it is not known when compiling.
    """
    key = attributes.get("key")
    if not isinstance(key, ArrayAttr) or "$" not in str(key):
        return attributes

    def known(bound: str) -> str:
        if not bound.startswith("$"):
            return bound
        found = numbers[int(bound[1:])]
        if found is None:
            raise VerifyException(
                "the bounds of a slice must be known when compiling; use numbers, x.shape, or a row at a time"
            )
        return str(int(found))

    def entry(e: Attribute) -> Attribute:
        if not isinstance(e, StringAttr):
            return e
        return StringAttr(":".join(known(b) for b in e.data.split(":")))

    return {**attributes, "key": ArrayAttr([entry(e) for e in key.data])}


def padded_key(key: Sequence[Entry], rank: int) -> list[Entry]:
    """The subscript with `...` and missing axes written out."""
    used = sum(e is not None and e is not ... for e in key)
    if used > rank:
        raise VerifyException(f"{used} indices for an array of {rank} axes")
    rest: list[Entry] = [slice(None)] * (rank - used)
    if ... not in key:
        return [*key, *rest]
    at = list(key).index(...)
    return [*key[:at], *rest, *key[at + 1 :]]
