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
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, float_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Tensor, element_of, tensor
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.formula import Formula
from glow_dialects.ops.unary_math import Expm1Op
from glow_dialects.ops.windows import check_float


class _Update(PureOp):
    """weight, gradient and states of one type; new weight and states of that type."""

    def infer(self) -> Sequence[Attribute]:
        weight = self.operands[0]
        check_float(self.name, weight)
        for name, _ in self.groups():
            for value in self.group(name):
                if name == "lr":
                    wanted = tensor((), element_of(weight))
                else:
                    wanted = tensor((), i64) if name == "step" else weight.type
                if value.type != wanted:
                    raise VerifyException(f"{self.name}: {name} is {value.type}, expected {wanted}")
        return [weight.type for _ in self.get_irdl_definition().results]

    def decayed(self, f: Formula) -> SSAValue:
        """The gradient with weight decay added."""
        weight, grad, decay = self.operands[0], self.operands[1], self.prop("weight_decay")
        return f.add(grad, f.mul(weight, decay)) if decay else grad


@graph_op
class SgdOp(_Update):
    """weight - lr (grad + weight_decay weight)."""

    name = "glow.sgd"
    weight_decay = float_prop(0.0)
    weight = operand_def(Tensor)
    grad = operand_def(Tensor)
    lr = operand_def(Tensor)
    result = result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        f = Formula(b, self.weight)
        return [f.sub(self.weight, f.mul(self.decayed(f), self.lr))]


@graph_op
class MomentumOp(_Update):
    """v' = momentum v + g; weight - lr v', or weight - lr (g + momentum v') with `nesterov`.

    g = grad + weight_decay weight; results: new weight, v'.
    """

    name = "glow.momentum"
    momentum = float_prop(0.9)
    nesterov = bool_prop(False)
    weight_decay = float_prop(0.0)
    weight = operand_def(Tensor)
    grad = operand_def(Tensor)
    velocity = operand_def(Tensor)
    lr = operand_def(Tensor)
    result = result_def(Tensor)
    new_velocity = result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        f, momentum = Formula(b, self.weight), self.prop("momentum")
        grad = self.decayed(f)
        velocity = f.add(f.mul(self.velocity, momentum), grad)
        way = f.add(grad, f.mul(velocity, momentum)) if self.prop("nesterov") else velocity
        return [f.sub(self.weight, f.mul(way, self.lr)), velocity]


@graph_op
class AdamOp(_Update):
    """Adam; with `decoupled` AdamW, whose decay shrinks the weight instead of joining the gradient.

    m' = beta1 m + (1 - beta1) g, v' = beta2 v + (1 - beta2) g^2, t = step + 1,
    weight - lr (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon); results: new weight, m', v'.
    """

    name = "glow.adam"
    beta1 = float_prop(0.9)
    beta2 = float_prop(0.999)
    epsilon = float_prop(1e-8)
    weight_decay = float_prop(0.0)
    decoupled = bool_prop(False)
    weight = operand_def(Tensor)
    grad = operand_def(Tensor)
    first = operand_def(Tensor)
    second = operand_def(Tensor)
    lr = operand_def(Tensor)
    step = operand_def(Tensor)
    result = result_def(Tensor)
    new_first = result_def(Tensor)
    new_second = result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        f, weight, grad = Formula(b, self.weight), self.weight, self.grad
        beta1, beta2, decay = self.prop("beta1"), self.prop("beta2"), self.prop("weight_decay")
        if self.prop("decoupled"):
            if decay:
                weight = f.mul(weight, f.sub(1.0, f.mul(self.lr, decay)))
        else:
            grad = self.decayed(f)
        first = f.add(f.mul(self.first, beta1), f.mul(grad, 1 - beta1))
        second = f.add(f.mul(self.second, beta2), f.mul(grad, grad, 1 - beta2))
        time = f.add(b(CastOp(self.step, results=self.lr.type)), 1.0)
        size = f.div(self.lr, _correction(f, time, beta1))
        root = f.div(1.0, f.sqrt(_correction(f, time, beta2)))
        scale = f.add(f.mul(f.sqrt(second), root), self.prop("epsilon"))
        return [f.sub(weight, f.div(f.mul(first, size), scale)), first, second]


def _correction(f: Formula, time: SSAValue, beta: float) -> SSAValue:
    """1 - beta^time, exact also where beta^time is near 1."""
    if beta == 0:
        return f.of(1.0)
    return f.mul(f.b(Expm1Op(f.mul(time, math.log(beta)))), -1.0)


class _RootUpdate(_Update):
    """weight - lr g / (sqrt(s') + epsilon), s' the running sum of g^2; results: new weight, s'."""

    weight_decay = float_prop(0.0)
    weight = operand_def(Tensor)
    grad = operand_def(Tensor)
    square = operand_def(Tensor)
    lr = operand_def(Tensor)
    result = result_def(Tensor)
    new_square = result_def(Tensor)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        f = Formula(b, self.weight)
        grad = self.decayed(f)
        square = self.summed(f, f.mul(grad, grad))
        scale = f.add(f.sqrt(square), self.prop("epsilon"))
        return [f.sub(self.weight, f.div(f.mul(grad, self.lr), scale)), square]

    def summed(self, f: Formula, square: SSAValue) -> SSAValue:
        """s' from s and g^2."""
        raise NotImplementedError(self.name)


@graph_op
class RmspropOp(_RootUpdate):
    """s' = alpha s + (1 - alpha) g^2; weight - lr g / (sqrt(s') + epsilon); results: new weight, s'."""

    name = "glow.rmsprop"
    alpha = float_prop(0.99)
    epsilon = float_prop(1e-8)

    def summed(self, f: Formula, square: SSAValue) -> SSAValue:
        alpha = self.prop("alpha")
        return f.add(f.mul(self.square, alpha), f.mul(square, 1 - alpha))


@graph_op
class AdagradOp(_RootUpdate):
    """s' = s + g^2; weight - lr g / (sqrt(s') + epsilon); results: new weight, s'."""

    name = "glow.adagrad"
    epsilon = float_prop(1e-10)

    def summed(self, f: Formula, square: SSAValue) -> SSAValue:
        return f.add(self.square, square)


def _rows(count: int) -> tuple[np.ndarray, ...]:
    return tuple(random(2, 3, seed=i, low=0.1) for i in range(count))


_LR = np.array(0.1, np.float32)
SAMPLES: tuple[Sample, ...] = (
    Sample(SgdOp, (*_rows(2), _LR), {"weight_decay": 0.1}, smooth=False),
    Sample(MomentumOp, (*_rows(3), _LR), {"nesterov": True}, smooth=False),
    Sample(AdamOp, (*_rows(4), _LR, np.array(3)), {"weight_decay": 0.1}, smooth=False),
    Sample(AdamOp, (*_rows(4), _LR, np.array(0)), {"weight_decay": 0.1, "decoupled": True}, smooth=False),
    Sample(RmspropOp, (*_rows(3), _LR), smooth=False),
    Sample(AdagradOp, (*_rows(3), _LR), smooth=False),
)
