"""Families of element-wise operators; a common one needs only its name and NumPy function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.element_types import is_standard
from glow_dialects.core.graph_op import PureOp, is_overridden
from glow_dialects.core.term import Term
from glow_dialects.core.types import (
    Array,
    Tensor,
    UniformQuantizedType,
    broadcast_shapes,
    dtype_of,
    element_of,
    is_float,
    shape_of,
    tensor,
    typed,
)

#: The gradients of two operands.
Pair: TypeAlias = tuple[Term | None, Term | None]


class UnaryOp(PureOp):
    """result[i] = f(input[i]); the type is unchanged.

    An operator says `NUMPY` or `function`, `derivative` or `cotangent` where it has a gradient, and
    `formula` where smaller operators compute it.
    """

    MEANING = ("reference", "function")
    INPLACE = ("input",)
    DATA_PARALLEL = True
    NUMPY: ClassVar[np.ufunc]
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        return [self.input.type]

    def function(self, x: Array) -> Array:
        """The meaning in NumPy; it may read properties."""
        return self.NUMPY(x)

    def derivative(self, x: Term, y: Term) -> Term:
        """dy/dx, for input x and result y."""
        raise NotImplementedError(f"{self.name} has no gradient")

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term | None:
        """The gradient of x from that of y; None where it is zero wherever it exists."""
        return dy * self.derivative(x, y)

    def formula(self, x: Term) -> Term:
        """The result by smaller operators."""
        raise NotImplementedError(f"{self.name} has no decomposition")

    def reference(self, result: Array, input: Array) -> None:
        with np.errstate(all="ignore"):
            result[...] = self.function(widen(input))

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        grad = self.cotangent(Term(dy, b), Term(self.input, b), Term(self.result, b))
        return [None if grad is None else grad.value]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        return by_formula(self, b, (self.input,))

    @classmethod
    def has_gradient(cls) -> bool:
        return is_overridden(cls, UnaryOp, "gradient", "backward", "cotangent", "derivative")

    @classmethod
    def can_decompose(cls) -> bool:
        return is_overridden(cls, UnaryOp, "decompose", "formula")


class BinaryOp(PureOp):
    """result[i] = f(lhs[i], rhs[i]) with NumPy broadcasting; equal element types.

    An operator says `NUMPY` or `function`, `cotangents` where it has a gradient, and `formula` where
    smaller operators compute it.
    """

    MEANING = ("reference", "function")
    INPLACE = ("lhs", "rhs")
    DATA_PARALLEL = True
    NUMPY: ClassVar[np.ufunc]
    lhs = operand_def(Tensor)
    rhs = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        lhs, rhs = self.lhs, self.rhs
        if element_of(lhs) != element_of(rhs):
            raise VerifyException(
                f"{self.name}: element types {element_of(lhs)} and {element_of(rhs)} differ; cast one of them"
            )
        return [tensor(broadcast_shapes(shape_of(lhs), shape_of(rhs)), element_of(lhs))]

    def function(self, x: Array, y: Array) -> Array:
        """The meaning in NumPy; it may read properties."""
        return self.NUMPY(x, y)

    def cotangents(self, dy: Term, x: Term, y: Term) -> tuple[Term | None, Term | None]:
        """The gradients of the operands x and y, before broadcast axes are summed."""
        raise NotImplementedError(f"{self.name} has no gradient")

    def formula(self, x: Term, y: Term) -> Term:
        """The result by smaller operators."""
        raise NotImplementedError(f"{self.name} has no decomposition")

    def reference(self, result: Array, lhs: Array, rhs: Array) -> None:
        with np.errstate(all="ignore"):
            result[...] = self.function(widen(lhs), widen(rhs))

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        x, y = Term(self.lhs, b), Term(self.rhs, b)
        pair = zip(self.cotangents(Term(dy, b), x, y), (x, y), strict=True)
        return [None if g is None else g.sum_to(v.shape).value for g, v in pair]

    @classmethod
    def has_gradient(cls) -> bool:
        return is_overridden(cls, BinaryOp, "gradient", "backward", "cotangents")

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        return by_formula(self, b, (self.lhs, self.rhs))

    @classmethod
    def can_decompose(cls) -> bool:
        return is_overridden(cls, BinaryOp, "decompose", "formula")


def by_formula(op: UnaryOp | BinaryOp, b: Builder, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """The result of a formula, of halves in f32, as the references compute it, rounded once."""
    formula: Any = op.formula
    return [formula(*(Term(v, b).widened() for v in operands)).cast(element_of(op.result)).value]


class FloatBinaryOp(BinaryOp):
    """A function of two real numbers: floats only."""

    def infer(self) -> Sequence[Attribute]:
        if not is_float(element_of(self.lhs)):
            raise VerifyException(f"{self.name}: the operands must be of floats, got {self.lhs.type}")
        return super().infer()


class NumberUnaryOp(UnaryOp):
    """A function of numbers: booleans are refused."""

    def check(self) -> None:
        if dtype_of(self.input.type).kind == "b":
            raise VerifyException(f"{self.name}: the operand must be of numbers, got {self.input.type}")


class RoundingOp(UnaryOp):
    """A rounding: integers are themselves, the derivative is zero wherever it exists."""

    def function(self, x: Array) -> Array:
        return x if x.dtype.kind in "iub" else self.NUMPY(x)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term | None:
        return None


class FloatUnaryOp(UnaryOp):
    """A function of real numbers: floats (or their quantised form) only."""

    def infer(self) -> Sequence[Attribute]:
        kind = element_of(self.input)
        if not is_float(kind) and not isinstance(kind, UniformQuantizedType):
            raise VerifyException(f"{self.name}: the operand must be of floats, got {self.input.type}")
        return [self.input.type]


class UnaryTestOp(UnaryOp):
    """A question about each element: booleans out."""

    INPLACE = ()

    def infer(self) -> Sequence[Attribute]:
        return [tensor(shape_of(self.input), i1)]


class CompareOp(BinaryOp):
    """A comparison: booleans out."""

    INPLACE = ()

    def infer(self) -> Sequence[Attribute]:
        return [tensor(shape_of(super().infer()[0]), i1)]


def check_kinds(op: UnaryOp | BinaryOp, kinds: str, wanted: str) -> None:
    """Raise unless the operands' NumPy kinds are among `kinds`: "biu" for integers and booleans."""
    for value in op.operands[: len(op.operand_groups())]:
        if dtype_of(typed(value)).kind not in kinds:
            raise VerifyException(f"{op.name}: operands must be {wanted}, got {value.type}")


def widen(array: Array) -> Array:
    """Narrow floats as float32 and integers below a byte as int8: the types in which references compute."""
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
    return Term(grad, b).sum_to(shape_of(like)).value
