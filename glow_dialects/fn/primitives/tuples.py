"""Primitives: tuples joined and divided, and tuples that become arrays and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.types import dtype_of, element_of, element_type, shape_of
from glow_dialects.fn.domain import BOTTOM, NotNative, Scalar, TensorType, TupleType, scalar_or_tensor, text
from glow_dialects.fn.domain import ZERO as NOTHING
from glow_dialects.fn.primitive import Constant, Function, Options, Primitive, Term, Terms, Typing, number
from glow_dialects.fn.primitives.arithmetic import Add
from glow_dialects.fn.primitives.cotangents import AddAny, Identity, filled
from glow_dialects.fn.primitives.items import Item
from glow_dialects.fn.primitives.operators import Stack
from glow_dialects.fn.python_values import ZERO, is_tuple
from glow_dialects.fn.regions import evaluate
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.unit import promoted
from glow_dialects.fn.values import V, is_zero, parts

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


class Len(Constant):
    """The number of items of a tuple, or along the first axis of an array."""

    name, types_only = "len", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return m.number(length(x[0], where))


def length(v: V, where: str) -> int:
    """The number of items of a tuple or along the first axis of an array."""
    if isinstance(v.type, TupleType):
        return len(v.type.items)
    if isinstance(v.type, TensorType) and v.type.shape:
        return v.type.shape[0]
    raise UnsupportedError(f"{where}: {text(v.type)} has no length; use a tuple or an array")


class TupleItem(Primitive):
    """Item `i` of a tuple of tangents or cotangents."""

    name, linear = "tuple_item", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return m.get(x[0], number(op, "i"), where)

    def python(self, op: FnOp) -> Function:
        return lambda d, i=number(op, "i"): d[i]

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return TuplePut().applied(op, [x[0], d])


class TuplePut(Primitive):
    """The cotangent of a tuple of which that of item `i` is given."""

    name, arity, linear, types_only = "tuple_put", 2, (1,), (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        assert isinstance(x[0].type, TupleType)
        items = [V(NOTHING)] * len(x[0].type.items)
        items[number(op, "i")] = x[1]
        return m.tuple(items)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return TupleItem().applied(op, [d])


class ConcatTuples(Primitive):
    """The items of a tuple and those of another."""

    name, arity, linear = "concat_tuples", 2, (0, 1)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        for v in x:
            if not isinstance(v.type, TupleType):
                raise UnsupportedError(
                    f"{where}: {text(v.type)} combined with a tuple; use tuples of known length"
                )
        return m.tuple([*parts(x[0]), *parts(x[1])])

    def typed(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if any(map(is_zero, x)):
            raise NotNative("a tuple of cotangents of unknown length")
        return self.infer(m, op, x, where)

    def python(self, op: FnOp) -> Function:
        return lambda a, b: a + b

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        halves = [
            None if half is None else half.prim(PadTuple, *x, part=to_attribute(part))
            for part, half in enumerate(d)
        ]
        return AddAny().jvp(op, x, halves, y)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(SplitTuple, x[0], x[1], part=to_attribute(i))


class SplitTuple(Primitive):
    """The part of a tuple that was the first of two, or the second."""

    name, arity, linear, types_only = "split_tuple", 3, (0,), (1, 2)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        size = len(parts(x[1]))
        items = parts(x[0])
        return m.tuple(items[:size] if number(op, "part") == 0 else items[size:])

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return PadTuple().applied(op, [d, x[1], x[2]])


class PadTuple(Primitive):
    """The cotangent of two tuples together of which that of one is given."""

    name, arity, linear, types_only = "pad_tuple", 3, (0,), (1, 2)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        left, right = ([V(NOTHING)] * len(parts(v)) for v in x[1:])
        items = parts(x[0])
        return m.tuple([*items, *right] if number(op, "part") == 0 else [*left, *items])

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return SplitTuple().applied(op, [d, x[1], x[2]])


# --- tuples and arrays --------------------------------------------------------------------------------------
class ToTuple(Primitive):
    """The items of a tuple or the rows of an array as a tuple, of `count` items where that is not 0."""

    name, linear = "to_tuple", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        kind, count = x[0].type, number(op, "count")
        if isinstance(kind, TupleType):
            if count and len(kind.items) != count:
                raise UnsupportedError(f"{where}: {len(kind.items)} values for {count} names")
            return x[0]
        if isinstance(kind, TensorType) and kind.shape:
            if count and kind.shape[0] != count:
                raise UnsupportedError(f"{where}: {kind.shape[0]} rows for {count} names")
            return m.tuple([m.tensors(Item(), {}, [x[0], m.number(i)], where) for i in range(kind.shape[0])])
        raise UnsupportedError(f"{where}: {text(kind)} cannot be unpacked; use a tuple or an array")

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(StackLike, x[0])


class StackLike(Primitive):
    """The items of a tuple as the rows of an array, where the second operand is one."""

    name, arity, linear, types_only = "stack_like", 2, (0,), (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        kind = x[1].type
        if isinstance(kind, TupleType):
            return x[0]
        assert isinstance(kind, TensorType)
        row = scalar_or_tensor(kind.shape[1:], np.dtype(kind.dtype))
        rows = [filled(m, d, row) for d in parts(x[0])]
        return m.tensors(Stack(), {"axis": to_attribute(0)}, rows, where)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(ToTuple, count=to_attribute(0))


class ToArray(Primitive):
    """A tuple, of tuples perhaps, as an array of its items."""

    name, linear = "to_array", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if not isinstance(x[0].type, TupleType):
            return x[0]
        rows = [self.infer(m, op, [v], where) for v in parts(x[0])]
        return m.tensors(Stack(), {"axis": to_attribute(0)}, rows, where)

    def python(self, op: FnOp) -> Function:
        return array_of

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return None if d[0] is None else d[0].prim(StackLike, y)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(UnstackLike, x[0])


def array_of(x: Any) -> Any:
    """A tuple as an array of its items."""
    if not is_tuple(x):
        return x
    return evaluate(Stack(), {"axis": to_attribute(0)}, [array_of(v) for v in x], "")


class UnstackLike(Primitive):
    """The rows of an array as a tuple, where the second operand is one."""

    name, arity, linear = "unstack_like", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        d, like = x
        if is_zero(d) or not isinstance(like.type, TupleType):
            return d
        rows = [m.tensors(Item(), {}, [d, m.number(i)], where) for i in range(len(like.type.items))]
        pairs = zip(rows, parts(like), strict=True)
        return m.tuple([self.infer(m, op, [row, item], where) for row, item in pairs])

    def python(self, op: FnOp) -> Function:
        return items_like

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(StackLike, x[0])


def items_like(d: Any, x: Any) -> Any:
    """The rows of an array as a tuple, where `x` is one."""
    if d is ZERO or not is_tuple(x):
        return d
    rows = [row if row.ndim else row.item() for row in map(np.asarray, d)]
    return tuple(items_like(row, item) for row, item in zip(rows, x, strict=True))


class SumItems(Primitive):
    """The sum of the items of a tuple, or of the rows of an array."""

    name, linear = "sum_items", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if not isinstance(x[0].type, TupleType):
            return m.tensors(self, op.attributes, x, where)
        total = m.number(0)
        for item in parts(x[0]):
            if is_zero(item):
                continue
            if all(isinstance(v.type, Scalar) for v in (total, item)):
                total = m.scalar(Add(), [total, item], where)
            else:
                total = m.tensors(Add(), {}, [total, item], where)
        return total

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        # Python adds the rows to the number 0.
        kind = promoted([dtype_of(x[0].type), np.dtype(np.int64)], [False, True])
        return u.op("reduce_sum", u.cast(x[0], element_type(kind)), axes=(0,), keepdims=False)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return x[0].prim(BroadcastItems, d)


class BroadcastItems(Primitive):
    """A value for each item of a tuple, or each row of an array."""

    name, arity, linear, types_only = "broadcast_items", 2, (1,), (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if isinstance(x[0].type, TupleType):
            return m.tuple([x[1]] * len(x[0].type.items))
        return m.tensors(self, op.attributes, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.expand(u.cast(x[1], element_of(x[0])), shape_of(x[0]))

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(SumItems)


class Copy(Identity):
    """A list or array of its own."""

    name = "copy"


class CheckAssigned(Identity):
    """The value of a name that a loop may not have assigned."""

    name = "check_assigned"

    def typed(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return V(BOTTOM) if is_zero(x[0]) else x[0]  # its type is not known yet


TUPLES = (
    Len, TupleItem, TuplePut, ConcatTuples, SplitTuple, PadTuple, ToTuple, StackLike, ToArray, UnstackLike,
    SumItems, BroadcastItems, Copy, CheckAssigned,
)  # fmt: skip
