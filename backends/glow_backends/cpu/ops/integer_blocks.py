"""`glow_cpu.quantize_rows`, `glow_cpu.integer_block_gemm`: products of integers by weights of few bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_operand_def, prop_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.steps import check_columns, check_extras, run_steps, steps_of
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop, float_prop, int_prop
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.dequantize_blocks import dequantize_blocks
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
            raise VerifyException(f"{self.name}: {self.input.type} in blocks of {self.block}")
        codes = tensor((*lead, depth), np.int16 if self.wide else np.int8)
        return [codes, tensor((*lead, depth // self.block, 2), element_of(self.input))]

    def reference(self, codes: Array, factors: Array, input: Array) -> None:
        whole, scales = quantized_rows(input, self.block)
        codes[...] = whole.reshape(input.shape).astype(codes.dtype)
        factors[..., 0] = scales
        factors[..., 1] = scales * whole.sum(-1) * np.float32(-self.point)


@graph_op
class IntegerBlockGemmOp(PureOp):
    """steps(x @ w' + bias) for x of glow_cpu.quantize_rows, w [n, k] = glow.dequantize_blocks(...).

    Both have blocks of one size. The second factors are for the point of the codes as the kernel keeps them.
    """

    name = "glow_cpu.integer_block_gemm"
    bits = int_prop()
    block = int_prop()
    depth = int_prop()
    point = float_prop(0.0)
    steps = prop_def(ArrayAttr, default_value=ArrayAttr([]))
    a = operand_def(Tensor)
    factors = operand_def(Tensor)
    codes = operand_def(Tensor)
    scales = operand_def(Tensor)
    points = opt_operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    extras = var_operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        (*lead, k), rows = shape_of(self.a), shape_of(self.codes)
        if len(rows) != 2 or k != self.depth or shape_of(self.factors) != (*lead, k // self.block, 2):
            raise VerifyException(f"{self.name}: {self.a.type} and {self.factors.type} by {self.codes.type}")
        return [tensor((*lead, rows[0]), element_of(self.factors))]

    def check(self) -> None:
        check_columns(self)
        check_extras(self)

    def reference(
        self,
        result: Array,
        a: Array,
        factors: Array,
        codes: Array,
        scales: Array,
        points: Array | None,
        bias: Array | None,
        extras: Sequence[Array],
    ) -> None:
        form = {"bits": self.bits, "block": self.block, "depth": self.depth, "point": self.point}
        weights = dequantize_blocks(codes, scales, points, levels=None, **form)  # pyright: ignore
        x = a.astype(np.float32) * np.repeat(factors[..., 0], self.block, -1)
        y = np.matmul(x, weights.T)
        y = y if bias is None else y + bias
        result[...] = run_steps(steps_of(self.properties["steps"]), y, extras)
