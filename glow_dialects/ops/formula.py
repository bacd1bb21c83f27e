"""Formula: mathematics on graph values, for gradients and decompositions that are longer than a line."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MinOp, MulOp, PowOp, SubOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.transpose import TransposeOp
from glow_dialects.ops.unary_math import ExpOp, LogOp, SqrtOp

Term = SSAValue | float


class Formula:
    """Inserts operators with `b`; numbers become scalars of the element type of `like`."""

    def __init__(self, b: Builder, like: SSAValue) -> None:
        self.b = b
        self.like = like

    def of(self, x: Term) -> SSAValue:
        """A value, numbers as rank-0 splats."""
        return x if isinstance(x, SSAValue) else self.b.scalar(x, self.like)

    def add(self, x: Term, y: Term) -> SSAValue:
        """x + y."""
        return self.b(AddOp(self.of(x), self.of(y)))

    def sub(self, x: Term, y: Term) -> SSAValue:
        """x - y."""
        return self.b(SubOp(self.of(x), self.of(y)))

    def mul(self, x: Term, *others: Term) -> SSAValue:
        """The product of all."""
        total = self.of(x)
        for other in others:
            total = self.b(MulOp(total, self.of(other)))
        return total

    def div(self, x: Term, y: Term) -> SSAValue:
        """x / y."""
        return self.b(DivOp(self.of(x), self.of(y)))

    def pow(self, x: Term, y: Term) -> SSAValue:
        """x ^ y."""
        return self.b(PowOp(self.of(x), self.of(y)))

    def max(self, x: Term, y: Term) -> SSAValue:
        """The larger."""
        return self.b(MaxOp(self.of(x), self.of(y)))

    def min(self, x: Term, y: Term) -> SSAValue:
        """The smaller."""
        return self.b(MinOp(self.of(x), self.of(y)))

    def exp(self, x: SSAValue) -> SSAValue:
        """e^x."""
        return self.b(ExpOp(x))

    def log(self, x: SSAValue) -> SSAValue:
        """Natural logarithm."""
        return self.b(LogOp(x))

    def sqrt(self, x: SSAValue) -> SSAValue:
        """Square root."""
        return self.b(SqrtOp(x))

    def where(self, mask: SSAValue, x: Term, y: Term) -> SSAValue:
        """mask ? x : y."""
        return self.b(SelectOp(mask, self.of(x), self.of(y)))

    def sum(self, x: SSAValue, axes: Sequence[int], keepdims: bool = True) -> SSAValue:
        """The sum over axes."""
        return self.b(ReduceSumOp(x, axes=tuple(axes), keepdims=keepdims))

    def mean(self, x: SSAValue, axes: Sequence[int], keepdims: bool = True) -> SSAValue:
        """The mean over axes."""
        return self.b(ReduceMeanOp(x, axes=tuple(axes), keepdims=keepdims))

    def largest(self, x: SSAValue, axes: Sequence[int]) -> SSAValue:
        """The maximum over axes, which keep size 1."""
        return self.b(ReduceMaxOp(x, axes=tuple(axes), keepdims=True))

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The elements under another shape."""
        if shape_of(x) == tuple(shape):
            return x
        return self.b(ReshapeOp(x, results=tensor(shape, element_of(x))))

    def transpose(self, x: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """Axes in another order."""
        if tuple(permutation) == tuple(range(len(permutation))):
            return x
        return self.b(TransposeOp(x, permutation=tuple(permutation)))

    def expand(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Broadcast to a shape."""
        if shape_of(x) == tuple(shape):
            return x
        return self.b(ExpandOp(x, results=tensor(shape, element_of(x))))

    def slice(self, x: SSAValue, axis: int, start: int, end: int) -> SSAValue:
        """x[..., start:end, ...] along one axis."""
        dims = shape_of(x)
        if (start, end) == (0, dims[axis]):
            return x
        starts, ends = [0] * len(dims), list(dims)
        starts[axis], ends[axis] = start, end
        return self.b(SliceOp(x, starts=tuple(starts), ends=tuple(ends), steps=(1,) * len(dims)))

    def concat(self, parts: Sequence[SSAValue], axis: int) -> SSAValue:
        """Parts one after another along an axis."""
        return parts[0] if len(parts) == 1 else self.b(ConcatOp(list(parts), axis=axis))

    def standard(self, x: SSAValue, axes: Sequence[int], epsilon: float) -> SSAValue:
        """(x - mean) / sqrt(variance + epsilon) over axes."""
        centred = self.sub(x, self.mean(x, axes))
        variance = self.mean(self.mul(centred, centred), axes)
        return self.div(centred, self.sqrt(self.add(variance, epsilon)))
