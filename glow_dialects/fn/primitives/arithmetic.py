"""Primitives: sums, products, quotients, rounding, and numbers of other kinds."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import f64, i1, i8, i64
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.types import dtype_of, element_of, element_type, is_float, shape_of, tensor
from glow_dialects.fn.domain import NoneType, Scalar, TupleType
from glow_dialects.fn.primitive import Options, Pointwise, Result, Term, Typing
from glow_dialects.fn.primitives.scalars import (
    UFUNC,
    Mathematical,
    Predicate,
    Rounding,
    ScalarPrimitive,
    Unary,
)
from glow_dialects.fn.python_values import TUPLES, ZERO
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.unit import promoted
from glow_dialects.fn.values import V, is_zero, parts
from glow_dialects.ops.arithmetic import (
    AddOp,
    DivOp,
    FloorDivOp,
    FmodOp,
    ModOp,
    MulOp,
    SubOp,
)
from glow_dialects.ops.logic import NotOp
from glow_dialects.ops.unary_math import AbsOp, CeilOp, FloorOp, NegOp, RoundOp, SignOp

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


class Arithmetic(ScalarPrimitive, Pointwise):
    """A function of two numbers of one kind, which gives that kind."""

    arity, fits = 2, True


class Add(Arithmetic):
    """a + b; of tuples, one after the other."""

    name, graph = "add", AddOp
    called = (operator.add, np.add)

    def numbers(self, *x: Any) -> Any:
        return x[0] + x[1]

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if all(isinstance(v.type, TupleType) for v in x):
            return m.tuple([*parts(x[0]), *parts(x[1])])
        return super().infer(m, op, x, where)

    def with_zero(self, m: Typing, op: FnOp, x: list[V]) -> V:
        return x[1] if is_zero(x[0]) else x[0]

    def other(self, op: FnOp, *x: Any) -> Any:
        if ZERO is x[0] or ZERO is x[1]:
            return x[1] if x[0] is ZERO else x[0]
        return x[0] + x[1] if type(x[0]) in TUPLES else super().other(op, *x)


class Sub(Arithmetic):
    """a - b."""

    name, graph, instead = "sub", SubOp, "^, or astype(int)"
    called = (operator.sub, np.subtract)

    def numbers(self, *x: Any) -> Any:
        return x[0] - x[1]

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return -d if i else d

    def with_zero(self, m: Typing, op: FnOp, x: list[V]) -> V:
        return x[0] if is_zero(x[1]) else Neg().infer(m, op, [x[1]], op.source)

    def other(self, op: FnOp, *x: Any) -> Any:
        if ZERO is x[0] or ZERO is x[1]:
            return x[0] if x[1] is ZERO else -x[1]
        return super().other(op, *x)


class Mul(Arithmetic):
    """a * b."""

    name, graph, absorbing = "mul", MulOp, True
    called = (operator.mul, np.multiply)

    def numbers(self, *x: Any) -> Any:
        return x[0] * x[1]

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d * x[1 - i]


class Div(Arithmetic):
    """a / b, a float."""

    name, graph, absorbing, fits = "div", DivOp, True, False
    called = (operator.truediv, np.divide)

    def kinds(self, kind: str, where: str) -> tuple[str, str]:
        return "float", "float"

    def numbers(self, *x: Any) -> Any:
        a, b = x
        if b != 0:
            return a / b
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return -(d * y()) / x[1] if i else d / x[1]

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        kind = promoted([dtype_of(v.type) for v in x], u.weak)
        element = f64 if kind.kind in "biu" else element_type(kind)
        return u.b(DivOp(*(u.cast(v, element) for v in x)))


class FloorDiv(Rounding):
    """a // b; of ints, ZeroDivisionError where b is 0."""

    name, arity, graph, fits = "floor_div", 2, FloorDivOp, True
    called = (operator.floordiv, np.floor_divide)

    def kinds(self, kind: str, where: str) -> tuple[str, str]:
        return ScalarPrimitive.kinds(self, kind, where)

    def numbers(self, *x: Any) -> Any:
        ints = isinstance(x[0], int) and isinstance(x[1], int)
        return x[0] // x[1] if x[1] != 0 or ints else Div().numbers(*x)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.b(FloorDivOp(*counted(u, x)))


class Mod(Arithmetic):
    """a % b, with the sign of b; of ints, ZeroDivisionError where b is 0."""

    name, graph = "mod", ModOp
    called = (operator.mod, np.mod)

    def numbers(self, *x: Any) -> Any:
        ints = isinstance(x[0], int) and isinstance(x[1], int)
        return x[0] % x[1] if ints or (x[1] != 0 and math.isfinite(x[0])) else math.nan

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.b(ModOp(*counted(u, x)))

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return -(d * x[0].prim(FloorDiv, x[1])) if i else d


class Fmod(Mathematical):
    """The rest of a / b, with the sign of a; NumPy's of ints is one."""

    name, arity, graph, code, fits = "fmod", 2, FmodOp, "fmod", True
    called = (math.fmod, np.fmod)

    def as_arrays(self, op: FnOp, kinds: Sequence[str]) -> bool:
        return UFUNC in op.attributes and "float" not in kinds

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.b(FmodOp(*counted(u, x)))

    def numbers(self, *x: Any) -> Any:
        return math.fmod(*x) if x[1] != 0 and math.isfinite(x[0]) else math.nan

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return -(d * ((x[0] - y()) / x[1])) if i else d


def counted(u: Unit, x: Sequence[SSAValue]) -> list[SSAValue]:
    """Operands of one element type; booleans become ints of 8 bits."""
    return [u.cast(v, i8) if element_of(v) == i1 else v for v in u.common(x, u.weak)]


class Pos(ScalarPrimitive, Pointwise):
    """+a: a, but of a bool an int."""

    name, instead = "pos", "astype(int)"
    called = (operator.pos, np.positive)

    def numbers(self, *x: Any) -> Any:
        return +x[0]

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if isinstance(x[0].type, Scalar) and x[0].type.kind != "bool" or is_zero(x[0]):
            return x[0]
        return super().infer(m, op, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        if element_of(x[0]) == i1:
            raise VerifyException(f"{self.short} of booleans; use {self.instead}")
        return x[0]

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d


class Neg(ScalarPrimitive, Pointwise):
    """-a."""

    name, graph, absorbing, instead = "neg", NegOp, True, "~, or astype(int)"
    called = (operator.neg, np.negative)

    def numbers(self, *x: Any) -> Any:
        return -x[0]

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return -d


class Abs(ScalarPrimitive, Pointwise):
    """|a|."""

    name, graph = "abs", AbsOp
    called = (abs, np.abs)

    def numbers(self, *x: Any) -> Any:
        return abs(x[0])

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d * x[0].prim(Sign)


class Sign(Rounding):
    """-1, 0 or 1."""

    name, graph, instead = "sign", SignOp, "astype(int)"
    called = (np.sign,)

    def kinds(self, kind: str, where: str) -> tuple[str, str]:
        return ScalarPrimitive.kinds(self, kind, where)

    def numbers(self, *x: Any) -> Any:
        sign = (x[0] > 0) - (x[0] < 0)
        return sign if isinstance(x[0], int) else x[0] if x[0] != x[0] else float(sign)


class Floor(Rounding):
    """The largest int that is no larger."""

    name, graph = "floor", FloorOp
    called = (math.floor,)

    def numbers(self, *x: Any) -> Any:
        return math.floor(x[0])


class Ceil(Rounding):
    """The smallest int that is no smaller."""

    name, graph = "ceil", CeilOp
    called = (math.ceil,)

    def numbers(self, *x: Any) -> Any:
        return math.ceil(x[0])


class Round(Rounding):
    """The nearest int, ties to even."""

    name, graph = "round", RoundOp

    def numbers(self, *x: Any) -> Any:
        return round(x[0])


class WholeFloat(Unary):
    """A whole float from a float: infinities and NaN are themselves; ints too."""

    def numbers(self, *x: Any) -> Any:
        return x[0] if isinstance(x[0], int) else super().numbers(*x)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        whole = isinstance(x[0].type, Scalar) and x[0].type.kind != "float"
        return x[0] if whole else super().infer(m, op, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return super().build(u, options, attributes, x) if is_float(element_of(x[0])) else x[0]

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return None


class FloorFloat(WholeFloat):
    """The largest whole float that is no larger."""

    name, graph, code = "floor_float", FloorOp, "llvm.floor.f64"
    called = (np.floor,)


class CeilFloat(WholeFloat):
    """The smallest whole float that is no smaller."""

    name, graph, code = "ceil_float", CeilOp, "llvm.ceil.f64"
    called = (np.ceil,)


class Rint(Unary):
    """The nearest whole float, ties to even, of ints too."""

    name, graph, code = "rint", RoundOp, "llvm.roundeven.f64"
    called = (np.rint,)

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return None


class ToInt(Rounding):
    """A number as an int."""

    name, shown = "to_int", "int"
    called = (int, math.trunc)

    def numbers(self, *x: Any) -> Any:
        return int(x[0])

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.cast(x[0], i64)


class ToFloat(Mathematical):
    """A number as a float."""

    name, shown = "to_float", "float"
    called = (float,)

    def numbers(self, *x: Any) -> Any:
        return float(x[0])

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.real(x[0])

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d


class ToBool(Predicate):
    """Whether a number is not 0."""

    name, shown = "to_bool", "a condition"
    called = (bool,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        match x[0].type:
            case NoneType():
                return m.number(False)
            case TupleType(items):
                return m.number(bool(items))
            case _:
                return super().infer(m, op, x, where)

    def other(self, op: FnOp, *x: Any) -> Any:
        return bool(x[0]) if x[0] is None or isinstance(x[0], TUPLES) else super().other(op, *x)

    def numbers(self, *x: Any) -> Any:
        return bool(x[0])

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.op("cmp_ne", x[0], u.b.scalar(0, x[0]))


class Not(Predicate):
    """Whether a number is 0."""

    name, graph = "not", NotOp

    def numbers(self, *x: Any) -> Any:
        return not x[0]

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        bools = tensor(shape_of(x[0]), i1)
        return u.b(NotOp(x[0] if element_of(x[0]) == i1 else u.op("cast", x[0], results=bools)))


ARITHMETIC = (
    Add, Sub, Mul, Div, FloorDiv, Mod, Fmod, Pos, Neg, Abs, Sign, Floor, Ceil, Round, FloorFloat, CeilFloat,
    Rint, ToInt, ToFloat, ToBool, Not,
)  # fmt: skip
