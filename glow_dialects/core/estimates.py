"""Estimates from example sizes, where sizes are dynamic: costs, and the choice of code."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, cast

from glow_dialects.core.conditions import holds
from glow_dialects.core.extent import Extent

_V = TypeVar("_V")


def estimate(value: _V) -> _V:
    """A number, or what has some in it, to weigh costs with: that of the usual sizes.

    There is no condition for it, so it is never for what must be right.
    """
    known: Any = value
    if isinstance(value, Extent):
        known = value.usual
    elif isinstance(value, tuple):
        known = tuple(map(estimate, cast("tuple[Any, ...]", value)))
    elif is_dataclass(value) and not isinstance(value, type) and has_extents(value):
        known = replace(value, **{f.name: estimate(getattr(value, f.name)) for f in fields(value)})
    return known


def usually(x: int, relation: str, y: int) -> bool:
    """`x < y`, or another relation, as the usual sizes have it: a condition, for few need other code."""
    difference = x - y
    if not isinstance(difference, Extent):
        return holds(difference, relation)
    return difference.conditions.decide(difference, relation, difference.usual)


def has_extents(value: Any) -> bool:
    """Whether there are sizes in it that only the run tells."""
    kind = type(value)
    if kind in _PLAIN:
        return False
    if isinstance(value, tuple | list):
        return any(map(has_extents, cast("tuple[Any, ...]", value)))
    return isinstance(value, Extent) or any(has_extents(getattr(value, name)) for name in _fields(kind))


_PLAIN = (int, str, bool, float, type(None))


@cache
def _fields(kind: type[Any]) -> tuple[str, ...]:
    """The names of the fields of a dataclass; others have none."""
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()
