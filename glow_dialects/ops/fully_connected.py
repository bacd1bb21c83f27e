"""fully_connected: a matrix product and a bias for each column."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.iteration import Iteration, product
from glow_dialects.core.layer_axes import LayerAxes
from glow_dialects.core.products import matmul
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, present, shape_of, tensor
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.elementwise import widen
from glow_dialects.ops.matmul import MatmulOp, check_product, swapped
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.reduce import ReduceSumOp


@graph_op
class FullyConnectedOp(PureOp):
    """input [N, K] x weights [K, M] + bias [M] -> [N, M]."""

    name = "glow.fully_connected"
    LAYER = HOMOGENEOUS = True
    QUANTIZED = QuantizedFullyConnectedOp
    input = operand_def(Tensor)
    weights = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    result = result_def(Tensor)

    def layer_axes(self) -> LayerAxes:
        return LayerAxes(channels=-1, outputs=1, inputs=0)

    def infer(self) -> Sequence[Attribute]:
        for value in (self.input, self.weights):
            if len(shape_of(value)) != 2:
                raise VerifyException(f"{self.name}: expected matrices, got {value.type}")
        check_product(self, self.input, self.weights)
        columns = shape_of(self.weights)[1]
        for value in present(self.bias):
            if shape_of(value) != (columns,) or element_of(value) != element_of(self.input):
                raise VerifyException(
                    f"{self.name}: bias is {value.type} for {columns} columns; give one number per column"
                )
        return [tensor((shape_of(self.input)[0], columns), element_of(self.input))]

    def iteration(self) -> Iteration | None:
        vectors = len(self.operands) - 2
        return product(shape_of(self.input), shape_of(self.weights), shape_of(self.result), vectors)

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        product = b(MatmulOp(self.input, self.weights))
        return [b(AddOp(product, v)) for v in present(self.bias)] or [product]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        # inG = outG weights^T, weightsG = in^T outG, biasG = column sums of outG
        dx = b(MatmulOp(dy, swapped(self.weights, b)))
        dw = b(MatmulOp(swapped(self.input, b), dy))
        return [dx, dw, *(b(ReduceSumOp(dy, axes=(0,), keepdims=False)) for _ in present(self.bias))]

    def reference(self, result: Array, input: Array, weights: Array, bias: Array | None) -> None:
        y = matmul(widen(input), widen(weights))
        result[...] = y if bias is None else y + widen(bias)


SAMPLES: tuple[Sample, ...] = (
    Sample(FullyConnectedOp, (random(3, 4), random(4, 5), random(5))),
    Sample(FullyConnectedOp, (random(2, 6), random(6, 3), None)),
)
