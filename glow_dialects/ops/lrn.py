"""lrn: local response normalisation across channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import float_prop, int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.term import Term
from glow_dialects.core.types import Array, Tensor, shape_of
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.windows import check_float


@graph_op
class LrnOp(PureOp):
    """x / (bias + alpha / size * sum of squares over `size` neighbouring channels)^beta; NCHW."""

    name = "glow.lrn"
    size = int_prop()
    alpha = float_prop(1e-4)
    beta = float_prop(0.75)
    bias = float_prop(1.0)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        check_float(self.name, self.input)
        if len(shape_of(self.input)) < 2:
            raise VerifyException(f"{self.name}: {self.input.type} has no channels; it needs an axis 1")
        if self.size < 1:
            raise VerifyException(f"{self.name}: size is {self.size}, expected at least 1")
        return [self.input.type]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        if 0 in shape_of(self.input):
            return [self.input]
        # The mean of the squares over neighbouring channels is a pool along the channels.
        x, shape, size = Term(self.input, b), shape_of(self.input), self.size
        flat = (x * x).reshape((shape[0], 1, shape[1], prod(shape[2:])))
        before, after = (size - 1) // 2, size // 2
        window: dict[str, Any] = {
            "kernel": (size, 1),
            "pads": (before, 0, after, 0),
            "count_include_pad": True,
        }
        mean = flat.apply(AvgPoolOp, **window).reshape(shape)
        base = mean * self.alpha + self.bias
        return [(x / base**self.beta).value]

    def reference(self, result: Array, input: Array) -> None:
        x, size = widen(input), self.size
        kind, channels = x.dtype.type, x.shape[1]
        total = np.zeros_like(x)
        for offset in range(-((size - 1) // 2), size // 2 + 1):
            low, high = max(0, -offset), min(channels, channels - offset)
            if low < high:
                total[:, low:high] += x[:, low + offset : high + offset] ** 2
        base = kind(self.bias) + kind(self.alpha / size) * total
        result[...] = x / base ** kind(self.beta)


SAMPLES: tuple[Sample, ...] = (
    Sample(LrnOp, (random(2, 5, 3, 2),), {"size": 3, "alpha": 0.5}),
    Sample(LrnOp, (random(1, 6, 4),), {"size": 4, "alpha": 0.2, "beta": 0.5, "bias": 2.0}),
    Sample(LrnOp, (random(2, 3),), {"size": 9, "alpha": 1.0}),
)
