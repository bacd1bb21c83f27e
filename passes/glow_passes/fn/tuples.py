"""The types and code of tuples that are joined and divided, and of those that become arrays and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.dialect import PrimOp
from glow_passes.fn.domain import ZERO, NotNative, Scalar, TensorType, Text, TupleType, ZeroType, text
from glow_passes.fn.records import dict_of, is_dict
from glow_passes.fn.structure import (
    Rule,
    field_of,
    filled,
    is_zero,
    item,
    names_of,
    number,
    place_of,
    scalar_or_tensor,
    stored,
)
from glow_passes.fn.values import V, parts

if TYPE_CHECKING:
    from glow_passes.fn.meaning import Meaning


def _concat(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]) or is_zero(x[1]):
        raise NotNative("a tuple of cotangents of unknown length")
    for v in x:
        if not isinstance(v.type, TupleType):
            raise UnsupportedError(f"{where}: {text(v.type)} beside a tuple; use tuples of known length")
    return m.tuple([*parts(x[0]), *parts(x[1])])


def _part(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]):
        return x[0]
    assert isinstance(x[1].type, TupleType)
    size = len(x[1].type.items)
    items = parts(x[0])
    return m.tuple(items[:size] if number(op, "part") == 0 else items[size:])


def _joined(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]):
        return x[0]
    assert isinstance(x[1].type, TupleType) and isinstance(x[2].type, TupleType)
    left, right = ([V(ZERO)] * len(t.items) for t in (x[1].type, x[2].type))
    items = parts(x[0])
    return m.tuple([*items, *right] if number(op, "part") == 0 else [*left, *items])


def _to_tuple(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    kind, count = x[0].type, number(op, "count")
    if isinstance(kind, TupleType):
        if count and len(kind.items) != count:
            raise UnsupportedError(f"{where}: {len(kind.items)} values for {count} names")
        return x[0]
    if isinstance(kind, TensorType) and kind.shape:
        if count and kind.shape[0] != count:
            raise UnsupportedError(f"{where}: {kind.shape[0]} rows for {count} names")
        return m.tuple([m.tensors("item", {}, [x[0], m.number(i)], where) for i in range(kind.shape[0])])
    if isinstance(kind, ZeroType):
        return x[0]
    raise UnsupportedError(f"{where}: {text(kind)} is unpacked; use a tuple or an array")


def _like_source(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]) or isinstance(x[1].type, TupleType):
        return x[0]
    kind = x[1].type
    assert isinstance(kind, TensorType)
    row = scalar_or_tensor(kind.shape[1:], np.dtype(kind.dtype))
    rows = [filled(m, d, row) for d in parts(x[0])]
    return m.tensors("stack_values", {"axis": to_attribute(0)}, rows, where)


def _array_of(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """A tuple as an array of its items."""
    kind = x[0].type
    if not isinstance(kind, TupleType):
        return x[0]
    rows = [_array_of(m, op, [v], where) for v in parts(x[0])]
    return m.tensors("stack_values", {"axis": to_attribute(0)}, rows, where)


def _items_like(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """The rows of a cotangent as a tuple, where the value was made of one."""
    d, like = x
    if is_zero(d) or not isinstance(like.type, TupleType):
        return d
    rows = [m.tensors("item", {}, [d, m.number(i)], where) for i in range(len(like.type.items))]
    pairs = zip(rows, parts(like), strict=True)
    return m.tuple([_items_like(m, op, [row, item], where) for row, item in pairs])


def _with_item(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]):
        return x[0]
    if isinstance(x[1].type, Text):
        return _with_key(m, x[0], x[1].type.value, x[2], where)
    if isinstance(x[0].type, TupleType):
        return stored(m, x[0], x[1], x[2], where)
    if not isinstance(x[0].type, TensorType) or not x[0].type.shape:
        raise UnsupportedError(f"{where}: assignment to an item of {text(x[0].type)}; use a list or an array")
    value = m.number(0.0) if is_zero(x[2]) else _array_of(m, op, [x[2]], where)
    return m.tensors("with_item", op.attributes, [x[0], x[1], value], where)


def _is_new(whole: V, op: PrimOp) -> bool:
    """Whether the name of an assignment is a further key of a dict."""
    return is_dict(whole) and field_of(op) not in names_of(whole)[1:]


def _with_more(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """A dict with a key more, its tangent, or the cotangent of what was there before."""
    whole, like, value = x
    count = len(parts(like))
    items = [V(ZERO)] * count if is_zero(whole) else parts(whole)
    if len(items) > count:
        return m.tuple(items[:count])
    if isinstance(whole.type, TupleType) and whole.type.names:
        return _with_key(m, whole, field_of(op), value, where)
    return m.tuple([*items, value])


def _field_of(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """The item of a cotangent or tangent that a name stands for in the record beside it."""
    if is_zero(x[0]):
        return x[0]
    if _is_new(x[1], op):
        return parts(x[0])[-1]
    return m.get(x[0], place_of(x[1], field_of(op), where), where)


def _with_key(m: Meaning, whole: V, key: str, value: V, where: str) -> V:
    """A dict with another value of a key, or a key more."""
    if not is_dict(whole):
        what = "a gradient through d[key] = value with keys that a loop gives"
        raise UnsupportedError(f"{where}: {what} cannot be compiled; write {{key: .. for key in ..}}")
    return dict_of(dict(zip(names_of(whole)[1:], parts(whole), strict=True)) | {key: value})


def _taken(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """The cotangent of a value that was assigned to an index, where `d` is that of the whole."""
    d, index, value = x
    if is_zero(d) or is_zero(value):
        return V(ZERO)
    if isinstance(index.type, Text):
        return _with_key(m, d, index.type.value, value, where)  # refused
    if isinstance(d.type, TupleType):
        return item(m, op, [d, index], where)
    if isinstance(value.type, Scalar) and value.type.kind != "float":
        return V(ZERO)
    like = _array_of(m, op, [value], where)
    return _items_like(m, op, [m.tensors("taken", {}, [d, index, like], where), value], where)


def _with_field(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """A record with another value of a name, which the second operand says the place of."""
    whole, like, value = x
    if is_zero(whole) and is_zero(value):
        return whole
    if _is_new(like, op):
        return _with_more(m, op, x, where)
    at = place_of(like, field_of(op), where)
    items = [V(ZERO)] * len(parts(like)) if is_zero(whole) else parts(whole)
    made = m.tuple([*items[:at], value, *items[at + 1 :]])
    kind = whole.type
    if isinstance(kind, TupleType) and isinstance(made.type, TupleType):
        return V(kind.of(made.type.items), made.code)
    return made


TUPLES: dict[str, Rule] = {
    "with_item": _with_item,
    "with_field": _with_field,
    "field_of": _field_of,
    "taken": _taken,
    "concat_tuples": _concat,
    "tuple_part": _part,
    "tuple_join": _joined,
    "to_tuple": _to_tuple,
    "like_source": _like_source,
    "array_of": _array_of,
    "items_like": _items_like,
}
