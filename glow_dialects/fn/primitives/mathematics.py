"""Primitives: mathematical functions. Meaning and derivative are those of the graph operator of the name."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import Block, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import raised
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import dtype_of, tensor
from glow_dialects.fn.domain import FLOAT, INT, NotNative, Scalar, TensorType
from glow_dialects.fn.primitive import Function, Options, Pointwise, Primitive, Result, Term, Typing
from glow_dialects.fn.primitives.arithmetic import Abs, Add, Arithmetic, Div, Mul, Neg, Sign, Sub, counted
from glow_dialects.fn.primitives.items import Least
from glow_dialects.fn.primitives.scalars import UFUNC, Mathematical, ScalarPrimitive, Unary
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V, is_mapped
from glow_dialects.ops.activation import TanhOp
from glow_dialects.ops.arithmetic import PowOp
from glow_dialects.ops.splat import SplatOp
from glow_dialects.ops.unary_math import (
    AbsOp,
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    AtanhOp,
    AtanOp,
    CoshOp,
    CosOp,
    ErfOp,
    Expm1Op,
    ExpOp,
    Log1pOp,
    LogOp,
    SinhOp,
    SinOp,
    SqrtOp,
    TanOp,
)

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


class Differentiable(Unary):
    """A function whose derivative is read off the gradient of its graph operator."""

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        assert self.graph is not None, self.name
        return _gradient(self.graph)(d, x[0], y)


@cache
def _gradient(graph: Any) -> Callable[[Term, Term, Result], Term]:
    """The gradient of a unary graph operator as a formula of terms."""
    number = tensor((), f64)
    block = Block(arg_types=[number, number])
    x, d = block.args
    b = Builder.at_end(block)
    y = b(graph(x))
    (derivative,) = graph.gradient(y.owner, [d], b)

    def formula(change: Term, at: Term, result: Result) -> Term:
        known: dict[SSAValue, Term] = {d: change}

        def term(value: SSAValue) -> Term:
            if value is x or value is y:
                return at if value is x else result()
            if value not in known:
                known[value] = _as_term(value, term, change)
            return known[value]

        return term(derivative)

    return formula


def _as_term(value: SSAValue, term: Callable[[SSAValue], Term], like: Term) -> Term:
    """A value of a gradient as a term: a number, or the primitive of an operator."""
    op = value.owner
    assert isinstance(op, GraphOp), value
    if isinstance(op, SplatOp):
        return like.of(op.value)
    first, *rest = (term(v) for v in op.operands)
    return first.prim(_PRIMITIVES[type(op)], *rest)


class Exp(Differentiable):
    """e ** x."""

    name, graph, code = "exp", ExpOp, "llvm.exp.f64"
    called = (math.exp, np.exp)


class Expm1(Differentiable):
    """e ** x - 1."""

    name, graph, code = "expm1", Expm1Op, "expm1"
    called = (math.expm1, np.expm1)


class Log(Differentiable):
    """The natural logarithm."""

    name, graph, code = "log", LogOp, "llvm.log.f64"
    called = (np.log,)


class Log1p(Differentiable):
    """log(1 + x)."""

    name, graph, code = "log1p", Log1pOp, "log1p"
    called = (math.log1p, np.log1p)


class Sqrt(Differentiable):
    """The square root."""

    name, graph, code = "sqrt", SqrtOp, "llvm.sqrt.f64"
    called = (math.sqrt, np.sqrt)


class Sin(Differentiable):
    """The sine."""

    name, graph, code = "sin", SinOp, "llvm.sin.f64"
    called = (math.sin, np.sin)


class Cos(Differentiable):
    """The cosine."""

    name, graph, code = "cos", CosOp, "llvm.cos.f64"
    called = (math.cos, np.cos)


class Tan(Differentiable):
    """The tangent."""

    name, graph, code = "tan", TanOp, "tan"
    called = (math.tan, np.tan)


class Asin(Differentiable):
    """The inverse sine."""

    name, graph, code = "asin", AsinOp, "asin"
    called = (math.asin, np.arcsin)


class Acos(Differentiable):
    """The inverse cosine."""

    name, graph, code = "acos", AcosOp, "acos"
    called = (math.acos, np.arccos)


class Atan(Differentiable):
    """The inverse tangent."""

    name, graph, code = "atan", AtanOp, "atan"
    called = (math.atan, np.arctan)


class Sinh(Differentiable):
    """The hyperbolic sine."""

    name, graph, code = "sinh", SinhOp, "sinh"
    called = (math.sinh, np.sinh)


class Cosh(Differentiable):
    """The hyperbolic cosine."""

    name, graph, code = "cosh", CoshOp, "cosh"
    called = (math.cosh, np.cosh)


class Tanh(Differentiable):
    """The hyperbolic tangent."""

    name, graph, code = "tanh", TanhOp, "tanh"
    called = (math.tanh, np.tanh)


class Asinh(Differentiable):
    """The inverse hyperbolic sine."""

    name, graph, code = "asinh", AsinhOp, "asinh"
    called = (math.asinh, np.arcsinh)


class Acosh(Differentiable):
    """The inverse hyperbolic cosine."""

    name, graph, code = "acosh", AcoshOp, "acosh"
    called = (math.acosh, np.arccosh)


class Atanh(Differentiable):
    """The inverse hyperbolic tangent."""

    name, graph, code = "atanh", AtanhOp, "atanh"
    called = (math.atanh, np.arctanh)


class Erf(Differentiable):
    """The error function."""

    name, graph, code = "erf", ErfOp, "erf"
    called = (math.erf,)


class Logarithm(Mathematical):
    """The logarithm to a `base`; whole where x is a whole power of it."""

    base: ClassVar[float]

    def numbers(self, *x: Any) -> Any:
        if x[0] > 0:
            return self.called[0](x[0])
        return -math.inf if x[0] == 0 else math.nan

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d / (x[0] * math.log(self.base))

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        (a,) = u.reals(x)
        y = u.op("mul", u.op("log", a), u.b.scalar(1 / math.log(self.base), a))
        # What is rounded twice lies up to two units in the last place beside a whole number.
        whole = u.op("round", y)
        near = u.op("mul", u.op("abs", whole), u.b.scalar(2 * float(np.finfo(dtype_of(a.type)).eps), a))
        same = u.op("cmp_le", u.op("abs", u.op("sub", y, whole)), near)
        return u.op("select", same, whole, y)


class Log2(Logarithm):
    """The logarithm to base 2."""

    name, code, base = "log2", "log2", 2.0
    called = (math.log2, np.log2)


class Log10(Logarithm):
    """The logarithm to base 10."""

    name, code, base = "log10", "log10", 10.0
    called = (math.log10, np.log10)


class Cbrt(Mathematical):
    """The cubic root, of negative numbers too."""

    name, code = "cbrt", "cbrt"
    called = (math.cbrt, np.cbrt)

    def numbers(self, *x: Any) -> Any:
        return math.cbrt(x[0])

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d / (y() * y() * 3.0)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        (a,) = u.reals(x)
        size = u.op("abs", a)
        y = u.op("pow", size, u.b.scalar(1 / 3, a))
        # One of Newton's steps: roots of cubes are whole. It has no value at 0 and infinity.
        square = u.op("mul", y, y)
        ends = u.op("or", u.op("cmp_eq", square, u.b.scalar(0, a)), u.op("is_inf", square))
        third = u.op("div", size, u.op("select", ends, u.b.scalar(1, a), square))
        step = u.op("mul", u.op("sub", y, third), u.b.scalar(1 / 3, a))
        root = u.op("select", ends, y, u.op("sub", y, step))
        return u.op("select", u.negative(a), u.op("neg", root), root)


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


class Atan2(Mathematical):
    """The angle of the point (b, a)."""

    name, arity, code = "atan2", 2, "atan2"
    called = (math.atan2, np.arctan2)

    def numbers(self, *x: Any) -> Any:
        return math.atan2(*x)

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        a, b = x[0], x[1]
        return (-(d * a) if i else d * b) / (a * a + b * b)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        a, b = u.reals(x)
        high, wide = u.op("abs", a), u.op("abs", b)
        whole = u.op("sign", high)  # the quotient of equal ones: 0 of zeros, 1 of infinities
        angle = u.op("atan", u.op("select", u.op("cmp_eq", high, wide), whole, u.op("div", high, wide)))
        angle = u.op("select", u.negative(b), u.op("sub", u.b.scalar(np.pi, a), angle), angle)
        return u.op("select", u.negative(a), u.op("neg", angle), angle)


class Hypot(Mathematical):
    """The length of the vector (a, b)."""

    name, arity, code = "hypot", 2, "hypot"
    called = (math.hypot, np.hypot)

    def numbers(self, *x: Any) -> Any:
        return math.hypot(*x)

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d * x[i] / y()

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        a, b = (u.op("abs", v) for v in u.reals(x))
        long = u.op("max", a, b)
        one, zero = u.b.scalar(1, long), u.op("cmp_eq", long, u.b.scalar(0, long))
        part = u.op("div", u.op("min", a, b), u.op("select", zero, one, long))  # whose square is no infinity
        length = u.op("mul", long, u.op("sqrt", u.op("add", u.op("mul", part, part), one)))
        infinite = u.op("or", u.op("is_inf", a), u.op("is_inf", b))
        return u.op("select", infinite, u.b.scalar(math.inf, long), length)


class Copysign(Mathematical):
    """|a| with the sign of b."""

    name, arity, code = "copysign", 2, "llvm.copysign.f64"
    called = (math.copysign, np.copysign)

    def numbers(self, *x: Any) -> Any:
        return math.copysign(*x)

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d * 0.0 if i else d * x[0].prim(Sign) * x[1].prim(Sign)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        size, sign = u.reals(x)
        size = u.op("abs", size)
        return u.op("select", u.negative(sign), u.op("neg", size), size)


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
            raise NotNative(f"{where}: booleans to a power on which the type of the result depends")
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


MATHEMATICS = (
    Exp, Expm1, Log, Log1p, Sqrt, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh, Atanh,
    Log2, Log10, Cbrt, Erf, SafeLog, Fabs, Atan2, Hypot, Copysign, Square, Pow,
)  # fmt: skip

#: The primitive of each operator that gradients are made of.
_PRIMITIVES: dict[Any, type[Primitive]] = {
    card.graph: card for card in (Add, Sub, Mul, Div, Neg, Abs, Sign, *MATHEMATICS) if card.graph is not None
}
