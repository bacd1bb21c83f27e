"""Primitives: mathematical functions, made from the graph operators where those exist."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import Block, SSAValue

from glow_dialects.core.builder import Builder, decomposed
from glow_dialects.core.errors import raised
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import tensor
from glow_dialects.fn.domain import FLOAT, INT, NotNative, Scalar, TensorType
from glow_dialects.fn.primitive import Function, Options, Pointwise, Primitive, Result, Term, Typing
from glow_dialects.fn.primitives.arithmetic import (
    ARITHMETIC,
    Abs,
    Arithmetic,
    Mul,
    Neg,
    Not,
    Sign,
    counted,
)
from glow_dialects.fn.primitives.compare import COMPARE, BitAnd, BitOr, Comparison, Where
from glow_dialects.fn.primitives.items import Least
from glow_dialects.fn.primitives.scalars import UFUNC, Mathematical, ScalarPrimitive, Unary
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V, is_mapped
from glow_dialects.ops import pointwise_operators
from glow_dialects.ops.arithmetic import PowOp
from glow_dialects.ops.elementwise import FloatBinaryOp, FloatUnaryOp, UnaryOp
from glow_dialects.ops.identity import IdentityOp
from glow_dialects.ops.logic import AndOp, NotOp, OrOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.signs import HeavisideOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.ops.unary_math import AbsOp

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


class Differentiable(Unary):
    """A function that a graph operator is: meaning, derivative and code are those of its card."""

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        assert self.graph is not None, self.name
        formula = _gradients(self.graph)[i]
        return None if formula is None else formula(d, x, y)

    @classmethod
    def formula(cls) -> Block:
        """The function of floats by operators that are primitives; the last one gives its value."""
        assert cls.graph is not None and not cls.code, cls.name
        return _formula(cls.graph)


@cache
def _gradients(graph: Any) -> list[Callable[[Term, Sequence[Term], Result], Term] | None]:
    """The gradients of a graph operator by each operand, as formulas of terms."""
    block, y = _applied(graph)
    d = block.insert_arg(tensor((), f64), 0)
    b = Builder.at_end(block)
    derivatives = graph.gradient(y.owner, [d], b)
    known = [None if v is None else b.insert(IdentityOp(v)).result for v in derivatives]
    _expand(block, keep=(y.owner,))

    def formula(change: Term, at: Sequence[Term], result: Result, derivative: SSAValue) -> Term:
        known: dict[SSAValue, Term] = dict(zip(block.args, [change, *at], strict=True))

        def term(value: SSAValue) -> Term:
            if value is y:
                return result()
            if value not in known:
                known[value] = _as_term(value, term, change)
            return known[value]

        return term(derivative)

    def of(end: SSAValue) -> Callable[[Term, Sequence[Term], Result], Term]:
        value = end.owner.operands[0]  # pyright: ignore[reportAttributeAccessIssue]
        return lambda d, x, y: formula(d, x, y, value)

    return [None if v is None else of(v) for v in known]


@cache
def _formula(graph: Any) -> Block:
    block, _ = _applied(graph)
    _expand(block)
    return block


def _applied(graph: Any) -> tuple[Block, SSAValue]:
    """A block with one operator on its arguments, floats."""
    count = 1 if issubclass(graph, UnaryOp) else 2
    block = Block(arg_types=[tensor((), f64)] * count)
    return block, Builder.at_end(block)(graph(*block.args))


def _expand(block: Block, keep: Sequence[Any] = ()) -> None:
    """Decompose operators until all that are left are primitives."""
    queue = [op for op in block.ops if op not in keep]
    while queue:
        op = queue.pop()
        if type(op) in (SplatOp, IdentityOp) or type(op) in OF_OPERATORS and op is not block.first_op:
            continue
        assert isinstance(op, GraphOp)
        expansion = decomposed(op)
        assert expansion is not None or type(op) in OF_OPERATORS, op.name
        queue += expansion[1] if expansion is not None else []


def _as_term(value: SSAValue, term: Callable[[SSAValue], Term], like: Term) -> Term:
    """A value of a gradient as a term: a number, or the primitive of an operator."""
    op = value.owner
    assert isinstance(op, GraphOp), value
    if isinstance(op, SplatOp):
        return like.of(op.value)
    first, *rest = (term(v) for v in op.operands)
    return first.prim(OF_OPERATORS[type(op)], *rest)


#: Functions of one operand for which LLVM has an intrinsic.
_INTRINSICS = ("copysign", "cos", "exp", "log", "sin", "sqrt")


def _made(graph: Any) -> type[Differentiable]:
    """The primitive that an operator is; the names of `math` are those of C's library."""
    name = graph.name.removeprefix("glow.")
    python = getattr(math, name, None)
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
    return type(graph.__name__.removesuffix("Op"), (Differentiable,), members)


def _functions() -> Iterable[type[Differentiable]]:
    """Of the operators on floats those that Python or NumPy has."""
    for graph in pointwise_operators():
        if issubclass(graph, FloatUnaryOp | FloatBinaryOp | HeavisideOp):
            made = _made(graph)
            if made.called:
                yield made


#: The primitives that are made of cards, by name.
FUNCTIONS = {card.name: card for card in _functions()}


class SafeLog(Unary):
    """The natural logarithm of positive numbers, 0 of others."""

    name = "safe_log"

    def numbers(self, *x: Any) -> Any:
        return math.log(x[0]) if x[0] > 0 else 0.0

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        zero = u.b.scalar(0, x[0])
        return u.op("select", u.op("cmp_gt", x[0], zero), u.op("log", x[0]), zero)

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d / x[0]


class Fabs(Mathematical):
    """|a|, a float."""

    name, code = "fabs", "llvm.fabs.f64"
    called = (math.fabs, np.fabs)

    def numbers(self, *x: Any) -> Any:
        return math.fabs(x[0])

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d * x[0].prim(Sign)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.b(AbsOp(*u.reals(x)))


class Square(ScalarPrimitive, Pointwise):
    """a * a; of booleans ints of 8 bits."""

    name = "square"
    called = (np.square,)

    def numbers(self, *x: Any) -> Any:
        return x[0] * x[0]

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        number = isinstance(x[0].type, Scalar) and not self.as_arrays(op, [x[0].type.kind])
        return m.scalar(Mul(), [x[0], x[0]], where) if number else super().infer(m, op, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        (whole,) = counted(u, x)
        return u.op("mul", whole, whole)

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d * x[0] * 2.0


class Pow(Arithmetic):
    """a ** b; the operator squares booleans, as NumPy does, by `Square`."""

    name, graph = "pow", PowOp
    called = (pow, operator.pow, np.power)

    def python(self, op: FnOp) -> Function:
        power, square = super().python(op), Square().python(op)

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
            power = x[0] ** x[1]
        except (ZeroDivisionError, OverflowError):
            return math.inf
        return math.nan if isinstance(power, complex) else power

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.b(PowOp(*counted(u, x)))

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        """Of ints, an int, but a float where the exponent is known to be negative."""
        kinds = [v.type for v in x]
        exponent = kinds[1].const if isinstance(kinds[1], Scalar) else None
        bools = isinstance(kinds[0], TensorType) and kinds[0].dtype == "bool" and UFUNC not in op.attributes
        if bools and kinds[1] == INT:
            raise NotNative(f"{where}: booleans to a power that the type of the result depends on")
        if bools and exponent == 2:
            return Square().infer(m, op, x[:1], where)
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
            return d * y() * x[0].prim(SafeLog)
        n = x[1].constant
        if isinstance(n, float):
            return d * x[0].prim(Pow, n - 1.0) * n
        if n is None:
            return d * x[1] * x[0].prim(Pow, x[1] - 1)
        if n == 0:
            return None
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


MATHEMATICS = (*FUNCTIONS.values(), SafeLog, Fabs, Square, Pow)

#: The primitive of each operator that formulas are made of.
OF_OPERATORS: dict[Any, type[Primitive]] = {
    **{
        card.graph: card
        for card in (*ARITHMETIC, *COMPARE, *MATHEMATICS)
        if issubclass(card, Arithmetic | Comparison | Differentiable | Pow) or card in (Neg, Abs, Sign)
        if card.graph is not None and not (issubclass(card, Differentiable) and not card.code)
    },
    AndOp: BitAnd,
    OrOp: BitOr,
    NotOp: Not,
    SelectOp: Where,
}
