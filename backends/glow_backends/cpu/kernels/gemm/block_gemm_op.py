"""`glow_cpu.block_gemm`: products with constant low-bit weights, which stay packed in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_operand_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from glow_backends.cpu.fused_body import SumsOp, check_columns, run_epilogue
from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.properties import float_prop, int_prop, opt_floats_prop
from glow_dialects.core.types import Array, Tensor, element_of, present, shape_of, tensor
from glow_dialects.ops.dequantize_blocks import FORM, dequantize_blocks
from glow_dialects.ops.expert_matmul import by_experts, check_experts


class PackedProductOp(SumsOp):
    """body(a @ w' + bias, extras) for w [n, k] = glow.dequantize_blocks(codes, scales, points).

    a is [..., k]; `bias` has one value a column, each of `extras` the result's type. With `experts` (i64) w
    is [experts, n, k], a is [rows, k], and each row has the matrix that it names.
    """

    bits = int_prop()
    block = int_prop()
    depth = int_prop()
    point = float_prop(0.0)
    a = operand_def(Tensor)
    codes = operand_def(Tensor)
    scales = operand_def(Tensor)
    points = opt_operand_def(Tensor)
    experts = opt_operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    extras = var_operand_def(Tensor)
    result = result_def(Tensor)

    def result_of(self, element: Attribute) -> Sequence[Attribute]:
        """The type of the result, of an element type."""
        (*lead, k), codes = shape_of(self.a), shape_of(self.codes)
        if len(codes) != 2 + (self.experts is not None) or k != self.depth:
            raise VerifyException(
                f"{self.name}: {self.a.type} by {self.codes.type}"
                "; the columns of the first must match the codes"
            )
        for experts in present(self.experts):
            check_experts(self.name, experts, lead)
        return [tensor((*lead, codes[-2]), element)]

    def check(self) -> None:
        check_columns(self)
        super().check()

    def product(
        self,
        a: Array,
        codes: Array,
        scales: Array,
        points: Array | None,
        experts: Array | None,
        bias: Array | None,
        extras: Sequence[Array],
        levels: Sequence[float] | None = None,
    ) -> Array:
        """The result for activations as floats."""
        form = {n: getattr(self, n) for n in FORM if n != "levels"}
        w = dequantize_blocks(codes, scales, points, levels=levels, **form)
        y = a @ w.T if experts is None else by_experts(a, experts, len(w), lambda e: w[e])
        y = y if bias is None else y + bias
        return run_epilogue(self.body, y, extras)


@graph_op
class BlockGemmOp(PackedProductOp):
    """The product of float activations."""

    name = "glow_cpu.block_gemm"
    MEANING = ("reference", "product")
    levels = opt_floats_prop()

    def infer(self) -> Sequence[Attribute]:
        return self.result_of(element_of(self.a))

    def reference(self, result: Array, *operands: Any) -> None:
        result[...] = self.product(*operands, levels=self.levels)
