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
from glow_dialects.core.types import Tensor, element_of, present, tensor
from glow_dialects.ops.arithmetic import MaxOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.formula import Formula
from glow_dialects.ops.select import SelectOp
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

    def decayed(self, f: Formula) -> SSAValue:
        """The gradient with weight decay added."""
        weight, grad, decay = self.operands[0], self.operands[1], self.weight_decay
        return f.add(grad, f.mul(weight, decay)) if decay else grad


@graph_op
class SgdOp(_Update):
    """weight - lr (grad + weight_decay weight)."""

    name = "glow.sgd"
    lr = operand_def(Tensor)
    result = result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        f = Formula(b, self.weight)
        return [f.sub(self.weight, f.mul(self.decayed(f), self.lr))]


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
        f, momentum = Formula(b, self.weight), self.momentum
        grad = self.decayed(f)
        joined, dampening = grad, self.dampening
        if dampening:
            joined = f.mul(grad, 1 - dampening)
            for step in present(self.step):
                first = b(CmpEqOp(step, b.scalar(0, step)))
                joined = b(SelectOp(first, grad, joined))
        velocity = f.add(f.mul(self.velocity, momentum), joined)
        way = f.add(grad, f.mul(velocity, momentum)) if self.nesterov else velocity
        return [f.sub(self.weight, f.mul(way, self.lr)), velocity]


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
        f, weight, grad = Formula(b, self.weight), self.weight, self.grad
        beta1, beta2, decay = self.beta1, self.beta2, self.weight_decay
        if self.decoupled:
            if decay:
                weight = f.mul(weight, f.sub(1.0, f.mul(self.lr, decay)))
        else:
            grad = self.decayed(f)
        first = f.add(f.mul(self.first, beta1), f.mul(grad, 1 - beta1))
        second = f.add(f.mul(self.second, beta2), f.mul(grad, grad, 1 - beta2))
        largest = [b(MaxOp(value, second)) for value in present(self.largest)]
        time = f.add(b(CastOp(self.step, results=self.lr.type)), 1.0)
        size = f.div(self.lr, _correction(f, time, beta1))
        root = f.div(1.0, f.sqrt(_correction(f, time, beta2)))
        scale = f.add(f.mul(f.sqrt((*largest, second)[0]), root), self.epsilon)
        return [f.sub(weight, f.div(f.mul(first, size), scale)), first, second, *largest]


def _correction(f: Formula, time: SSAValue, beta: float) -> SSAValue:
    """1 - beta^time, exact also where beta^time is near 1."""
    if beta == 0:
        return f.of(1.0)
    return f.mul(f.b(Expm1Op(f.mul(time, math.log(beta)))), -1.0)


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
        f, alpha = Formula(b, self.weight), self.alpha
        grad = self.decayed(f)
        square = f.add(f.mul(self.square, alpha), f.mul(grad, grad, 1 - alpha))
        spread, others = square, list[SSAValue]()
        for old in present(self.mean):
            mean = f.add(f.mul(old, alpha), f.mul(grad, 1 - alpha))
            spread = f.sub(square, f.mul(mean, mean))
            others.append(mean)
        scale = f.add(f.sqrt(spread), self.epsilon)
        velocities = present(self.velocity)
        if not velocities:
            return [f.sub(self.weight, f.div(f.mul(grad, self.lr), scale)), square, *others]
        velocity = f.add(f.mul(velocities[0], self.momentum), f.div(grad, scale))
        return [f.sub(self.weight, f.mul(velocity, self.lr)), square, *others, velocity]


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
        f, rate = Formula(b, self.weight), self.lr
        for step in present(self.step):
            time = b(CastOp(step, results=self.lr.type))
            rate = f.div(rate, f.add(f.mul(time, self.lr_decay), 1.0))
        grad = self.decayed(f)
        square = f.add(self.square, f.mul(grad, grad))
        scale = f.add(f.sqrt(square), self.epsilon)
        return [f.sub(self.weight, f.div(f.mul(grad, rate), scale)), square]


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
