"""Tuples whose items have names: dicts, named tuples and dataclasses as values of programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

#: The kind (`dict`, or the name of a class) followed by the names of the items.
Names = tuple[str, ...]

_CLASSES: dict[Names, Any] = {}


class Record(tuple[Any, ...]):
    """A tuple with the names of its items."""

    names: Names = ()

    @classmethod
    def of(cls, names: Names, items: Sequence[Any]) -> Record:
        """The record of some items."""
        record = cls(items)
        record.names = names
        return record


def names_of(value: Any) -> Names | None:
    """The kind and names of a dict of texts, a named tuple or a dataclass; None for other objects."""
    if isinstance(value, dict):
        return ("dict", *value) if all(isinstance(k, str) for k in value) else None
    if isinstance(value, Record):
        return value.names
    kind = type(value)
    fields = fields_of(kind)
    if fields is None:
        return None
    names = (kind.__qualname__, *fields)
    _CLASSES[names] = kind
    return names


def fields_of(kind: Any) -> tuple[str, ...] | None:
    """The fields of a class of named tuples or a dataclass; None for other objects."""
    if not isinstance(kind, type):
        return None
    if dataclasses.is_dataclass(kind):
        return tuple(f.name for f in dataclasses.fields(kind))
    names = getattr(kind, "_fields", None)
    return names if issubclass(kind, tuple) and isinstance(names, tuple) else None


def register(kind: type) -> Names:
    """The names of the records that stand for objects of a class, which results are then made of."""
    names = (kind.__qualname__, *(fields_of(kind) or ()))
    _CLASSES[names] = kind
    return names


def items_of(value: Any) -> tuple[Any, ...]:
    """The items of such an object in the order of their names."""
    if isinstance(value, dict):
        return tuple(value.values())
    if isinstance(value, tuple):
        return tuple(value)
    return tuple(getattr(value, f.name) for f in dataclasses.fields(value))


def rebuilt(names: Names, items: Sequence[Any]) -> Any:
    """The Python object of a record."""
    kind = _CLASSES.get(names)
    if kind is None:
        return dict(zip(names[1:], items, strict=True))
    return kind(*items)
