"""matmul_half: products by a matrix of 16-bit floats, which stays so in memory."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, shape_of, tensor
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.transpose import TransposeOp

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
"""The element types of the matrix."""


@graph_op
class MatmulHalfOp(PureOp):
    """x w' for x [N, K] of f32 and w [M, K] of f16 or bf16: products and sums of f32, [N, M]."""

    name = "glow.matmul_half"
    UNPACKS = True
    x = operand_def(Tensor)
    weights = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        x, weights = shape_of(self.x), shape_of(self.weights)
        if len(x) != 2 or len(weights) != 2 or x[1] != weights[1]:
            raise VerifyException(
                f"{self.name}: {self.x.type} by rows of {self.weights.type}; these numbers must be equal"
            )
        if dtype_of(self.x.type) != np.float32 or dtype_of(self.weights.type) not in HALVES:
            raise VerifyException(
                f"{self.name}: {self.x.type} by {self.weights.type}, expected f32 by f16 or bf16"
            )
        return [tensor((x[0], weights[0]), element_of(self.x))]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        wide = b(CastOp(self.weights, results=tensor(shape_of(self.weights), element_of(self.x))))
        return [b(MatmulOp(self.x, b(TransposeOp(wide, permutation=(1, 0)))))]

    def reference(self, result: Array, x: Array, weights: Array) -> None:
        result[...] = x @ weights.astype(np.float32).T


SAMPLES = (
    Sample(MatmulHalfOp, (random(3, 20), random(7, 20, dtype="float16")), smooth=False),
    Sample(MatmulHalfOp, (random(1, 9), random(40, 9).astype(ml_dtypes.bfloat16)), smooth=False),
)
