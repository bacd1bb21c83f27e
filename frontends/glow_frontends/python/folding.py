"""Python's operators as primitives, and on objects that are known when compiling."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from glow_dialects.fn.primitive import Primitive
from glow_dialects.fn.primitives.arithmetic import Add, Div, FloorDiv, Mod, Mul, Neg, Not, Pos, Sub
from glow_dialects.fn.primitives.compare import (
    BitAnd,
    BitOr,
    BitXor,
    Eq,
    Ge,
    Gt,
    Invert,
    Le,
    Lt,
    Ne,
    ShiftLeft,
    ShiftRight,
)
from glow_dialects.fn.primitives.mathematics import Pow
from glow_dialects.fn.primitives.scalars import ScalarPrimitive
from glow_dialects.fn.record import names_of
from glow_frontends.python.emit import Static

BINARY: dict[type[ast.operator], type[ScalarPrimitive]] = {
    ast.Add: Add, ast.Sub: Sub, ast.Mult: Mul, ast.Div: Div, ast.FloorDiv: FloorDiv, ast.Mod: Mod,
    ast.Pow: Pow, ast.BitAnd: BitAnd, ast.BitOr: BitOr, ast.BitXor: BitXor, ast.LShift: ShiftLeft,
    ast.RShift: ShiftRight,
}  # fmt: skip
COMPARE: dict[type[ast.cmpop], type[ScalarPrimitive]] = {
    ast.Eq: Eq, ast.NotEq: Ne, ast.Lt: Lt, ast.LtE: Le, ast.Gt: Gt, ast.GtE: Ge,
}  # fmt: skip
UNARY: dict[type[ast.unaryop], type[ScalarPrimitive]] = {
    ast.USub: Neg, ast.UAdd: Pos, ast.Not: Not, ast.Invert: Invert,
}  # fmt: skip


_PLAIN = bool | int | float


def folded(card: type[Primitive], left: Any, right: Any) -> Static | None:
    """The value of an operator on objects of Python, None where it is left to the program.

    Numbers have all operators; texts, None, and tuples and lists of such, which are one here, comparisons.
    """
    left, right = _comparable(left), _comparable(right)
    numbers = isinstance(left, _PLAIN) and isinstance(right, _PLAIN)
    if not numbers and (card not in COMPARE.values() or NotImplemented in (left, right)):
        return None
    function = next((f for f in card.called if not isinstance(f, np.ufunc)), None)
    huge = isinstance(right, int | float) and abs(right) > 10_000
    if function is None or card in (Pow, ShiftLeft) and huge:
        return None
    try:
        result = function(left, right)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return Static(result) if isinstance(result, _PLAIN) else None


def _comparable(thing: Any) -> Any:
    """An object in which lists are tuples; NotImplemented where it is none that can be compared now."""
    if isinstance(thing, tuple | list) and names_of(thing) is None:
        items = tuple(map(_comparable, thing))
        return NotImplemented if NotImplemented in items else items
    return thing if isinstance(thing, _PLAIN | str | None) else NotImplemented
