"""Primitives on numbers that also work on arrays, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import GlowError, raised
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of
from glow_dialects.fn.domain import NotNative, Scalar, TensorType
from glow_dialects.fn.primitive import Constant, Function, Options, Pointwise, Result, Term, Typing
from glow_dialects.fn.primitives.formulas import gradients
from glow_dialects.fn.python_values import ZERO, kind_of
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V, is_zero

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


#: Marks a primitive that is a function of NumPy, to which Python's bools are an array without axes.
UFUNC = "ufunc"


class ScalarPrimitive(Pointwise):
    """A function of numbers, with meaning, derivative and code of `graph`, the operator that it is on arrays.

    `exact` is the function of Python that it is on numbers, `code` that of the C library, or an intrinsic of
    LLVM. `absorbing`: the result is the symbolic zero where an operand is. `instead`: what to write for
    arrays of booleans, where NumPy refuses those.
    """

    shown: ClassVar[str] = ""
    graph: ClassVar[type[GraphOp] | None] = None
    exact: ClassVar[Any] = None
    code: ClassVar[str] = ""
    absorbing: ClassVar[bool] = False
    instead: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "called" not in vars(cls):
            named = cls.graph.functions(np) if "graph" in vars(cls) and cls.graph is not None else []
            exact = [vars(cls)["exact"]] if "exact" in vars(cls) else []
            cls.called = tuple(dict.fromkeys([*exact, *named]))

    @property
    def short(self) -> str:
        return self.shown or self.name

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return self.absorbing

    def numbers(self, *x: Any) -> Any:
        """The value for Python numbers: of floats that of IEEE arithmetic, of ints Python's, or its error."""
        exact = type(self).exact
        result = self.kinds(kind_of_all(x), "")[1]
        if exact is not None:
            try:
                value = exact(*x)
                if not isinstance(value, complex):
                    return value
            except (ArithmeticError, ValueError):
                if result != "float":
                    raise
        return self.ieee(result, *x)

    def ieee(self, result: str, *x: Any) -> Any:
        """The value by NumPy: ints have any number of bits."""
        graph: Any = self.graph
        function = getattr(graph, "NUMPY", None) or partial(graph.function, graph)
        with np.errstate(all="ignore"):
            if result == "int":
                return function(*[np.array(v + 0, object) for v in x])
            value = function(*[np.float64(v) for v in x])
        return bool(value) if result == "bool" else float(value)

    def kinds(self, kind: str, where: str) -> tuple[str, str]:
        """The kind in which operands of at most `kind` are computed, and the kind of the result."""
        kind = "int" if kind == "bool" else kind
        return kind, kind

    def as_arrays(self, op: FnOp, kinds: Sequence[str]) -> bool:
        """Whether numbers of these kinds are computed as arrays, as by NumPy, instead of as by Python."""
        return UFUNC in op.attributes and set(kinds) == {"bool"}

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if any(map(is_zero, x)):
            return self.with_zero(m, op, x)
        kinds = [v.type.kind for v in x if isinstance(v.type, Scalar)]
        if len(kinds) == len(x):
            if not self.as_arrays(op, kinds):
                return m.scalar(self, x, where)
        elif not any(isinstance(v.type, TensorType) for v in x):
            raise m.no_numbers(self, x, where)
        return m.tensors(self, op.attributes, x, where)

    def with_zero(self, m: Typing, op: FnOp, x: list[V]) -> V:
        """The value where some operands are the symbolic zero."""
        raise NotNative(f"{self.name} of a zero")

    def operands(self, u: Unit, x: Sequence[SSAValue]) -> list[SSAValue]:
        """The operands as the operator takes them: of one element type."""
        return u.common(x, u.weak)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        assert self.graph is not None, self.name
        same = self.operands(u, x)
        if self.instead and element_of(same[0]) == i1:
            raise VerifyException(f"{self.short} of booleans; use {self.instead}")
        return u.b(self.graph(*same))

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        assert self.graph is not None, self.name
        formula = gradients(self.graph)[i]
        return None if formula is None else formula(d, x, y)

    def function(self, op: FnOp) -> Function:
        return self.python(op)

    def python(self, op: FnOp) -> Function:
        on_arrays, numbers, by_numpy = self.on_arrays(op), self.numbers, UFUNC in op.attributes

        def run(*x: Any) -> Any:
            for value in x:
                kind = type(value)
                if kind is float or kind is int or kind is bool:
                    continue
                if any(v is ZERO for v in x):
                    return ZERO if self.absorbing else self.other(op, *x)
                return on_arrays(*x) if isinstance(value, np.ndarray | np.generic) else self.other(op, *x)
            if by_numpy and self.as_arrays(op, [type(v).__name__ for v in x]):
                return on_arrays(*x)
            try:
                return numbers(*x)
            except (ArithmeticError, ValueError) as error:
                raise raised(type(error).__name__, str(error), op.source) from None

        return run

    def other(self, op: FnOp, *x: Any) -> Any:
        """The value where operands are neither numbers nor arrays."""
        bad = next(
            v for v in x if v is ZERO or not isinstance(v, bool | int | float | np.ndarray | np.generic)
        )
        raise GlowError(f"{op.source}: {self.short} of {kind_of(bad)}; use numbers or arrays")


def kind_of_all(x: Sequence[Any]) -> str:
    """The kind of Python's numbers together."""
    if any(isinstance(v, float) for v in x):
        return "float"
    return "bool" if all(isinstance(v, bool) for v in x) else "int"


class Mathematical(ScalarPrimitive):
    """A function of floats, which gives a float."""

    def kinds(self, kind: str, where: str) -> tuple[str, str]:
        return "float", "float"

    def operands(self, u: Unit, x: Sequence[SSAValue]) -> list[SSAValue]:
        return u.reals(x)


class Rounding(Constant, ScalarPrimitive):
    """A whole number from a float."""

    def kinds(self, kind: str, where: str) -> tuple[str, str]:
        return super().kinds(kind, where)[0], "int"


class Predicate(Constant, ScalarPrimitive):
    """A question: a boolean."""

    def kinds(self, kind: str, where: str) -> tuple[str, str]:
        return kind, "bool"
