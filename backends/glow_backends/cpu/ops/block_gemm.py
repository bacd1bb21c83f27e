"""`glow_cpu.block_gemm`: a product by constant weights of few bits, which stay packed in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_operand_def, prop_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.steps import check_columns, check_extras, run_steps, steps_of
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import float_prop, int_prop, opt_floats_prop
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.dequantize_blocks import FORM, dequantize_blocks


@graph_op
class BlockGemmOp(PureOp):
    """steps(a @ w' + bias) for w [n, k] = glow.dequantize_blocks(codes, scales, points).

    a is [..., k]; `bias` has one value a column, each of `extras` the result's type.
    """

    name = "glow_cpu.block_gemm"
    bits = int_prop()
    block = int_prop()
    depth = int_prop()
    point = float_prop(0.0)
    levels = opt_floats_prop()
    steps = prop_def(ArrayAttr, default_value=ArrayAttr([]))
    a = operand_def(Tensor)
    codes = operand_def(Tensor)
    scales = operand_def(Tensor)
    points = opt_operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    extras = var_operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        (*lead, k), rows = shape_of(self.a), shape_of(self.codes)
        if len(rows) != 2 or k != self.depth:
            raise VerifyException(f"{self.name}: {self.a.type} by {self.codes.type}")
        return [tensor((*lead, rows[0]), element_of(self.a))]

    def check(self) -> None:
        check_columns(self)
        check_extras(self)

    def reference(
        self,
        result: Array,
        a: Array,
        codes: Array,
        scales: Array,
        points: Array | None,
        bias: Array | None,
        extras: Sequence[Array],
    ) -> None:
        weights = dequantize_blocks(codes, scales, points, **{n: getattr(self, n) for n in FORM})
        y = np.matmul(a, weights.T)
        y = y if bias is None else y + bias
        result[...] = run_steps(steps_of(self.properties["steps"]), y, extras)
