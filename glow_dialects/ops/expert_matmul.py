"""expert_matmul: matrix products in which each row uses the matrix of its expert."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, shape_of, tensor
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpLtOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.indexing import out_of_range
from glow_dialects.ops.iota import IotaOp
from glow_dialects.ops.matmul import BatchMatmulOp, swapped
from glow_dialects.ops.matmul_half import HALVES
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp


@graph_op
class ExpertMatmulOp(PureOp):
    """Row i of the result is row i of x times w' for the matrix w = weights[experts[i]].

    x is f32 [N, K], weights f32, f16 or bf16 [experts, M, K], experts i64 [N], each a number of a matrix;
    the result is f32 [N, M]. Only the matrices that are named are read. Rows of one expert that follow each
    other are computed together, so that sorted rows are fastest. A run ends with a GlowError where a row
    names another number.
    """

    name = "glow.expert_matmul"
    UNPACKS = True
    x = operand_def(Tensor)
    weights = operand_def(Tensor)
    experts = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        x, weights = shape_of(self.x), shape_of(self.weights)
        if len(x) != 2 or len(weights) != 3 or x[1] != weights[2] or not weights[0]:
            raise VerifyException(
                f"{self.name}: {self.x.type} by rows of {self.weights.type}; these numbers must be equal"
            )
        if dtype_of(self.x.type) != np.float32 or dtype_of(self.weights.type) not in (np.float32, *HALVES):
            raise VerifyException(
                f"{self.name}: {self.x.type} by {self.weights.type}, expected f32 by f32, f16 or bf16"
            )
        check_experts(self.name, self.experts, x[:1])
        return [tensor((x[0], weights[1]), f32)]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        (rows, depth), (count, columns, _) = shape_of(self.x), shape_of(self.weights)
        # Gathers count indices below 0 from the end.
        below = b(CmpLtOp(self.experts, b.scalar(0, self.experts)))
        experts = b(SelectOp(below, b.scalar(count, self.experts), self.experts))
        checked = f"{self.name}: a row names an expert that is none of 0 to {count - 1}."

        def times(x: SSAValue, weights: SSAValue) -> SSAValue:
            if element_of(weights) != f32:
                weights = b(CastOp(weights, results=tensor(shape_of(weights), f32)))
            return b(BatchMatmulOp(x, swapped(weights, b)))

        if rows <= count:
            own = b(GatherOp(self.weights, experts, checked=checked))
            y = times(b(ReshapeOp.to(self.x, (rows, 1, depth))), own)
            return [b(ReshapeOp.to(y, (rows, columns)))]
        # Matrices for each row would take more memory than all results of each row.
        every = times(b(ReshapeOp.to(self.x, (1, rows, depth))), self.weights)
        every = b(ReshapeOp.to(every, (count * rows, columns)))
        first = b(MulOp(experts, b.scalar(rows, experts)))
        places = b(AddOp(first, b(IotaOp(results=self.experts.type))))
        return [b(GatherOp(every, places, checked=checked))]

    def reference(self, result: Array, x: Array, weights: Array, experts: Array) -> None:
        def matrix(expert: int) -> Array:
            return weights[expert].astype(np.float32)

        result[...] = by_experts(x, experts, len(weights), matrix)


def check_experts(name: str, experts: SSAValue, rows: Sequence[int]) -> None:
    """Raise unless there is one number of an expert, i64, for each row."""
    if shape_of(experts) != tuple(rows) or dtype_of(experts.type) != np.int64:
        raise VerifyException(f"{name}: experts are {experts.type}; give one i64 number per row")


def by_experts(x: Array, experts: Array, count: int, matrix: Callable[[int], Array]) -> Array:
    """Each row of x [N, K] times the matrix [M, K] of its expert, one of `count`; GlowError for others."""
    used = np.unique(experts)
    for expert in used:
        if not 0 <= expert < count:
            raise out_of_range(ExpertMatmulOp.name, int(expert), count)
    columns = len(matrix(0))
    y = np.zeros((len(x), columns), np.float32)
    for expert in used:
        mine = experts == expert
        y[mine] = x[mine] @ matrix(int(expert)).T
    return y


def _numbers(*values: int) -> Array:
    return np.array(values, np.int64)


SAMPLES = (
    Sample(ExpertMatmulOp, (random(5, 20), random(3, 7, 20), _numbers(1, 1, 0, 2, 1)), smooth=False),
    Sample(
        ExpertMatmulOp,
        (random(9, 8), random(4, 40, 8).astype(ml_dtypes.bfloat16), _numbers(0, 0, 0, 0, 0, 0, 0, 3, 3)),
        smooth=False,
    ),
    Sample(ExpertMatmulOp, (random(2, 9), random(2, 3, 9, dtype="float16"), _numbers(1, 0)), smooth=False),
)
