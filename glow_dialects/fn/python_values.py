"""Values in Python: closures, tuples with and without names, and the symbolic zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from glow_dialects.fn.record import Record


class Closure(NamedTuple):
    """A function with its captured values, which are its first arguments."""

    name: str
    captured: tuple[Any, ...]


class Zero:
    """The symbolic zero cotangent: of any type, equal to nothing computed."""

    def __repr__(self) -> str:
        return "0"


ZERO = Zero()
TUPLES = (tuple, Record)


def is_tuple(value: Any) -> bool:
    """Whether a value is a tuple of the program, with names or without; closures are none."""
    return type(value) in TUPLES


def add_cotangents(a: Any, b: Any) -> Any:
    """The sum of two cotangents; tuples of captured values are aligned at their ends."""
    if a is ZERO:
        return b
    if b is ZERO:
        return a
    if is_tuple(a):
        size = max(len(a), len(b))
        left, right = (ZERO,) * (size - len(a)) + a, (ZERO,) * (size - len(b)) + b
        return tuple(add_cotangents(x, y) for x, y in zip(left, right, strict=True))
    return a + b


def env_item(d: Any, n: int, i: int) -> Any:
    """Item `i` of the last `n`; zero where it is missing."""
    at = (0 if d is ZERO else len(d)) - n + i
    return ZERO if at < 0 else d[at]


def put(count: int, i: int, d: Any) -> Any:
    """The cotangent of a tuple of `count` items where `d` is that of one."""
    return ZERO if d is ZERO else (ZERO,) * i + (d,) + (ZERO,) * (count - i - 1)


def alike(whole: Any, items: Sequence[Any]) -> Any:
    """A tuple with the names of another."""
    return Record.of(whole.names, items) if isinstance(whole, Record) else tuple(items)


def is_dict(value: Any) -> bool:
    """Whether a value is a dict."""
    return isinstance(value, Record) and value.names[0] == "dict"


def kind_of(value: Any) -> str:
    """The kind of a value, for messages."""
    if isinstance(value, Closure):
        return "a function"
    return {"tuple": "a tuple", "NoneType": "None", "str": "a text"}.get(type(value).__name__, "this value")
