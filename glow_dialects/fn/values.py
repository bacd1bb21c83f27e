"""Values during specialisation: a type with the code that computes it, and conversions between types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.domain import (
    EnvType,
    FnType,
    MappedType,
    NamedType,
    Scalar,
    TensorType,
    TupleType,
    Type,
    ZeroType,
    text,
)

Code = Any


class Target(Protocol):
    """The builder of code; None while types are inferred.

    The code of a scalar is one value; of a tuple, a list; of one closure, the list of its captured
    values; of one of several closures, [tag, list of captured values of each]; of a named set, a pointer.
    `coding` is whether there is code at all.
    """

    coding: bool

    def constant(self, kind: str, value: float | int | bool) -> Code:
        """A number."""
        ...

    def cast(self, code: Code, have: str, want: str) -> Code:
        """A scalar of another kind."""
        ...

    def scalar(self, card: Any, kind: str, x: Sequence[Code]) -> Code:
        """A primitive on scalars of one kind."""
        ...

    def exact(self, code: Code) -> None:
        """Leave the program where an int is not exactly a float."""
        ...

    def within(self, code: Code, low: int, high: int) -> None:
        """Leave the program where an int lies outside a range."""
        ...

    def defined(self, result: Code, x: Sequence[Code]) -> None:
        """Leave the program where a function of numbers has no value for `x`, or none that is finite."""
        ...

    def select(self, condition: Code, yes: Code, no: Code) -> Code:
        """One of two values of one leaf type."""
        ...

    def undefined(self, kind: Type) -> Code:
        """Any value of a type."""
        ...

    def nothing(self) -> Code:
        """The address of an array that is never read."""
        ...

    def box(self, named: NamedType, index: int, values: Sequence[Code]) -> Code:
        """A record of a named set."""
        ...

    def box_any(self, named: NamedType, value: V, convert: Callable[[V, Type], V]) -> Code:
        """A record of a named set from one of several closures."""
        ...

    def tensor(self, card: Any, attributes: Any, values: Sequence[V], result: Type, where: str) -> Code:
        """A primitive on tensors."""
        ...

    def zeros(self, kind: TensorType) -> Code:
        """An array of zeros."""
        ...

    def as_tensor(self, value: V, kind: TensorType) -> Code:
        """A number as an array."""
        ...

    def first(self, value: V) -> Code:
        """The boolean that is the one element of an array."""
        ...

    def inside(self, index: V, size: int, where: str) -> None:
        """Raise IndexError where a number, or one of an array, is no subscript of an axis."""
        ...

    def graph(self, op: Any, values: Sequence[V]) -> Code:
        """The tensors of a part of a graph."""
        ...

    def array(self, value: Any) -> Code:
        """An array that is known when compiling."""
        ...

    def calls(self, op: Any, caller: Any, callees: Sequence[Any]) -> None:
        """Note the instances that a call may reach."""
        ...


class NoCode:
    """The target of inference."""

    coding = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *a, **k: None


@dataclass
class V:
    """A value: type and code; of a row that is mapped over, the code of all rows, whose type is `whole`."""

    type: Type
    code: Code = None
    whole: MappedType | None = None


def seen(v: V) -> V:
    """The value as operations see it: of what is mapped over, a row."""
    kind, whole = v.type, v.whole
    while isinstance(kind, MappedType):
        kind, whole = kind.row, whole or kind
    return v if whole is v.whole else V(kind, v.code, whole)


def full(v: V) -> V:
    """The value with the rows that are mapped over."""
    return v if v.whole is None else V(v.whole, v.code)


def is_mapped(v: V) -> bool:
    """Whether a value is of rows that are mapped over."""
    return v.whole is not None or isinstance(v.type, MappedType)


def parts(v: V) -> list[V]:
    """The items of a tuple."""
    assert isinstance(v.type, TupleType)
    codes = v.code if v.code is not None else [None] * len(v.type.items)
    return [V(t, c) for t, c in zip(v.type.items, codes, strict=True)]


def is_zero(v: V) -> bool:
    """Whether a value is the symbolic zero."""
    return isinstance(v.type, ZeroType)


def is_inactive(*values: V) -> bool:
    """Whether nothing that is differentiated by reaches arrays, nor what is computed from them and ints."""
    arrays = [v.type for v in values if isinstance(v.type, TensorType)]
    others = [v.type for v in values if isinstance(v.type, Scalar) and v.type.kind == "float"]
    return bool(arrays) and not others and all(t.inactive for t in arrays)


def names_of(v: V) -> tuple[str, ...]:
    """The class and the names of a record's items; none of other values."""
    return v.type.names if isinstance(v.type, TupleType) else ()


def is_dict(v: V) -> bool:
    """Whether a value is a dict."""
    return names_of(v)[:1] == ("dict",)


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


def captured(v: V, index: int) -> list[V]:
    """The captured values of one closure of several."""
    assert isinstance(v.type, FnType)
    kinds = v.type.entries[index][1]
    codes = [None] * len(kinds)
    if v.code is not None:
        codes = v.code if len(v.type.entries) == 1 else v.code[1][index]
    return [V(t, c) for t, c in zip(kinds, codes, strict=True)]


def components(v: V) -> dict[str, V]:
    """The cotangents of captured values by function."""
    if isinstance(v.type, TupleType):
        return {"*": v}
    assert isinstance(v.type, EnvType)
    codes = v.code if v.code is not None else [None] * len(v.type.entries)
    return {n: V(t, c) for (n, t), c in zip(v.type.entries, codes, strict=True)}
