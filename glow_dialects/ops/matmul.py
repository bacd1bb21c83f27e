"""matmul, batch_matmul: products of matrices and of stacks of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp, PureOp, graph_op
from glow_dialects.core.iteration import Iteration, product
from glow_dialects.core.layer_axes import LayerAxes
from glow_dialects.core.mapped import again, aligned, reshaped
from glow_dialects.core.products import matmul
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, broadcast_shapes, element_of, shape_of, tensor
from glow_dialects.ops.elementwise import unbroadcast, widen
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.transpose import TransposeOp


def check_product(op: GraphOp, lhs: SSAValue, rhs: SSAValue) -> None:
    """Raise unless the last axis of `lhs` meets the last but one of `rhs`, of one element type."""
    if shape_of(lhs)[-1] != shape_of(rhs)[-2]:
        raise VerifyException(
            f"{op.name}: {shape_of(lhs)[-1]} columns of {lhs.type}, {shape_of(rhs)[-2]} rows of {rhs.type}; "
            "these numbers must be equal"
        )
    if element_of(lhs) != element_of(rhs):
        raise VerifyException(
            f"{op.name}: element types of {lhs.type} and {rhs.type} differ; cast one of them"
        )


def swapped(x: SSAValue, b: Builder) -> SSAValue:
    """The last two axes exchanged."""
    rank = len(shape_of(x))
    return b(TransposeOp(x, permutation=(*range(rank - 2), rank - 1, rank - 2)))


@graph_op
class MatmulOp(PureOp):
    """[N, K] x [K, M] -> [N, M]."""

    name = "glow.matmul"
    LAYER = HOMOGENEOUS = True
    QUANTIZED = QuantizedFullyConnectedOp
    lhs = operand_def(Tensor)
    rhs = operand_def(Tensor)
    result = result_def(Tensor)

    def layer_axes(self) -> LayerAxes:
        return LayerAxes(channels=-1, outputs=1, inputs=0)

    def infer(self) -> Sequence[Attribute]:
        for value in (self.lhs, self.rhs):
            if len(shape_of(value)) != 2:
                raise VerifyException(f"glow.matmul: expected matrices, got {value.type}")
        check_product(self, self.lhs, self.rhs)
        return [tensor((shape_of(self.lhs)[0], shape_of(self.rhs)[1]), element_of(self.lhs))]

    def iteration(self) -> Iteration | None:
        return product(shape_of(self.lhs), shape_of(self.rhs), shape_of(self.result))

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
    ) -> Sequence[SSAValue]:
        (rows, inner), columns = shape_of(self.lhs), shape_of(self.rhs)[1]
        if not flags[1]:  # the rows of all parts are the rows of one matrix
            product = b(MatmulOp(reshaped(x[0], (size * rows, inner), b), x[1]))
        elif not flags[0] and columns == 1:  # so are the vectors of all parts
            product = b(MatmulOp(reshaped(x[1], (size, inner), b), swapped(x[0], b)))
        else:
            product = b(BatchMatmulOp(*x))
        return [reshaped(product, (size, rows, columns), b)]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        # lhsG = outG rhs^T, rhsG = lhs^T outG
        return [b(MatmulOp(dy, swapped(self.rhs, b))), b(MatmulOp(swapped(self.lhs, b), dy))]

    def reference(self, result: Array, lhs: Array, rhs: Array) -> None:
        result[...] = matmul(widen(lhs), widen(rhs))


@graph_op
class BatchMatmulOp(PureOp):
    """numpy.matmul of ranks from 2: the last two axes are matrices, those before broadcast."""

    name = "glow.batch_matmul"
    LAYER = HOMOGENEOUS = True
    lhs = operand_def(Tensor)
    rhs = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        for value in (self.lhs, self.rhs):
            if len(shape_of(value)) < 2:
                raise VerifyException(f"glow.batch_matmul: expected a stack of matrices, got {value.type}")
        check_product(self, self.lhs, self.rhs)
        lhs, rhs = shape_of(self.lhs), shape_of(self.rhs)
        batch = broadcast_shapes(lhs[:-2], rhs[:-2])
        return [tensor((*batch, lhs[-2], rhs[-1]), element_of(self.lhs))]

    def iteration(self) -> Iteration | None:
        return product(shape_of(self.lhs), shape_of(self.rhs), shape_of(self.result))

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
    ) -> Sequence[SSAValue]:
        rank = len(shape_of(self.result))
        values = [aligned(v, rank, b) if f else v for v, f in zip(x, flags, strict=True)]
        return again(self, values, size, b)

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        left = b(BatchMatmulOp(dy, swapped(self.rhs, b)))
        right = b(BatchMatmulOp(swapped(self.lhs, b), dy))
        return [unbroadcast(left, self.lhs, b), unbroadcast(right, self.rhs, b)]

    def reference(self, result: Array, lhs: Array, rhs: Array) -> None:
        result[...] = matmul(widen(lhs), widen(rhs))


SAMPLES: tuple[Sample, ...] = (
    Sample(MatmulOp, (random(3, 4), random(4, 5))),
    Sample(MatmulOp, (random(1, 7), random(7, 1))),
    Sample(MatmulOp, (random(2, 3, dtype="float64"), random(3, 2, dtype="float64"))),
    Sample(BatchMatmulOp, (random(2, 3, 4), random(2, 4, 2))),
    Sample(BatchMatmulOp, (random(2, 1, 3, 4), random(3, 4, 2))),
    Sample(BatchMatmulOp, (random(3, 4), random(2, 4, 2))),
)
