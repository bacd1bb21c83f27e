"""softmax, log_softmax: exponentials along one axis that sum to one, and their logarithms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ml_dtypes import finfo
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.iteration import Iteration, pointwise
from glow_dialects.core.properties import bool_prop, check_axis, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, dtype_of, shape_of
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.windows import check_float


def softmax(x: Array, axis: int, masked: bool = False) -> Array:
    """e^x / sum e^x, computed without overflow; `masked` gives 0 where all of a line is -inf."""
    top = x.max(axis=axis, keepdims=True)
    if not masked:
        raised = np.exp(x - top)
        return raised / raised.sum(axis=axis, keepdims=True)
    raised = np.exp(x - np.maximum(top, np.finfo(x.dtype).min))
    return raised / np.maximum(raised.sum(axis=axis, keepdims=True), 0.5)


def log_softmax(x: Array, axis: int) -> Array:
    """x - log(sum e^x), computed without overflow."""
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


class _AlongAxis(PureOp):
    """One axis of a float tensor; the type is unchanged."""

    AXES = ("axis",)
    axis = int_prop()
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        input = self.operands[0]
        check_float(self.name, input)
        check_axis(self.name, self.axis, len(shape_of(input)))
        return [input.type]

    def iteration(self) -> Iteration | None:
        shape = shape_of(self.operands[0])
        return pointwise(shape, [shape_of(v) for v in self.operands], (self.axis,))


@graph_op
class SoftmaxOp(_AlongAxis):
    """e^x / sum e^x along `axis`; a line of nothing but -inf gives NaN, or 0 where it is `masked`."""

    name = "glow.softmax"
    INPLACE = ("input",)
    CHEAP = True
    masked = bool_prop(False)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        x, axes = Term(self.input, b), (self.axis,)
        top = x.max(axes)
        if not self.masked:
            raised = (x - top).exp()
            return [(raised / raised.sum(axes)).value]
        raised = (x - top.maximum(float(finfo(dtype_of(self.operands[0].type)).min))).exp()
        return [(raised / raised.sum(axes).maximum(0.5)).value]  # the largest is 1 in any other line

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        # inG = out (outG - sum(out outG))
        grad = Term(dy, b)
        total = (grad * self.result).sum((self.axis,))
        return [(self.result * (grad - total)).value]

    def reference(self, result: Array, input: Array) -> None:
        if input.size:
            result[...] = softmax(widen(input), self.axis, self.masked)


@graph_op
class LogSoftmaxOp(_AlongAxis):
    """x - log(sum e^x) along `axis`."""

    name = "glow.log_softmax"
    INPLACE = ("input",)
    CHEAP = True

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        x, axes = Term(self.input, b), (self.axis,)
        shifted = x - x.max(axes)
        return [(shifted - shifted.exp().sum(axes).log()).value]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        # inG = outG - e^out sum(outG)
        grad = Term(dy, b)
        return [(grad - Term(self.result, b).exp() * grad.sum((self.axis,))).value]

    def reference(self, result: Array, input: Array) -> None:
        if input.size:
            result[...] = log_softmax(widen(input), self.axis)


_EMPTY = random(3, 5)
_EMPTY[1:] = -np.inf
_EMPTY[2, 3] = 80.0

SAMPLES: tuple[Sample, ...] = (
    Sample(SoftmaxOp, (random(3, 5),), {"axis": 1}),
    Sample(SoftmaxOp, (random(2, 3, 4, low=-40, high=40),), {"axis": 0}, smooth=False),
    Sample(SoftmaxOp, (random(2, 3, 4),), {"axis": 1}),
    *(Sample(SoftmaxOp, (_EMPTY,), {"axis": axis, "masked": True}, smooth=False) for axis in (0, 1)),
    Sample(LogSoftmaxOp, (random(3, 5),), {"axis": 1}),
    Sample(LogSoftmaxOp, (random(2, 3, 4),), {"axis": 0}),
)
