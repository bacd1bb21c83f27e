"""Primitives on dicts, which are tuples with names, in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glow_backends.interpreter.cotangents import ZERO
from glow_dialects.fn.dialect import PrimOp
from glow_dialects.fn.record import Record


def is_dict(value: Any) -> bool:
    """Whether a value is a dict."""
    return isinstance(value, Record) and value.names[0] == "dict"


def _zipped_back(d: Any, rows: Any) -> Any:
    if d is ZERO:
        return d
    made: list[Any] = []
    for i, row in enumerate(rows):
        found = tuple(ZERO if c is ZERO else c[i] for c in d)
        made.append(found + (ZERO,) * (len(row) - len(found)))
    return tuple(made)


def _zipped_ahead(d: Any, rows: Any) -> Any:
    if d is ZERO:
        return d
    size = min(map(len, rows), default=0)
    return tuple(zip(*[(ZERO,) * size if r is ZERO else r[:size] for r in d], strict=True))


def _dict_ahead(d: Any, pairs: Any) -> Any:
    if d is ZERO or is_dict(pairs):
        return d
    last = {k: i for i, (k, _) in enumerate(pairs)}
    return tuple(ZERO if d[i] is ZERO else d[i][1] for i in last.values())


def _dict_of(pairs: Any) -> Any:
    if is_dict(pairs):
        return pairs
    last = dict(pairs)
    return Record.of(("dict", *last), list(last.values()))


def _dict_back(d: Any, pairs: Any) -> Any:
    if d is ZERO or is_dict(pairs):
        return d
    names = [k for k, _ in pairs]
    last = {n: i for i, n in enumerate(names)}
    place = {n: j for j, n in enumerate(dict.fromkeys(names))}
    return tuple((ZERO, d[place[n]] if last[n] == i else ZERO) for i, n in enumerate(names))


RECORDS: dict[str, Callable[[PrimOp], Callable[..., Any]]] = {
    "keys": lambda op: lambda x: tuple(x.names[1:]),
    "values": lambda op: lambda x: x if x is ZERO else tuple(x),
    "walked": lambda op: lambda x: tuple(x.names[1:]) if is_dict(x) else x,
    "walked_back": lambda op: lambda d, x: ZERO if is_dict(x) else d,
    "has_key": lambda op: lambda x, k: k in x.names[1:],
    "zipped": lambda op: lambda x: tuple(zip(*x, strict="strict" in op.attributes)),
    "zipped_back": lambda op: _zipped_back,
    "dict_of": lambda op: _dict_of,
    "dict_back": lambda op: _dict_back,
    "zipped_ahead": lambda op: _zipped_ahead,
    "dict_ahead": lambda op: _dict_ahead,
}
