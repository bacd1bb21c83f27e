"""Primitives: shapes and element types of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import UnknownNumberError, UnsupportedError
from glow_dialects.core.extent import Extent, size
from glow_dialects.core.types import element_of, element_type, shape_of
from glow_dialects.fn.domain import Scalar, TensorType, Text, TupleType
from glow_dialects.fn.domain import text as text_of
from glow_dialects.fn.primitive import Constant, Function, Options, Pointwise, Primitive, Result, Term, Typing
from glow_dialects.fn.primitives.cotangents import ReshapeLike
from glow_dialects.fn.primitives.fitted import fitted, fitting
from glow_dialects.fn.regions import out_of_bounds, shape_attribute
from glow_dialects.fn.syntax import FnOp
from glow_dialects.fn.unit import limits
from glow_dialects.fn.values import V, parts

if TYPE_CHECKING:
    from glow_dialects.fn.unit import Unit


class Shape(Constant):
    """The shape of an array, a tuple of ints; numbers have none."""

    name, types_only = "shape", (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        kind = x[0].type
        return m.tuple([m.number(s) for s in (kind.shape if isinstance(kind, TensorType) else ())])


def _static_shape(v: V, where: str) -> Attribute:
    items = parts(v) if isinstance(v.type, TupleType) else [v]
    numbers = [i.type.const for i in items if isinstance(i.type, Scalar) and i.type.kind == "int"]
    if len(numbers) != len(items) or None in numbers:
        raise UnknownNumberError(f"{where}: a shape must be known at compile time; use numbers and x.shape")
    return shape_attribute([size(n) for n in numbers if n is not None])


class Reshape(Primitive):
    """The elements under another shape, in which -1 is the remaining size."""

    name, arity, linear = "reshape", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return m.tensors(self, {**op.attributes, "shape": _static_shape(x[1], where)}, [x[0]], where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        shape = list(options["shape"])
        count = prod(shape_of(x[0]))
        left = [i for i, n in enumerate(shape) if not isinstance(n, Extent) and n == -1]
        if len(left) == 1:
            shape[left[0]] = count // max(-prod(shape), 1)
        if prod(shape) != count:
            text = "x".join(map(str, shape_of(x[0])))
            raise VerifyException(
                f"reshape of {text} ({count} elements) to {tuple(options['shape'])}"
                "; both need the same number of elements"
            )
        return u.reshape(x[0], shape)

    def transpose(self, op: FnOp, i: int, d: Term, x: Sequence[Term]) -> Term:
        return d.prim(ReshapeLike, x[0])


class Full(Pointwise):
    """An array of a shape with one value."""

    name, arity, linear = "full", 2, (1,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return m.tensors(self, {**op.attributes, "shape": _static_shape(x[0], where)}, [x[1]], where)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        element = element_type(options["dtype"]) if "dtype" in options else element_of(x[0])
        return u.expand(u.cast(x[0], element), options["shape"])

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d if i == 1 else None


class Astype(Pointwise):
    """An array of another element type, `dtype`."""

    name, linear = "astype", (0,)

    def build(self, u: Unit, options: dict[str, Any], attributes: Options, x: Sequence[SSAValue]) -> SSAValue:
        return u.cast(x[0], element_type(options["dtype"]))

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return d


class AstypeAs(Pointwise):
    """An array of the element type that a text names."""

    name, arity, linear = "astype_as", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        kind = x[1].type
        if not isinstance(kind, Text):
            raise UnsupportedError(f"{where}: {text_of(kind)} is not a dtype; use x.dtype or np.float32")
        return m.tensors(Astype(), {"dtype": StringAttr(kind.value)}, [x[0]], where)

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return None if i else d


class Fitting(Pointwise):
    """A value; an int must be one that the element type holds which a text names."""

    name, arity, linear = "fitting", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        number, kind = x[0].type, x[1].type
        if isinstance(number, Scalar) and number.kind == "int" and isinstance(kind, Text):
            range_ = range_of(kind.value)
            if (
                range_ is not None
                and x[0].whole is None
                and (number.const is None or not range_[0] <= number.const <= range_[1])
            ):
                m.t.within(x[0].code, *range_)
        return x[0]

    def python(self, op: FnOp) -> Function:
        def run(number: Any, kind: str) -> Any:
            range_ = range_of(kind) if isinstance(number, int) else None
            if range_ is not None and not range_[0] <= number <= range_[1]:
                raise out_of_bounds(number, kind, op.source)
            return number

        return run

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return None if i else d


class FittingElement(Pointwise):
    """A value; a number must be one that the elements of an array hold, of which it becomes one."""

    name, arity, linear = "fitting_element", 2, (0,)

    def infer(self, m: Typing, op: FnOp, x: list[V], where: str) -> V:
        return fitted(m, x[1], x[0], where)

    def python(self, op: FnOp) -> Function:
        return lambda number, whole: fitting(whole, number, op.source)

    def partial(self, i: int, d: Term, x: Sequence[Term], y: Result) -> Term | None:
        return None if i else d


def range_of(dtype: str) -> tuple[int, int] | None:
    """The least and the largest int of an element type; None where it holds all ints of 64 bits."""
    return limits([np.dtype(dtype), np.dtype(np.int64)], [False, True])


SHAPES = (Shape, Reshape, Full, Astype, AstypeAs, Fitting, FittingElement)
