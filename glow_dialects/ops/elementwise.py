"""Constructors for families of element-wise cards, so that a common operator is a few lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp, PureOp, graph_op
from glow_dialects.core.types import (
    Array,
    Tensor,
    UniformQuantizedType,
    broadcast_shapes,
    element_of,
    is_float,
    is_standard,
    shape_of,
    tensor,
)

#: NumPy meanings; what follows the operands are properties, passed by name.
UnaryFunction = Callable[[Array], Array] | Callable[[Array, Any], Array] | Callable[[Array, Any, Any], Array]
BinaryFunction = Callable[[Array, Array], Array]
UnaryGradient = Callable[[Any, SSAValue, Builder], SSAValue | None]
BinaryGradient = Callable[[Any, SSAValue, Builder], tuple[SSAValue | None, SSAValue | None]]


class UnaryOp(PureOp):
    """result[i] = f(input[i]); the type is unchanged."""

    DATA_PARALLEL = True

    def infer(self) -> Sequence[Attribute]:
        return [self.operands[0].type]


class BinaryOp(PureOp):
    """result[i] = f(lhs[i], rhs[i]) with NumPy broadcasting; equal element types."""

    DATA_PARALLEL = True

    def infer(self) -> Sequence[Attribute]:
        lhs, rhs = self.operands[0], self.operands[1]
        if element_of(lhs) != element_of(rhs):
            raise VerifyException(
                f"{self.name}: element types {element_of(lhs)} and {element_of(rhs)} differ"
            )
        return [tensor(broadcast_shapes(shape_of(lhs), shape_of(rhs)), element_of(lhs))]


class FloatUnaryOp(UnaryOp):
    """A function of real numbers: floats (or their quantised form) only."""

    def infer(self) -> Sequence[Attribute]:
        kind = element_of(self.operands[0])
        if not is_float(kind) and not isinstance(kind, UniformQuantizedType):
            raise VerifyException(f"{self.name}: the operand must be of floats, got {self.operands[0].type}")
        return [self.operands[0].type]


class UnaryTestOp(UnaryOp):
    """A question about each element: booleans out."""

    def infer(self) -> Sequence[Attribute]:
        return [tensor(shape_of(self.operands[0]), i1)]


class CompareOp(BinaryOp):
    """A comparison: booleans out."""

    def infer(self) -> Sequence[Attribute]:
        return [tensor(shape_of(super().infer()[0]), i1)]


def unary(
    name: str,
    meaning: str,
    function: UnaryFunction,
    gradient: UnaryGradient | None = None,
    decompose: Callable[[Any, Builder], SSAValue] | None = None,
    base: type[UnaryOp] = UnaryOp,
    **properties: Any,
) -> type[GraphOp]:
    """The node of a unary element-wise operator.

    `function(x, **properties)` is the NumPy meaning, `gradient(op, dy, b)` the operand's cotangent,
    `properties` IRDL property definitions.
    """
    camel = _camel(name)
    meant: Callable[..., Array] = function
    fields: dict[str, Any] = {
        "__doc__": meaning,
        "__module__": __name__,
        "__annotations__": {},
        "name": f"glow.{name}",
        **properties,
        "input": operand_def(Tensor),
        "result": result_def(Tensor),
    }
    if gradient is not None:
        rule = gradient

        def backward(self: Any, grads: Sequence[SSAValue | None], b: Builder) -> list[SSAValue | None]:
            dy = grads[0]
            assert dy is not None
            return [rule(self, dy, b)]

        fields["gradient"] = backward
    if decompose is not None:
        smaller = decompose

        def parts(self: Any, b: Builder) -> list[SSAValue]:
            return [smaller(self, b)]

        fields["decompose"] = parts

    def reference(self: Any, result: Array, input: Array) -> None:
        with np.errstate(all="ignore"):
            result[...] = meant(widen(input), **{n: getattr(self, n) for n in self.properties})

    fields["reference"] = reference
    fields["INPLACE"] = () if issubclass(base, UnaryTestOp) else ("input",)
    return graph_op(cast(Any, type(f"{camel}Op", (base,), fields)))


def binary(
    name: str,
    meaning: str,
    function: BinaryFunction,
    gradient: BinaryGradient | None = None,
    base: type[BinaryOp] = BinaryOp,
    traits: Any = None,
    **properties: Any,
) -> type[GraphOp]:
    """The node of a broadcasting binary operator; gradients are summed to operand shape."""
    camel = _camel(name)
    meant: Callable[..., Array] = function
    fields: dict[str, Any] = {
        "__doc__": meaning,
        "__module__": __name__,
        "__annotations__": {},
        "name": f"glow.{name}",
        **properties,
        "lhs": operand_def(Tensor),
        "rhs": operand_def(Tensor),
        "result": result_def(Tensor),
    }
    if gradient is not None:
        rule = gradient

        def backward(self: Any, grads: Sequence[SSAValue | None], b: Builder) -> list[SSAValue | None]:
            dy = grads[0]
            assert dy is not None
            pair = rule(self, dy, b)
            return [
                None if g is None else unbroadcast(g, v, b)
                for g, v in zip(pair, (self.lhs, self.rhs), strict=True)
            ]

        fields["gradient"] = backward

    def reference(self: Any, result: Array, lhs: Array, rhs: Array) -> None:
        with np.errstate(all="ignore"):
            result[...] = meant(widen(lhs), widen(rhs), **{n: getattr(self, n) for n in self.properties})

    fields["reference"] = reference
    fields["INPLACE"] = () if issubclass(base, CompareOp) else ("lhs", "rhs")
    return graph_op(cast(Any, type(f"{camel}Op", (base,), fields)))


def widen(array: Array) -> Array:
    """Narrow floats as float32 and integers below a byte as int8: what references compute in."""
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if is_standard(array.dtype):
        return array
    if array.dtype in _NARROW_INTEGERS:
        return array.astype(np.uint8 if array.dtype.name.startswith("u") else np.int8)
    return array.astype(np.float32)


_NARROW_INTEGERS = tuple(
    np.dtype(t) for t in (ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4)
)


def unbroadcast(grad: SSAValue, like: SSAValue, b: Builder) -> SSAValue:
    """Sum a cotangent over the axes along which `like` was broadcast."""
    from glow_dialects.ops.reduce import ReduceSumOp
    from glow_dialects.ops.reshape import ReshapeOp

    have, want = shape_of(grad), shape_of(like)
    if have == want:
        return grad
    lead = len(have) - len(want)
    axes = list(range(lead)) + [i + lead for i, s in enumerate(want) if s == 1 and have[i + lead] != 1]
    total = b(ReduceSumOp(grad, axes=axes, keepdims=True)) if axes else grad
    return total if shape_of(total) == want else b(ReshapeOp(total, results=like.type))


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
