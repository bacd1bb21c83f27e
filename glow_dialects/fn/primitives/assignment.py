"""Primitives: lists, arrays and records with one item replaced, as new values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from glow_dialects.core.errors import UnsupportedError, raised
from glow_dialects.core.types import element_of, shape_of
from glow_dialects.fn.array_functions.assign import row_mask, setitem, trimmed
from glow_dialects.fn.array_keys import At
from glow_dialects.fn.domain import FLOAT, Scalar, TensorType, Text, TupleType
from glow_dialects.fn.domain import ZERO as NOTHING
from glow_dialects.fn.domain import text as text_of
from glow_dialects.fn.primitive import (
    Function,
    Options,
    Primitive,
    Result,
    Subscript,
    Term,
    Terms,
    Typing,
    options_of,
    text,
)
from glow_dialects.fn.primitives.fitted import fitted, fitting
from glow_dialects.fn.primitives.items import Item, ItemPut, place_in, stored
from glow_dialects.fn.primitives.records import FieldOf, dict_of, is_new
from glow_dialects.fn.primitives.tuples import ToArray, UnstackLike, array_of, items_like
from glow_dialects.fn.python_values import ZERO, alike, is_dict, is_tuple
from glow_dialects.fn.record import Record
from glow_dialects.fn.regions import subscript_error
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V, is_zero, names_of, parts, place_of
from glow_dialects.fn.values import is_dict as is_typed_dict
from glow_dialects.ops.scatter_nd import written

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


class SetItem(Primitive):
    """x with another value at an index, a name, or where a mask or an array of indices points."""

    name, arity, linear, stores = "set_item", 3, (0,), True

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if isinstance(x[1].type, Text):
            return _with_key(x[0], x[1].type.value, x[2], where)
        if isinstance(x[0].type, TupleType):
            return stored(m, x[0], x[1], x[2], where)
        if not isinstance(x[0].type, TensorType) or not x[0].type.shape:
            what = f"assignment to an item of {text_of(x[0].type)}; use a list or an array"
            raise UnsupportedError(f"{where}: {what}")
        value = fitted(m, x[0], x[2], where)
        value = m.number(0.0) if is_zero(value) else ToArray().infer(m, op, [value], where)
        return m.tensors(self, op.attributes, [x[0], x[1], value], where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        whole, index, value = x
        if shape_of(index) or element_of(index) == i1:
            return setitem(u, (At(2),), (whole, value, index))
        shape = shape_of(whole)
        row = u.expand(trimmed(u, u.cast(value, element_of(whole)), len(shape) - 1), shape[1:])
        return u.op("select", row_mask(u, index, 0, shape), u.reshape(row, (1, *shape_of(row))), whole)

    def subscripts(self, attributes: Options, shapes: Sequence[tuple[int, ...]]) -> list[Subscript]:
        return [(1, shapes[0][0])]

    def python(self, op: FnOp) -> Function:
        on_arrays = self.on_arrays(op)

        def run(t: Any, i: Any, v: Any) -> Any:
            if isinstance(t, np.ndarray):
                return on_arrays(t, i, 0.0 if v is ZERO else array_of(fitting(t, v, op.source)))
            if isinstance(i, str):
                entries = dict(zip(t.names[1:], t, strict=True)) | {i: v}
                return Record.of(("dict", *entries), list(entries.values()))
            if not -len(t) <= int(i) < len(t):
                raise raised("IndexError", subscript_error(len(t)), op.source)
            return alike(t, [v if at == int(i) % len(t) else x for at, x in enumerate(t)])

        return run

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        whole = None if d[0] is None else d[0].prim(SetItem, x[1], y.zero())
        value = None if d[2] is None else x[0].prim(ItemSet, x[1], d[2])
        return value if whole is None else whole if value is None else whole.plus(value)

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        value = d.prim(TakeLike, x[1], x[2])  # before the store, which may write into d
        return [d.prim(SetItem, x[1], d.zero()), None, value]


def _with_key(whole: V, key: str, value: V, where: str) -> V:
    """A dict with another value of a key, or a key more."""
    if not is_typed_dict(whole):
        what = "a gradient through d[key] = value with keys that a loop gives"
        raise UnsupportedError(f"{where}: {what} cannot be compiled; write {{key: .. for key in ..}}")
    return dict_of(dict(zip(names_of(whole)[1:], parts(whole), strict=True)) | {key: value})


class TakeLike(Primitive):
    """The cotangent of the third operand, which was assigned to an index of what the first is that of."""

    name, arity, linear = "take_like", 3, (0,)

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return zeros[0] or zeros[2]

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        d, index, value = x
        if isinstance(index.type, Text):
            return _with_key(d, index.type.value, value, where)  # refused
        if isinstance(d.type, TupleType):
            return Item().infer(m, op, [d, index], where)
        if isinstance(value.type, Scalar) and value.type.kind != "float":
            return V(NOTHING)
        double = isinstance(d.type, TensorType) and d.type.dtype == "float64"
        if double and value.type == FLOAT and isinstance(index.type, Scalar):
            return Item().at(m, d, index, where)
        like = ToArray().infer(m, op, [value], where)
        return UnstackLike().infer(m, op, [m.tensors(self, {}, [d, index, like], where), value], where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        d, index, value = x
        if element_of(index) == i1:
            rank = len(shape_of(d)) - len(shape_of(index))
            mask = u.reshape(index, (*shape_of(index), *(1,) * rank))
            grad = u.op("select", mask, d, u.b.scalar(0, d))
        else:
            grad = u.op("gather", d, u.cast(index, i64), axis=0)
            if shape_of(index):
                places = u.reshape(u.cast(index, i64), (*shape_of(index), 1))
                grad = written(shape_of(d), places, grad, u.b)
        return u.summed(u.cast(grad, element_of(value)), shape_of(value))

    def python(self, op: FnOp) -> Function:
        on_arrays = self.on_arrays(op)

        def run(d: Any, i: Any, v: Any) -> Any:
            if is_tuple(d):
                return d[int(i)]
            return ZERO if isinstance(v, bool | int) else items_like(on_arrays(d, i, array_of(v)), v)

        return run

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return x[0].prim(ItemSet, x[1], d)


class ItemSet(ItemPut):
    """The tangent of x with a value at an index, for that of the value: of equal indices, the last."""

    name = "item_set"

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return SetItem().build(u, options, attributes, [u.b.splat(0, x[0]), *x[1:]])

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(TakeLike, x[1], x[2])


class SetField(Primitive):
    """A record with another value of a name, whose place the second operand tells; a dict with a key more."""

    name, arity, linear, types_only = "set_field", 3, (0, 2), ()

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return zeros[0] and zeros[2]

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        whole, like, value = x
        if is_new(like, op):
            return self._more(m, op, x, where)
        items = [V(NOTHING)] * len(parts(like)) if is_zero(whole) else parts(whole)
        items[place_of(like, text(op, "field"), where)] = value
        fields = m.tuple(items)
        kind = whole.type
        if isinstance(kind, TupleType) and isinstance(fields.type, TupleType):
            return V(kind.of(fields.type.items), fields.code)
        return fields

    def _more(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        """A dict with a key more, its tangent, or the cotangent of the dict before."""
        whole, like, value = x
        count = len(parts(like))
        items = [V(NOTHING)] * count if is_zero(whole) else parts(whole)
        if len(items) > count:
            return m.tuple(items[:count])
        if names_of(whole):
            return _with_key(whole, text(op, "field"), value, where)
        return m.tuple([*items, value])

    def python(self, op: FnOp) -> Function:
        name = text(op, "field")

        def run(t: Any, like: Any, v: Any) -> Any:
            if is_dict(like) and name not in like.names[1:]:
                items = (ZERO,) * len(like) if t is ZERO else tuple(t)
                if len(items) > len(like):
                    return items[: len(like)]
                fields = (*items, v)
                return Record.of((*t.names, name), fields) if isinstance(t, Record) else fields
            items = [ZERO] * len(like) if t is ZERO else list(t)
            items[place_in(op, like, name)] = v
            return tuple(items) if t is ZERO else alike(t, items)

        return run

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        whole, value = (y.zero() if v is None else v for v in (d[0], d[2]))
        return self.applied(op, [whole, x[1], value])

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        return [self.applied(op, [d, x[1], d.zero()]), None, d.prim(FieldOf, x[1], **options_of(op))]


ASSIGNMENT = (SetItem, TakeLike, ItemSet, SetField)
