"""quantized_conv: convolution of stored integers."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.iteration import Iteration
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import (
    Array,
    QuantizedArray,
    Tensor,
    UniformQuantizedType,
    element_of,
    present,
    shape_of,
    tensor,
)
from glow_dialects.ops.quantize import quantized_type
from glow_dialects.ops.requantize import (
    RequantizingOp,
    per_tensor,
    requantized,
    scale_of,
    zero_of,
)
from glow_dialects.ops.windows import ConvolutionOp, channels_first, channels_last, convolve


@graph_op
class QuantizedConvOp(RequantizingOp, ConvolutionOp):
    """conv of stored integers, its int32 sums requantised to the result's type.

    input: one scale. filter: zero point 0, one scale or one an output channel. bias [O]: i32 in
    units of input scale x filter scale. Pads are the input's zero point. Layouts as conv's. A float
    result is the sums times their unit.
    """

    name = "glow.quantized_conv"
    REAL_RESULT = True

    def check(self) -> None:
        per_tensor(self, self.input)
        weights = quantized_type(self.filter)
        out, inner, _ = self.sizes(self.filter)
        self.check_window(len(shape_of(self.input)), self.kernel)
        if np.any(weights.zero_point_array) or weights.axis.data > 0:
            raise VerifyException(f"{self.name}: the filter needs zero point 0 and scales of axis 0")
        if self.sizes(self.input)[1] != inner * self.group or out % self.group:
            raise VerifyException(
                f"{self.name}: {self.input.type} and {self.filter.type} in {self.group} groups"
                "; channels and groups must agree"
            )
        for value in present(self.bias):
            if value.type != tensor((out,), i32):
                raise VerifyException(f"{self.name}: bias is {value.type}, expected {out} x i32")
        shape = shape_of(self.window_result(self.input, self.kernel, out))
        self.check_result(shape, real=True)

    def iteration(self) -> Iteration | None:
        return self.conv_iteration()

    def reference(self, result: Array, input: Array, filter: Array, bias: Array | None) -> None:
        source, weights = quantized_type(self.operands[1]), quantized_type(self.operands[2])
        last = self.layout == "NHWC"
        # float64 holds sums of integer products exactly, and NumPy multiplies it fast.
        x = input.astype(np.float64) - zero_of(source)
        w = filter.astype(np.float64)
        if last:
            x, w = channels_first(x), channels_first(w)
        window = (self.strides, self.pads, self.dilations, self.group)
        total = convolve(x, w, *window, bias=None if bias is None else bias.astype(np.float64))
        scales = weights.scale_array.reshape(1, -1, *(1,) * (total.ndim - 2))
        to, low, high = element_of(self.operands[0]), self.low, self.high
        y = requantized(total, scale_of(source), scales, to, low, high)
        result[...] = channels_last(y) if last else y


def _stored(*shape: int, kind: UniformQuantizedType, seed: int = 0) -> QuantizedArray:
    return QuantizedArray.of(random(*shape, dtype="int8", low=-127, high=127, seed=seed), kind)


_X = UniformQuantizedType.of(8, 0.05, -3)
_W = UniformQuantizedType.of(8, 0.01)
_ROWS = UniformQuantizedType.of(8, [0.01, 0.02, 0.005], axis=0)
_BIAS = random(3, dtype="int32", low=-900, high=900)


def _result(*shape: int) -> Tensor:
    return tensor(shape, UniformQuantizedType.of(8, 0.2, 5))


SAMPLES: tuple[Sample, ...] = (
    Sample(
        QuantizedConvOp,
        (_stored(1, 2, 5, 6, kind=_X), _stored(3, 2, 3, 3, kind=_ROWS), _BIAS),
        {"pads": (1, 1, 1, 1)},
        results=_result(1, 3, 5, 6),
        smooth=False,
    ),
    Sample(
        QuantizedConvOp,
        (_stored(2, 4, 7, 6, kind=_X), _stored(6, 2, 3, 2, kind=_W), None),
        {"strides": (2, 3), "group": 2, "low": 5},
        results=_result(2, 6, 3, 2),
        smooth=False,
    ),
    Sample(
        QuantizedConvOp,
        (_stored(1, 2, 5, 6, kind=_X), _stored(3, 2, 3, 3, kind=_ROWS), _BIAS),
        results=tensor((1, 3, 3, 4)),
        smooth=False,
    ),
    Sample(
        QuantizedConvOp,
        (_stored(1, 5, 6, 4, kind=_X), _stored(3, 1, 1, 4, kind=_ROWS), _BIAS),
        {"layout": "NHWC"},
        results=_result(1, 5, 6, 3),
        smooth=False,
    ),
)
