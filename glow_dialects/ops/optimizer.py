"""Optimisers: a weight and its gradient give the weight of the next step. PyTorch's definitions.

Every one is written with smaller operators, so that no backend needs to know it. `lr` is a scalar of
the weight's element type, `step` a scalar i64 that counts finished steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, float_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Tensor, element_of, present, tensor
from glow_dialects.ops.unary_math import Expm1Op
from glow_dialects.ops.windows import check_float


class _Update(PureOp):
    """weight, gradient and states of one type; new weight and states of that type."""

    weight_decay = float_prop(0.0)
    weight = operand_def(Tensor)
    grad = operand_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        weight = self.operands[0]
        check_float(self.name, weight)
        for name, _ in self.operand_groups():
            for value in self.operand_group(name):
                if name == "lr":
                    wanted = tensor((), element_of(weight))
                else:
                    wanted = tensor((), i64) if name == "step" else weight.type
                if value.type != wanted:
                    raise VerifyException(f"{self.name}: {name} is {value.type}, expected {wanted}")
        states = [n for n, _ in self.operand_groups() if n not in ("weight", "grad", "lr", "step")]
        return [weight.type] * (1 + sum(len(self.operand_group(n)) for n in states))

    def decayed(self, b: Builder) -> Term:
        """The gradient with weight decay added."""
        grad, decay = Term(self.grad, b), self.weight_decay
        return grad + Term(self.weight, b) * decay if decay else grad


@graph_op
class SgdOp(_Update):
    """weight - lr (grad + weight_decay weight)."""

    name = "glow.sgd"
    lr = operand_def(Tensor)
    result = result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        return [(self.weight - self.decayed(b) * self.lr).value]


@graph_op
class MomentumOp(_Update):
    """v' = momentum v + (1 - dampening) g; weight - lr v', or weight - lr (g + momentum v') with `nesterov`.

    g = grad + weight_decay weight; results: new weight, v'. With a `step` the first v' is g, undamped.
    """

    name = "glow.momentum"
    momentum = float_prop(0.9)
    nesterov = bool_prop(False)
    dampening = float_prop(0.0)
    velocity = operand_def(Tensor)
    lr = operand_def(Tensor)
    step = opt_operand_def(Tensor)
    result = result_def(Tensor)
    new_velocity = result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        grad, momentum = self.decayed(b), self.momentum
        joined, dampening = grad, self.dampening
        if dampening:
            joined = grad * (1 - dampening)
            for step in present(self.step):
                joined = Term(step, b).equals(0).where(grad, joined)
        velocity = Term(self.velocity, b) * momentum + joined
        way = grad + velocity * momentum if self.nesterov else velocity
        return [(self.weight - way * self.lr).value, velocity.value]


@graph_op
class AdamOp(_Update):
    """Adam; with `decoupled` AdamW, whose decay shrinks the weight instead of joining the gradient.

    m' = beta1 m + (1 - beta1) g, v' = beta2 v + (1 - beta2) g^2, t = step + 1,
    weight - lr (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon); results: new weight, m', v'.
    With `largest`, AMSGrad: the largest v' so far divides, and is a result.
    """

    name = "glow.adam"
    beta1 = float_prop(0.9)
    beta2 = float_prop(0.999)
    epsilon = float_prop(1e-8)
    decoupled = bool_prop(False)
    first = operand_def(Tensor)
    second = operand_def(Tensor)
    largest = opt_operand_def(Tensor)
    lr = operand_def(Tensor)
    step = operand_def(Tensor)
    result = result_def(Tensor)
    new_first = result_def(Tensor)
    new_second = result_def(Tensor)
    new_largest = var_result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        weight, grad, lr = (Term(v, b) for v in (self.weight, self.grad, self.lr))
        beta1, beta2, decay = self.beta1, self.beta2, self.weight_decay
        if self.decoupled:
            if decay:
                weight = weight * (1.0 - lr * decay)
        else:
            grad = self.decayed(b)
        first = Term(self.first, b) * beta1 + grad * (1 - beta1)
        second = Term(self.second, b) * beta2 + grad * grad * (1 - beta2)
        largest = [Term(value, b).maximum(second) for value in present(self.largest)]
        time = Term(self.step, b).cast(lr.element) + 1.0
        size = lr / _correction(time, beta1)
        root = 1.0 / _correction(time, beta2).sqrt()
        scale = (*largest, second)[0].sqrt() * root + self.epsilon
        return [v.value for v in (weight - first * size / scale, first, second, *largest)]


def _correction(time: Term, beta: float) -> Term:
    """1 - beta^time, exact also where beta^time is near 1."""
    if beta == 0:
        return time.of(1.0)
    return (time * math.log(beta)).apply(Expm1Op) * -1.0


@graph_op
class RmspropOp(_Update):
    """s' = alpha s + (1 - alpha) g^2; weight - lr g / (sqrt(s') + epsilon); results: new weight, s'.

    With `mean` the root is that of the variance, s' - mean'^2, mean' = alpha mean + (1 - alpha) g.
    With `velocity` that quotient joins it, v' = momentum v + g / (...); weight - lr v'.
    """

    name = "glow.rmsprop"
    alpha = float_prop(0.99)
    epsilon = float_prop(1e-8)
    momentum = float_prop(0.0)
    square = operand_def(Tensor)
    mean = opt_operand_def(Tensor)
    velocity = opt_operand_def(Tensor)
    lr = operand_def(Tensor)
    result = result_def(Tensor)
    new_square = result_def(Tensor)
    others = var_result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        grad, alpha = self.decayed(b), self.alpha
        square = Term(self.square, b) * alpha + grad * grad * (1 - alpha)
        spread, others = square, list[Term]()
        for old in present(self.mean):
            mean = Term(old, b) * alpha + grad * (1 - alpha)
            spread = square - mean * mean
            others.append(mean)
        scale = spread.sqrt() + self.epsilon
        if self.velocity is None:
            return [v.value for v in (self.weight - grad * self.lr / scale, square, *others)]
        velocity = Term(self.velocity, b) * self.momentum + grad / scale
        return [v.value for v in (self.weight - velocity * self.lr, square, *others, velocity)]


@graph_op
class AdagradOp(_Update):
    """s' = s + g^2; weight - rate g / (sqrt(s') + epsilon); results: new weight, s'.

    rate = lr / (1 + lr_decay step), lr without a `step`.
    """

    name = "glow.adagrad"
    epsilon = float_prop(1e-10)
    lr_decay = float_prop(0.0)
    square = operand_def(Tensor)
    lr = operand_def(Tensor)
    step = opt_operand_def(Tensor)
    result = result_def(Tensor)
    new_square = result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        rate = Term(self.lr, b)
        for step in present(self.step):
            time = Term(step, b).cast(rate.element)
            rate = rate / (time * self.lr_decay + 1.0)
        grad = self.decayed(b)
        square = self.square + grad * grad
        scale = square.sqrt() + self.epsilon
        return [(self.weight - grad * rate / scale).value, square.value]


def _rows(count: int) -> tuple[np.ndarray, ...]:
    return tuple(random(2, 3, seed=i, low=0.1) for i in range(count))


_LR = np.array(0.1, np.float32)
SAMPLES: tuple[Sample, ...] = (
    Sample(SgdOp, (*_rows(2), _LR), {"weight_decay": 0.1}, smooth=False),
    Sample(MomentumOp, (*_rows(3), _LR, None), {"nesterov": True}, smooth=False),
    Sample(MomentumOp, (*_rows(3), _LR, np.array(0)), {"dampening": 0.5}, smooth=False),
    Sample(AdamOp, (*_rows(4), None, _LR, np.array(3)), {"weight_decay": 0.1}, smooth=False),
    Sample(AdamOp, (*_rows(5), _LR, np.array(0)), {"weight_decay": 0.1, "decoupled": True}, smooth=False),
    Sample(RmspropOp, (*_rows(3), None, None, _LR), smooth=False),
    Sample(
        RmspropOp, (*_rows(2), np.ones((2, 3), np.float32), *_rows(2), _LR), {"momentum": 0.9}, smooth=False
    ),
    Sample(AdagradOp, (*_rows(3), _LR, None), smooth=False),
    Sample(AdagradOp, (*_rows(3), _LR, np.array(3)), {"lr_decay": 0.1}, smooth=False),
)
