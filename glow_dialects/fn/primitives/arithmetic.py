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

from glow_dialects.core.types import dtype_of, element_of, element_type, shape_of, tensor
from glow_dialects.fn.domain import NoneType, Scalar, TupleType
from glow_dialects.fn.primitive import Options, Result, Term, Typing
from glow_dialects.fn.primitives.scalars import UFUNC, Mathematical, Predicate, Rounding, ScalarPrimitive
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


class Arithmetic(ScalarPrimitive):
    """A function of two numbers of one kind, which gives that kind."""

    arity, fits = 2, True


class Counted(ScalarPrimitive):
    """A function of numbers to which booleans are ints of 8 bits."""

    fits = True

    def operands(self, u: Unit, x: Sequence[SSAValue]) -> list[SSAValue]:
        return [u.cast(v, i8) if element_of(v) == i1 else v for v in u.common(x, u.weak)]


class Add(Arithmetic):
    """a + b; of tuples, one after the other."""

    name, graph, exact = "add", AddOp, operator.add

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

    name, graph, exact, instead = "sub", SubOp, operator.sub, "^, or astype(int)"

    def with_zero(self, m: Typing, op: FnOp, x: list[V]) -> V:
        return x[0] if is_zero(x[1]) else Neg().infer(m, op, [x[1]], op.source)

    def other(self, op: FnOp, *x: Any) -> Any:
        if ZERO is x[0] or ZERO is x[1]:
            return x[0] if x[1] is ZERO else -x[1]
        return super().other(op, *x)


class Mul(Arithmetic):
    """a * b."""

    name, graph, exact, absorbing = "mul", MulOp, operator.mul, True


class Div(Mathematical):
    """a / b, a float."""

    name, arity, graph, exact, absorbing = "div", 2, DivOp, operator.truediv, True

    def operands(self, u: Unit, x: Sequence[SSAValue]) -> list[SSAValue]:
        kind = promoted([dtype_of(v.type) for v in x], u.weak)
        element = f64 if kind.kind in "biu" else element_type(kind)
        return [u.cast(v, element) for v in x]


class FloorDiv(Counted):
    """a // b; of ints, ZeroDivisionError where b is 0."""

    name, arity, graph, exact = "floor_div", 2, FloorDivOp, operator.floordiv


class Mod(Counted):
    """a % b, with the sign of b; of ints, ZeroDivisionError where b is 0."""

    name, arity, graph, exact = "mod", 2, ModOp, operator.mod


class Fmod(Counted, Mathematical):
    """The rest of a / b, with the sign of a; NumPy's of ints is one."""

    name, arity, graph, exact, code = "fmod", 2, FmodOp, math.fmod, "fmod"

    def as_arrays(self, op: FnOp, kinds: Sequence[str]) -> bool:
        return UFUNC in op.attributes and "float" not in kinds


class Pos(ScalarPrimitive):
    """+a: a, but of a bool an int."""

    name, exact, instead = "pos", operator.pos, "astype(int)"
    called = (operator.pos, np.positive)

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


class Neg(ScalarPrimitive):
    """-a."""

    name, graph, exact, absorbing, instead = "neg", NegOp, operator.neg, True, "~, or astype(int)"


class Abs(ScalarPrimitive):
    """|a|."""

    name, graph, exact = "abs", AbsOp, abs


class Sign(ScalarPrimitive):
    """-1, 0 or 1."""

    name, graph, instead = "sign", SignOp, "astype(int)"


class Floor(Rounding):
    """The largest int that is no larger."""

    name, graph, exact = "floor", FloorOp, math.floor
    called = (math.floor,)


class Ceil(Rounding):
    """The smallest int that is no smaller."""

    name, graph, exact = "ceil", CeilOp, math.ceil
    called = (math.ceil,)


class Round(Rounding):
    """The nearest int, ties to even."""

    name, graph, exact = "round", RoundOp, round
    called = ()


class WholeFloat(Mathematical):
    """A whole float from a float: infinities and NaN are themselves; ints too."""

    def numbers(self, *x: Any) -> Any:
        return x[0] if isinstance(x[0], int) else super().numbers(*x)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        whole = isinstance(x[0].type, Scalar) and x[0].type.kind != "float"
        return x[0] if whole else super().infer(m, op, x, where)

    def operands(self, u: Unit, x: Sequence[SSAValue]) -> list[SSAValue]:
        return list(x)


class FloorFloat(WholeFloat):
    """The largest whole float that is no larger."""

    name, graph = "floor_float", FloorOp


class CeilFloat(WholeFloat):
    """The smallest whole float that is no smaller."""

    name, graph = "ceil_float", CeilOp


class Rint(Mathematical):
    """The nearest whole float, ties to even, of ints too."""

    name, graph = "rint", RoundOp


class ToInt(Rounding):
    """A number as an int."""

    name, shown, exact = "to_int", "int", int
    called = (int, math.trunc)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.cast(x[0], i64)


class ToFloat(Mathematical):
    """A number as a float."""

    name, shown, exact = "to_float", "float", float

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.real(x[0])

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d


class ToBool(Predicate):
    """Whether a number is not 0."""

    name, shown, exact = "to_bool", "a condition", bool

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

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.op("cmp_ne", x[0], u.b.scalar(0, x[0]))


class Not(Predicate):
    """Whether a number is 0."""

    name, graph, exact = "not", NotOp, operator.not_
    called = ()

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        bools = tensor(shape_of(x[0]), i1)
        return u.b(NotOp(x[0] if element_of(x[0]) == i1 else u.op("cast", x[0], results=bools)))


ARITHMETIC = (
    Add, Sub, Mul, Div, FloorDiv, Mod, Fmod, Pos, Neg, Abs, Sign, Floor, Ceil, Round, FloorFloat, CeilFloat,
    Rint, ToInt, ToFloat, ToBool, Not,
)  # fmt: skip
