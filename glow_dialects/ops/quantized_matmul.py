"""quantized_matmul: products of stacks of matrices of stored integers."""

from __future__ import annotations

import numpy as np
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.iteration import Iteration, product
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import (
    Array,
    QuantizedArray,
    Tensor,
    UniformQuantizedType,
    broadcast_shapes,
    element_of,
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


@graph_op
class QuantizedMatmulOp(RequantizingOp):
    """lhs [..., N, K] x rhs [..., K, M] of stored integers, requantised: batch_matmul's axes.

    Each operand has one scale and any zero point, and both may be computed (the two products of
    attention). A float result is the sums times their unit, an i32 one the sums.
    """

    name = "glow.quantized_matmul"
    REAL_RESULT = True
    lhs = operand_def(Tensor)
    rhs = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        per_tensor(self, self.lhs)
        per_tensor(self, self.rhs)
        lhs, rhs = shape_of(self.lhs), shape_of(self.rhs)
        if min(len(lhs), len(rhs)) < 2 or lhs[-1] != rhs[-2]:
            raise VerifyException(
                f"{self.name}: {self.lhs.type} does not meet {self.rhs.type}"
                "; columns of the first are rows of the second"
            )
        batch = broadcast_shapes(lhs[:-2], rhs[:-2])
        self.check_result((*batch, lhs[-2], rhs[-1]), real=True)

    def iteration(self) -> Iteration | None:
        return product(shape_of(self.lhs), shape_of(self.rhs), shape_of(self.result))

    def reference(self, result: Array, lhs: Array, rhs: Array) -> None:
        left, right = quantized_type(self.operands[1]), quantized_type(self.operands[2])
        total = np.matmul(lhs.astype(np.float64) - zero_of(left), rhs.astype(np.float64) - zero_of(right))
        to, low, high = element_of(self.operands[0]), self.low, self.high
        result[...] = requantized(total, scale_of(left), right.scale_array, to, low, high)


def _stored(*shape: int, kind: UniformQuantizedType) -> QuantizedArray:
    numbers = random(*shape, dtype="int8", low=-127, high=127)
    return QuantizedArray.of(numbers if kind.signed else numbers.view(np.uint8), kind)


_SIGNED, _BYTES = UniformQuantizedType.of(8, 0.05, -3), UniformQuantizedType.of(8, 0.01, 140, signed=False)
_RESULT = UniformQuantizedType.of(8, 0.3, 5)
SAMPLES: tuple[Sample, ...] = (
    Sample(
        QuantizedMatmulOp,
        (_stored(3, 4, kind=_SIGNED), _stored(4, 5, kind=_BYTES)),
        results=tensor((3, 5), _RESULT),
        smooth=False,
    ),
    Sample(
        QuantizedMatmulOp,
        (_stored(2, 1, 3, 70, kind=_BYTES), _stored(3, 70, 5, kind=_SIGNED)),
        results=tensor((2, 3, 3, 5)),
        smooth=False,
    ),
    Sample(
        QuantizedMatmulOp,
        (_stored(2, 3, 9, kind=_BYTES), _stored(9, 17, kind=_BYTES)),
        {"low": -90, "high": 90},
        results=tensor((2, 3, 17), _RESULT),
        smooth=False,
    ),
)
