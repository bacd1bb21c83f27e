"""Primitives: items and rows by an index known at run time, and their cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i1, i64
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import GlowError, UnsupportedError, raised
from glow_dialects.core.types import element_of, shape_of
from glow_dialects.fn.array_functions.assign import row_mask
from glow_dialects.fn.array_functions.getitem import MASKED
from glow_dialects.fn.array_functions.getitem import outside as outside_of
from glow_dialects.fn.domain import ZERO as NOTHING
from glow_dialects.fn.domain import TensorType, Text, TupleType, text
from glow_dialects.fn.primitive import Constant, Function, Options, Primitive, Subscript, Term, Typing, number
from glow_dialects.fn.primitives.arithmetic import Add, Mod
from glow_dialects.fn.primitives.compare import Eq
from glow_dialects.fn.python_values import kind_of, put
from glow_dialects.fn.record import Record
from glow_dialects.fn.regions import plain, subscript_error
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V, parts, place_of

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


class Item(Primitive):
    """x[i]: of a tuple, of a record by name, of an array the row, or the rows of an array of indices."""

    name, arity, linear = "item", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if isinstance(x[1].type, Text):
            return m.get(x[0], place_of(x[0], x[1].type.value, where), where)
        if isinstance(x[0].type, TupleType):
            if not x[0].type.items:
                raise UnsupportedError(f"{where}: an item of an empty tuple")
            return m.layer(x[1], parts(x[0]), where)
        return self.at(m, x[0], x[1], where)

    def at(self, m: Typing, whole: V, index: V, where: str) -> V:
        """An item of an array."""
        if not isinstance(whole.type, TensorType) or not whole.type.shape:
            raise UnsupportedError(f"{where}: an item of {text(whole.type)}; use a tuple or an array")
        return m.tensors(self, {}, [whole, index], where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        if element_of(x[1]) == i1:
            raise VerifyException(MASKED)
        return u.op("gather", x[0], u.cast(x[1], i64), axis=0)

    def subscripts(self, attributes: Options, shapes: Sequence[tuple[int, ...]]) -> list[Subscript]:
        return [(1, shapes[0][0])]

    def python(self, op: FnOp) -> Function:
        on_arrays = self.on_arrays(op)

        def run(t: Any, i: Any) -> Any:
            if isinstance(i, np.ndarray) and i.ndim and isinstance(t, np.ndarray):
                return on_arrays(t, i)
            if isinstance(i, str):
                return t[place_in(op, t, i)]
            try:
                item = t[int(i)]
            except IndexError:
                raise raised("IndexError", subscript_error(len(t)), op.source) from None
            return plain(np.asarray(item)) if isinstance(t, np.ndarray) else item

        return run

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return x[0].prim(ItemPut, x[1], d)


class ItemPut(Primitive):
    """The cotangent of x where that of x[i] is given."""

    name, arity, linear, types_only = "item_put", 3, (2,), (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if isinstance(x[1].type, Text):
            items = [V(NOTHING)] * len(parts(x[0]))
            items[place_of(x[0], x[1].type.value, where)] = x[2]
            return m.tuple(items)
        if isinstance(x[0].type, TupleType):
            zeros = m.tuple([V(NOTHING)] * len(x[0].type.items))
            return stored(m, zeros, x[1], x[2], where)
        if isinstance(x[0].type, TensorType) and x[0].type.inactive:
            return V(NOTHING)
        return m.tensors(self, op.attributes, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        whole, index, d = x
        if shape_of(index):
            places = u.reshape(u.cast(index, i64), (*shape_of(index), 1))
            zeros = u.b.splat(0, whole)
            return u.op("scatter_nd", zeros, places, u.cast(d, element_of(whole)), reduction="add")
        mask = row_mask(u, index, 0, shape_of(whole))
        row = u.reshape(u.cast(d, element_of(whole)), (1, *shape_of(whole)[1:]))
        return u.op("select", mask, row, u.b.scalar(0, whole))

    def python(self, op: FnOp) -> Function:
        on_arrays = self.on_arrays(op)

        def run(t: Any, i: Any, d: Any) -> Any:
            if isinstance(i, str):
                return put(len(t), place_in(op, t, i), d)
            return on_arrays(t, i, d) if isinstance(t, np.ndarray) else put(len(t), int(i) % len(t), d)

        return run

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(Item, x[1])


def stored(m: Typing, whole: V, index: V, value: V, where: str) -> V:
    """A tuple with another item at an index."""
    items = parts(whole)
    slots: list[V] = []
    m.inside(index, len(items), where)
    for position, old in enumerate(items):
        here = m.scalar(Mod(), [index, m.number(len(items))], where)
        test = m.scalar(Eq(), [here, m.number(position)], where)
        slots.append(m.switch(test, value, old, where))
    return m.tuple(slots)


def place_in(op: FnOp, value: Any, name: str) -> int:
    """Where the item of a name stands in a Python value."""
    names = value.names if isinstance(value, Record) else ()
    if name in names[1:]:
        return names.index(name, 1) - 1
    what = f"a {names[0]}" if names else kind_of(value)
    raise GlowError(
        f"{op.source}: attribute '{name}' of {what} cannot be compiled; use a named tuple or a dict"
    )


class Rows(Primitive):
    """`count` rows of an array, or items of a tuple, from an index on."""

    name, arity, linear = "rows", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if isinstance(x[0].type, TensorType):
            return m.tensors(self, op.attributes, x, where)
        following = _following(m, op, x[1], where)
        return m.tuple([Item().typed(m, op, [x[0], at], where) for at in following])

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        first = u.reshape(u.cast(x[1], i64), (1,))
        return u.op("gather", x[0], u.op("add", first, u.b.constant(np.arange(options["count"]))), axis=0)

    def subscripts(self, attributes: Options, shapes: Sequence[tuple[int, ...]]) -> list[Subscript]:
        count = attributes["count"]
        assert isinstance(count, IntegerAttr)
        return [(1, shapes[0][0] - count.value.data + 1)]

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return RowsPut().applied(op, [x[0], x[1], d])


def _following(m: Typing, op: FnOp, index: V, where: str) -> list[V]:
    return [m.scalar(Add(), [index, m.number(k)], where) for k in range(number(op, "count"))]


class RowsPut(Primitive):
    """The cotangent of x where that of its rows from an index on is given."""

    name, arity, linear, types_only = "rows_put", 3, (2,), (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if isinstance(x[0].type, TensorType):
            return V(NOTHING) if x[0].type.inactive else m.tensors(self, op.attributes, x, where)
        total = V(NOTHING)
        for at, d in zip(_following(m, op, x[1], where), parts(x[2]), strict=True):
            total = m.add(total, ItemPut().typed(m, op, [x[0], at, d], where))
        return total

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        whole, index, d = x
        count, size, rank = options["count"], shape_of(whole)[0], len(shape_of(whole))
        at = u.op("sub", u.b.constant(np.arange(size)), u.reshape(u.cast(index, i64), (1,)))
        low, high = u.b.constant(np.array([0])), u.b.constant(np.array([count - 1]))
        inside = u.op("and", u.op("cmp_ge", at, low), u.op("cmp_le", at, high))
        rows = u.op("gather", u.cast(d, element_of(whole)), u.op("min", u.op("max", at, low), high), axis=0)
        return u.op("select", u.reshape(inside, (size, *[1] * (rank - 1))), rows, u.b.scalar(0, whole))

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return Rows().applied(op, [d, x[1]])


class CountOutside(Constant):
    """How many of some subscripts lie outside an axis of `size`."""

    name = "count_outside"

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return outside_of(u, x[0], options["size"])


class Least(Constant):
    """The least element of an array of ints, as a number."""

    name = "least"

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        axes = tuple(range(len(shape_of(x[0]))))
        return u.cast(u.op("reduce_min", x[0], axes=axes, keepdims=False), i64)


ITEMS = (Item, ItemPut, Rows, RowsPut, CountOutside, Least)
