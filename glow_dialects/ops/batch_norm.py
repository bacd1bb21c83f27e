"""batch_norm: normalisation of channels by given statistics, and by those of the batch for training."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.iteration import Along, Iteration, loops
from glow_dialects.core.properties import check_choice, float_prop, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.windows import LAYOUTS, check_float


def channel_axis(layout: str, rank: int) -> int:
    """Where the channels are."""
    return rank - 1 if layout == "NHWC" else 1


def along(vector: Array, axis: int, rank: int) -> Array:
    """A vector reshaped to broadcast along one axis."""
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)])


class _BatchNorm(PureOp):
    """Checks of the operators with one number a channel."""

    epsilon = float_prop(1e-5)
    layout = str_prop("NCHW")
    input = operand_def(Tensor)
    scale = operand_def(Tensor)

    @property
    def channel(self) -> int:
        """The axis of the channels."""
        return channel_axis(self.layout, len(shape_of(self.operands[0])))

    @property
    def others(self) -> tuple[int, ...]:
        """Every axis but that of the channels."""
        return tuple(i for i in range(len(shape_of(self.operands[0]))) if i != self.channel)

    def row(self, vector: Term) -> Term:
        """A vector of the channels reshaped to broadcast."""
        rank, count = len(shape_of(self.operands[0])), vector.shape[0]
        return vector.reshape([count if i == self.channel else 1 for i in range(rank)])

    def infer(self) -> Sequence[Attribute]:
        input = self.operands[0]
        check_float(self.name, input)
        check_choice(self.name, "layout", self.layout, LAYOUTS)
        if len(shape_of(input)) < 2:
            raise VerifyException(f"{self.name}: {input.type} has no channels; it needs an axis 1")
        wanted = tensor((shape_of(input)[self.channel],), element_of(input))
        for value in self.vectors():
            if value.type != wanted:
                raise VerifyException(
                    f"{self.name}: {value.type} where the channels need {wanted}; give one number per channel"
                )
        return [input.type]

    def vectors(self) -> Sequence[SSAValue]:
        """The operands that have one number a channel."""
        return [v for v in self.operands[1:] if v is not self.predicate]


@graph_op
class BatchNormOp(_BatchNorm):
    """(input - mean) / sqrt(variance + epsilon) * scale + bias, each a vector of the channels.

    In training functions: batch_norm_train; `momentum` is how much of the running statistics stays.
    """

    name = "glow.batch_norm"
    INPLACE = ("input",)
    CHEAP = True
    momentum = float_prop(0.9)
    bias = operand_def(Tensor)
    mean = operand_def(Tensor)
    variance = operand_def(Tensor)
    result = result_def(Tensor)

    def iteration(self) -> Iteration | None:
        shape = shape_of(self.input)
        vectors = ((Along(self.channel),),) * 4
        return Iteration(shape, (loops(len(shape)),), (loops(len(shape)), *vectors))

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        # factor = scale / sqrt(variance + epsilon); input factor + (bias - mean factor)
        factor = self.scale / (Term(self.variance, b) + self.epsilon).sqrt()
        offset = self.bias - self.mean * factor
        return [(self.input * self.row(factor) + self.row(offset)).value]

    def reference(
        self, result: Array, input: Array, scale: Array, bias: Array, mean: Array, variance: Array
    ) -> None:
        axis = channel_axis(self.layout, input.ndim)
        kind = widen(input).dtype.type
        factor = widen(scale) / np.sqrt(widen(variance) + kind(self.epsilon))
        centred = widen(input) - along(widen(mean), axis, input.ndim)
        result[...] = centred * along(factor, axis, input.ndim) + along(widen(bias), axis, input.ndim)


@graph_op
class BatchNormTrainOp(_BatchNorm):
    """batch_norm by the batch's own statistics -> result, mean and (biased) variance of each channel."""

    name = "glow.batch_norm_train"
    CHEAP = True
    bias = operand_def(Tensor)
    result = result_def(Tensor)
    mean = result_def(Tensor)
    variance = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        (kind,) = super().infer()
        return [kind, self.scale.type, self.scale.type]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        x = Term(self.input, b)
        mean = x.mean(self.others)
        centred = x - mean
        variance = (centred * centred).mean(self.others)
        channels = shape_of(self.scale)
        flat = variance.reshape(channels)
        factor = self.scale / (flat + self.epsilon).sqrt()
        y = centred * self.row(factor) + self.row(Term(self.bias, b))
        return [y.value, mean.reshape(channels).value, flat.value]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        dy = grads[0]
        if dy is None or any(g is not None for g in grads[1:]):
            raise NotImplementedError(f"{self.name}: the batch's statistics have no gradient")
        statistics = (self.scale, self.mean, self.variance)
        backward = BatchNormBackwardOp(self.input, *statistics, dy, epsilon=self.epsilon, layout=self.layout)
        return b.insert(backward).results

    def reference(
        self, result: Array, mean: Array, variance: Array, input: Array, scale: Array, bias: Array
    ) -> None:
        axis, x = channel_axis(self.layout, input.ndim), widen(input)
        others = tuple(i for i in range(x.ndim) if i != axis)
        centre, spread = x.mean(axis=others), x.var(axis=others)
        factor = widen(scale) / np.sqrt(spread + x.dtype.type(self.epsilon))
        y = (x - along(centre, axis, x.ndim)) * along(factor, axis, x.ndim)
        result[...] = y + along(widen(bias), axis, x.ndim)
        mean[...], variance[...] = centre, spread


@graph_op
class BatchNormBackwardOp(_BatchNorm):
    """Gradients of batch_norm_train's input, scale and bias for the result's gradient `grad`."""

    name = "glow.batch_norm_backward"
    mean = operand_def(Tensor)
    variance = operand_def(Tensor)
    grad = operand_def(Tensor)
    input_grad = result_def(Tensor)
    scale_grad = result_def(Tensor)
    bias_grad = result_def(Tensor)

    def vectors(self) -> Sequence[SSAValue]:
        return [self.scale, self.mean, self.variance]

    def infer(self) -> Sequence[Attribute]:
        (kind,) = super().infer()
        if self.grad.type != kind:
            raise VerifyException(
                f"{self.name}: the gradient is {self.grad.type}, the input {kind}; both must be equal"
            )
        return [kind, self.scale.type, self.scale.type]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        # unit = (x - mean) / deviation; scaleG = sum(outG unit); biasG = sum(outG)
        # inG = scale / deviation (outG - biasG / n - unit scaleG / n)
        x, mean, variance, dy = (Term(v, b) for v in (self.input, self.mean, self.variance, self.grad))
        count = prod([shape_of(self.input)[i] for i in self.others])
        inverse = 1.0 / (variance + self.epsilon).sqrt()
        unit = (x - self.row(mean)) * self.row(inverse)
        bias = dy.sum(self.others)
        scale = (dy * unit).sum(self.others)
        inner = dy - bias * (1 / count) - unit * (scale * (1 / count))
        channels = shape_of(self.scale)
        dx = inner * self.row(self.scale * inverse)
        return [dx.value, scale.reshape(channels).value, bias.reshape(channels).value]

    def reference(
        self,
        input_grad: Array,
        scale_grad: Array,
        bias_grad: Array,
        input: Array,
        scale: Array,
        mean: Array,
        variance: Array,
        grad: Array,
    ) -> None:
        axis, x, dy = channel_axis(self.layout, input.ndim), widen(input), widen(grad)
        others = tuple(i for i in range(x.ndim) if i != axis)
        inverse = 1 / np.sqrt(widen(variance) + x.dtype.type(self.epsilon))
        unit = (x - along(widen(mean), axis, x.ndim)) * along(inverse, axis, x.ndim)
        bias, total = dy.sum(axis=others), (dy * unit).sum(axis=others)
        count = x.dtype.type(x.size // x.shape[axis])
        inner = dy - along(bias / count, axis, x.ndim) - unit * along(total / count, axis, x.ndim)
        input_grad[...] = inner * along(widen(scale) * inverse, axis, x.ndim)
        scale_grad[...], bias_grad[...] = total, bias


_VARIANCE = random(3, low=0.5, high=2)
SAMPLES: tuple[Sample, ...] = (
    Sample(BatchNormOp, (random(2, 3, 4, 2), random(3), random(3, seed=1), random(3, seed=2), _VARIANCE)),
    Sample(
        BatchNormOp,
        (random(2, 4, 3), random(3), random(3, seed=1), random(3, seed=2), _VARIANCE),
        {"layout": "NHWC", "epsilon": 0.1},
    ),
    Sample(BatchNormOp, (random(4, 3), random(3), random(3, seed=1), random(3, seed=2), _VARIANCE)),
    Sample(BatchNormTrainOp, (random(2, 3, 4, 2), random(3), random(3, seed=1)), smooth=False),
    Sample(
        BatchNormTrainOp, (random(5, 4, 3), random(3), random(3, seed=1)), {"layout": "NHWC"}, smooth=False
    ),
    Sample(
        BatchNormBackwardOp,
        (random(2, 3, 4), random(3), random(3, seed=1), _VARIANCE, random(2, 3, 4, seed=3)),
        smooth=False,
    ),
)
