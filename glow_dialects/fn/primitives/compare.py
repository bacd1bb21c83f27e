"""Primitives: comparisons, bits, and selection by a condition."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, is_float
from glow_dialects.fn.domain import RANK, NoneType, Scalar, TensorType, Text, TupleType, Type, text
from glow_dialects.fn.primitive import Function, Options, Pointwise, Result, Term, Typing
from glow_dialects.fn.primitives.arithmetic import Arithmetic, Counted, Not
from glow_dialects.fn.primitives.scalars import Predicate, ScalarPrimitive
from glow_dialects.fn.regions import out_of_bounds
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.unit import limits
from glow_dialects.fn.values import V, parts
from glow_dialects.ops.arithmetic import MaxOp, MinOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp, CmpNeOp
from glow_dialects.ops.logic import (
    AndOp,
    BitwiseAndOp,
    BitwiseNotOp,
    BitwiseOrOp,
    BitwiseXorOp,
    NotOp,
    OrOp,
    ShiftLeftOp,
    ShiftRightOp,
    XorOp,
)

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


class Comparison(Predicate):
    """A comparison of two numbers."""

    arity = 2

    def kinds(self, kind: str, where: str) -> tuple[str, str]:
        return "int" if kind == "bool" else kind, "bool"

    def operands(self, u: Unit, x: Sequence[SSAValue]) -> list[SSAValue]:
        return u.exact(x)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        kinds = {v.type.kind for v in x if isinstance(v.type, Scalar)}
        if kinds == {"int", "float"} and len(x) == 2:
            for v in x:  # as a float, an int is compared exactly where it has no more than 53 bits
                ints = isinstance(v.type, Scalar) and v.type.kind == "int" and v.type.const is None
                if ints and v.whole is None:
                    m.t.exact(v.code)
        return super().infer(m, op, x, where)


class Equality(Comparison):
    """A comparison of numbers, texts, None and tuples."""

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if not any(isinstance(v.type, TupleType | Text | NoneType) for v in x):
            return super().infer(m, op, x, where)
        same = _same(m, x[0], x[1], where)
        return same if isinstance(self, Eq) else m.scalar(Not(), [same], where)

    def other(self, op: FnOp, *x: Any) -> Any:
        return (x[0] == x[1]) == isinstance(self, Eq)


def _same(m: Typing, a: V, b: V, where: str) -> V:
    """Whether two values are equal: tuples item by item."""
    if isinstance(a.type, TupleType) and isinstance(b.type, TupleType):
        equal = m.number(len(a.type.items) == len(b.type.items))
        for left, right in zip(parts(a), parts(b), strict=False):
            equal = m.scalar(BitAnd(), [equal, _same(m, left, right, where)], where)
        return equal
    if isinstance(a.type, Scalar) and isinstance(b.type, Scalar):
        return m.scalar(Eq(), [a, b], where)
    if isinstance(a.type, TensorType) or isinstance(b.type, TensorType):
        raise UnsupportedError(f"{where}: {text(a.type)} == {text(b.type)}; compare arrays alone")
    return m.number(a.type == b.type)


class Eq(Equality):
    """a == b."""

    name, graph, exact = "eq", CmpEqOp, operator.eq


class Ne(Equality):
    """a != b."""

    name, graph, exact = "ne", CmpNeOp, operator.ne


class Lt(Comparison):
    """a < b."""

    name, graph, exact = "lt", CmpLtOp, operator.lt


class Le(Comparison):
    """a <= b."""

    name, graph, exact = "le", CmpLeOp, operator.le


class Gt(Comparison):
    """a > b."""

    name, graph, exact = "gt", CmpGtOp, operator.gt


class Ge(Comparison):
    """a >= b."""

    name, graph, exact = "ge", CmpGeOp, operator.ge


class Bits(ScalarPrimitive):
    """A function of the bits of ints, or of booleans: `logic` is its graph operator for those."""

    arity, fits = 2, True
    logic: ClassVar[type[GraphOp] | None] = None

    def kinds(self, kind: str, where: str) -> tuple[str, str]:
        if kind == "float":
            raise UnsupportedError(f"{where}: {self.name} of a float; use ints")
        kind = kind if self.logic is not None and self.arity == 2 else "int"
        return kind, kind

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        same = self.operands(u, x)
        kind = element_of(same[0])
        if is_float(kind):
            raise VerifyException(f"{self.name} of arrays of floats; use comparisons or ints")
        graph = self.logic if kind == i1 and self.logic is not None else self.graph
        assert graph is not None
        return u.b(graph(*same))


class BitAnd(Bits):
    """a & b."""

    name, graph, logic, exact = "bitand", BitwiseAndOp, AndOp, operator.and_


class BitOr(Bits):
    """a | b."""

    name, graph, logic, exact = "bitor", BitwiseOrOp, OrOp, operator.or_


class BitXor(Bits):
    """a ^ b."""

    name, graph, logic, exact = "bitxor", BitwiseXorOp, XorOp, operator.xor


class Shift(Counted, Bits):
    """Bits moved: NumPy's of booleans are ints of 8 bits."""


class ShiftLeft(Shift):
    """a << b."""

    name, graph, exact = "shl", ShiftLeftOp, operator.lshift


class ShiftRight(Shift):
    """a >> b; by as many bits as there are or more, or by less than none, the sign is left."""

    name, graph, exact = "shr", ShiftRightOp, operator.rshift


class Invert(Bits):
    """Every bit flipped."""

    name, arity, graph, logic, exact = "invert", 1, BitwiseNotOp, NotOp, operator.invert


class Where(Pointwise):
    """numpy.where: one of two values by a condition, element by element."""

    name, arity, linear = "where", 3, (1, 2)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        if isinstance(x[0].type, Scalar) and not _promotes(x[1].type, x[2].type):
            yes, no = _of_one_kind(m, x[1:])
            return m.switch(m.truth(x[0], where), yes, no, where)
        return m.tensors(self, op.attributes, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.op("select", u.cast(x[0], i1), *u.common(x[1:], u.weak[1:]))

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        if i == 0:
            return None
        zero = d.of(0.0)
        return x[0].prim(Where, d, zero) if i == 1 else x[0].prim(Where, zero, d)


def _promotes(a: Type, b: Type) -> bool:
    """Whether one of two values is an array, and the other of another element type or shape."""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return (a.dtype, a.shape) != (b.dtype, b.shape)
    array, other = (a, b) if isinstance(a, TensorType) else (b, a)
    return isinstance(array, TensorType) and isinstance(other, Scalar)


def _of_one_kind(m: Typing, x: Sequence[V]) -> list[V]:
    """Numbers of the kind that NumPy gives all of them; other values as they are."""
    kinds = [v.type.kind for v in x if isinstance(v.type, Scalar)]
    if len(kinds) < len(x) or len(set(kinds)) == 1:
        return list(x)
    widest = max(kinds, key=lambda k: RANK[k])
    return [m.as_kind(v, widest) for v in x]


class Max(Arithmetic):
    """The larger of two numbers; NaN where one is."""

    name, graph = "max", MaxOp


class Min(Arithmetic):
    """The smaller of two numbers; NaN where one is."""

    name, graph = "min", MinOp


class Bounded(Arithmetic):
    """An array on one side of a bound, which may lie outside of what its type holds on the other."""

    fits = False

    def _range(self, dtype: str) -> tuple[int, int] | None:
        """The ints that may be a bound of an array of a type; None where all may."""
        held = limits([np.dtype(dtype), np.dtype(np.int64)], [False, True])
        if held is None or not dtype.startswith(("int", "uint")):
            return None
        return (-(2**63), held[1]) if self.graph is MaxOp else (held[0], 2**63 - 1)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        whole, bound = x[0].type, x[1].type
        if isinstance(whole, TensorType) and isinstance(bound, Scalar) and bound.kind == "int":
            range_ = None if x[1].whole is not None else self._range(whole.dtype)
            if range_ is not None and not (bound.const is not None and range_[0] <= bound.const <= range_[1]):
                m.t.within(x[1].code, *range_)
        return super().infer(m, op, x, where)

    def python(self, op: FnOp) -> Function:
        run = super().python(op)

        def checked(whole: Any, bound: Any) -> Any:
            if isinstance(whole, np.ndarray) and type(bound) is int:
                range_ = self._range(whole.dtype.name)
                if range_ is not None and not range_[0] <= bound <= range_[1]:
                    raise out_of_bounds(bound, whole.dtype.name, op.source)
            return run(whole, bound)

        return checked

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        # An element that equals its bound has the whole gradient.
        chosen = x[0].prim(Ge if self.graph is MaxOp else Le, x[1])
        return chosen.prim(Where, d.of(0.0), d) if i else chosen.prim(Where, d, 0.0)


class ClipLow(Bounded, Max):
    """The larger of an array and a bound, which may lie outside the range of the array's ints."""

    name, called = "clip_low", ()

    def operands(self, u: Unit, x: Sequence[SSAValue]) -> list[SSAValue]:
        return u.common([x[0], u.within(x[1], x)], u.weak)


class ClipHigh(Bounded, Min):
    """The smaller of an array and a bound, which may lie outside the range of the array's ints."""

    name, called = "clip_high", ()

    def operands(self, u: Unit, x: Sequence[SSAValue]) -> list[SSAValue]:
        return u.common([x[0], u.within(x[1], x)], u.weak)


class Chosen(Arithmetic):
    """The second of two numbers where it is better than the first, which `test` says, else the first."""

    test: ClassVar[type[Comparison]]

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        for v in x:
            if isinstance(v.type, TensorType) and v.type.shape:
                best = "np.maximum or np.max" if self.test is Gt else "np.minimum or np.min"
                raise UnsupportedError(f"{where}: {self.short} compares {text(v.type)}; use {best}")
        return super().infer(m, op, x, where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        a, b = self.operands(u, x)
        assert self.test.graph is not None
        return u.op("select", u.b(self.test.graph(b, a)), b, a)

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        better = x[1].prim(self.test, x[0])
        return better.prim(Where, d, 0.0) if i else better.prim(Where, d.of(0.0), d)


class PythonMax(Chosen):
    """Python's max: the first of those that no other is larger than."""

    name, shown, test, exact = "python_max", "max", Gt, max
    called = ()


class PythonMin(Chosen):
    """Python's min: the first of those that no other is smaller than."""

    name, shown, test, exact = "python_min", "min", Lt, min
    called = ()


COMPARE = (
    Eq, Ne, Lt, Le, Gt, Ge, BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight, Invert, Where, Max, ClipLow,
    ClipHigh, Min, PythonMax, PythonMin,
)  # fmt: skip
