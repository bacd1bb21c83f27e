"""quantized_fully_connected: a matrix product of stored integers."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.irdl import operand_def, opt_operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.iteration import Iteration, product
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


class IntegerProductOp(RequantizingOp):
    """input [N, K] x weights [K, M] + bias [M] of stored integers, requantised to the result's type.

    input: one scale. weights: zero point 0, one scale or one a column. bias: i32 in units of input
    scale x weight scale. A float result is the sums times their unit, an i32 one the sums.
    """

    REAL_RESULT = True
    input = operand_def(Tensor)
    weights = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        per_tensor(self, self.input)
        weights = quantized_type(self.weights)
        rows, columns = shape_of(self.input), shape_of(self.weights)
        if len(rows) != 2 or len(columns) != 2 or rows[1] != columns[0]:
            raise VerifyException(
                f"{self.name}: {self.input.type} does not meet {self.weights.type}"
                "; rows of the weights are columns of the input"
            )
        if np.any(weights.zero_point_array) or weights.axis.data not in (-1, 1):
            raise VerifyException(f"{self.name}: the weights need zero point 0 and scales of axis 1")
        for value in present(self.bias):
            if value.type != tensor(columns[1:], i32):
                raise VerifyException(
                    f"{self.name}: bias is {value.type} for {columns[1]} columns; give one number per column"
                )
        self.check_result((rows[0], columns[1]), real=True)

    def iteration(self) -> Iteration | None:
        vectors = len(self.operands) - 2
        return product(shape_of(self.input), shape_of(self.weights), shape_of(self.result), vectors)

    def reference(self, result: Array, input: Array, weights: Array, bias: Array | None) -> None:
        source, kind = quantized_type(self.operands[1]), quantized_type(self.operands[2])
        total = np.matmul(input.astype(np.float64) - zero_of(source), weights.astype(np.float64))
        total = total if bias is None else total + bias
        to, low, high = element_of(self.operands[0]), self.low, self.high
        result[...] = requantized(total, scale_of(source), kind.scale_array, to, low, high)


@graph_op
class QuantizedFullyConnectedOp(IntegerProductOp):
    """input [N, K] x weights [K, M] + bias [M] of stored integers, requantised to the result's type."""

    name = "glow.quantized_fully_connected"


def _stored(*shape: int, kind: UniformQuantizedType) -> QuantizedArray:
    return QuantizedArray.of(random(*shape, dtype="int8", low=-127, high=127), kind)


_X = UniformQuantizedType.of(8, 0.05, -3)
_RESULT = tensor((3, 5), UniformQuantizedType.of(8, 0.3, 5))
SAMPLES: tuple[Sample, ...] = (
    Sample(
        QuantizedFullyConnectedOp,
        (
            _stored(3, 4, kind=_X),
            _stored(4, 5, kind=UniformQuantizedType.of(8, [0.01, 0.02, 0.005, 0.1, 0.03], axis=1)),
            random(5, dtype="int32", low=-900, high=900),
        ),
        results=_RESULT,
        smooth=False,
    ),
    Sample(
        QuantizedFullyConnectedOp,
        (_stored(3, 7, kind=_X), _stored(7, 5, kind=UniformQuantizedType.of(8, 0.02)), None),
        results=tensor((3, 5)),
        smooth=False,
    ),
    Sample(
        QuantizedFullyConnectedOp,
        (_stored(3, 300, kind=_X), _stored(300, 5, kind=UniformQuantizedType.of(8, 0.02)), None),
        results=tensor((3, 5), i32),
        smooth=False,
    ),
    Sample(
        QuantizedFullyConnectedOp,
        (_stored(3, 7, kind=_X), _stored(7, 5, kind=UniformQuantizedType.of(8, 0.02)), None),
        {"low": 5, "high": 90},
        results=_RESULT,
        smooth=False,
    ),
)
