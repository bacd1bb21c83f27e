"""Primitives on values of Python: what they say of types, with values in place of code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError, raised
from glow_dialects.fn.domain import (
    NONE,
    ZERO,
    FnType,
    NoneType,
    Scalar,
    Sets,
    TensorType,
    Text,
    TupleType,
    Type,
    ZeroType,
)
from glow_dialects.fn.meaning import Meaning
from glow_dialects.fn.prim import PrimOp
from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.python_values import ZERO as NOTHING
from glow_dialects.fn.python_values import Closure, is_tuple
from glow_dialects.fn.record import Record
from glow_dialects.fn.regions import evaluate, subscript_error
from glow_dialects.fn.values import V

_KINDS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "float": float}


class ValueTarget:
    """The target whose code is values; what would leave a program is no matter here: ints have any size."""

    coding = True

    def constant(self, kind: str, value: Any) -> Any:
        """A number."""
        return _KINDS[kind](value)

    def cast(self, code: Any, have: str, want: str) -> Any:
        """bool, int and float into each other."""
        return _KINDS[want](code)

    def scalar(self, card: Any, kind: str, x: Sequence[Any]) -> Any:
        """A primitive on numbers."""
        return card.numbers(*x)

    def exact(self, code: Any) -> None:
        """Python compares ints and floats exactly."""

    def within(self, code: Any, low: int, high: int) -> None:
        """Arrays refuse what they do not hold."""

    def select(self, condition: Any, yes: Any, no: Any) -> Any:
        """One of two values."""
        return yes if condition else no

    def tensor(self, card: Primitive, attributes: Any, values: Sequence[V], result: Type, where: str) -> Any:
        """A primitive on arrays."""
        return evaluate(card, attributes, [v.code for v in values], where)

    def array(self, value: Any) -> Any:
        """An array."""
        return value

    def zeros(self, kind: TensorType) -> Any:
        """An array of zeros."""
        return np.zeros(kind.shape, np.dtype(kind.dtype))

    def undefined(self, kind: Type) -> Any:
        """The zero of a function."""
        return NOTHING

    def as_tensor(self, value: V, kind: TensorType) -> Any:
        """A number as an array."""
        return np.asarray(value.code, np.dtype(kind.dtype))

    def first(self, value: V) -> bool:
        """The boolean that is the one element of an array."""
        return bool(value.code)

    def inside(self, index: V, size: int, where: str) -> None:
        """Raise IndexError where a number, or one of an array, is no subscript of an axis."""
        places = np.asarray(index.code)
        if not np.all((places >= -size) & (places < size)):
            raise raised("IndexError", subscript_error(size), where)


@cache
def _meaning() -> Meaning:
    return Meaning(Sets(), ValueTarget())


def typed_value(value: Any) -> V:
    """A value with its type."""
    if isinstance(value, bool | int | float):
        kind = type(value).__name__
        return V(Scalar(kind, None if kind == "float" else value), value)
    if isinstance(value, np.ndarray | np.generic):
        return V(TensorType(np.shape(value), value.dtype.name), value)
    if is_tuple(value):
        items = [typed_value(v) for v in value]
        kinds = tuple(v.type for v in items)
        named = isinstance(value, Record)
        return V(TupleType(kinds, value.names) if named else TupleType(kinds), [v.code for v in items])
    if isinstance(value, Closure):
        return V(FnType(((value.name, ()),)), value)
    if isinstance(value, str):
        return V(Text(value))
    return V(NONE if value is None else ZERO)


def _value(kind: Type, code: Any) -> Any:
    """The value of a type with its code."""
    match kind:
        case TupleType():
            items = [_value(t, c) for t, c in zip(kind.items, code or (), strict=True)]
            return Record.of(kind.names, items) if kind.names else tuple(items)
        case Text(value):
            return value
        case NoneType():
            return None
        case ZeroType():
            return NOTHING
        case _:
            return code


def function_of(op: PrimOp) -> Callable[..., Any]:
    """The function of values that a primitive is, symbolic zeros included."""
    card = op.card
    if type(card).infer is Primitive.infer or type(card).python is not Primitive.python:
        return card.function(op)
    return card.guarded(_by_types(card, op))


def _by_types(card: Primitive, op: PrimOp) -> Callable[..., Any]:
    """The value of a primitive for values, by its rule for types."""
    m, where = _meaning(), op.source

    def run(*x: Any) -> Any:
        try:
            value = card.infer(m, op, [typed_value(v) for v in x], where)
        except GlowError:
            raise
        except (ArithmeticError, ValueError) as error:
            raise raised(type(error).__name__, str(error), where) from None
        return _value(value.type, value.code)

    return run
