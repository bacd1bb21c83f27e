"""Reductions over axes: sum mean max min prod sum_square l1 l2 log_sum log_sum_exp."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, check_axes, ints_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, is_float, shape_of, tensor
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp, SubOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.logic import IsInfOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import AbsOp, ExpOp, LogOp, SignOp, SqrtOp


def reduced_shape(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """`shape` with the axes at 1, or without them."""
    if keepdims:
        return tuple(1 if i in axes else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in axes)


class ReductionOp(PureOp):
    """A reduction over `axes` (non-negative, distinct); reduced axes stay as 1 where `keepdims`."""

    axes = ints_prop()
    keepdims = bool_prop(False)

    def infer(self) -> Sequence[Attribute]:
        x = self.operands[0]
        axes = self.axes
        check_axes(self.name, axes, len(shape_of(x)))
        return [tensor(reduced_shape(shape_of(x), axes, self.keepdims), element_of(x))]


def kept(value: SSAValue, op: Any, b: Builder) -> SSAValue:
    """A value of the reduction's result shape with its reduced axes as 1, to broadcast with the input."""
    wide = reduced_shape(shape_of(op.input), op.axes, True)
    if shape_of(value) == wide:
        return value
    return b(ReshapeOp(value, results=tensor(wide, element_of(value))))


def count_of(op: Any) -> int:
    """How many elements one result stands for."""
    axes: tuple[int, ...] = op.axes
    return math.prod(shape_of(op.input)[i] for i in axes)


def again(kind: type[Any], x: SSAValue, op: Any, b: Builder, keepdims: bool | None = None) -> SSAValue:
    """Another reduction over the same axes."""
    keep = op.keepdims if keepdims is None else keepdims
    return b(kind(x, axes=op.axes, keepdims=keep))


def _over_input(value: SSAValue, op: Any, b: Builder) -> SSAValue:
    """A value of the result's shape repeated over the input's."""
    from glow_dialects.ops.expand import ExpandOp

    wide = kept(value, op, b)
    kind = tensor(shape_of(op.input), element_of(value))
    return wide if wide.type == kind else b(ExpandOp(wide, results=kind))


ReductionGradient = Callable[[Any, SSAValue, Builder], SSAValue | None]
Reducer = Callable[[Array, tuple[int, ...]], Array]


def _reduction(
    name: str,
    meaning: str,
    reduce: Reducer,
    gradient: ReductionGradient,
    decompose: Callable[[Any, Builder], SSAValue] | None = None,
) -> type[Any]:
    """The node of a reduction; `reduce(x, axes)` keeps no axes."""
    camel = "Reduce" + "".join(part.capitalize() for part in name.split("_"))

    def backward(self: Any, grads: Sequence[SSAValue | None], b: Builder) -> list[SSAValue | None]:
        dy = grads[0]
        assert dy is not None
        return [gradient(self, dy, b)]

    def parts(self: Any, b: Builder) -> list[SSAValue]:
        assert decompose is not None
        return [_decomposed(self, decompose, b)]

    fields: dict[str, Any] = {
        "__doc__": meaning,
        "__module__": __name__,
        "__annotations__": {},
        "name": f"glow.reduce_{name}",
        "input": operand_def(Tensor),
        "result": result_def(Tensor),
        "gradient": backward,
    }
    if decompose is not None:
        fields["decompose"] = parts

    def reference(self: Any, result: Array, input: Array) -> None:
        with np.errstate(all="ignore"):
            made = reduce(widen(input), tuple(self.axes))
            result[...] = np.asarray(made).reshape(result.shape)

    fields["reference"] = reference
    return graph_op(type(f"{camel}Op", (ReductionOp,), fields))


#: Reductions whose result is irrational: of integers they are computed in float64 and truncated.
_REAL = ("glow.reduce_l2", "glow.reduce_log_sum", "glow.reduce_log_sum_exp")


def _decomposed(op: Any, rule: Callable[[Any, Builder], SSAValue], b: Builder) -> SSAValue:
    if op.name not in _REAL or is_float(element_of(op.input)):
        return rule(op, b)
    wide = b(CastOp(op.input, results=tensor(shape_of(op.input), f64)))
    kind: type[Any] = type(op)  # pyright: ignore[reportUnknownVariableType]
    return b(CastOp(again(kind, wide, op, b), results=op.result.type))


def _real(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind in "iub" else x


def _sum(x: Array, axes: tuple[int, ...]) -> Array:
    return np.sum(x, axis=axes, dtype=x.dtype)


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    if x.dtype.kind in "iu":  # the exact quotient, towards zero
        count = max(math.prod(x.shape[i] for i in axes), 1)
        total = np.sum(x, axis=axes, dtype=np.uint64 if x.dtype.kind == "u" else np.int64)
        quotient = np.floor_divide(total, count)
        return (quotient + ((total < 0) & (quotient * count != total))).astype(x.dtype)
    count = math.prod(x.shape[i] for i in axes)
    return _sum(x, axes) / x.dtype.type(count)


def _limits(dtype: np.dtype) -> tuple[Any, Any]:
    """(lowest, highest) value: what max and min of nothing are."""
    if dtype.kind == "b":
        return False, True
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return -np.inf, np.inf


def _max(x: Array, axes: tuple[int, ...]) -> Array:
    return np.max(x, axis=axes, initial=_limits(x.dtype)[0])


def _min(x: Array, axes: tuple[int, ...]) -> Array:
    return np.min(x, axis=axes, initial=_limits(x.dtype)[1])


def _log_sum_exp(x: Array, axes: tuple[int, ...]) -> Array:
    x = _real(x)
    top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    finite: Array = np.where(np.isinf(top), 0, top).astype(x.dtype)
    total: Array = np.sum(np.exp(x - finite), axis=axes, keepdims=True)
    return np.log(total) + finite


def _half_zero(op: Any, dy: SSAValue, ratio: SSAValue, b: Builder) -> SSAValue:
    """dy * ratio, 0 where the result is 0."""
    zero = b.scalar(0, ratio)
    is_zero = b(CmpEqOp(kept(op.result, op, b), zero))
    return b(MulOp(dy, b(SelectOp(is_zero, zero, ratio))))


def _extreme_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    # inG = in == out ? outG / ties : 0
    same = b(CmpEqOp(op.input, kept(op.result, op, b)))
    mask = b(CastOp(same, results=op.input.type))
    ties = again(ReduceSumOp, mask, op, b, keepdims=True)
    return b(MulOp(mask, b(DivOp(kept(dy, op, b), ties))))


def _product_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    # The product of the others: out / in without zeros; with one zero only its own is not 0.
    one, zero = b.scalar(1, dy), b.scalar(0, dy)
    is_zero = b(CmpEqOp(op.input, zero))
    filled = b(SelectOp(is_zero, one, op.input))
    product = again(ReduceProdOp, filled, op, b, keepdims=True)
    zeros = again(ReduceSumOp, b(CastOp(is_zero, results=op.input.type)), op, b, keepdims=True)
    of_zero = b(SelectOp(b(CmpEqOp(zeros, one)), product, zero))
    of_other = b(DivOp(b(SelectOp(b(CmpEqOp(zeros, zero)), product, zero)), filled))
    others = b(SelectOp(is_zero, of_zero, of_other))
    return b(MulOp(kept(dy, op, b), others))


def _l2_gradient(op: Any, dy: SSAValue, b: Builder) -> SSAValue:
    # inG = outG in / out
    ratio = b(DivOp(op.input, kept(op.result, op, b)))
    return _half_zero(op, kept(dy, op, b), ratio, b)


def _mean_decomposed(op: Any, b: Builder) -> SSAValue:
    total = again(ReduceSumOp, op.input, op, b)
    count = max(count_of(op), 1)
    if is_float(element_of(total)):
        return b(MulOp(total, b.scalar(1 / count, total)))
    return b(DivOp(total, b.scalar(count, total)))


def _log_sum_exp_decomposed(op: Any, b: Builder) -> SSAValue:
    top = again(ReduceMaxOp, op.input, op, b, keepdims=True)
    top = b(SelectOp(b(IsInfOp(top)), b.scalar(0, top), top))
    total = again(ReduceSumOp, b(ExpOp(b(SubOp(op.input, top)))), op, b, keepdims=True)
    result = b(AddOp(b(LogOp(total)), top))
    return result if result.type == op.result.type else b(ReshapeOp(result, results=op.result.type))


ReduceSumOp = _reduction(
    "sum", "The sum, in the element type", _sum, lambda op, dy, b: _over_input(dy, op, b)
)
ReduceMeanOp = _reduction(
    "mean",
    "The mean; of integers towards zero",
    _mean,
    lambda op, dy, b: _over_input(b(MulOp(dy, b.scalar(1 / max(count_of(op), 1), dy))), op, b),
    _mean_decomposed,
)
ReduceMaxOp = _reduction(
    "max", "The largest; NaN if any is, the lowest value of nothing", _max, _extreme_gradient
)
ReduceMinOp = _reduction(
    "min", "The smallest; NaN if any is, the highest value of nothing", _min, _extreme_gradient
)
ReduceProdOp = _reduction(
    "prod",
    "The product, in the element type",
    lambda x, axes: np.prod(x, axis=axes, dtype=x.dtype),
    _product_gradient,
)
ReduceSumSquareOp = _reduction(
    "sum_square",
    "The sum of squares",
    lambda x, axes: _sum(x * x, axes),
    lambda op, dy, b: b(MulOp(b(MulOp(op.input, b.scalar(2, op.input))), kept(dy, op, b))),
    lambda op, b: again(ReduceSumOp, b(MulOp(op.input, op.input)), op, b),
)
ReduceL1Op = _reduction(
    "l1",
    "The sum of absolute values",
    lambda x, axes: _sum(np.abs(x), axes),
    lambda op, dy, b: b(MulOp(b(SignOp(op.input)), kept(dy, op, b))),
    lambda op, b: again(ReduceSumOp, b(AbsOp(op.input)), op, b),
)
ReduceL2Op = _reduction(
    "l2",
    "The Euclidean norm",
    lambda x, axes: np.sqrt(_sum(_real(x) ** 2, axes)),
    _l2_gradient,
    lambda op, b: b(SqrtOp(again(ReduceSumSquareOp, op.input, op, b))),
)
ReduceLogSumOp = _reduction(
    "log_sum",
    "The logarithm of the sum",
    lambda x, axes: np.log(_sum(_real(x), axes)),
    lambda op, dy, b: _over_input(b(DivOp(dy, again(ReduceSumOp, op.input, op, b))), op, b),
    lambda op, b: b(LogOp(again(ReduceSumOp, op.input, op, b))),
)
ReduceLogSumExpOp = _reduction(
    "log_sum_exp",
    "log(sum(e^x)), computed without overflow",
    _log_sum_exp,
    lambda op, dy, b: b(MulOp(b(ExpOp(b(SubOp(op.input, kept(op.result, op, b))))), kept(dy, op, b))),
    _log_sum_exp_decomposed,
)

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
