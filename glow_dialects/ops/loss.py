"""Losses: each is written with smaller operators, which are then differentiated.

`reduction` is "mean", "sum" or "none" (one loss for each sample or element). Definitions are those
of PyTorch's functions of these names.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import check_choice, float_prop, opt_int_prop, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Tensor, dtype_of, element_of, present, shape_of, tensor, typed
from glow_dialects.ops.activation import ClipOp, SoftplusOp
from glow_dialects.ops.softmax import LogSoftmaxOp
from glow_dialects.ops.windows import check_float

REDUCTIONS = ("mean", "sum", "none")


def _reduced(op: _ElementLoss | CrossEntropyOp, each: Term, divisor: Term | None = None) -> SSAValue:
    """The losses `each`, their sum, or the sum over `divisor` (by default the number of losses)."""
    reduction, axes = op.reduction, tuple(range(len(each.shape)))
    if reduction == "none":
        return each.value
    if reduction == "mean" and divisor is None:
        return each.mean(axes, keepdims=False).value
    total = each.sum(axes, keepdims=False)
    return (total if reduction == "sum" else total / (1.0 if divisor is None else divisor)).value


class _ElementLoss(PureOp):
    """A loss for each pair of elements of two tensors of one type."""

    reduction = str_prop("mean")
    input = operand_def(Tensor)
    target = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_float(self.name, self.input)
        check_choice(self.name, "reduction", self.reduction, REDUCTIONS)
        if self.input.type != self.target.type:
            raise VerifyException(
                f"{self.name}: input {self.input.type} and target {self.target.type} differ"
                "; both need the same shape and type"
            )
        return [self.input.type if self.reduction == "none" else tensor((), element_of(self.input))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        return [_reduced(self, self.losses(Term(self.input, b), Term(self.target, b)))]

    def losses(self, x: Term, t: Term) -> Term:
        """The loss of each pair of x and target t."""
        raise NotImplementedError(self.name)


@graph_op
class CrossEntropyOp(PureOp):
    """-log softmax(logits)[label], classes along axis 1: logits [N, C, ...], labels [N, ...] integers.

    `weights` [C] weigh the classes (the mean is then over the weights of the labels);
    `label_smoothing` s mixes the label with the uniform distribution, s of it; samples whose label
    is `ignore_index` do not count.
    """

    name = "glow.cross_entropy"
    reduction = str_prop("mean")
    label_smoothing = float_prop(0.0)
    ignore_index = opt_int_prop()
    logits = operand_def(Tensor)
    labels = operand_def(Tensor)
    weights = opt_operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_float(self.name, self.logits)
        check_choice(self.name, "reduction", self.reduction, REDUCTIONS)
        shape = shape_of(self.logits)
        if len(shape) < 2 or shape[1] == 0:
            raise VerifyException(
                f"{self.name}: logits {self.logits.type} have no classes; they need an axis 1 of some"
            )
        samples = (shape[0], *shape[2:])
        if shape_of(self.labels) != samples or dtype_of(typed(self.labels)).kind not in "iu":
            wanted = "x".join(map(str, samples))
            raise VerifyException(f"{self.name}: labels are {self.labels.type}, expected {wanted} integers")
        if not 0 <= self.label_smoothing < 1:
            raise VerifyException(
                f"{self.name}: label_smoothing {self.label_smoothing}; give a number from 0 to below 1"
            )
        for value in present(self.weights):
            if value.type != tensor((shape[1],), element_of(self.logits)):
                raise VerifyException(
                    f"{self.name}: weights {value.type} for {shape[1]} classes; give one number per class"
                )
        return [tensor(samples if self.reduction == "none" else (), element_of(self.logits))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        # -sum over classes of target * log softmax, target = (1 - s) one-hot + s / C, times weights
        logits, labels = Term(self.logits, b), Term(self.labels, b)
        shape = logits.shape
        classes, rank = shape[1], len(shape)
        smoothing, ignored = self.label_smoothing, self.ignore_index
        column = labels.reshape((shape[0], 1, *shape[2:]))
        places = np.arange(classes).astype(dtype_of(typed(self.labels))).reshape(classes, *(1,) * (rank - 2))
        hot = column.equals(b.constant(places)).cast(logits.element)
        weights: Term | None = None
        for value in present(self.weights):
            weights = Term(value, b).reshape((classes, *(1,) * (rank - 2)))
        kept: Term | None = None
        if ignored is not None:
            kept = column.differs(ignored).cast(logits.element)
        target = hot
        if smoothing:
            target = hot * (1 - smoothing) + smoothing / classes
        for factor in (weights, kept):
            target = target if factor is None else target * factor
        terms = target * logits.apply(LogSoftmaxOp, axis=1)
        each = terms.sum((1,), keepdims=False) * -1.0
        if weights is None and kept is None:
            return [_reduced(self, each)]
        counted = hot
        for factor in (weights, kept):
            counted = counted if factor is None else counted * factor
        divisor = counted.sum(tuple(range(rank)), keepdims=False)
        return [_reduced(self, each, divisor)]


@graph_op
class SigmoidCrossEntropyOp(_ElementLoss):
    """-target log sigmoid(input) - (1 - target) log(1 - sigmoid(input)), without overflow."""

    name = "glow.sigmoid_cross_entropy"

    def losses(self, x: Term, t: Term) -> Term:
        return x.apply(SoftplusOp) - x * t


@graph_op
class BinaryCrossEntropyOp(_ElementLoss):
    """-target log(input) - (1 - target) log(1 - input) of probabilities; logarithms are at least -100."""

    name = "glow.binary_cross_entropy"

    def losses(self, x: Term, t: Term) -> Term:
        tiny = 1e-38 if dtype_of(typed(x.value)).itemsize >= 4 else 1e-7

        def logarithm(p: Term) -> Term:
            return p.apply(ClipOp, min=tiny).log().maximum(-100.0)

        here, there = t * logarithm(x), (1.0 - t) * logarithm(1.0 - x)
        return (here + there) * -1.0


@graph_op
class MeanSquaredErrorOp(_ElementLoss):
    """(input - target)^2."""

    name = "glow.mean_squared_error"

    def losses(self, x: Term, t: Term) -> Term:
        difference = x - t
        return difference * difference


@graph_op
class L1LossOp(_ElementLoss):
    """|input - target|."""

    name = "glow.l1_loss"

    def losses(self, x: Term, t: Term) -> Term:
        return abs(x - t)


@graph_op
class HuberLossOp(_ElementLoss):
    """d = |input - target|: d^2 / 2 below `delta`, delta (d - delta / 2) from there on."""

    name = "glow.huber_loss"
    delta = float_prop(1.0)

    def losses(self, x: Term, t: Term) -> Term:
        delta = self.delta
        d = abs(x - t)
        low, high = d * d * 0.5, (d - delta / 2) * delta
        return (d < delta).where(low, high)


@graph_op
class RegressionOp(PureOp):
    """The input itself; the gradient that starts here is input - expected (Glow: Regression)."""

    name = "glow.regression"
    input = operand_def(Tensor)
    expected = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_float(self.name, self.input)
        if self.input.type != self.expected.type:
            raise VerifyException(
                f"{self.name}: {self.input.type} and {self.expected.type} differ"
                "; both need the same shape and type"
            )
        return [self.input.type]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        return [self.input]

    def gradient(self, grads: Sequence[SSAValue | None], b: Builder) -> Sequence[SSAValue | None]:
        # A loss root: what comes after it does not matter.
        return [(Term(self.input, b) - self.expected).value, None]


_LABELS = np.array([2, 0, 3])
SAMPLES: tuple[Sample, ...] = (
    Sample(CrossEntropyOp, (random(3, 4), _LABELS, None)),
    Sample(CrossEntropyOp, (random(3, 4), _LABELS, random(4, low=0.5, high=2)), {"label_smoothing": 0.1}),
    Sample(CrossEntropyOp, (random(3, 4), _LABELS, None), {"ignore_index": 0, "reduction": "sum"}),
    Sample(CrossEntropyOp, (random(3, 4, 2), np.array([[2, 0], [1, 1], [3, 0]]), None)),
    Sample(SigmoidCrossEntropyOp, (random(3, 4), random(3, 4, low=0, seed=1))),
    Sample(BinaryCrossEntropyOp, (random(3, 4, low=0.1, high=0.9), random(3, 4, low=0, seed=1))),
    Sample(MeanSquaredErrorOp, (random(3, 4), random(3, 4, seed=1)), {"reduction": "none"}),
    Sample(L1LossOp, (random(3, 4), random(3, 4, seed=1)), {"reduction": "sum"}),
    Sample(HuberLossOp, (random(3, 4), random(3, 4, seed=1)), {"delta": 0.5}),
    Sample(RegressionOp, (random(3, 4), random(3, 4, seed=1)), smooth=False),
)
