"""`glow_cpu.quantize_rows`, `glow_cpu.integer_block_gemm`: integer products with low-bit weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.kernels.gemm.block_gemm_op import PackedProductOp
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, float_prop, int_prop
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.round_blocks import quantized_rows


@graph_op
class QuantizeRowsOp(PureOp):
    """The integers of glow.round_blocks, and of each block two numbers.

    `codes` have the shape of the input and 8 bits, 16 if `wide`; `factors` [..., blocks, 2] are the scale
    s and -point s times the sum of the block's codes.
    """

    name = "glow_cpu.quantize_rows"
    block = int_prop()
    point = float_prop(0.0)
    wide = bool_prop(False)
    input = operand_def(Tensor)
    codes = result_def(Tensor)
    factors = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        *lead, depth = shape_of(self.input)
        if self.block < 1 or depth % self.block:
            raise VerifyException(
                f"{self.name}: {self.input.type} in blocks of {self.block}; the last axis must be a multiple"
            )
        codes = tensor((*lead, depth), np.int16 if self.wide else np.int8)
        return [codes, tensor((*lead, depth // self.block, 2), element_of(self.input))]

    def reference(self, codes: Array, factors: Array, input: Array) -> None:
        whole, scales = quantized_rows(input, self.block)
        codes[...] = whole.reshape(input.shape).astype(codes.dtype)
        factors[..., 0] = scales
        factors[..., 1] = scales * whole.sum(-1) * np.float32(-self.point)


@graph_op
class IntegerBlockGemmOp(PackedProductOp):
    """The product of activations that are `a` and `factors` of glow_cpu.quantize_rows, by integers.

    Activations and weights have blocks of one size. The second factors are for the point of the codes as the
    kernel keeps them.
    """

    name = "glow_cpu.integer_block_gemm"
    MEANING = ("reference", "product")
    factors = operand_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        *lead, k = shape_of(self.a)
        if shape_of(self.factors) != (*lead, k // self.block, 2):
            raise VerifyException(
                f"{self.name}: {self.factors.type} with {self.a.type}; give one number per block"
            )
        return self.result_of(element_of(self.factors))

    def reference(self, result: Array, a: Array, *operands: Any) -> None:
        *weights, factors = operands
        x = a.astype(np.float32) * np.repeat(factors[..., 0], self.block, -1)
        result[...] = self.product(x, *weights)
