"""Primitives of `glow.vjp` and `glow.jacobian`: inner products, unit vectors and the shapes of Jacobians."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr

from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.fn.domain import (
    FLOAT,
    FnType,
    NamedType,
    NoneType,
    Scalar,
    TensorType,
    TupleType,
    Type,
    text,
)
from glow_dialects.fn.domain import ZERO as NOTHING
from glow_dialects.fn.primitive import (
    Constant,
    Function,
    Primitive,
    Result,
    Term,
    Terms,
    Typing,
    number,
    total,
)
from glow_dialects.fn.primitives.arithmetic import Add, Mul
from glow_dialects.fn.primitives.cotangents import Fill, filled
from glow_dialects.fn.primitives.operators import Operator
from glow_dialects.fn.primitives.shapes import Astype, Reshape
from glow_dialects.fn.python_values import ZERO, Closure
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.values import V, components, is_zero, parts


def is_real(kind: Type) -> bool:
    """Whether a number or array is of floats."""
    if isinstance(kind, Scalar):
        return kind.kind == "float"
    return isinstance(kind, TensorType) and "float" in kind.dtype


def shape_of(kind: Type) -> tuple[int, ...]:
    """The shape of an array; of a number none."""
    return kind.shape if isinstance(kind, TensorType) else ()


def _leaves(v: V) -> list[V]:
    return [leaf for item in parts(v) for leaf in _leaves(item)] if isinstance(v.type, TupleType) else [v]


def _mul(m: Typing, a: V, b: V, where: str) -> V:
    scalars = isinstance(a.type, Scalar) and isinstance(b.type, Scalar)
    return m.scalar(Mul(), [a, b], where) if scalars else m.tensors(Mul(), {}, [a, b], where)


class Inner(Primitive):
    """The sum of the products of all floats of a value and a cotangent of it."""

    name, arity, linear = "inner", 2, (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        have, want = _leaves(x[1]), _leaves(x[0])
        fits = len(have) == len(want) and all(
            is_zero(d) or not is_real(y.type) or shape_of(y.type) == shape_of(d.type)
            for y, d in zip(want, have, strict=True)
        )
        if not fits:
            raise self._differs(where, text(x[1].type), text(x[0].type))
        total = m.number(0.0)
        for y, d in zip(want, have, strict=True):
            if is_zero(d) or not is_real(y.type):
                continue
            product = _mul(m, y, d, where)
            if shape_of(product.type):
                options = {"axes": to_attribute(tuple(range(len(shape_of(y.type)))))}
                options["keepdims"] = to_attribute(False)
                product = m.tensors(Operator("reduce_sum"), options, [product], where)
            if isinstance(product.type, TensorType):
                product = m.tensors(Astype(), {"dtype": StringAttr("float64")}, [product], where)
            total = m.scalar(Add(), [total, product], where)
        return total

    def _differs(self, where: str, have: str, want: str) -> UnsupportedError:
        return UnsupportedError(
            f"{where}: vjp: the cotangent is {have}, the value {want}; give one of the same type and shape"
        )

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        value, cotangent = d
        first = None if value is None else value.prim(Inner, x[1])
        return total([first, None if cotangent is None else x[0].prim(Inner, cotangent)])

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        return [x[1].prim(Scaled, d, x[0]), x[0].prim(Scaled, d, x[1])]


class Scaled(Primitive):
    """The floats of the first value times a number, as the cotangent of the third; linear in both."""

    name, arity, linear, types_only = "scaled", 3, (0,), (2,)

    def vanishes(self, zeros: Sequence[bool]) -> bool:
        return zeros[0] or zeros[1]

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return self._scaled(m, x[0], x[1], x[2].type, where)

    def _scaled(self, m: Typing, v: V, by: V, like: Type, where: str) -> V:
        if is_zero(v):
            return v
        if isinstance(like, TupleType):
            pairs = zip(parts(v), like.items, strict=True)
            return m.tuple([self._scaled(m, a, by, t, where) for a, t in pairs], like)
        if not is_real(like) or not is_real(v.type):
            return V(NOTHING)
        product = _mul(m, v, by, where)
        dtype = like.dtype if isinstance(like, TensorType) else "float64"
        have = product.type.dtype if isinstance(product.type, TensorType) else "float64"
        if dtype == have:
            return product
        return m.tensors(Astype(), {"dtype": StringAttr(dtype)}, [product], where)

    def jvp(self, op: FnOp, x: Sequence[Term], d: Terms, y: Term) -> Term | None:
        first = None if d[0] is None else d[0].prim(Scaled, x[1], x[2])
        return total([first, None if d[1] is None else x[0].prim(Scaled, d[1], x[2])])

    def vjp(self, op: FnOp, d: Term, x: Sequence[Term], y: Result) -> Terms:
        return [d.prim(Scaled, x[1], x[0]), x[0].prim(Inner, d), None]


# --- Jacobians ----------------------------------------------------------------------------------------------
def _one(kind: Type, what: str, where: str) -> Type:
    """A number or array of floats that derivatives are taken of, or by."""
    if not is_real(kind):
        raise UnsupportedError(
            f"{where}: jacobian: {what} is {text(kind)}; it must be a float or an array of floats"
        )
    return kind


class Basis(Constant):
    """The unit vectors in the shape of a value, one after another along a first axis."""

    name, types_only = "basis", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        kind = _one(x[0].type, "what it is by, or of,", where)
        shape = shape_of(kind)
        dtype = kind.dtype if isinstance(kind, TensorType) else "float64"
        size = math.prod(shape)
        eye = V(TensorType((size, size), "float64"), m.t.array(np.eye(size)))
        rows = m.tensors(Reshape(), {"shape": to_attribute((size, *shape))}, [eye], where)
        return (
            rows if dtype == "float64" else m.tensors(Astype(), {"dtype": StringAttr(dtype)}, [rows], where)
        )


class IsWide(Constant):
    """Whether a value has no fewer numbers than what it is differentiated by: forward mode is less work."""

    name, arity, types_only = "is_wide", 2, (0, 1)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        by = _one(x[1].type, "the argument that it is by", where)
        values = _leaves(x[0])
        for v in values:
            _one(v.type, "what the function returns", where)
        return m.number(len(values) != 1 or _size(values[0].type) >= _size(by))


def _size(kind: Type) -> int:
    return math.prod(shape_of(kind))


class _Shaped(Primitive):
    """Arrays of which one axis of unit vectors gets the shape of the second operand."""

    arity, linear, types_only = 2, (0,), (1,)
    first = True

    def shape(self, have: tuple[int, ...], like: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result."""
        return (*like, *have[1:]) if self.first else (*have[:-1], *like)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return self._each(m, x[0], lambda have: self.shape(have, shape_of(x[1].type)), where)

    def _each(self, m: Typing, v: V, shape: Callable[[tuple[int, ...]], tuple[int, ...]], where: str) -> V:
        if is_zero(v):
            return v
        if isinstance(v.type, TupleType):
            return m.tuple([self._each(m, item, shape, where) for item in parts(v)], v.type)
        return m.tensors(Reshape(), {"shape": to_attribute(shape(shape_of(v.type)))}, [v], where)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(FlatFirst if self.first else FlatLast, x[1])


class ShapedFirst(_Shaped):
    """Rows of a Jacobian."""

    name = "shaped_first"


class ShapedLast(_Shaped):
    """Columns of a Jacobian."""

    name, first = "shaped_last", False


class FlatFirst(_Shaped):
    """A Jacobian as rows."""

    name = "flat_first"

    def shape(self, have: tuple[int, ...], like: tuple[int, ...]) -> tuple[int, ...]:
        return (math.prod(like), *have[len(like) :])

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(ShapedFirst, x[1])


class FlatLast(_Shaped):
    """A Jacobian as columns."""

    name, first = "flat_last", False

    def shape(self, have: tuple[int, ...], like: tuple[int, ...]) -> tuple[int, ...]:
        return (*have[: len(have) - len(like)], math.prod(like))

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(ShapedLast, x[1])


class Instantiated(Fill):
    """A tangent without symbolic zeros, for the value that it belongs to."""

    name = "instantiated"

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return filled(m, x[0], _with_floats(x[1].type))


def _with_floats(kind: Type) -> Type:
    """The type of tangents: numbers are floats."""
    if isinstance(kind, TupleType):
        return kind.of(tuple(map(_with_floats, kind.items)))
    return FLOAT if isinstance(kind, Scalar) else kind


class CheckTangent(Primitive):
    """A tangent that is given for a value: of its shape, in its type; None is nothing."""

    name, arity, linear, types_only = "check_tangent", 2, (0,), (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return self._checked(m, x[0], x[1].type, where)

    def _checked(self, m: Typing, d: V, kind: Type, where: str) -> V:
        if is_zero(d) or isinstance(d.type, NoneType):
            return V(NOTHING)
        if isinstance(kind, TupleType) and isinstance(d.type, TupleType):
            if len(kind.items) == len(d.type.items):
                pairs = zip(parts(d), kind.items, strict=True)
                return m.tuple([self._checked(m, a, t, where) for a, t in pairs], kind)
        elif isinstance(kind, Scalar | TensorType) and not is_real(kind):
            return V(NOTHING)
        elif isinstance(d.type, Scalar | TensorType) and shape_of(kind) == shape_of(d.type):
            if isinstance(kind, Scalar) and isinstance(d.type, Scalar):
                return m.as_kind(d, "float")
            dtype = kind.dtype if isinstance(kind, TensorType) else "float64"
            have = d.type.dtype if isinstance(d.type, TensorType) else ""
            return d if dtype == have else m.tensors(Astype(), {"dtype": StringAttr(dtype)}, [d], where)
        raise UnsupportedError(
            f"{where}: jvp: the tangent of {text(kind)} is {text(d.type)}; "
            "give one of the same type and shape"
        )

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d


class PrimalsOf(Primitive):
    """The cotangent of a function, the second operand, from that of its form in forward mode.

    That form has captured a tangent after each value: `size` cotangents of values, then as many of tangents.
    """

    name, arity, linear, types_only = "primals_of", 2, (0,), (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return self._primals(m, x[0], m.sets.resolve(x[1].type), number(op, "size"))

    def _primals(self, m: Typing, d: V, function: Type, size: int) -> V:
        if is_zero(d) or not isinstance(function, FnType | NamedType):
            return d
        members = {plain_name(n): captured for n, captured in m.sets.members(function)}
        entries: dict[str, V] = {}
        for name, entry in components(d).items():
            captured = members.get(plain_name(name), next(iter(members.values())))
            kept = primals(parts(entry), size)
            kinds = [m.sets.resolve(t) for t in captured[len(captured) - len(kept) :]]
            items = [self._primals(m, v, t, size) for v, t in zip(kept, kinds, strict=True)]
            entries[name.removesuffix(".jvp")] = m.tuple(items)
        return m.env(entries)

    def python(self, op: FnOp) -> Function:
        size = number(op, "size")

        def run(d: Any, function: Any) -> Any:
            if d is ZERO or not isinstance(function, Closure):
                return d
            kept = primals(list(d), size)
            captured = function.captured[len(function.captured) - len(kept) :]
            return tuple(run(v, c) for v, c in zip(kept, captured, strict=True))

        return run

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        # The gradient of a gradient is its tangent: no program asks for this.
        raise UnsupportedError(f"{op.source}: no gradient for {self.short}; use glow.stop_gradient")


def primals(items: Sequence[Any], size: int) -> list[Any]:
    """Of items in groups, `size` of values, then as many of tangents, those of values; the front may miss."""
    missing = -len(items) % (2 * size)
    return [v for i, v in enumerate(items) if (i + missing) % (2 * size) < size]


def plain_name(name: str) -> str:
    """The function that another one is derived from."""
    return re.split(r"\.(?:fwd|bwd|jvp)(?:\.|$)", name)[0]


LINEAR = (
    PrimalsOf,
    CheckTangent,
    Inner,
    Scaled,
    Basis,
    IsWide,
    ShapedFirst,
    ShapedLast,
    FlatFirst,
    FlatLast,
    Instantiated,
)
