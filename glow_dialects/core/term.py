"""Term: arithmetic on graph values, for gradients, decompositions and rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import ml_dtypes
from xdsl.dialects.builtin import bf16, f16, f32, i64
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.extent import Extent
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import dtype_of, element_of, shape_of, tensor, typed
from glow_dialects.ops import operator_class


class Term:
    """A value and the builder in use: `x * y + 1` inserts the operators.

    Numbers become scalars of the element type of the other operand; `==` compares terms, not elements.
    """

    def __init__(self, value: SSAValue, b: Builder) -> None:
        self.value = value
        self.b = b

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return shape_of(self.value)

    @property
    def element(self) -> Attribute:
        """The element type."""
        return element_of(self.value)

    @property
    def epsilon(self) -> float:
        """From 1 to the next float of this element type."""
        return float(cast(Any, ml_dtypes.finfo(dtype_of(typed(self.value)))).eps)

    def of(self, x: Operand) -> Term:
        """Another operand as a term: a number is a rank-0 splat of this element type."""
        if isinstance(x, Term):
            return x
        return Term(x if isinstance(x, SSAValue) else self.b.scalar(x, self.value), self.b)

    def apply(
        self,
        kind: type[GraphOp],
        *others: Operand | None,
        results: Attribute | None = None,
        **properties: Any,
    ) -> Term:
        """The result of an operator whose first operand this is."""
        values = [None if x is None else self.of(x).value for x in others]
        return Term(self.b(kind(self.value, *values, results=results, **properties)), self.b)

    # --- two operands, broadcasting ---------------------------------------------------------
    def __add__(self, other: Operand) -> Term:
        return self.apply(operator_class("add"), other)

    def __sub__(self, other: Operand) -> Term:
        return self.apply(operator_class("sub"), other)

    def __mul__(self, other: Operand) -> Term:
        return self.apply(operator_class("mul"), other)

    def __truediv__(self, other: Operand) -> Term:
        return self.apply(operator_class("div"), other)

    def __pow__(self, other: Operand) -> Term:
        return self.apply(operator_class("pow"), other)

    def __radd__(self, other: SSAValue | float) -> Term:
        return self.of(other) + self

    def __rsub__(self, other: SSAValue | float) -> Term:
        return self.of(other) - self

    def __rmul__(self, other: SSAValue | float) -> Term:
        return self.of(other) * self

    def __rtruediv__(self, other: SSAValue | float) -> Term:
        return self.of(other) / self

    def __neg__(self) -> Term:
        """-x, as a product that folds into others."""
        return self * -1

    def maximum(self, other: Operand) -> Term:
        """The larger of two; NaN if either is."""
        return self.apply(operator_class("max"), other)

    def minimum(self, other: Operand) -> Term:
        """The smaller of two; NaN if either is."""
        return self.apply(operator_class("min"), other)

    # --- comparisons and choices --------------------------------------------------------------
    def __lt__(self, other: Operand) -> Term:
        return self.apply(operator_class("cmp_lt"), other)

    def __le__(self, other: Operand) -> Term:
        return self.apply(operator_class("cmp_le"), other)

    def __gt__(self, other: Operand) -> Term:
        return self.apply(operator_class("cmp_gt"), other)

    def __ge__(self, other: Operand) -> Term:
        return self.apply(operator_class("cmp_ge"), other)

    def __and__(self, other: Term) -> Term:
        return self.apply(operator_class("and"), other)

    def __or__(self, other: Term) -> Term:
        return self.apply(operator_class("or"), other)

    def equals(self, other: Operand) -> Term:
        """Whether elements are equal."""
        return self.apply(operator_class("cmp_eq"), other)

    def differs(self, other: Operand) -> Term:
        """Whether elements are not equal."""
        return self.apply(operator_class("cmp_ne"), other)

    def where(self, x: Operand, y: Operand) -> Term:
        """This condition ? x : y; one of the two is a value."""
        like = self.of(y if isinstance(x, float | int) else x)
        return self.apply(operator_class("select"), like.of(x), like.of(y))

    # --- one operand ----------------------------------------------------------------------------
    def exp(self) -> Term:
        """e^x."""
        return self.apply(operator_class("exp"))

    def log(self) -> Term:
        """The natural logarithm."""
        return self.apply(operator_class("log"))

    def sqrt(self) -> Term:
        """The square root."""
        return self.apply(operator_class("sqrt"))

    def __abs__(self) -> Term:
        return self.apply(operator_class("abs"))

    def cast(self, element: Attribute) -> Term:
        """The elements as another type."""
        if self.element == element:
            return self
        return self.apply(operator_class("cast"), results=tensor(self.shape, element))

    def widened(self) -> Term:
        """The elements of 16 bits as float32, in which their powers do not overflow; others as they are."""
        return self.cast(f32) if self.element in (f16, bf16) else self

    # --- axes -------------------------------------------------------------------------------------
    def sum(self, axes: Sequence[int], keepdims: bool = True) -> Term:
        """The sum over axes."""
        return self.apply(operator_class("reduce_sum"), axes=tuple(axes), keepdims=keepdims)

    def mean(self, axes: Sequence[int], keepdims: bool = True) -> Term:
        """The mean over axes."""
        return self.apply(operator_class("reduce_mean"), axes=tuple(axes), keepdims=keepdims)

    def max(self, axes: Sequence[int], keepdims: bool = True) -> Term:
        """The maximum over axes."""
        return self.apply(operator_class("reduce_max"), axes=tuple(axes), keepdims=keepdims)

    def reshape(self, shape: Sequence[int]) -> Term:
        """The elements under another shape."""
        if self.shape == tuple(shape):
            return self
        return self.apply(operator_class("reshape"), results=tensor(shape, self.element))

    def expand(self, shape: Sequence[int]) -> Term:
        """Broadcast to a shape."""
        if self.shape == tuple(shape):
            return self
        return self.apply(operator_class("expand"), results=tensor(shape, self.element))

    def transpose(self, permutation: Sequence[int]) -> Term:
        """The axes in another order."""
        if tuple(permutation) == tuple(range(len(permutation))):
            return self
        return self.apply(operator_class("transpose"), permutation=tuple(permutation))

    def slice(self, axis: int, start: int, end: int) -> Term:
        """x[..., start:end, ...] along one axis."""
        dims = self.shape
        if (start, end) == (0, dims[axis]):
            return self
        starts, ends = [0] * len(dims), list(dims)
        starts[axis], ends[axis] = start, end
        steps = (1,) * len(dims)
        return self.apply(operator_class("slice"), starts=tuple(starts), ends=tuple(ends), steps=steps)

    def sum_to(self, shape: Sequence[int]) -> Term:
        """The sum over the axes along which `shape` was broadcast."""
        lead = len(self.shape) - len(shape)
        ones = [i + lead for i, s in enumerate(shape) if s == 1 and self.shape[i + lead] != 1]
        axes = [*range(lead), *ones]
        return (self.sum(axes) if axes else self).reshape(shape)

    def standardized(self, axes: Sequence[int], epsilon: float) -> Term:
        """(x - mean) / sqrt(variance + epsilon) over axes."""
        centred = self - self.mean(axes)
        variance = (centred * centred).mean(axes)
        return centred / (variance + epsilon).sqrt()


#: What may stand beside a term.
Operand: TypeAlias = Term | SSAValue | float


def concat(parts: Sequence[Term], axis: int) -> Term:
    """Terms one after another along an axis."""
    if len(parts) == 1:
        return parts[0]
    b, kind = parts[0].b, operator_class("concat")
    return Term(b(kind([part.value for part in parts], axis=axis)), b)


def inverse(x: Term, count: int) -> Operand:
    """1 / count beside a term; of a size that only the run tells, computed there."""
    if not isinstance(count, Extent):
        return 1 / count
    sizes = operator_class("sizes")(values=(count,), results=tensor((), i64))
    return 1 / Term(x.b(sizes), x.b).cast(x.element)
