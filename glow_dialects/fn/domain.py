"""Types of specialised functions: scalars, tensors, tuples, and sets of closures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from glow_dialects.fn.record import Names


class TypesDiffer(Exception):
    """Two types have no common type."""


class NotNative(Exception):
    """A valid program that this form of compilation does not cover; the interpreter runs it."""


class ByRows(Exception):
    """What is mapped over decides what is computed: the map, named by the argument, goes row by row."""


class _Interned(type):
    """Equal types are one object: comparing and looking up types costs nothing, however deep they are."""

    table: dict[Any, Any] = {}

    def __call__(cls, *arguments: Any) -> Any:
        key = (cls, *arguments, *(type(a) for a in arguments[1:]))
        instance = cls.table.get(key)
        if instance is None:
            instance = cls.table[key] = super().__call__(*arguments)
        return instance


@dataclass(frozen=True, eq=False)
class Bottom(metaclass=_Interned):
    """No value: a call that has not returned yet."""


@dataclass(frozen=True, eq=False)
class ZeroType(metaclass=_Interned):
    """The symbolic zero cotangent."""


@dataclass(frozen=True, eq=False)
class NoneType(metaclass=_Interned):
    """Python's None."""


@dataclass(frozen=True, eq=False)
class Text(metaclass=_Interned):
    """A text, known when compiling."""

    value: str


@dataclass(frozen=True, eq=False)
class Scalar(metaclass=_Interned):
    """bool, int or float; `const` is the value of an int or bool that is known when compiling."""

    kind: str
    const: int | bool | None = None


@dataclass(frozen=True, eq=False)
class TensorType(metaclass=_Interned):
    """An array of static shape; dtype by NumPy's name.

    `inactive` tells, inside a function that is differentiated, that nothing it is differentiated by reaches
    the array: its cotangent is zero and is not computed.
    """

    shape: tuple[int, ...]
    dtype: str
    inactive: bool = False


@dataclass(frozen=True, eq=False)
class MappedType(TensorType):
    """An array whose rows `glow.vmap` maps over: operations see one `row`, and are done for all.

    `level` counts the maps that are inside each other from 1, the outermost; its axis is behind those of the
    maps inside. `place` names the map.
    """

    row: Any = None
    level: int = 0
    place: str = ""


@dataclass(frozen=True, eq=False)
class TupleType(metaclass=_Interned):
    """A tuple; `names` are those of its items, after the kind of object that it stands for."""

    items: tuple[Type, ...]
    names: Names = ()

    def of(self, items: tuple[Type, ...]) -> TupleType:
        """A tuple of the same kind."""
        return TupleType(items, self.names) if self.names else TupleType(items)


@dataclass(frozen=True, eq=False)
class EnvType(metaclass=_Interned):
    """Cotangents of captured values, for each function that they may belong to; `*` is for any."""

    entries: tuple[tuple[str, TupleType], ...]


@dataclass(frozen=True, eq=False)
class FnType(metaclass=_Interned):
    """One of several closures: (function, types of its captured values)."""

    entries: tuple[tuple[str, tuple[Type, ...]], ...]


@dataclass(frozen=True, eq=False)
class NamedType(metaclass=_Interned):
    """A set of closures that may capture members of the same set; kept in a table by number."""

    number: int


Type = Bottom | ZeroType | NoneType | Text | Scalar | TensorType | TupleType | EnvType | FnType | NamedType
BOTTOM, ZERO, NONE = Bottom(), ZeroType(), NoneType()
BOOL, INT, FLOAT = Scalar("bool", None), Scalar("int", None), Scalar("float", None)
RANK = {"bool": 0, "int": 1, "float": 2}


def widened(kind: Type) -> Type:
    """The type without values known when compiling."""
    if isinstance(kind, Scalar):
        return Scalar(kind.kind, None)
    if isinstance(kind, TupleType):
        return kind.of(tuple(widened(t) for t in kind.items))
    return kind


def scalar_or_tensor(shape: Sequence[int], dtype: np.dtype) -> Type:
    """The type of a result: float64, int64 and bool of no axes are plain numbers."""
    plain = {"float64": FLOAT, "int64": INT, "bool": BOOL}.get(dtype.name)
    return plain if plain is not None and not len(shape) else TensorType(tuple(shape), dtype.name)


def mapped(row: Type, size: int, level: int, place: str) -> MappedType:
    """The type of `size` rows that are mapped over."""
    row = widened(row)
    if isinstance(row, Scalar):
        dtype = {"bool": "bool", "int": "int64", "float": "float64"}[row.kind]
        return MappedType((size,), dtype, False, row, level, place)
    assert isinstance(row, TensorType)
    return MappedType((size, *row.shape), row.dtype, row.inactive, row, level, place)


def marked(kind: Type, inactive: bool) -> Type:
    """The type with its arrays inactive, or not."""
    match kind:
        case MappedType():
            return mapped(marked(kind.row, inactive), kind.shape[0], kind.level, kind.place)
        case TensorType():
            return TensorType(kind.shape, kind.dtype, *([True] if inactive else []))
        case TupleType():
            return kind.of(tuple(marked(t, inactive) for t in kind.items))
        case FnType():
            return FnType(tuple((n, tuple(marked(t, inactive) for t in c)) for n, c in kind.entries))
        case _:
            return kind


@cache
def has_sets(kind: Type) -> bool:
    """Whether recursive sets of closures are part of a type."""
    match kind:
        case NamedType():
            return True
        case TupleType():
            return any(map(has_sets, kind.items))
        case EnvType():
            return any(has_sets(t) for _, t in kind.entries)
        case FnType():
            return any(has_sets(t) for _, bound in kind.entries for t in bound)
        case _:
            return False


def text(kind: Type) -> str:
    """The type in the words of messages."""
    match kind:
        case Scalar():
            return {"bool": "a bool", "int": "an int", "float": "a float"}[kind.kind]
        case MappedType():
            return text(kind.row)
        case TensorType():
            return f"an array of shape {kind.shape} ({kind.dtype})"
        case TupleType():
            if kind.names:
                return f"a {kind.names[0]} of {', '.join(kind.names[1:])}"
            return f"a tuple of {len(kind.items)}"
        case FnType() | NamedType():
            return "a function"
        case NoneType():
            return "None (a path without return)"
        case Text():
            return "a text"
        case _:
            return "nothing"


Entries = dict[tuple[str, int], tuple[Type, ...]]


@dataclass
class Sets:
    """The table of recursive sets of closures; sets that meet become one."""

    tables: dict[int, Entries] = field(default_factory=dict)
    forward: dict[int, int] = field(default_factory=dict)
    changed: bool = False
    merges: int = 0
    resolved: dict[Type, Type] = field(default_factory=dict)

    def root(self, number: int) -> int:
        """The set that a number stands for now."""
        while number in self.forward:
            number = self.forward[number]
        return number

    def new(self) -> NamedType:
        """An empty set."""
        number = len(self.tables) + len(self.forward)
        self.tables[number] = {}
        self.changed = True
        return NamedType(number)

    def resolve(self, kind: Type) -> Type:
        """The type with sets that have become one named by that one."""
        if not self.forward or isinstance(kind, Scalar | TensorType):
            return kind
        if self.merges != len(self.forward):
            self.merges = len(self.forward)
            self.resolved.clear()
        set_of_kind = self.resolved.get(kind)
        if set_of_kind is None:
            set_of_kind = self.resolved[kind] = self._resolved(kind)
        return set_of_kind

    def _resolved(self, kind: Type) -> Type:
        match kind:
            case NamedType():
                return NamedType(self.root(kind.number))
            case TupleType():
                return kind.of(tuple(map(self.resolve, kind.items)))
            case FnType():
                return FnType(tuple((n, tuple(map(self.resolve, c))) for n, c in kind.entries))
            case EnvType():
                return EnvType(
                    tuple((n, TupleType(tuple(map(self.resolve, t.items)))) for n, t in kind.entries)
                )
            case _:
                return kind

    def members(self, kind: Type) -> list[tuple[str, tuple[Type, ...]]]:
        """The closures that a function value may be."""
        if isinstance(kind, FnType):
            return list(kind.entries)
        assert isinstance(kind, NamedType)
        return [
            (n, c) for (n, _), c in sorted(self.tables[self.root(kind.number)].items(), key=lambda e: e[0])
        ]

    # --- joins ------------------------------------------------------------------------------------
    def join(self, a: Type, b: Type, recursive: bool = False) -> Type:
        """The smallest type of both; `recursive`: function types that differ become a named set."""
        a, b = self.resolve(a), self.resolve(b)
        if a == b or isinstance(b, Bottom):
            return a
        if isinstance(a, Bottom | ZeroType) or isinstance(b, ZeroType):
            return b if isinstance(a, Bottom | ZeroType) else a
        match a, b:
            case (MappedType(), _) | (_, MappedType()):
                return self._rows(a, b)
            case Scalar(), Scalar():
                return Scalar(max(a.kind, b.kind, key=lambda kind: RANK[kind]), None)
            case TensorType(), TensorType() if (a.shape, a.dtype) == (b.shape, b.dtype):
                return marked(a, False)
            case (Scalar(), TensorType()) | (TensorType(), Scalar()):
                tensor = a if isinstance(a, TensorType) else b
                if isinstance(tensor, TensorType) and tensor.shape == ():
                    return tensor
            case TupleType(), TupleType() if len(a.items) == len(b.items):
                items = zip(a.items, b.items, strict=True)
                joined = tuple(self.join(x, y, recursive) for x, y in items)
                return a.of(joined) if a.names == b.names else TupleType(joined)
            case ((TupleType() | EnvType()), (TupleType() | EnvType())):
                if isinstance(a, EnvType) or isinstance(b, EnvType):
                    return self._environments(entries_of(a), entries_of(b), recursive)
            case ((FnType() | NamedType()), (FnType() | NamedType())):
                return self._functions(a, b, recursive)
            case _:
                pass
        raise TypesDiffer(f"{text(a)} and {text(b)}")

    def _rows(self, a: Type, b: Type) -> Type:
        """The join of types of which one at least is of rows that are mapped over."""
        levels = [t.level if isinstance(t, MappedType) else 0 for t in (a, b)]
        top = a if levels[0] >= levels[1] else b
        assert isinstance(top, MappedType)
        kinds = [t.row if isinstance(t, MappedType) and t.level == top.level else t for t in (a, b)]
        row = self.join(kinds[0], kinds[1])
        if not isinstance(row, Scalar | TensorType):
            raise TypesDiffer(f"{text(a)} and {text(b)}")
        return mapped(row, top.shape[0], top.level, top.place)

    def _environments(self, a: dict[str, TupleType], b: dict[str, TupleType], recursive: bool) -> Type:
        entries = dict(a)
        for name, items in b.items():
            entries[name] = self.aligned(entries[name], items, recursive) if name in entries else items
        return EnvType(tuple(sorted(entries.items())))

    def aligned(self, a: TupleType, b: TupleType, recursive: bool = False) -> TupleType:
        """The join of tuples of captured values, aligned at their ends."""
        size = max(len(a.items), len(b.items))
        left = (ZERO,) * (size - len(a.items)) + a.items
        right = (ZERO,) * (size - len(b.items)) + b.items
        return TupleType(tuple(self.join(x, y, recursive) for x, y in zip(left, right, strict=True)))

    def _functions(self, a: Type, b: Type, recursive: bool) -> Type:
        if isinstance(b, NamedType) and not isinstance(a, NamedType):
            a, b = b, a
        if isinstance(a, NamedType) or recursive:
            if not isinstance(a, NamedType):
                named = self.new()
                self._absorb(named, a)
                a = named
            self._absorb(a, b)
            return NamedType(self.root(a.number))
        assert isinstance(a, FnType) and isinstance(b, FnType)
        entries: Entries = {(n, len(c)): c for n, c in a.entries}
        for name, captured in b.entries:
            key = (name, len(captured))
            old = entries.get(key, captured)
            entries[key] = tuple(self.join(x, y) for x, y in zip(old, captured, strict=True))
        return FnType(tuple((n, c) for (n, _), c in sorted(entries.items(), key=lambda e: e[0])))

    def _absorb(self, named: NamedType, kind: Type) -> None:
        number = self.root(named.number)
        if isinstance(kind, NamedType):
            other = self.root(kind.number)
            if other == number:
                return
            table = self.tables.pop(other)
            self.forward[other] = number
            self.changed = True
            entries = [(n, c) for (n, _), c in table.items()]
        else:
            assert isinstance(kind, FnType)
            entries = list(kind.entries)
        for name, captured in entries:
            number = self.root(number)
            table = self.tables[number]
            key = (name, len(captured))
            old = table.get(key)
            new = tuple(widened(self.resolve(t)) for t in captured)
            if old is not None:
                new = tuple(self.join(x, y, True) for x, y in zip(old, new, strict=True))
            number = self.root(number)
            if self.tables[number].get(key) != new:
                self.tables[number][key] = new
                self.changed = True


def entries_of(kind: Type) -> dict[str, TupleType]:
    """The entries of the cotangent of a function value."""
    if isinstance(kind, TupleType):
        return {"*": kind}
    return dict(kind.entries) if isinstance(kind, EnvType) else {}


def leaves(kind: Type) -> Iterator[Type]:
    """Scalars, tensors and closures that a value consists of."""
    if isinstance(kind, TupleType):
        for item in kind.items:
            yield from leaves(item)
    else:
        yield kind
