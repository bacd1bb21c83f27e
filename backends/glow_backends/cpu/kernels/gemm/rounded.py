"""Products of float32 whose factors may be rounded: see `PRECISIONS`. Others import nothing for them."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glow_backends.cpu.calls import CallContext, Operand
from glow_backends.cpu.kernel import Kernel, O
from glow_backends.cpu.kernels.gemm.gemm import GemmSpec
from glow_backends.cpu.kernels.gemm.gemm_op import GemmOp
from glow_backends.cpu.kernels.gemm.products import FullyConnected, Gemm, Matmul
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp

if TYPE_CHECKING:
    from llvmlite import ir

    from glow_backends.nests.dialect import KernelOp
    from glow_backends.nests.products import Product


def emit_rounded(module: ir.Module, name: str, spec: Product, target: CpuTarget) -> ir.Function:
    """The kernel of a product."""
    from glow_backends.cpu.kernels.gemm.contractions import emit_product

    return emit_product(module, name, spec, target)


def describe_rounded(spec: Product, target: CpuTarget, name: str) -> KernelOp:
    """Its description."""
    from glow_backends.cpu.kernels.gemm.contractions import kernel_of

    return kernel_of(spec, target, name)


class Rounded(Kernel[O, "Product"]):
    """A product of float32 whose factors are rounded to bfloat16, or to sums of two."""

    LIKE: ClassVar[type[Kernel[Any, GemmSpec]]]
    emit = staticmethod(emit_rounded)
    describe = staticmethod(describe_rounded)

    def match(self, op: O, context: CallContext) -> Product | None:
        if context.target.precision == "float32":
            return None
        from glow_backends.cpu.kernels.gemm.rounded_products import rounded_product

        return rounded_product(self.LIKE().match(op, context), context)

    def scratch(self, spec: Product, target: CpuTarget) -> int:
        from glow_backends.cpu.kernels.gemm.contractions import product_scratch

        return product_scratch(spec, target)

    def flops(self, spec: Product) -> int:
        return 2 * prod(spec.batch) * spec.m * spec.n * spec.k

    def operands(self, op: O, spec: Product, context: CallContext) -> list[Operand | None]:
        from glow_backends.cpu.kernels.gemm.contractions import schedule_of
        from glow_backends.nests.products import pack_columns

        like = self.LIKE()
        known = like.match(op, context)
        assert known is not None
        if not known.packed_b:
            return list(like.operands(op, known, context))
        s, matrix = schedule_of(spec, context.target), op.operands[2]
        how = f"panels|{s.instruction} {s.lanes} {s.columns} {known.trans_b}"

        def pack(w: Array) -> Array:
            return pack_columns(np.swapaxes(w, -1, -2) if known.trans_b else w, s)

        plain = like.operands(op, replace(known, packed_b=False), context)
        return [*plain[:2], context.pack(matrix, how, pack), *plain[3:]]


class RoundedMatmul(Rounded[MatmulOp | BatchMatmulOp]):
    """A product alone."""

    OPS = (MatmulOp, BatchMatmulOp)
    LIKE = Matmul


class RoundedFullyConnected(Rounded[FullyConnectedOp]):
    """A product and a bias row."""

    OPS = (FullyConnectedOp,)
    LIKE = FullyConnected


class RoundedGemm(Rounded[GemmOp]):
    """A product with what follows it."""

    OPS = (GemmOp,)
    LIKE = Gemm
