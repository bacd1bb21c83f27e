"""The types and code of primitives on structures: tuples, environments, shapes, zero cotangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr

from glow_dialects.core.errors import UnknownNumberError, UnsupportedError
from glow_dialects.fn.dialect import PrimOp
from glow_passes.fn.domain import (
    BOOL,
    BOTTOM,
    FLOAT,
    INT,
    ZERO,
    FnType,
    NamedType,
    NoneType,
    Scalar,
    TensorType,
    Text,
    TupleType,
    Type,
    ZeroType,
    marked,
    text,
    widened,
)
from glow_passes.fn.tensor_shapes import At, key_of
from glow_passes.fn.tensors import shape_attribute, takes_part
from glow_passes.fn.values import V, components, parts

if TYPE_CHECKING:
    from glow_passes.fn.meaning import Meaning


def number(op: PrimOp, name: str) -> int:
    """An integer option."""
    found = op.attributes[name]
    assert isinstance(found, IntegerAttr)
    return found.value.data


def scalar_or_tensor(shape: Sequence[int], dtype: np.dtype) -> Type:
    """The type of a result: float64, int64 and bool of no axes are plain numbers."""
    plain = {"float64": FLOAT, "int64": INT, "bool": BOOL}.get(dtype.name)
    return plain if plain is not None and not len(shape) else TensorType(tuple(shape), dtype.name)


Rule = Callable[["Meaning", PrimOp, list[V], str], V]


def _of(op: PrimOp) -> str | None:
    found = op.attributes.get("of")
    return found.data if isinstance(found, StringAttr) else None


def is_zero(v: V) -> bool:
    """Whether a value is the symbolic zero."""
    return isinstance(v.type, ZeroType)


def _env_item(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]):
        return x[0]
    return m.picked(x[0], number(op, "n"), number(op, "i"), _of(op))


def _env_drop(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]):
        return x[0]
    n = number(op, "n")
    kept = {name: parts(v)[: max(len(parts(v)) - n, 0)] for name, v in components(x[0]).items()}
    made = {name: m.tuple(items) for name, items in kept.items() if items}
    return m.env(made) if made else V(ZERO)


def _env_pad(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]):
        return x[0]
    zeros = [V(ZERO)] * number(op, "n")
    return m.env({n: m.tuple([*parts(v), *zeros]) for n, v in components(x[0]).items()})


def _env_put(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]):
        return x[0]
    n, i = number(op, "n"), number(op, "i")
    made = m.tuple([V(ZERO)] * i + [x[0]] + [V(ZERO)] * (n - i - 1))
    of = _of(op)
    return made if of is None else m.env({of: made})


def _tuple_put(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[1]):
        return x[1]
    assert isinstance(x[0].type, TupleType)
    size, i = len(x[0].type.items), number(op, "i")
    i %= size
    return m.tuple([V(ZERO)] * i + [x[1]] + [V(ZERO)] * (size - i - 1))


def _item_at(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    return x[0] if is_zero(x[0]) else m.get(x[0], number(op, "i"), where)


def item(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]):
        return x[0]
    if isinstance(x[1].type, Text):
        return m.get(x[0], place_of(x[0], x[1].type.value, where), where)
    if isinstance(x[0].type, TupleType):
        if not x[0].type.items:
            raise UnsupportedError(f"{where}: an item of an empty tuple")
        return m.layer(x[1], parts(x[0]), where)
    if not isinstance(x[0].type, TensorType) or not x[0].type.shape:
        raise UnsupportedError(f"{where}: an item of {text(x[0].type)}; use a tuple or an array")
    return m.tensors("item", {}, x, where)


def _item_put(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[2]):
        return x[2]
    if isinstance(x[1].type, Text):
        return _put(m, x[0], place_of(x[0], x[1].type.value, where), x[2])
    if isinstance(x[0].type, TupleType):
        zeros = m.tuple([V(ZERO)] * len(x[0].type.items))
        return stored(m, zeros, x[1], x[2], where)
    if isinstance(x[0].type, TensorType) and x[0].type.fixed:
        return V(ZERO)
    return m.tensors("item_put", op.attributes, x, where)


def _rows(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]):
        return x[0]
    if isinstance(x[0].type, TensorType):
        return m.tensors("rows", op.attributes, x, where)
    return m.tuple([item(m, op, [x[0], at], where) for at in _following(m, op, x[1], where)])


def _following(m: Meaning, op: PrimOp, index: V, where: str) -> list[V]:
    return [m.scalar("add", [index, m.number(k)], where) for k in range(number(op, "count"))]


def _rows_put(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[2]) or isinstance(x[0].type, TensorType) and x[0].type.fixed:
        return V(ZERO)
    if isinstance(x[0].type, TensorType):
        return m.tensors("rows_put", op.attributes, x, where)
    total = V(ZERO)
    for at, d in zip(_following(m, op, x[1], where), parts(x[2]), strict=True):
        total = m.add(total, _item_put(m, op, [x[0], at, d], where))
    return total


def stored(m: Meaning, whole: V, index: V, value: V, where: str) -> V:
    """A tuple with another item at an index."""
    items = parts(whole)
    made: list[V] = []
    m.inside(index, len(items), where)
    for position, old in enumerate(items):
        here = m.scalar("mod", [index, m.number(len(items))], where)
        test = m.scalar("eq", [here, m.number(position)], where)
        made.append(m.switch(test, value, old, where))
    return m.tuple(made)


def length(v: V, where: str) -> int:
    """The number of items of a tuple or along the first axis of an array."""
    if isinstance(v.type, TupleType):
        return len(v.type.items)
    if isinstance(v.type, TensorType) and v.type.shape:
        return v.type.shape[0]
    raise UnsupportedError(f"{where}: {text(v.type)} has no length; use a tuple or an array")


def _shape(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    kind = x[0].type
    shape = kind.shape if isinstance(kind, TensorType) else ()
    return m.tuple([m.number(s) for s in shape])


def _sum_like(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    d, like = x
    kind = like.type
    if is_zero(d) or not isinstance(kind, Scalar | TensorType):
        return V(ZERO)
    if isinstance(kind, Scalar):
        if kind.kind != "float":
            return V(ZERO)
        if isinstance(d.type, Scalar):
            return V(FLOAT, m.kind(d, "float"))
    elif kind.fixed or np.dtype(kind.dtype if kind.dtype != "bfloat16" else "float32").kind != "f":
        return V(ZERO)
    return m.tensors("sum_like", op.attributes, x, where)


def _cotangent(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """What a declared gradient gives for a parameter: None is nothing, a number may stand for an array."""
    d, like = x
    if is_zero(d) or isinstance(d.type, NoneType) or like.type in (INT, BOOL):
        return V(ZERO)
    match d.type, like.type:
        case TupleType(), TupleType() if len(like.type.items) == len(d.type.items):
            pairs = zip(parts(d), parts(like), strict=True)
            return m.tuple([_cotangent(m, op, [a, b], where) for a, b in pairs])
        case Scalar(), Scalar():
            return V(FLOAT, m.kind(d, "float"))
        case (Scalar(), TensorType()):
            return m.tensors("like", {}, x, where)
        case (TensorType(), TensorType()) if like.type.shape == d.type.shape:
            return m.tensors("sum_like", {}, x, where)
        case _:
            what = f"{text(d.type)} for {text(like.type)}; give one like it, or None"
            raise UnsupportedError(f"{where}: the declared gradient gives {what}")


def _like(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]) or is_zero(x[1]):
        return V(ZERO)
    if isinstance(x[0].type, Scalar) and isinstance(x[1].type, Scalar):
        return x[0]
    return m.tensors("like", op.attributes, x, where)


def _one_like(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    kind = x[0].type
    if kind in (FLOAT,):
        return m.number(1.0)
    if isinstance(kind, TensorType) and not kind.shape:
        return m.tensors("like", {}, [m.number(1.0), x[0]], where)
    raise UnsupportedError(f"{where or 'grad'}: grad of a function that returns {text(kind)}; return a float")


def _fill_like(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    kind = x[1].type
    if (
        kind in (INT, BOOL)
        or isinstance(kind, FnType | NamedType | Scalar | Text | NoneType)
        and widened(kind) != FLOAT
    ):
        raise UnsupportedError(
            f"grad: argument {number(op, 'position')} is {text(kind)}; differentiate by floats, arrays and"
            " tuples of them"
        )
    return filled(m, x[0], kind)


def filled(m: Meaning, d: V, kind: Type) -> V:
    """A cotangent without symbolic zeros, for a value of a type."""
    if isinstance(kind, TupleType):
        items = [V(ZERO)] * len(kind.items) if isinstance(d.type, ZeroType) else parts(d)
        made = m.tuple([filled(m, a, t) for a, t in zip(items, kind.items, strict=True)])
        return V(kind.of(made.type.items), made.code) if isinstance(made.type, TupleType) else made
    return m.zeros(kind) if isinstance(d.type, ZeroType) else d


def field_of(op: PrimOp) -> str:
    """The name of the item that a primitive is about."""
    found = op.attributes["field"]
    assert isinstance(found, StringAttr)
    return found.data


def _put(m: Meaning, whole: V, at: int, d: V) -> V:
    """The cotangent of a record, of which that of one item is `d`."""
    items = [V(ZERO)] * len(parts(whole))
    items[at] = d
    return m.tuple(items)


def names_of(v: V) -> tuple[str, ...]:
    """The class and the names of a record's items; none of other values."""
    return v.type.names if isinstance(v.type, TupleType) else ()


def place_of(v: V, name: str, where: str) -> int:
    """Where the item of a name stands."""
    names = names_of(v)
    if name in names[1:]:
        return names.index(name, 1) - 1
    if names:
        raise UnsupportedError(f"{where}: {text(v.type)} has no '{name}'")
    raise UnsupportedError(
        f"{where}: attribute '{name}' of {text(v.type)} cannot be compiled; use a named tuple, a"
        " dataclass or a dict, or a function of glow.ops or NumPy"
    )


def _field(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    kind = x[0].type
    if isinstance(kind, TensorType) and field_of(op) == "dtype":
        return V(Text(kind.dtype))
    if isinstance(kind, TensorType) and field_of(op) == "size":
        return m.number(int(np.prod(kind.shape)))
    return x[0] if is_zero(x[0]) else m.get(x[0], place_of(x[0], field_of(op), where), where)


def _field_put(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[1]) or isinstance(x[0].type, TensorType):
        return V(ZERO)
    return _put(m, x[0], place_of(x[0], field_of(op), where), x[1])


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


def _is_a(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """isinstance: the types decide."""
    wanted = op.attributes["kinds"]
    assert isinstance(wanted, ArrayAttr)
    kind = m.sets.resolve(x[0].type)
    own = kind.names[0] if isinstance(kind, TupleType) and kind.names else None
    names = [n.data for n in wanted if isinstance(n, StringAttr)]
    return m.number(any(n == own or n in _KINDS and _KINDS[n](kind) for n in names))


def _where(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[1]) or is_zero(x[2]):
        return V(ZERO)
    if isinstance(x[0].type, Scalar):
        return m.switch(m.truth(x[0], where), x[1], x[2], where)
    return m.tensors("where", op.attributes, x, where)


def _sum_items(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if isinstance(x[0].type, TupleType):
        made = parts(x[0])
        total = m.number(0)
        for item in made:
            both = [total, item]
            if any(is_zero(v) for v in both):
                total = m.add(total, item) if not is_zero(item) else total
            elif all(isinstance(v.type, Scalar) for v in both):
                total = m.scalar("add", both, where)
            else:
                total = m.tensors("add", {}, both, where)
        return total
    if is_zero(x[0]):
        return x[0]
    return m.tensors("sum_items", op.attributes, x, where)


def _spread(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[1]):
        return x[1]
    if isinstance(x[0].type, TupleType):
        return m.tuple([x[1]] * len(x[0].type.items))
    return m.tensors("spread", op.attributes, x, where)


def _static_shape(v: V, where: str) -> Any:
    items = parts(v) if isinstance(v.type, TupleType) else [v]
    numbers = [i.type.const for i in items if isinstance(i.type, Scalar) and i.type.kind == "int"]
    if len(numbers) != len(items) or None in numbers:
        raise UnknownNumberError(f"{where}: a shape must be known when compiling; use numbers and x.shape")
    return shape_attribute([int(n) for n in numbers if n is not None])


def _reshape(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if is_zero(x[0]):
        return x[0]
    return m.tensors("reshape", {**op.attributes, "shape": _static_shape(x[1], where)}, [x[0]], where)


def _full(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    return m.tensors("full", {**op.attributes, "shape": _static_shape(x[0], where)}, [x[1]], where)


def _getitem(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    if isinstance(x[0].type, TupleType):
        return m.tuple(_part_of_tuple(m, op, x, x[0], where))
    if is_zero(x[0]):
        return x[0]
    key, (made, *indices) = key_of(m.known_bounds(op.attributes, x, where)), x
    if all(isinstance(e, At) for e in key) and all(isinstance(v.type, Scalar) for v in indices):
        for index in indices:  # rows of memory are found without a copy
            made = item(m, op, [made, index], where)
        return made
    return m.tensors("getitem", op.attributes, x, where)


def _part_of_tuple(m: Meaning, op: PrimOp, x: list[V], whole: V, where: str) -> list[V]:
    (part,) = key_of(m.known_bounds(op.attributes, x, where))
    assert isinstance(part, slice)
    return parts(whole)[part]


def slice_cotangent(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    """`vjp:getitem` of a tuple: the cotangents of its items; what is applied to that takes the part again."""
    d = x[-1]
    if is_zero(d) or not takes_part(op.attributes, len(x)):
        return V(ZERO)
    if op.prim.data.count("vjp:") % 2 == 0:
        return m.tuple(_part_of_tuple(m, op, x, d, where))
    items = [V(ZERO)] * len(parts(x[0]))
    (part,) = key_of(m.known_bounds(op.attributes, x, where))
    items[part] = parts(d)
    return m.tuple(items)


def _astype(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    return x[0] if is_zero(x[0]) else m.tensors("astype", op.attributes, x, where)


def _astype_as(m: Meaning, op: PrimOp, x: list[V], where: str) -> V:
    kind = x[1].type
    if is_zero(x[0]):
        return x[0]
    if not isinstance(kind, Text):
        raise UnsupportedError(f"{where}: {text(kind)} is no dtype; use x.dtype or np.float32")
    return m.tensors("astype", {"dtype": StringAttr(kind.value)}, [x[0]], where)


STRUCTURE: dict[str, Rule] = {
    "zero": lambda m, op, x, where: V(ZERO),
    "fail": lambda m, op, x, where: V(BOTTOM),
    "stop": lambda m, op, x, where: x[0],
    "copy": lambda m, op, x, where: x[0],
    "assigned": lambda m, op, x, where: V(BOTTOM) if is_zero(x[0]) else x[0],  # its type is not known yet
    "fixed": lambda m, op, x, where: V(marked(m.sets.resolve(x[0].type), True), x[0].code),
    "varied": lambda m, op, x, where: V(marked(m.sets.resolve(x[0].type), False), x[0].code),
    "are_floats": lambda m, op, x, where: m.number(all(v.type == FLOAT for v in x)),
    "gadd": lambda m, op, x, where: m.add(x[0], x[1]),
    "env_item": _env_item,
    "env_drop": _env_drop,
    "env_pad": _env_pad,
    "env_put": _env_put,
    "tuple_put": _tuple_put,
    "item_at": _item_at,
    "item": item,
    "item_put": _item_put,
    "rows": _rows,
    "rows_put": _rows_put,
    "len": lambda m, op, x, where: m.number(length(x[0], where)),
    "shape": _shape,
    "sum_like": _sum_like,
    "cotangent": _cotangent,
    "like": _like,
    "field": _field,
    "field_put": _field_put,
    "is_a": _is_a,
    "one_like": _one_like,
    "fill_like": _fill_like,
    "where": _where,
    "sum_items": _sum_items,
    "spread": _spread,
    "reshape": _reshape,
    "full": _full,
    "getitem": _getitem,
    "astype": _astype,
    "astype_as": _astype_as,
}
