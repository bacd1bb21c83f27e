"""Primitives: mathematical functions, made from the graph operators where those exist."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_dialects.core.errors import raised
from glow_dialects.fn.domain import FLOAT, INT, NotNative, Scalar, TensorType
from glow_dialects.fn.primitive import Function, Primitive, Result, Term, Typing
from glow_dialects.fn.primitives.arithmetic import ARITHMETIC, Arithmetic, Counted, WholeFloat
from glow_dialects.fn.primitives.compare import COMPARE, BitAnd, BitOr, Eq, Ge, Where
from glow_dialects.fn.primitives.items import Least
from glow_dialects.fn.primitives.scalars import UFUNC, Mathematical, Predicate, Rounding, ScalarPrimitive
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V, is_mapped
from glow_dialects.ops import pointwise_operators
from glow_dialects.ops.arithmetic import PowOp
from glow_dialects.ops.elementwise import FloatBinaryOp, FloatUnaryOp, RoundingOp, UnaryOp, UnaryTestOp
from glow_dialects.ops.logic import AndOp, LogicOp, NotOp, OrOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.signs import HeavisideOp
from glow_dialects.ops.unary_math import AbsOp

if TYPE_CHECKING:
    pass

#: Functions of one operand for which LLVM has an intrinsic.
_INTRINSICS = ("copysign", "cos", "exp", "log", "sin", "sqrt")


def _family(graph: Any) -> type[ScalarPrimitive]:
    """What the primitive of an operator is."""
    if issubclass(graph, UnaryTestOp):
        return Predicate
    if issubclass(graph, RoundingOp):
        return WholeFloat
    real = issubclass(graph, FloatUnaryOp | FloatBinaryOp | HeavisideOp)
    return Mathematical if real else Counted if issubclass(graph, UnaryOp) else Arithmetic


def _made(graph: Any) -> type[ScalarPrimitive]:
    """The primitive that an operator is; the names of `math` are those of C's library."""
    name, family = graph.name.removeprefix("glow."), _family(graph)
    python = getattr(math, name, None) if family is Mathematical else None
    called = [*graph.functions(np, math), None if name == "log" else python]  # `math.log` has a base
    members = {
        "__doc__": f"{graph.__doc__}.",
        "__module__": __name__,
        "name": name,
        "arity": 1 if issubclass(graph, UnaryOp) else 2,
        "graph": graph,
        "code": "" if python is None else f"llvm.{name}.f64" if name in _INTRINSICS else name,
        "exact": python,
        "called": tuple(dict.fromkeys(f for f in called if f is not None)),
    }
    return type(graph.__name__.removesuffix("Op"), (family,), members)


def _functions() -> Iterable[type[ScalarPrimitive]]:
    """The element-wise operators that Python or NumPy has and that are no primitive yet."""
    written = {vars(card).get("graph") for card in (*ARITHMETIC, *COMPARE)}
    for graph in pointwise_operators():
        if graph not in (*written, PowOp) and not issubclass(graph, LogicOp | NotOp):
            made = _made(graph)
            if made.called:
                yield made


#: The primitives that are made of cards, by name.
FUNCTIONS = {card.name: card for card in _functions()}


class Fabs(Mathematical):
    """|a|, a float."""

    name, graph, exact = "fabs", AbsOp, math.fabs
    called = (math.fabs, np.fabs)


class Pow(Counted):
    """a ** b; the operator squares booleans, as NumPy does, by `np.square`."""

    name, arity, graph, exact, code = "pow", 2, PowOp, pow, "llvm.pow.f64"
    called = (pow, operator.pow, np.power)

    def python(self, op: FnOp) -> Function:
        power, square = super().python(op), FUNCTIONS["square"]().python(op)

        def run(*x: Any) -> Any:
            bools = isinstance(x[0], np.ndarray) and x[0].dtype == bool and UFUNC not in op.attributes
            if bools and type(x[1]) is int and x[1] == 2:
                return square(x[0])
            if _negative(x, UFUNC in op.attributes):
                raise raised("ValueError", "Integers to negative integer powers are not allowed.", op.source)
            return power(*x)

        return run

    def numbers(self, *x: Any) -> Any:
        try:
            return super().numbers(*x)
        except ArithmeticError:  # of 0 to a power below 0
            return math.inf

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        """Of ints, an int, but a float where the exponent is known to be negative."""
        kinds = [v.type for v in x]
        exponent = kinds[1].const if isinstance(kinds[1], Scalar) else None
        bools = isinstance(kinds[0], TensorType) and kinds[0].dtype == "bool" and UFUNC not in op.attributes
        if bools and kinds[1] == INT:
            raise NotNative(f"{where}: booleans to a power that the type of the result depends on")
        if bools and exponent == 2:
            return FUNCTIONS["square"]().infer(m, op, x[:1], where)
        ints = [k.kind for k in kinds if isinstance(k, Scalar) and k.kind != "float"]
        if len(ints) < 2 or self.as_arrays(op, ints):
            self._positive(m, x, where)
            return super().infer(m, op, x, where)
        if any(v.whole is not None for v in x):
            return m.scalar(self, x, where)
        work, result = ("float", FLOAT) if exponent is not None and exponent < 0 else ("int", INT)
        return V(result, m.t.scalar(self, work, [m.as_kind(v, work).code for v in x]))

    def _positive(self, m: Typing, x: list[V], where: str) -> None:
        """Leave the program where arrays of ints would be raised to a power below 0, which is an error."""
        if any(map(is_mapped, x)) or not all(map(_is_int, x)):
            return
        exponent = x[1]
        if isinstance(exponent.type, TensorType):
            if not exponent.type.dtype.startswith("int") or 0 in exponent.type.shape:
                return
            exponent = m.tensors(Least(), {}, [exponent], where)
        if isinstance(exponent.type, Scalar) and (exponent.type.const is None or exponent.type.const < 0):
            m.t.within(exponent.code, 0, 2**63 - 1)

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        # d(a^b) = b a^(b-1) da + a^b log(a) db; powers of small constants without powers below zero
        if i:
            still = x[0].prim(Eq, 0.0).prim(BitAnd, x[1].prim(Ge, 0.0))
            return still.prim(Where, d.of(0.0), d * y() * x[0].prim(FUNCTIONS["log"]))
        n = x[1].constant
        if n is None:
            slope = d * x[1] * x[0].prim(Pow, x[1] - 1)
            return x[1].prim(Eq, 0.0).prim(Where, d.of(0.0), slope)
        if n == 0:
            return None
        if isinstance(n, float):
            return d * x[0].prim(Pow, n - 1.0) * n
        return d if n == 1 else d * (x[0] if n == 2 else x[0].prim(Pow, n - 1)) * float(n)


def _is_int(v: V) -> bool:
    if isinstance(v.type, TensorType):
        return v.type.dtype.startswith(("int", "uint", "bool"))
    return isinstance(v.type, Scalar) and v.type.kind != "float"


def _negative(x: Sequence[Any], arrays: bool) -> bool:
    """Whether arrays of ints are raised to a power below 0."""
    if not arrays and not any(isinstance(v, np.ndarray) for v in x):
        return False
    base, exponent = map(np.asarray, x)
    if base.dtype.kind == "u" and type(x[1]) is int:
        return False  # no element of the array's type
    return base.dtype.kind in "biu" and exponent.dtype.kind == "i" and bool(np.any(exponent < 0))


MATHEMATICS = (*FUNCTIONS.values(), Fabs, Pow)

#: The primitive of each operator that formulas are made of.
OF_OPERATORS: dict[Any, type[Primitive]] = {
    **{
        vars(card)["graph"]: card
        for card in (*ARITHMETIC, *COMPARE, *MATHEMATICS)
        if "graph" in vars(card) and not issubclass(card, Rounding | Fabs)
    },
    AndOp: BitAnd,
    OrOp: BitOr,
    SelectOp: Where,
}
