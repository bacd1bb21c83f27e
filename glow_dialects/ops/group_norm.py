"""group_norm, instance_norm: normalisation of groups of channels of each sample."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import float_prop, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.batch_norm import along
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.windows import check_float


def group_normalize(x: Array, groups: int, epsilon: float) -> Array:
    """NCHW data, each group of channels of each sample with mean 0 and variance 1."""
    flat = x.reshape(x.shape[0], groups, prod(x.shape[1:]) // groups)
    centred = flat - flat.mean(axis=2, keepdims=True)
    variance = (centred * centred).mean(axis=2, keepdims=True)
    return (centred / np.sqrt(variance + x.dtype.type(epsilon))).reshape(x.shape)


class _Grouped(PureOp):
    """NCHW data with one scale and bias a channel."""

    epsilon = float_prop(1e-5)
    input = operand_def(Tensor)
    scale = operand_def(Tensor)
    bias = operand_def(Tensor)

    @property
    def group_count(self) -> int:
        """How many groups the channels fall into."""
        return shape_of(self.operands[0])[1]

    def infer(self) -> Sequence[Attribute]:
        input = self.operands[0]
        check_float(self.name, input)
        if len(shape_of(input)) < 2:
            raise VerifyException(f"{self.name}: {input.type} has no channels; it needs an axis 1")
        channels = shape_of(input)[1]
        if self.group_count < 1 or channels % self.group_count:
            raise VerifyException(
                f"{self.name}: {channels} channels in {self.group_count} groups; the number must be divisible"
            )
        wanted = tensor((channels,), element_of(input))
        for value in self.operands[1:3]:
            if value.type != wanted:
                raise VerifyException(
                    f"{self.name}: {value.type} where the channels need {wanted}; give one number per channel"
                )
        return [input.type]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        x, scale, bias = (Term(v, b) for v in (self.input, self.scale, self.bias))
        shape = x.shape
        members = prod(shape[1:]) // self.group_count
        flat = x.reshape((shape[0], self.group_count, members))
        unit = flat.standardized((2,), self.epsilon).reshape(shape)
        row = (1, shape[1], *(1,) * (len(shape) - 2))
        return [(unit * scale.reshape(row) + bias.reshape(row)).value]


@graph_op
class GroupNormOp(_Grouped):
    """Each of `groups` groups of channels of a sample standardised, then scaled and shifted by channel."""

    name = "glow.group_norm"
    INPLACE = ("input",)
    CHEAP = True
    groups = int_prop()
    result = result_def(Tensor)

    @property
    def group_count(self) -> int:
        return self.groups

    def reference(self, result: Array, input: Array, scale: Array, bias: Array) -> None:
        y = group_normalize(widen(input), self.groups, self.epsilon)
        result[...] = y * along(widen(scale), 1, y.ndim) + along(widen(bias), 1, y.ndim)


@graph_op
class InstanceNormOp(_Grouped):
    """Each channel of a sample standardised, then scaled and shifted."""

    name = "glow.instance_norm"
    INPLACE = ("input",)
    CHEAP = True
    result = result_def(Tensor)

    def reference(self, result: Array, input: Array, scale: Array, bias: Array) -> None:
        y = group_normalize(widen(input), input.shape[1], self.epsilon)
        result[...] = y * along(widen(scale), 1, y.ndim) + along(widen(bias), 1, y.ndim)


SAMPLES: tuple[Sample, ...] = (
    Sample(GroupNormOp, (random(2, 4, 3), random(4), random(4, seed=1)), {"groups": 2}),
    Sample(GroupNormOp, (random(1, 6, 2, 2), random(6), random(6, seed=1)), {"groups": 3, "epsilon": 0.1}),
    Sample(InstanceNormOp, (random(2, 3, 4, 2), random(3), random(3, seed=1))),
)
