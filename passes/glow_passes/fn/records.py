"""The types and code of dicts as tuples with names: keys, values, items, and dicts made of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.dialect import PrimOp
from glow_passes.fn.domain import ZERO, Text, TupleType, text
from glow_passes.fn.structure import Rule, is_zero, names_of
from glow_passes.fn.values import V, parts

if TYPE_CHECKING:
    from glow_passes.fn.meaning import Meaning


def is_dict(v: V) -> bool:
    """Whether a value is a dict."""
    return names_of(v)[:1] == ("dict",)


def dict_of(items: Mapping[str, V]) -> V:
    """A dict of some keys and values."""
    kinds = tuple(v.type for v in items.values())
    return V(TupleType(kinds, ("dict", *items)), [v.code for v in items.values()])


def _dict(v: V, what: str, where: str) -> TupleType:
    if not is_dict(v):
        raise UnsupportedError(f"{where}: {what} of {text(v.type)}; use a dict")
    assert isinstance(v.type, TupleType)
    return v.type


def _keys(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    return m.tuple([V(Text(n)) for n in _dict(x[0], "keys", where).names[1:]])


def _values(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]):
        return x[0]
    _dict(x[0], "values", where)
    return m.tuple(parts(x[0]))


def _walked(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """What a `for` walks over: the keys of a dict, else the value itself."""
    return _keys(m, op, x, where) if is_dict(x[0]) else x[0]


def _walked_back(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    return V(ZERO) if is_dict(x[1]) else x[0]


def _has_key(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    key = x[1].type
    return m.number(isinstance(key, Text) and key.value in _dict(x[0], "'in'", where).names[1:])


def _rows(m: Meaning, v: V, where: str) -> list[list[V]]:
    """The rows of a tuple of tuples, as long as the shortest."""
    kinds = v.type.items if isinstance(v.type, TupleType) else ()
    if not isinstance(v.type, TupleType) or not all(isinstance(t, TupleType) for t in kinds):
        raise UnsupportedError(f"{where}: zip of {text(v.type)}; use tuples of tuples")
    rows = [parts(item) for item in parts(v)]
    size = min(map(len, rows), default=0)
    return [row[:size] for row in rows]


def _zipped(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """The columns of a tuple of rows."""
    rows = _rows(m, x[0], where)
    sizes = sorted({len(parts(item)) for item in parts(x[0])})
    if "strict" in op.attributes and len(sizes) > 1:
        raise UnsupportedError(f"{where}: zip of {' and '.join(map(str, sizes))} items with strict=True")
    return m.tuple([m.tuple(column) for column in zip(*rows, strict=True)])


def _zipped_back(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """The cotangents of the rows, where `d` is that of the columns."""
    d, whole = x
    if is_zero(d):
        return d
    rows = [parts(item) for item in parts(whole)]
    columns = parts(d)
    made: list[V] = []
    for i, row in enumerate(rows):
        found = [c if is_zero(c) else parts(c)[i] for c in columns]
        made.append(m.tuple([*found, *[V(ZERO)] * (len(row) - len(found))]))
    return m.tuple(made)


def _zipped_ahead(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """The tangents of the columns, where `d` is that of the rows."""
    d, whole = x
    if is_zero(d):
        return d
    size = len(parts(_zipped(m, op, [whole], where)))
    rows = [[V(ZERO)] * size if is_zero(r) else parts(r)[:size] for r in parts(d)]
    return m.tuple([m.tuple(column) for column in zip(*rows, strict=True)])


def _dict_of(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """A dict of pairs of a key and a value."""
    if is_dict(x[0]):
        return x[0]
    keys, values = _columns(m, x[0], where)
    names = [k.type.value for k in keys if isinstance(k.type, Text)]
    if len(names) != len(keys):
        raise UnsupportedError(f"{where}: the keys of a dict must be texts that are known when compiling")
    return dict_of(dict(zip(names, values, strict=True)))


def _columns(m: Meaning, v: V, where: str) -> tuple[list[V], list[V]]:
    rows = [parts(row) for row in parts(v)] if isinstance(v.type, TupleType) else []
    if not isinstance(v.type, TupleType) or any(len(row) != 2 for row in rows):
        raise UnsupportedError(f"{where}: a dict of {text(v.type)}; use pairs of a key and a value")
    return [k for k, _ in rows], [value for _, value in rows]


def _dict_back(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """The cotangents of the pairs, where `d` is that of the dict."""
    d, pairs = x
    if is_zero(d) or is_dict(pairs):
        return d
    names, last, place = _places(m, pairs, where)
    found = [parts(d)[place[n]] if last[n] == i else V(ZERO) for i, n in enumerate(names)]
    return m.tuple([m.tuple([V(ZERO), v]) for v in found])


def _places(m: Meaning, pairs: V, where: str) -> tuple[list[str], dict[str, int], dict[str, int]]:
    """The keys of pairs, the last pair of each key, and where it stands in the dict."""
    keys, _ = _columns(m, pairs, where)
    names = [k.type.value for k in keys if isinstance(k.type, Text)]
    return names, {n: i for i, n in enumerate(names)}, {n: j for j, n in enumerate(dict.fromkeys(names))}


def _dict_ahead(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """The tangent of the dict, where `d` is that of the pairs."""
    d, pairs = x
    if is_zero(d) or is_dict(pairs):
        return d
    _, last, place = _places(m, pairs, where)
    rows = parts(d)
    return m.tuple([V(ZERO) if is_zero(rows[last[n]]) else parts(rows[last[n]])[1] for n in place])


RECORDS: dict[str, Rule] = {
    "keys": _keys,
    "values": _values,
    "walked": _walked,
    "walked_back": _walked_back,
    "has_key": _has_key,
    "zipped": _zipped,
    "zipped_back": _zipped_back,
    "dict_of": _dict_of,
    "dict_back": _dict_back,
    "zipped_ahead": _zipped_ahead,
    "dict_ahead": _dict_ahead,
}
