"""Primitives of `glow.vmap`: any primitive on all mapped rows, entering and leaving the map.

What is mapped over has a type of its own (`domain.MappedType`): primitives see a row of it, and their
operators are done for all rows at once (`glow_dialects.core.mapped`). A map is a function as any other then,
of which derivatives are made: what goes into it, also what its function captured, goes through `MapIn`, where
the cotangents of what is the same for all rows are added up.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.mapped import map_ops, whole
from glow_dialects.core.types import dtype_of, element_of, shape_of, tensor
from glow_dialects.fn.domain import (
    EnvType,
    FnType,
    MappedType,
    NamedType,
    NoneType,
    Scalar,
    Sets,
    TensorType,
    Text,
    TupleType,
    Type,
    mapped,
    scalar_or_tensor,
    text,
)
from glow_dialects.fn.primitive import Constant, Function, Options, Primitive, Result, Term, Terms, Typing
from glow_dialects.fn.primitive import text as text_option
from glow_dialects.fn.primitives.arithmetic import Mul
from glow_dialects.fn.primitives.operators import Operator, Stack
from glow_dialects.fn.regions import Kind, region
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V, components, full, is_zero, parts

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit

#: The axis of each argument, or of each item of it: a number, None where all rows share the value.
Axes = Any
#: In axes: that of an argument which may be a number instead, shared by all rows.
DEFAULT = "default"


def shown(place: str) -> str:
    """Where the map of a place stands: `file:line`, without the number that only this map has."""
    return place.split("#")[0]


def maps_of(kind: Type | None) -> Iterator[MappedType]:
    """The maps that a value is in, the innermost first."""
    while isinstance(kind, MappedType):
        yield kind
        kind = kind.row


def at_level(v: V, level: int) -> Type | None:
    """The type of a row of the map at a level; None where a value is the same for all of them."""
    return next((t.row for t in maps_of(v.whole) if t.level == level), None)


def innermost(sets: Sets, kind: Type, met: set[Type] | None = None) -> MappedType | None:
    """The innermost of the maps that a value or what it captured is in."""
    met = set[Type]() if met is None else met
    match kind:
        case MappedType():
            return kind
        case TupleType():
            inner = kind.items
        case EnvType():
            inner = tuple(t for _, t in kind.entries)
        case FnType() | NamedType() if kind not in met:
            met.add(kind)
            inner = tuple(t for _, captured in sets.members(kind) for t in captured)
        case _:
            return None
    found = (innermost(sets, sets.resolve(t), met) for t in inner)
    return max((t for t in found if t is not None), key=lambda t: t.level, default=None)


class Mapped(Primitive):
    """A primitive for all rows of a map: `rows` are the types of rows, None where all share an operand."""

    arity = None

    def __init__(self, of: Primitive, rows: Sequence[Type | None]) -> None:
        self.of = of
        self.flags = tuple(row is not None for row in rows)
        self.weak = tuple(isinstance(row, Scalar) for row in rows)

    @property
    def text(self) -> str:
        marks = ("." if not f else "n" if w else "a" for f, w in zip(self.flags, self.weak, strict=True))
        return f"mapped:{''.join(marks)}:{self.of.text}"

    @property
    def short(self) -> str:
        return self.of.short

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        """The operators for one row, done for all."""
        size = next(shape_of(v)[0] for v, f in zip(x, self.flags, strict=True) if f)
        kinds = [
            Kind(tensor(shape_of(v)[1:], element_of(v)), number) if f else Kind(v.type, weak, wide)  # pyright: ignore
            for v, f, number, weak, wide in zip(x, self.flags, self.weak, u.weak, u.wide, strict=True)
        ]
        row = region(self.of, attributes, kinds, "")
        values: dict[SSAValue, SSAValue] = dict(zip(row.block.args, x, strict=True))
        rows: set[SSAValue] = {a for a, f in zip(row.block.args, self.flags, strict=True) if f}
        map_ops(row.block.ops, values, rows, size, u.b)
        return whole(values[row.result], row.result in rows, size, u.b)


# --- the way in and out -------------------------------------------------------------------------------------
Leaf = Callable[[V, Axes, str], V]


def item_axes(axes: Axes, kind: TupleType, what: str) -> Sequence[Axes]:
    """The axes of each item of a tuple."""
    count, names = len(kind.items), kind.names[1:]
    if isinstance(axes, dict):
        if set(axes) != set(names):
            known = f"the items {', '.join(names)}" if names else f"{count} items without names"
            raise UnsupportedError(f"vmap: {what} has {known}, its axes are {axes}; give one per item")
        return [axes[n] for n in names]
    if not isinstance(axes, tuple) or axes[:1] == (DEFAULT,):
        return [axes] * count
    if len(axes) != count:
        raise UnsupportedError(f"vmap: {what} has {count} items, its axes are {axes}; give one per item")
    return axes


def leafwise(m: Typing, v: V, axes: Axes, leaf: Leaf, what: str, like: Type | None = None) -> V:
    """A value of which each array or number is replaced; `like` has the structure where `v` has zeros."""
    kind = v.type if like is None else like
    if not isinstance(kind, TupleType) or is_zero(v):
        return v if is_zero(v) else leaf(v, axes, what)
    count, entries = len(kind.items), item_axes(axes, kind, what)
    likes: Sequence[Type | None] = kind.items if like is not None else [None] * count
    names = [f"{what}.{n}" for n in kind.names[1:]] or [f"{what}[{i}]" for i in range(count)]
    items = zip(parts(v), entries, names, likes, strict=True)
    assert isinstance(v.type, TupleType)
    return m.tuple([leafwise(m, item, a, leaf, n, k) for item, a, n, k in items], v.type)


def _rewrapped(core: Type, maps: Sequence[MappedType]) -> Type:
    """The type of rows of maps, the outermost last, whose rows are `core`."""
    for kind in reversed(maps):
        core = mapped(core, kind.shape[0], kind.level, kind.place)
    return core


def _core(kind: Type) -> tuple[Type, list[MappedType]]:
    """A row of all maps that a value is in, and these."""
    maps = list(maps_of(kind))
    return (maps[-1].row if maps else kind), maps


def _plain(v: V) -> V:
    """An array without its maps."""
    assert isinstance(v.type, TensorType)
    return V(TensorType(v.type.shape, v.type.dtype), v.code)


def _moved(m: Typing, v: V, source: int, target: int, where: str) -> V:
    assert isinstance(v.type, TensorType)
    order = [i for i in range(len(v.type.shape)) if i != source]
    order.insert(target, source)
    if order == sorted(order):
        return v
    return m.tensors(Operator("transpose"), {"permutation": to_attribute(tuple(order))}, [v], where)


def axis_in(kind: Type, axis: int, what: str, place: str) -> int:
    """An axis of an array that is mapped over, counted from 0."""
    shape = kind.shape if isinstance(kind, TensorType) else ()
    fits = isinstance(axis, int) and -len(shape) <= axis < len(shape)  # pyright: ignore
    if not isinstance(kind, TensorType) or not fits:
        raise UnsupportedError(
            f"{shown(place)}: vmap: {what} is {text(kind)}, which has no axis {axis} to map over; give it the"
            " axis None in in_axes, or pass an array"
        )
    return axis % len(shape)


def row_of(kind: Type, axis: int) -> Type:
    """The type of a row along an axis."""
    assert isinstance(kind, TensorType)
    rest = (*kind.shape[:axis], *kind.shape[axis + 1 :])
    row = scalar_or_tensor(rest, dtype_of(tensor((), kind.dtype)))
    return TensorType(rest, kind.dtype, True) if kind.inactive and isinstance(row, TensorType) else row


def _times(m: Typing, number: float, v: V, where: str) -> V:
    x = [m.number(number), v]
    return m.scalar(Mul(), x, where) if isinstance(v.type, Scalar) else full(m.tensors(Mul(), {}, x, where))


class MapPrimitive(Primitive):
    """`axes` of what goes in, or comes out, of the map at `place`."""

    maps = True
    linear = (0,)

    def axes(self, op: FnOp) -> Axes:
        """The axes."""
        return ast.literal_eval(text_option(op, "axes"))

    def python(self, op: FnOp) -> Function:
        raise AssertionError("the interpreter maps row by row")

    def to_rows(self, m: Typing, v: V, axis: int, like: MappedType, where: str) -> V:
        """The array as rows of a map: its axis goes to the front."""
        core, maps = _core(v.type)
        plain = _moved(m, _plain(v), len(maps) + axis, 0, where)
        assert isinstance(core, TensorType)
        row = _rewrapped(row_of(core, axis), maps)
        return V(mapped(row, core.shape[axis], like.level, like.place), plain.code)

    def from_rows(self, m: Typing, v: V, axis: int, like: MappedType, where: str) -> V:
        """The rows of a map as an array again; of a value that all share, so many of it."""
        v = lifted(m, v, like)
        assert isinstance(v.type, MappedType)
        core, maps = _core(v.type)
        rank = len(core.shape) if isinstance(core, TensorType) else 0
        if not -rank - 1 <= axis <= rank:
            raise UnsupportedError(
                f"{shown(like.place)}: vmap: out_axes has {axis}, the result for one row is {text(core)}"
                f"; give an axis from 0 to {rank}"
            )
        axis %= rank + 1
        plain = _moved(m, _plain(v), 0, len(maps) - 1 + axis, where)
        shape = list(core.shape) if isinstance(core, TensorType) else []
        shape.insert(axis, v.type.shape[0])
        whole_core = TensorType(tuple(shape), v.type.dtype, v.type.inactive)
        return V(_rewrapped(whole_core, maps[1:]), plain.code)


def lifted(m: Typing, v: V, like: MappedType) -> V:
    """A value as rows of the map at the level of `like`."""
    if isinstance(v.type, MappedType) and v.type.level == like.level:
        return v
    return m.convert(v, mapped(v.type, like.shape[0], like.level, like.place))


class MapIn(MapPrimitive):
    """The function of a map and its arguments, one tuple, as the function sees them."""

    name = "map_in"

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        around = innermost(m.sets, m.sets.resolve(x[0].type))
        place = text_option(op, "place")
        sizes: dict[str, tuple[int, int]] = {}
        level = 1 if around is None else around.level + 1

        def leaf(v: V, axis: Axes, what: str) -> V:
            core = _core(v.type)[0]
            if isinstance(axis, tuple):
                axis = axis[1] if isinstance(core, TensorType) and core.shape else None
            if axis is None:
                return v
            at = axis_in(core, axis, what, place)
            assert isinstance(core, TensorType)
            sizes[what] = core.shape[at], at
            return self.to_rows(m, v, at, mapped(Scalar("bool"), core.shape[at], level, place), where)

        function, *arguments = parts(x[0])
        names = text_option(op, "names").split()
        made = [
            leafwise(m, v, a, leaf, f"argument '{n}'")
            for v, a, n in zip(arguments, self.axes(op)[1:], names, strict=True)
        ]
        check_sizes(sizes, place)
        return m.tuple([function, *made])

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return None if d[0] is None else d[0].prim(MapInAs, y, axes=op.attributes["axes"])

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        return [d.prim(MapBack, y(), axes=op.attributes["axes"])]


def check_sizes(sizes: dict[str, tuple[int, int]], place: str) -> None:
    """Raise unless something is mapped over, and as many rows everywhere."""
    if not sizes:
        raise UnsupportedError(
            f"{shown(place)}: vmap: in_axes maps over no argument; give one of them an axis"
        )
    (first, (size, axis)), *others = sizes.items()
    for what, (other, at) in others:
        if other != size:
            raise UnsupportedError(
                f"{shown(place)}: vmap: {first} has {size} rows along axis {axis}, {what} has {other} along"
                f" axis {at}; these numbers must be equal"
            )


class MapInAs(MapPrimitive):
    """The tangents of what goes into a map; the second operand is what went in."""

    name, arity, types_only = "map_in_as", 2, (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        like = innermost(m.sets, m.sets.resolve(x[1].type))
        assert like is not None

        def leaf(v: V, axis: Axes, what: str) -> V:
            core = _core(v.type)[0]
            if isinstance(axis, tuple):
                axis = axis[1] if isinstance(core, TensorType) and core.shape else None
            return v if axis is None else self.to_rows(m, v, axis_in(core, axis, what, ""), like, where)

        return leafwise(m, x[0], self.axes(op), leaf, "a tangent")

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(MapBack, x[1], axes=op.attributes["axes"])


class MapBack(MapPrimitive):
    """The cotangents of what went into a map: of what all rows share, the sums over the rows."""

    name, arity, types_only = "map_back", 2, (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        like = innermost(m.sets, m.sets.resolve(x[1].type))
        assert like is not None

        def shared(v: V) -> V:
            if isinstance(v.type, TupleType):
                return m.tuple([shared(item) for item in parts(v)])
            if isinstance(v.type, EnvType):
                return m.env({n: shared(item) for n, item in components(v).items()})
            if not isinstance(v.type, Scalar | TensorType):
                return v
            if not isinstance(v.type, MappedType) or v.type.level != like.level:
                return _times(m, float(like.shape[0]), v, where)
            total = m.tensors(
                Operator("reduce_sum"), {"axes": to_attribute((0,)), "keepdims": to_attribute(False)},
                [_plain(v)], where,
            )  # fmt: skip
            return V(v.type.row, total.code)

        def leaf(v: V, axis: Axes, what: str) -> V:
            if isinstance(axis, tuple):
                axis = axis[1] if isinstance(v.type, MappedType) and v.type.level == like.level else None
            return shared(v) if axis is None else self.from_rows(m, v, axis, like, where)

        if is_zero(x[0]):
            return x[0]
        function, *rest = parts(x[0])
        assert isinstance(x[1].type, TupleType)
        kinds = [None if isinstance(t, FnType | NamedType) else t for t in x[1].type.items]
        axes = self.axes(op)
        made = [leafwise(m, v, a, leaf, "", k) for v, a, k in zip(rest, axes[1:], kinds[1:], strict=True)]
        return m.tuple([shared(function), *made])

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(MapInAs, x[1], axes=op.attributes["axes"])


class MapOut(MapPrimitive):
    """The result of a map; the second operand is what went in."""

    name, arity, types_only = "map_out", 2, (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        like = innermost(m.sets, m.sets.resolve(x[1].type))
        assert like is not None

        def leaf(v: V, axis: Axes, what: str) -> V:
            if isinstance(v.type, NoneType | Text):
                return v
            if not isinstance(v.type, Scalar | TensorType):
                raise UnsupportedError(
                    f"{shown(like.place)}: vmap: {what} is {text(v.type)}; return arrays or numbers"
                )
            rows = isinstance(v.type, MappedType) and v.type.level == like.level
            if axis is not None:
                return self.from_rows(m, v, axis, like, where)
            if rows:
                raise UnsupportedError(
                    f"{shown(like.place)}: vmap: out_axes is None for {what}, which differs from row to row; "
                    "give it an axis"
                )
            return v

        return leafwise(m, x[0], self.axes(op), leaf, "the result")

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(MapOutBack, x[0], x[1], axes=op.attributes["axes"])


class MapOutBack(MapPrimitive):
    """The cotangent of the result for each row; the other operands are the result and what went in."""

    name, arity, types_only = "map_out_back", 3, (1, 2)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        like = innermost(m.sets, m.sets.resolve(x[2].type))
        assert like is not None

        def leaf(v: V, axis: Axes, what: str) -> V:
            if axis is not None:
                core = _core(v.type)[0]
                return self.to_rows(m, v, axis_in(core, axis, what, like.place), like, where)
            # what all rows share counts once: for the first row
            rest = [_times(m, 0.0, v, where)] * (like.shape[0] - 1)
            rows = m.tensors(Stack(), {"axis": to_attribute(0)}, [v, *rest], where)
            return V(mapped(v.type, like.shape[0], like.level, like.place), full(rows).code)

        return leafwise(m, x[0], self.axes(op), leaf, "a cotangent", x[1].type)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(MapOut, x[2], axes=op.attributes["axes"])


class GoesByRows(Constant):
    """Whether the map at `place` goes row by row: where what is mapped over decides what is computed."""

    name, arity = "goes_by_rows", 0

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return m.number(text_option(op, "place") in m.by_rows)

    def python(self, op: FnOp) -> Function:
        return lambda: True


MAPPED = (MapIn, MapInAs, MapBack, MapOut, MapOutBack, GoesByRows)
