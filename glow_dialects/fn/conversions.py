"""Operations that depend only on types: conversion, selection, sums of cotangents."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.extent import Extent
from glow_dialects.fn.domain import (
    FLOAT,
    ZERO,
    Bottom,
    ByRows,
    EnvType,
    FnType,
    MappedType,
    NamedType,
    NoneType,
    NotNative,
    Scalar,
    Sets,
    TensorType,
    Text,
    TupleType,
    Type,
    TypesDiffer,
    ZeroType,
    text,
)
from glow_dialects.fn.primitives.arithmetic import Add
from glow_dialects.fn.primitives.compare import Eq, Where
from glow_dialects.fn.primitives.cotangents import AddAny, BroadcastLike
from glow_dialects.fn.values import Code, V, captured, components, full, parts, seen


class Values:
    """Operations on values that only depend on their types."""

    def __init__(self, sets: Sets, target: Any) -> None:
        self.sets = sets
        self.t = target
        self.by_rows: Set[str] = set()

    def tensors(self, card: Any, attributes: Any, x: list[V], where: str) -> V:
        """A primitive on tensors."""
        raise NotImplementedError

    def number(self, value: float | int | bool) -> V:
        """A constant."""
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int | Extent) else "float"
        const = None if kind == "float" else value
        return V(Scalar(kind, const), self.t.constant(kind, value))  # pyright: ignore

    def tuple(self, items: Sequence[V], like: TupleType | None = None) -> V:
        """A tuple, with the names that another type of tuples has."""
        items = [full(v) for v in items]
        kinds = tuple(v.type for v in items)
        return V(TupleType(kinds) if like is None else like.of(kinds), [v.code for v in items])

    def env(self, entries: dict[str, V]) -> V:
        """Cotangents by function."""
        named = sorted(entries.items())
        if list(entries) == ["*"]:
            return entries["*"]
        kinds = tuple((n, v.type) for n, v in named)
        return V(EnvType(kinds), [v.code for _, v in named])  # pyright: ignore[reportArgumentType]

    def convert(self, v: V, want: Type) -> V:
        """The value as another type that covers its own."""
        want = self.sets.resolve(want)
        have = self.sets.resolve(v.type)
        if have == want or not self.t.coding:
            return V(want, v.code)
        match have, want:
            case ZeroType(), _:
                return self.zeros(want)
            case _, MappedType():
                return V(want, self.tensors(BroadcastLike(), {}, [v, self.unread(V(want))], "").code)
            case Scalar(), Scalar():
                return V(
                    want, v.code if have.kind == want.kind else self.t.cast(v.code, have.kind, want.kind)
                )
            case Scalar(), TensorType() if want.shape == ():
                return V(want, self.t.as_tensor(v, want))
            case TensorType(), TensorType() if (have.shape, have.dtype) == (want.shape, want.dtype):
                return V(want, v.code)
            case TupleType(), TupleType():
                items = [self.convert(x, t) for x, t in zip(parts(v), want.items, strict=True)]
                return V(want, [x.code for x in items])
            case ((TupleType() | EnvType()), EnvType()):
                return self._environment(v, want)
            case FnType(), FnType():
                return self._widened(v, have, want)
            case FnType(), NamedType():
                return V(want, self._boxed(v, have, want))
            case _:
                raise AssertionError(f"{text(have)} where {text(want)} is expected")

    def _environment(self, v: V, want: EnvType) -> V:
        have = components(v)
        codes: list[Code] = []
        for name, kind in want.entries:
            items = parts(have[name]) if name in have else []
            lead = len(kind.items) - len(items)
            padded = [V(ZERO)] * lead + items
            codes.append([self.convert(x, t).code for x, t in zip(padded, kind.items, strict=True)])
        return V(want, codes)

    def _widened(self, v: V, have: FnType, want: FnType) -> V:
        place = {(n, len(c)): i for i, (n, c) in enumerate(want.entries)}
        codes: list[list[Code]] = [[self.t.undefined(t) for t in c] for _, c in want.entries]
        for index, (name, kinds) in enumerate(have.entries):
            at = place[(name, len(kinds))]
            converted = zip(captured(v, index), want.entries[at][1], strict=True)
            codes[at] = [self.convert(x, t).code for x, t in converted]
        if len(want.entries) == 1:
            return V(want, codes[0])
        numbers = [place[(n, len(c))] for n, c in have.entries]
        if len(numbers) == 1:
            return V(want, [self.t.constant("int", numbers[0]), codes])
        tag = self.t.constant("int", numbers[0])
        for index, number in enumerate(numbers[1:], 1):
            here = self.t.scalar(Eq(), "int", [v.code[0], self.t.constant("int", index)])
            tag = self.t.select(here, self.t.constant("int", number), tag)
        return V(want, [tag, codes])

    def _boxed(self, v: V, have: FnType, want: NamedType) -> Code:
        members = self.sets.members(want)
        if len(have.entries) > 1:
            return self.t.box_any(want, v, self.convert)
        name, kinds = next(iter(have.entries))
        index = next(i for i, (n, c) in enumerate(members) if (n, len(c)) == (name, len(kinds)))
        items = [self.convert(x, t) for x, t in zip(captured(v, 0), members[index][1], strict=True)]
        return self.t.box(want, index, items)

    def zeros(self, kind: Type) -> V:
        """The zero of a type."""
        match kind:
            case ZeroType() | NoneType() | Bottom() | Text():
                return V(kind, None)
            case Scalar():
                return V(kind, self.t.constant(kind.kind, 0.0 if kind.kind == "float" else 0))
            case TensorType():
                return V(kind, self.t.zeros(kind) if self.t.coding else None)
            case TupleType():
                return V(kind, [self.zeros(t).code for t in kind.items])
            case EnvType():
                return V(kind, [self.zeros(t).code for _, t in kind.entries])
            case FnType() | NamedType():
                return V(kind, self.t.undefined(kind))  # of a name before its first value: never read

    def unread(self, v: V) -> V:
        """A value of which only the type is used: arrays that wait are never computed for it."""
        match v.type:
            case TensorType():
                return V(v.type, self.t.nothing())
            case TupleType():
                return V(v.type, [self.unread(x).code for x in parts(v)])
            case _:
                return v

    def switch(self, condition: V, yes: V, no: V, where: str) -> V:
        """One of two values."""
        condition, yes, no = seen(condition), full(yes), full(no)
        if isinstance(condition.type, Scalar) and condition.type.const is not None:
            return yes if condition.type.const else no
        try:
            kind = self.sets.join(yes.type, no.type)
        except TypesDiffer as error:
            raise UnsupportedError(f"{where}: the branches give {error}; both need the same type") from None
        if condition.whole is not None:
            return self._each(condition, self.convert(yes, kind), self.convert(no, kind), where)
        if not self.t.coding:
            return V(kind)
        left, right = self.convert(yes, kind), self.convert(no, kind)
        return V(kind, self.choose(condition.code, left.code, right.code))

    def _each(self, condition: V, yes: V, no: V, where: str) -> V:
        """One of two values for each row that is mapped over; functions and the like have no rows."""
        match yes.type:
            case TupleType():
                pairs = zip(parts(yes), parts(no), strict=True)
                return self.tuple([self._each(condition, a, b, where) for a, b in pairs], yes.type)
            case Scalar() | TensorType():
                return full(self.tensors(Where(), {}, [condition, yes, no], where))
            case NoneType() | Text() | ZeroType() if yes.type == no.type:
                return yes
            case _:
                assert condition.whole is not None
                raise ByRows(condition.whole.place)

    def choose(self, condition: Code, yes: Code, no: Code) -> Code:
        """Selection leaf by leaf."""
        if isinstance(yes, list):
            return [self.choose(condition, a, b) for a, b in zip(yes, no, strict=True)]
        return None if yes is None else self.t.select(condition, yes, no)

    def kind(self, v: V, want: str) -> Code:
        """The code of a scalar as another kind."""
        assert isinstance(v.type, Scalar)
        return v.code if v.type.kind == want else self.t.cast(v.code, v.type.kind, want)

    def add(self, a: V, b: V) -> V:
        """The sum of two cotangents."""
        a, b = full(a), full(b)
        if isinstance(a.type, ZeroType):
            return b
        if isinstance(b.type, ZeroType):
            return a
        match a.type, b.type:
            case (MappedType(), Scalar() | TensorType()) | (Scalar() | TensorType(), MappedType()):
                return full(self.tensors(Add(), {}, [a, b], ""))
            case Scalar(), Scalar():
                return V(FLOAT, self.t.scalar(Add(), "float", [self.kind(a, "float"), self.kind(b, "float")]))
            case ((TupleType() | EnvType()), (TupleType() | EnvType())):
                entries = components(a)
                for name, entry in components(b).items():
                    entries[name] = self._aligned(entries[name], entry) if name in entries else entry
                return self.env(entries)
            case ((Scalar() | TensorType()), (Scalar() | TensorType())):
                return self.tensors(AddAny(), {}, [a, b], "")
            case _:
                raise NotNative("sum of cotangents of other types")

    def _aligned(self, a: V, b: V) -> V:
        left, right = parts(a), parts(b)
        size = max(len(left), len(right))
        left = [V(ZERO)] * (size - len(left)) + left
        right = [V(ZERO)] * (size - len(right)) + right
        return self.tuple([self.add(x, y) for x, y in zip(left, right, strict=True)])

    def picked(self, d: V, n: int, i: int, of: str | None) -> V:
        """Item i of the last n cotangents of one function; of all, added, where it is not known."""
        total = V(ZERO)
        for name, entry in components(d).items():
            items = parts(entry)
            at = len(items) - n + i
            if at >= 0 and (of is None or name in (of, "*")):
                total = self.add(total, items[at])
        return total
