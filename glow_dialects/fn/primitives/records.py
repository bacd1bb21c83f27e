"""Primitives: tuples with names, for dicts and objects; iteration over tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr

from glow_dialects.core.errors import UnsupportedError, raised
from glow_dialects.fn.domain import (
    BOTTOM,
    FnType,
    NamedType,
    NoneType,
    Scalar,
    TensorType,
    Text,
    TupleType,
    Type,
)
from glow_dialects.fn.domain import ZERO as NOTHING
from glow_dialects.fn.domain import text as text_of
from glow_dialects.fn.primitive import Constant, Function, Primitive, Term, Terms, Typing, options_of, text
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V, full, is_dict, is_zero, names_of, parts, place_of


class Field(Primitive):
    """The item of a name; the size and the dtype of an array."""

    name, linear = "field", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        kind, name = x[0].type, text(op, "field")
        if isinstance(kind, TensorType) and name == "dtype":
            return V(Text(kind.dtype))
        if isinstance(kind, TensorType) and name == "size":
            return m.number(prod(kind.shape))
        return m.get(x[0], place_of(x[0], name, where), where)

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return None if d[0] is None else d[0].prim(FieldOf, x[0], **options_of(op))

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return x[0].prim(FieldPut, d, **options_of(op))


class FieldPut(Primitive):
    """The cotangent of a record of which that of the item of a name is given."""

    name, arity, linear, types_only = "field_put", 2, (1,), (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if isinstance(x[0].type, TensorType):
            return V(NOTHING)
        items = [V(NOTHING)] * len(parts(x[0]))
        items[place_of(x[0], text(op, "field"), where)] = x[1]
        return m.tuple(items)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(FieldOf, x[0], **options_of(op))


def is_new(whole: V, op: FnOp) -> bool:
    """Whether the name of an assignment is a further key of a dict."""
    return is_dict(whole) and text(op, "field") not in names_of(whole)[1:]


class FieldOf(Primitive):
    """The item of a tangent or cotangent that a name stands for in the record beside it."""

    name, arity, linear, types_only = "field_of", 2, (0,), (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if is_new(x[1], op):
            return parts(x[0])[-1]
        return m.get(x[0], place_of(x[1], text(op, "field"), where), where)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return x[1].prim(FieldPut, d, **options_of(op))


_KINDS: dict[str, Callable[[Type], bool]] = {
    "float": lambda t: isinstance(t, Scalar) and t.kind == "float",
    "int": lambda t: isinstance(t, Scalar) and t.kind != "float",
    "bool": lambda t: isinstance(t, Scalar) and t.kind == "bool",
    "str": lambda t: isinstance(t, Text),
    "tuple": lambda t: isinstance(t, TupleType) and t.names[:1] != ("dict",),
    "list": lambda t: isinstance(t, TupleType) and not t.names,
    "dict": lambda t: isinstance(t, TupleType) and t.names[:1] == ("dict",),
    "ndarray": lambda t: isinstance(t, TensorType),
    "mask": lambda t: isinstance(t, TensorType) and t.dtype == "bool",
    "NoneType": lambda t: isinstance(t, NoneType),
    "function": lambda t: isinstance(t, FnType | NamedType),
}


class IsInstance(Constant):
    """isinstance: whether a value is of one of some kinds, by their names."""

    name, types_only = "is_instance", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        kind = m.sets.resolve(x[0].type)
        own = kind.names[0] if isinstance(kind, TupleType) and kind.names else None
        return m.number(any(n == own or n in _KINDS and _KINDS[n](kind) for n in self._wanted(op)))

    def _wanted(self, op: FnOp) -> set[str]:
        kinds = op.attributes["kinds"]
        assert isinstance(kinds, ArrayAttr)
        return {n.data for n in kinds if isinstance(n, StringAttr)}


# --- dicts --------------------------------------------------------------------------------------------------
def dict_of(items: Mapping[str, V]) -> V:
    """A dict of some keys and values."""
    values = [full(v) for v in items.values()]
    return V(TupleType(tuple(v.type for v in values), ("dict", *items)), [v.code for v in values])


def _dict(v: V, what: str, where: str) -> TupleType:
    if not is_dict(v):
        raise UnsupportedError(f"{where}: {what} of {text_of(v.type)}; use a dict")
    assert isinstance(v.type, TupleType)
    return v.type


class Keys(Constant):
    """The keys of a dict."""

    name = "keys"

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return m.tuple([V(Text(n)) for n in _dict(x[0], "keys", where).names[1:]])


class HasKey(Constant):
    """Whether a text is among the keys of a dict."""

    name, arity = "has_key", 2

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        key = x[1].type
        return m.number(isinstance(key, Text) and key.value in _dict(x[0], "'in'", where).names[1:])


class Values(Primitive):
    """The values of a dict; tangents and cotangents are tuples without names."""

    name, linear = "values", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        _dict(x[0], "values", where)
        return m.tuple(parts(x[0]))

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return d[0]

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d


class Iterate(Primitive):
    """The sequence that a `for` iterates: the keys of a dict, else the value itself."""

    name, linear = "iterate", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return Keys().infer(m, op, x, where) if is_dict(x[0]) else x[0]

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return None if d[0] is None else d[0].prim(IterateDerivative, x[0])

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(IterateDerivative, x[0])


class IterateDerivative(Primitive):
    """The tangent, and the cotangent, of the sequence that a `for` iterates: nothing for keys."""

    name, arity, linear = "iterate_derivative", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return V(NOTHING) if is_dict(x[1]) else x[0]

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(IterateDerivative, x[1])


def _rows(v: V, where: str) -> list[list[V]]:
    """The rows of a tuple of tuples, as long as the shortest."""
    kinds = v.type.items if isinstance(v.type, TupleType) else ()
    if not isinstance(v.type, TupleType) or not all(isinstance(t, TupleType) for t in kinds):
        raise UnsupportedError(f"{where}: zip of {text_of(v.type)}; use tuples of tuples")
    rows = [parts(item) for item in parts(v)]
    size = min(map(len, rows), default=0)
    return [row[:size] for row in rows]


class Zip(Primitive):
    """The columns of a tuple of rows, as long as the shortest row."""

    name, linear = "zip", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        rows = _rows(x[0], where)
        sizes = sorted({len(parts(item)) for item in parts(x[0])})
        if "strict" in op.attributes and len(sizes) > 1:
            what = f"zip of {' and '.join(map(str, sizes))} items with strict=True"
            raise UnsupportedError(f"{where}: {what}")
        return m.tuple([m.tuple(column) for column in zip(*rows, strict=True)])

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return None if d[0] is None else d[0].prim(ZipTangent, x[0])

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(ZipTranspose, x[0])


class ZipTangent(Primitive):
    """The tangents of the columns for those of the rows."""

    name, arity, linear = "zip_tangent", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        size = min((len(row) for row in _rows(x[1], where)), default=0)
        rows = [[V(NOTHING)] * size if is_zero(r) else parts(r)[:size] for r in parts(x[0])]
        return m.tuple([m.tuple(column) for column in zip(*rows, strict=True)])

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(ZipTranspose, x[1])


class ZipTranspose(Primitive):
    """The cotangents of the rows for those of the columns."""

    name, arity, linear = "zip_transpose", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        columns = parts(x[0])
        rows: list[V] = []
        for i, row in enumerate(parts(item) for item in parts(x[1])):
            cotangents = [c if is_zero(c) else parts(c)[i] for c in columns]
            rows.append(m.tuple([*cotangents, *[V(NOTHING)] * (len(row) - len(cotangents))]))
        return m.tuple(rows)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(ZipTangent, x[1])


class MakeDict(Primitive):
    """A dict of pairs of a key and a value."""

    name, linear = "make_dict", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if is_dict(x[0]):
            return x[0]
        keys, values = _columns(x[0], where)
        names = [k.type.value for k in keys if isinstance(k.type, Text)]
        if len(names) != len(keys):
            what = "the keys of a dict must be strings known at compile time"
            raise UnsupportedError(f"{where}: {what}")
        return dict_of(dict(zip(names, values, strict=True)))

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return None if d[0] is None else d[0].prim(MakeDictTangent, x[0])

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(MakeDictTranspose, x[0])


def _columns(v: V, where: str) -> tuple[list[V], list[V]]:
    rows = [parts(row) for row in parts(v)] if isinstance(v.type, TupleType) else []
    if not isinstance(v.type, TupleType) or any(len(row) != 2 for row in rows):
        raise UnsupportedError(f"{where}: a dict of {text_of(v.type)}; use pairs of a key and a value")
    return [k for k, _ in rows], [value for _, value in rows]


def _names(pairs: V, where: str) -> list[str]:
    keys, _ = _columns(pairs, where)
    return [k.type.value for k in keys if isinstance(k.type, Text)]


class MakeDictTangent(Primitive):
    """The tangent of a dict for that of the pairs that it is made of."""

    name, arity, linear = "make_dict_tangent", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if is_dict(x[1]):
            return x[0]
        rows = parts(x[0])
        last = {n: i for i, n in enumerate(_names(x[1], where))}
        return m.tuple([V(NOTHING) if is_zero(rows[i]) else parts(rows[i])[1] for i in last.values()])

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(MakeDictTranspose, x[1])


class MakeDictTranspose(Primitive):
    """The cotangents of pairs for that of the dict that is made of them."""

    name, arity, linear = "make_dict_transpose", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if is_dict(x[1]):
            return x[0]
        items = parts(x[0])
        cotangents = [V(NOTHING) if at is None else items[at] for at in _places(_names(x[1], where))]
        return m.tuple([m.tuple([V(NOTHING), v]) for v in cotangents])

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(MakeDictTangent, x[1])


def _places(names: Sequence[str]) -> list[int | None]:
    """Where the value of each pair stands in the dict; None where a later pair has the same key."""
    last = {n: i for i, n in enumerate(names)}
    place = {n: j for j, n in enumerate(last)}
    return [place[n] if last[n] == i else None for i, n in enumerate(names)]


# --- errors -------------------------------------------------------------------------------------------------
class Raise(Constant):
    """A `raise`: `kind` is the class of the error."""

    name, arity = "raise", None

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return V(BOTTOM)

    def python(self, op: FnOp) -> Function:
        def run() -> Any:
            raise raised(text(op, "kind"), text(op, "message"), op.source)

        return run


RECORDS = (
    Field, FieldPut, FieldOf, IsInstance, Keys, HasKey, Values, Iterate, IterateDerivative, Zip, ZipTangent,
    ZipTranspose, MakeDict, MakeDictTangent, MakeDictTranspose, Raise,
)  # fmt: skip
