"""What every part of the builder stands on: values, and the insertion of one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import ShapeError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, Tensor, dtype_of, shape_of, typed
from glow_dialects.ops.unary_math import NegOp


class Value:
    """A tensor of the graph under construction, with Python's operators."""

    def __init__(self, graph: Operators, ssa: SSAValue) -> None:
        self.graph = graph
        self.ssa = ssa

    @property
    def shape(self) -> tuple[int, ...]:
        """Its static shape."""
        return shape_of(self.ssa)

    @property
    def dtype(self) -> np.dtype:
        """Its element type as NumPy names it."""
        return dtype_of(typed(self.ssa))

    @property
    def type(self) -> Tensor:
        """Its type in the IR."""
        return typed(self.ssa)

    def __repr__(self) -> str:
        return f"Value({self.ssa.type})"

    def _with(self, name: str, other: Like, swapped: bool = False) -> Value:
        right = self.graph.value(other, like=self)
        pair = (right, self) if swapped else (self, right)
        return getattr(self.graph, name)(*pair)

    def __add__(self, other: Like) -> Value:
        return self._with("add", other)

    def __radd__(self, other: Like) -> Value:
        return self._with("add", other, swapped=True)

    def __sub__(self, other: Like) -> Value:
        return self._with("sub", other)

    def __rsub__(self, other: Like) -> Value:
        return self._with("sub", other, swapped=True)

    def __mul__(self, other: Like) -> Value:
        return self._with("mul", other)

    def __rmul__(self, other: Like) -> Value:
        return self._with("mul", other, swapped=True)

    def __truediv__(self, other: Like) -> Value:
        return self._with("div", other)

    def __rtruediv__(self, other: Like) -> Value:
        return self._with("div", other, swapped=True)

    def __floordiv__(self, other: Like) -> Value:
        return self._with("floor_div", other)

    def __mod__(self, other: Like) -> Value:
        return self._with("mod", other)

    def __pow__(self, other: Like) -> Value:
        return self._with("pow", other)

    def __matmul__(self, other: Like) -> Value:
        return self._with("batch_matmul", other)

    def __neg__(self) -> Value:
        return self.graph.insert(NegOp, self)[0]

    def __lt__(self, other: Like) -> Value:
        return self._with("cmp_lt", other)

    def __le__(self, other: Like) -> Value:
        return self._with("cmp_le", other)

    def __gt__(self, other: Like) -> Value:
        return self._with("cmp_gt", other)

    def __ge__(self, other: Like) -> Value:
        return self._with("cmp_ge", other)


def axis_of(x: Value, axis: int, more: int = 0) -> int:
    """An axis of x, or of a tensor of `more` axes more, counted from the front; ShapeError for another."""
    rank = max(1, len(x.shape) + more)
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} of {x.type}")
    return axis % rank


Like = Value | SSAValue | Array | float | int | bool
"""What operators take: a value, or an array or number that becomes a constant."""


class Operators:
    """Insertion of operators; the mixins below add a method for each."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def value(self, x: Like, like: Value | None = None) -> Value:
        """`x` as a value; a number gets the element type of `like`."""
        if isinstance(x, Value):
            return x
        if isinstance(x, SSAValue):
            return Value(self, x)
        if isinstance(x, bool | int | float) and like is not None:
            return Value(self, self.builder.scalar(x, like.ssa))
        array = np.asarray(x)
        if array.dtype == np.float64 and not isinstance(x, np.ndarray | np.generic):
            array = array.astype(np.float32)
        return self.array(array)

    def array(self, array: Array) -> Value:
        """A constant without a name."""
        return Value(self, self.builder.constant(array))

    def insert(
        self,
        kind: type[GraphOp],
        *operands: Like | Sequence[Like] | None,
        results: Attribute | None = None,
        **properties: Any,
    ) -> list[Value]:
        """Insert one operator and return its results; ShapeError where its operands do not fit."""
        first = next((o for o in operands if isinstance(o, Value)), None)
        converted: list[Any] = []
        for operand in operands:
            if operand is None:
                converted.append(None)
            elif isinstance(operand, list | tuple):
                converted.append([self.value(o, first).ssa for o in operand])
            else:
                converted.append(self.value(operand, first).ssa)  # pyright: ignore[reportArgumentType]
        try:
            op = kind(*converted, results=results, **properties)
            op.verify()
        except VerifyException as error:
            raise ShapeError(str(error).strip().splitlines()[-1]) from None
        return [Value(self, r) for r in self.builder.insert(op).results]

    def one(self, kind: type[GraphOp], *operands: Like | Sequence[Like] | None, **given: Any) -> Value:
        """`insert` for operators of one result."""
        return self.insert(kind, *operands, **given)[0]


Unary = Callable[[Any, Like], Value]
Binary = Callable[[Any, Like, Like], Value]


def unary(kind: type[GraphOp]) -> Unary:
    """The builder's method for an operator of one operand and no properties."""

    def method(self: Operators, x: Like) -> Value:
        return self.one(kind, self.value(x))

    return _named(method, kind)


def binary(kind: type[GraphOp]) -> Binary:
    """The builder's method for an operator of two operands and no properties."""

    def method(self: Operators, x: Like, y: Like) -> Value:
        if not isinstance(x, Value | SSAValue) and isinstance(y, Value):
            return self.one(kind, self.value(x, y), y)
        left = self.value(x)
        return self.one(kind, left, self.value(y, left))

    return _named(method, kind)


def _named(method: Any, kind: type[GraphOp]) -> Any:
    method.__name__ = method.__qualname__ = kind.name.removeprefix("glow.")
    method.__doc__ = kind.__doc__
    return method
