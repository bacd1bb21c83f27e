"""Reductions over axes: sum mean max min prod sum_square l1 l2 log_sum log_sum_exp."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op, is_overridden
from glow_dialects.core.iteration import Iteration, loops
from glow_dialects.core.properties import bool_prop, check_axes, ints_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term, inverse
from glow_dialects.core.types import Array, Tensor, element_of, is_float, shape_of, tensor
from glow_dialects.ops import operator_class
from glow_dialects.ops.cumprod import CumprodOp
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.logic import IsInfOp
from glow_dialects.ops.unary_math import SignOp


def reduced_shape(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """`shape` with the axes at 1, or without them."""
    if keepdims:
        return tuple(1 if i in axes else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in axes)


class ReductionOp(PureOp):
    """A reduction over `axes` (non-negative, distinct); reduced axes stay as 1 where `keepdims`.

    A card says `function`, `cotangent`, and `formula` where smaller operators compute it.
    """

    MEANING = ("reference", "function")
    #: f(f(x)) over some axes and then others is f over all of them; f of one element is the element.
    NESTS: ClassVar[bool] = False
    AXES = ("axes",)
    axes = ints_prop()
    keepdims = bool_prop(False)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        x, axes = self.input, self.axes
        check_axes(self.name, axes, len(shape_of(x)))
        return [tensor(reduced_shape(shape_of(x), axes, self.keepdims), element_of(x))]

    def iteration(self) -> Iteration | None:
        shape = shape_of(self.input)
        kept = loops(len(shape), self.axes)
        result = kept if self.keepdims else tuple(axis for axis in kept if axis is not None)
        return Iteration(shape, (result,), (kept,))

    @property
    def count(self) -> int:
        """How many elements one result stands for."""
        return math.prod(shape_of(self.input)[i] for i in self.axes)

    def function(self, x: Array, axes: tuple[int, ...]) -> Array:
        """The reduction in NumPy; axes may stay or go."""
        raise NotImplementedError(self.name)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        """The gradient of x from that of y, both with the reduced axes as 1."""
        raise NotImplementedError(f"{self.name} has no gradient")

    def formula(self, x: Term) -> Term:
        """The result by smaller operators."""
        raise NotImplementedError(f"{self.name} has no decomposition")

    def again(self, kind: type[ReductionOp], x: Term, keepdims: bool | None = None) -> Term:
        """Another reduction over the same axes."""
        return x.apply(kind, axes=self.axes, keepdims=self.keepdims if keepdims is None else keepdims)

    def reference(self, result: Array, input: Array) -> None:
        with np.errstate(all="ignore"):
            reduced = self.function(widen(input), tuple(self.axes))
            result[...] = np.asarray(reduced).reshape(result.shape)

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        wide = reduced_shape(shape_of(self.input), self.axes, True)
        y = Term(self.result, b)
        return [self.cotangent(Term(dy, b).reshape(wide), Term(self.input, b), y.reshape(wide)).value]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        return [self.formula(Term(self.input, b)).value]

    @classmethod
    def can_decompose(cls) -> bool:
        return is_overridden(cls, ReductionOp, "decompose", "formula")


class RealReductionOp(ReductionOp):
    """A reduction with an irrational result: of integers it is computed in float64 and truncated."""

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        x, kind = Term(self.input, b), element_of(self.input)
        if is_float(kind):
            return [self.formula(x).value]
        return [self.again(type(self), x.cast(f64)).cast(kind).value]


def _real(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind in "iub" else x


def _sum(x: Array, axes: tuple[int, ...]) -> Array:
    return np.sum(x, axis=axes, dtype=x.dtype)


def _limits(dtype: np.dtype) -> tuple[Any, Any]:
    """(lowest, highest) value: max and min of no elements."""
    if dtype.kind == "b":
        return False, True
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return -np.inf, np.inf


@graph_op
class ReduceSumOp(ReductionOp):
    """The sum, in the element type"""

    name = "glow.reduce_sum"
    NESTS = True
    HOMOGENEOUS = True

    def function(self, x: Array, axes: tuple[int, ...]) -> Array:
        return _sum(x, axes)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return dy.expand(x.shape)


@graph_op
class ReduceMeanOp(ReductionOp):
    """The mean; of integers towards zero"""

    name = "glow.reduce_mean"
    NESTS = True
    HOMOGENEOUS = True

    def function(self, x: Array, axes: tuple[int, ...]) -> Array:
        count = math.prod(x.shape[i] for i in axes)
        if x.dtype.kind in "iu":  # the exact quotient, towards zero
            count = max(count, 1)
            total = np.sum(x, axis=axes, dtype=np.uint64 if x.dtype.kind == "u" else np.int64)
            quotient = np.floor_divide(total, count)
            return (quotient + ((total < 0) & (quotient * count != total))).astype(x.dtype)
        return _sum(x, axes) / x.dtype.type(count)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return (dy * inverse(dy, max(self.count, 1))).expand(x.shape)

    def formula(self, x: Term) -> Term:
        total, count = self.again(ReduceSumOp, x), max(self.count, 1)
        return total * inverse(total, count) if is_float(x.element) else total / count


class ExtremeOp(ReductionOp):
    """The largest or the smallest."""

    NESTS = True
    MOVES_ELEMENTS = True
    ARG: ClassVar[str]
    #: Of equal elements of an axis the first has the gradient; else they share it.
    first = bool_prop(False)
    ONLY_GRADIENT = ("first",)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        if self.first and len(self.axes) == 1 and shape_of(self.input)[self.axes[0]] != 0:
            place = x.apply(operator_class(self.ARG), axis=self.axes[0], keepdims=True)
            zero = Term(x.b.splat(0, x.value), x.b)
            return zero.apply(operator_class("scatter_elements"), place, dy, axis=self.axes[0])
        mask = x.equals(y).cast(x.element)
        return mask * (dy / self.again(ReduceSumOp, mask, keepdims=True))


@graph_op
class ReduceMaxOp(ExtremeOp):
    """The largest; NaN if any is, the lowest value of nothing"""

    name = "glow.reduce_max"
    ARG = "arg_max"

    def function(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.max(x, axis=axes, initial=_limits(x.dtype)[0])


@graph_op
class ReduceMinOp(ExtremeOp):
    """The smallest; NaN if any is, the highest value of nothing"""

    name = "glow.reduce_min"
    ARG = "arg_min"

    def function(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.min(x, axis=axes, initial=_limits(x.dtype)[1])


@graph_op
class ReduceProdOp(ReductionOp):
    """The product, in the element type"""

    name = "glow.reduce_prod"
    NESTS = True

    def function(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.prod(x, axis=axes, dtype=x.dtype)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        # The product of the others: of those in front and of those behind, so that no zero divides.
        kept = [i for i in range(len(x.shape)) if i not in self.axes]
        order = [*kept, *self.axes]
        moved = x.transpose(order)
        flat = moved.reshape((*(x.shape[i] for i in kept), self.count))
        front, back = (
            flat.apply(CumprodOp, axis=len(kept), exclusive=True, reverse=reverse)
            for reverse in (False, True)
        )
        others = (front * back).reshape(moved.shape)
        return dy * others.transpose([order.index(i) for i in range(len(order))])


@graph_op
class ReduceSumSquareOp(ReductionOp):
    """The sum of squares"""

    name = "glow.reduce_sum_square"
    HOMOGENEOUS = True

    def function(self, x: Array, axes: tuple[int, ...]) -> Array:
        return _sum(x * x, axes)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return x * 2 * dy

    def formula(self, x: Term) -> Term:
        return self.again(ReduceSumOp, x * x)


@graph_op
class ReduceL1Op(ReductionOp):
    """The sum of absolute values"""

    name = "glow.reduce_l1"

    def function(self, x: Array, axes: tuple[int, ...]) -> Array:
        return _sum(np.abs(x), axes)

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return x.apply(SignOp) * dy

    def formula(self, x: Term) -> Term:
        return self.again(ReduceSumOp, abs(x))


@graph_op
class ReduceL2Op(RealReductionOp):
    """The Euclidean norm"""

    name = "glow.reduce_l2"

    def function(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.sqrt(_sum(_real(x) ** 2, axes))

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        # inG = outG in / out, 0 where the result is 0
        ratio = x / y
        zero = ratio.of(0)
        return dy * y.equals(zero).where(zero, ratio)

    def formula(self, x: Term) -> Term:
        return self.again(ReduceSumSquareOp, x).sqrt()


@graph_op
class ReduceLogSumOp(RealReductionOp):
    """The logarithm of the sum"""

    name = "glow.reduce_log_sum"

    def function(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.log(_sum(_real(x), axes))

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return (dy / self.again(ReduceSumOp, x, keepdims=True)).expand(x.shape)

    def formula(self, x: Term) -> Term:
        return self.again(ReduceSumOp, x).log()


@graph_op
class ReduceLogSumExpOp(RealReductionOp):
    """log(sum(e^x)), computed without overflow"""

    name = "glow.reduce_log_sum_exp"

    def function(self, x: Array, axes: tuple[int, ...]) -> Array:
        x = _real(x)
        top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
        finite: Array = np.where(np.isinf(top), 0, top).astype(x.dtype)
        total: Array = np.sum(np.exp(x - finite), axis=axes, keepdims=True)
        return np.log(total) + finite

    def cotangent(self, dy: Term, x: Term, y: Term) -> Term:
        return (x - y).exp() * dy

    def formula(self, x: Term) -> Term:
        top = self.again(ReduceMaxOp, x, keepdims=True)
        top = top.apply(IsInfOp).where(0, top)
        total = self.again(ReduceSumOp, (x - top).exp(), keepdims=True)
        return (total.log() + top).reshape(shape_of(self.result))


_ALL = (
    ReduceSumOp, ReduceMeanOp, ReduceMaxOp, ReduceMinOp, ReduceProdOp, ReduceSumSquareOp, ReduceL1Op,
    ReduceL2Op, ReduceLogSumOp, ReduceLogSumExpOp,
)  # fmt: skip
_X = random(2, 3, 4, low=0.3, high=2)
_ODD = np.array([[1.0, np.nan, 2.0], [-np.inf, 0.0, 1.0], [np.inf, -np.inf, 0.0]], np.float32)
_I = random(2, 3, 4, dtype="int32", low=-5, high=6)

SAMPLES: tuple[Sample, ...] = (
    *(
        Sample(op, (_X,), {"axes": axes, "keepdims": keepdims})
        for op in _ALL
        for axes, keepdims in (((2,), False), ((0, 2), True), ((1,), False), ((0, 1, 2), False))
    ),
    *(
        Sample(op, (_I,), {"axes": (1,)}, smooth=False)
        for op in (ReduceSumOp, ReduceMeanOp, ReduceMaxOp, ReduceMinOp, ReduceProdOp, ReduceL1Op, ReduceL2Op)
    ),
    *(
        Sample(op, (random(3, 5, dtype="int32", low=1, high=9),), {"axes": (1,)}, smooth=False)
        for op in (ReduceLogSumOp, ReduceLogSumExpOp)
    ),
    Sample(ReduceL1Op, (random(3, 5),), {"axes": (1,)}),
    Sample(ReduceL2Op, (random(3, 5),), {"axes": (0,), "keepdims": True}),
    Sample(ReduceProdOp, (random(3, 5),), {"axes": (1,)}),
    Sample(ReduceProdOp, (np.array([[0.0, 2, 3], [0, 0, 2]], np.float32),), {"axes": (1,)}),
    Sample(ReduceLogSumExpOp, (random(3, 5, low=90, high=100),), {"axes": (1,)}),
    Sample(ReduceMaxOp, (np.zeros((2, 0), np.float32),), {"axes": (1,)}, smooth=False),
    *(
        Sample(op, (random(5, 7, dtype=kind, low=1, high=4),), {"axes": (axis,)}, smooth=False)
        for op in (ReduceSumOp, ReduceMeanOp, ReduceMaxOp, ReduceMinOp, ReduceProdOp, ReduceL2Op)
        for kind in ("float64", "float16", "bfloat16", "uint8", "int64")
        for axis in (0, 1)
    ),
    Sample(ReduceMaxOp, (_ODD,), {"axes": (1,)}, smooth=False),
    Sample(ReduceMinOp, (_ODD,), {"axes": (1,)}, smooth=False),
    Sample(ReduceSumOp, (random(3, 4, 5, 6),), {"axes": (1, 3)}),
    Sample(ReduceSumOp, (random(37, 67),), {"axes": (0,)}),
    Sample(ReduceSumOp, (random(37, 67),), {"axes": (1,)}),
    Sample(ReduceSumOp, (random(3, 5),), {"axes": ()}),
    Sample(ReduceMaxOp, (random(3, 5, dtype="bool"),), {"axes": (1,)}, smooth=False),
)
