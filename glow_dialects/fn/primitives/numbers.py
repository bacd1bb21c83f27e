"""Primitives: functions of Python numbers, `py:sqrt`; they raise what Python raises and refuse arrays."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.errors import GlowError, UnsupportedError, raised
from glow_dialects.core.types import Array
from glow_dialects.fn.domain import Scalar, TensorType, text
from glow_dialects.fn.primitive import Function, Primitive, Result, Term, Terms, Typing
from glow_dialects.fn.primitives.arithmetic import Abs, Ceil, Floor, Fmod, Round, ToBool, ToFloat, ToInt
from glow_dialects.fn.primitives.mathematics import FUNCTIONS, MATHEMATICS, Pow
from glow_dialects.fn.primitives.scalars import Mathematical, ScalarPrimitive
from glow_dialects.fn.primitives.shapes import Astype, Reshape
from glow_dialects.fn.python_values import kind_of
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V

#: The primitive that each function computes.
CARDS: dict[Any, type[ScalarPrimitive]] = {
    float: ToFloat, int: ToInt, bool: ToBool, round: Round, math.trunc: ToInt, math.floor: Floor,
    math.ceil: Ceil, math.fmod: Fmod, math.log: FUNCTIONS["log"], math.pow: Pow,
    **{f: card for card in MATHEMATICS for f in card.called if getattr(math, f.__name__, None) is f},
}  # fmt: skip


class NumberFunction(Primitive):
    """A function of Python's numbers by its name in Python or `math`: `py:sqrt`."""

    arity = None

    def __init__(self, function: str) -> None:
        named: Any = getattr(math, function, None) or getattr(builtins, function, None)
        if named not in CARDS:
            raise VerifyException(
                f"there is no function of numbers {function}; use one of math, float, int, bool or round"
            )
        self.of, self.card = named, CARDS[named]()

    @property
    def text(self) -> str:
        return f"py:{self.of.__name__}"

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return False

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        numbers = [self._number(m, v, where) for v in x]
        real = self.of.__module__ == "math" and isinstance(self.card, Mathematical | Abs | Pow)
        if real:  # ints are floats here
            numbers = [m.as_kind(v, "float") for v in numbers]
        result = m.scalar(self.card, numbers, where)
        if real and result.whole is None:
            m.t.defined(result.code, [v.code for v in numbers])
        return result

    def _number(self, m: Typing, v: V, where: str) -> V:
        """A number, or an array of one element as one."""
        if isinstance(v.type, TensorType) and math.prod(v.type.shape) == 1:
            kind = {"b": "bool", "i": "int64", "u": "int64"}.get(np.dtype(v.type.dtype).kind, "float64")
            if v.type.shape:
                v = m.tensors(Reshape(), {"shape": to_attribute(())}, [v], where)
            return (
                v
                if isinstance(v.type, Scalar)
                else m.tensors(Astype(), {"dtype": to_attribute(kind)}, [v], where)
            )
        if not isinstance(v.type, Scalar):
            hint = "use NumPy's function" if isinstance(v.type, TensorType) else "use a number"
            raise UnsupportedError(f"{where}: {self.short} of {text(v.type)}; {hint}")
        return v

    def python(self, op: FnOp) -> Function:
        def run(*x: Any) -> Any:
            try:
                return self.of(*[self._python_number(op, v) for v in x])
            except (ArithmeticError, ValueError) as error:
                raise raised(type(error).__name__, str(error), op.source) from None

        return run

    def _python_number(self, op: FnOp, value: Any) -> Any:
        if isinstance(value, bool | int | float):
            return value
        if isinstance(value, np.ndarray | np.generic) and value.size == 1:
            item: Array = np.asarray(value).reshape(())
            return (item if item.dtype.kind in "biu" else item.astype(np.float64)).item()
        raise GlowError(f"{op.source}: {self.short} of {kind_of(value)}; use a number, or NumPy's function")

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        return self.card.jvp(op, x, d, y)

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        return self.card.vjp(op, d, x, y)


def number_function(function: Any) -> NumberFunction | None:
    """The primitive of a function of Python's numbers; None of others."""
    try:
        return NumberFunction(function.__name__) if function in CARDS else None
    except TypeError:  # not to be looked up
        return None
