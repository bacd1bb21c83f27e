"""Primitives of a `glow.vmap` that runs row by row, for `by_rows` of the Python frontend.

Axes are texts here, operands of the primitives: `(0, None)` says which axis of each argument is mapped over.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import SSAValue

from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.types import shape_of
from glow_dialects.fn.domain import ZERO as NOTHING
from glow_dialects.fn.domain import Scalar, TensorType, Text, TupleType
from glow_dialects.fn.primitive import Constant, Options, Primitive, Result, Term, Terms, Typing, total
from glow_dialects.fn.primitives.assignment import SetItem
from glow_dialects.fn.primitives.items import Item, ItemPut
from glow_dialects.fn.primitives.mapped import Axes, axis_in, check_sizes, item_axes, leafwise
from glow_dialects.fn.primitives.operators import Operator, Vjp
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V, is_zero, parts

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


def _axis(axes: Axes, rank: int) -> int | None:
    """The axis of one array; of an argument with a default, that of an array only."""
    if isinstance(axes, tuple):
        axes = axes[1] if rank else None
    return axes if axes is None or not rank else axes % rank


def _rank(kind: Any) -> int:
    return len(kind.shape) if isinstance(kind, TensorType) else 0


def _text(v: V) -> Axes:
    assert isinstance(v.type, Text)
    return ast.literal_eval(v.type.value)


class RowCount(Constant):
    """The number of rows that arguments are mapped over."""

    name, arity, types_only = "row_count", 3, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        sizes: dict[str, tuple[int, int]] = {}
        assert isinstance(x[2].type, Text)
        names, place = x[2].type.value.split("\n")

        def leaf(v: V, axes: Axes, what: str) -> V:
            axis = _axis(axes, _rank(v.type))
            if axis is not None:
                axis = axis_in(v.type, axis, what, place)
                assert isinstance(v.type, TensorType)
                sizes[what] = v.type.shape[axis], axis
            return v

        for v, axes, name in zip(parts(x[0]), _text(x[1]), names.split(), strict=True):
            leafwise(m, v, axes, leaf, f"argument '{name}'")
        check_sizes(sizes, place)
        return m.number(next(iter(sizes.values()))[0])


class RowOf(Primitive):
    """Row `i` of what is mapped over; what all rows share as it is."""

    name, arity, linear = "row_of", 3, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        def leaf(v: V, axes: Axes, what: str) -> V:
            axis = _axis(axes, _rank(v.type))
            if axis is None:
                return v
            if axis == 0:
                return m.tensors(Item(), {}, [v, x[1]], where)
            return m.tensors(Operator("gather"), {"axis": to_attribute(axis)}, [v, x[1]], where)

        return leafwise(m, x[0], _text(x[2]), leaf, "")

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(RowPut, *x)


class RowPut(Primitive):
    """The cotangent of what is mapped over, the second operand, of which that of row `i` is given."""

    name, arity, linear, types_only = "row_put", 4, (0,), (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        def put(d: V, like: V, axes: Axes) -> V:
            axis = _axis(axes, _rank(like.type))
            if is_zero(d) or axis is None:
                return d
            if axis == 0:
                return m.tensors(ItemPut(), {}, [like, x[2], d], where)
            options = {"axis": to_attribute(axis), "indices": DenseArrayBase.from_list(i64, [0])}
            return m.tensors(Vjp(Operator("gather")), options, [like, x[2], d], where)

        return _beside(m, x[0], x[1], _text(x[3]), put)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(RowOf, *x[2:])


def _beside(m: Typing, d: V, like: V, axes: Axes, put: Callable[[V, V, Axes], V]) -> V:
    """Cotangents of which each is replaced; the values that they belong to have the structure."""
    if not isinstance(like.type, TupleType):
        return put(d, like, axes)
    items = [V(NOTHING)] * len(like.type.items) if is_zero(d) else parts(d)
    each = zip(items, parts(like), item_axes(axes, like.type, ""), strict=True)
    return m.tuple([_beside(m, v, of, a, put) for v, of, a in each], like.type)


class NewRows(Primitive):
    """As many rows as are asked for, of which the first is given; the others are 0."""

    name, arity, linear = "new_rows", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        count = x[1].type.const if isinstance(x[1].type, Scalar) else None

        def leaf(v: V, axes: Axes, what: str) -> V:
            if not isinstance(v.type, Scalar | TensorType):
                return v
            return m.tensors(self, {"count": to_attribute(count)}, [v], where)

        return leafwise(m, x[0], 0, leaf, "the result")

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        shape = shape_of(x[0])
        row = u.reshape(x[0], (1, *shape))
        if options["count"] == 1:
            return row
        rest = u.expand(u.b.scalar(0, row), (options["count"] - 1, *shape))
        return u.op("concat", [row, rest], axis=0)  # pyright: ignore[reportArgumentType]

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(ItemRow, d.of(0))


class ItemRow(Primitive):
    """Row `i` of all arrays of a value."""

    name, arity, linear = "item_row", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        def leaf(v: V, axes: Axes, what: str) -> V:
            return m.tensors(Item(), {}, [v, x[1]], where) if isinstance(v.type, TensorType) else v

        return leafwise(m, x[0], 0, leaf, "")

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return x[0].prim(RowAlone, x[1], d)


class RowAlone(Primitive):
    """Arrays like those of the first operand, of which row `i` is given and the others are 0."""

    name, arity, linear, types_only = "row_alone", 3, (2,), (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        def put(d: V, like: V, axes: Axes) -> V:
            return d if is_zero(d) else m.tensors(ItemPut(), {}, [like, x[1], d], where)

        return _beside(m, x[2], x[0], 0, put)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(ItemRow, x[1])


class SetRows(Primitive):
    """Arrays with another row `i`."""

    name, arity, linear = "set_rows", 3, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        def put(v: V, whole: V, axes: Axes) -> V:
            if is_zero(whole) or not isinstance(whole.type, TensorType):
                return whole
            return SetItem().infer(m, op, [whole, x[1], v], where)

        return _beside(m, x[2], x[0], 0, put)

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        rest = None if d[0] is None else d[0].prim(SetRows, x[1], y.zero())
        row = None if d[2] is None else x[0].prim(RowAlone, x[1], d[2])
        return total([rest, row])

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        return [d.prim(SetRows, x[1], d.zero()), None, d.prim(ItemRow, x[1])]


#: Rows up to which results are collected in one array, which each row copies.
WHOLE = 256


def block_of(count: int) -> int:
    """Rows of one block of results: a row copies a block, and a block all of them, which is least work so."""
    return count if count <= WHOLE else math.isqrt(count)


class BlockSize(Constant):
    """How many rows are collected before they are put into the array of all."""

    name = "block_size"

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        assert isinstance(x[0].type, Scalar) and x[0].type.const is not None
        return m.number(block_of(x[0].type.const))


class Merged(Primitive):
    """The first rows, as many as are asked for, of arrays of blocks of rows."""

    name, arity, linear = "merged", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        count = x[1].type.const if isinstance(x[1].type, Scalar) else None

        def leaf(v: V, axes: Axes, what: str) -> V:
            if not isinstance(v.type, TensorType):
                return v
            return m.tensors(self, {"count": to_attribute(count)}, [v], where)

        return leafwise(m, x[0], 0, leaf, "")

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        blocks, size, *row = shape_of(x[0])
        rows = u.reshape(x[0], (blocks * size, *row))
        if options["count"] == blocks * size:
            return rows
        zeros, ones = (0,) * len(row), (1,) * len(row)
        return u.op("slice", rows, starts=(0, *zeros), ends=(options["count"], *row), steps=(1, *ones))

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(MergedBack, *x)


class MergedBack(Primitive):
    """The cotangent of blocks of rows, the second operand, from that of the rows."""

    name, arity, linear, types_only = "merged_back", 3, (0,), (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        def put(d: V, like: V, axes: Axes) -> V:
            return d if is_zero(d) else m.tensors(self, {}, [d, like], where)

        return _beside(m, x[0], x[1], 0, put)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        blocks, size, *row = shape_of(x[1])
        rest = blocks * size - shape_of(x[0])[0]
        rows = x[0]
        if rest:
            pads = (*(0,) * (1 + len(row)), rest, *(0,) * len(row))
            rows = u.op("pad", rows, pads=pads)
        return u.reshape(rows, (blocks, size, *row))

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(Merged, x[2])


class Turned(Primitive):
    """Arrays of which the axis of the rows, the first one, goes where axes say; the first row for None."""

    name, arity, linear = "turned", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        def leaf(v: V, axes: Axes, what: str) -> V:
            if not isinstance(v.type, TensorType):
                return v
            if axes is None:
                return m.tensors(Item(), {}, [v, m.number(0)], where)
            return _turn(m, v, 0, axes % len(v.type.shape), where)

        return leafwise(m, x[0], _text(x[1]), leaf, "the result")

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(TurnedBack, *x)


def _turn(m: Typing, v: V, source: int, target: int, where: str) -> V:
    order = [i for i in range(_rank(v.type)) if i != source]
    order.insert(target, source)
    return m.tensors(Operator("transpose"), {"permutation": to_attribute(tuple(order))}, [v], where)


class TurnedBack(Primitive):
    """The cotangent of arrays for that of the turned ones."""

    name, arity, linear, types_only = "turned_back", 3, (0,), (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        def put(d: V, like: V, axes: Axes) -> V:
            if is_zero(d):
                return d
            if axes is None:
                return m.tensors(ItemPut(), {}, [like, m.number(0), d], where)
            return _turn(m, d, axes % _rank(d.type), 0, where)

        return _beside(m, x[0], x[1], _text(x[2]), put)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(Turned, x[2])


MAPPED_ROWS = (
    RowCount, BlockSize, Merged, MergedBack, RowOf, RowPut, NewRows, ItemRow, RowAlone, SetRows, Turned,
    TurnedBack,
)  # fmt: skip
