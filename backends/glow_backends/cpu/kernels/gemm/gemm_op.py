"""`glow_cpu.gemm`: a product of matrices with what follows it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_operand_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.fused_body import SumsOp, check_columns, run_epilogue
from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.properties import (
    bool_prop,
    opt_float_prop,
)
from glow_dialects.core.types import Array, Tensor, broadcast_shapes, element_of, shape_of, tensor


@graph_op
class GemmOp(SumsOp):
    """body(scale * op(a) @ op(b) + bias, extras); op transposes the last two axes where asked.

    The axes before the last two broadcast as in numpy.matmul; `bias` has one value a column, each
    of `extras` the result's type.
    """

    name = "glow_cpu.gemm"
    transpose_a = bool_prop(False)
    transpose_b = bool_prop(False)
    scale = opt_float_prop()
    a = operand_def(Tensor)
    b = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    extras = var_operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        (*a_batch, m, k), (*b_batch, rows, n) = shape_of(self.a), shape_of(self.b)
        if self.transpose_a:
            m, k = k, m
        if self.transpose_b:
            rows, n = n, rows
        if k != rows:
            raise VerifyException(
                f"{self.name}: {k} columns of a and {rows} rows of b; these numbers must be equal"
            )
        return [tensor((*broadcast_shapes(a_batch, b_batch), m, n), element_of(self.a))]

    def work(self) -> int:
        return 2 * prod(shape_of(self.result)) * shape_of(self.a)[-2 if self.transpose_a else -1]

    def check(self) -> None:
        check_columns(self)
        super().check()

    def reference(
        self, result: Array, a: Array, b: Array, bias: Array | None, extras: Sequence[Array]
    ) -> None:
        left = np.swapaxes(a, -1, -2) if self.transpose_a else a
        right = np.swapaxes(b, -1, -2) if self.transpose_b else b
        y = np.matmul(left, right)
        if self.scale is not None:
            y = y * y.dtype.type(self.scale)
        y = y if bias is None else y + bias
        result[...] = run_epilogue(self.body, y, extras)
