"""Products of f32 matrices: constant right-hand sides are packed once, epilogues stay in registers."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.fused_body import program_of
from glow_backends.cpu.kernel import Kernel, O, inplace
from glow_backends.cpu.kernels.gemm.gemm import GemmSpec, emit_gemm, gemm_scratch_bytes, pack_b, plan_gemm
from glow_backends.cpu.kernels.gemm.gemm_op import GemmOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.operator import Operator
from glow_dialects.core.types import present
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp


def product_spec(
    context: CallContext,
    buffers: tuple[SSAValue, SSAValue, SSAValue],
    transposed: tuple[bool, bool] = (False, False),
    epilogue: Epilogue | None = None,
) -> GemmSpec | None:
    """result = epilogue(op(a) @ op(b)) of `buffers` (result, a, b), all f32."""
    result, a, b = buffers
    if {dtype_name(v) for v in buffers} != {"f32"} or 0 in shape(result) or 0 in shape(a):
        return None
    (*a_batch, m, k), (*b_batch, rows, n) = shape(a), shape(b)
    return GemmSpec(
        k if transposed[0] else m,
        rows if transposed[1] else n,
        m if transposed[0] else k,
        *transposed,
        packed_b=context.constant(b) is not None,
        a_batch=tuple(a_batch),
        b_batch=tuple(b_batch),
        epilogue=epilogue or Epilogue(),
    )


def of_rows(spec: GemmSpec | None, op: Operator) -> GemmSpec | None:
    """A product's spec with the predicate of its instruction, which is for the rows of one matrix, if any."""
    if spec is None or op.predicate is None:
        return spec
    if spec.trans_a or spec.batch or shape(op.predicate) != (spec.m,):
        return None
    return replace(spec, some_rows=True)


def right_side(b: SSAValue, spec: GemmSpec, context: CallContext) -> Operand | None:
    """The right-hand matrix; a constant one in panels."""
    if not spec.packed_b:
        return b
    target = context.target
    how = f"gemm|{plan_gemm(spec, target).block.vectors}|{spec.trans_b}"
    return context.pack(b, how, lambda w: pack_b(w, spec, target))


class _Product(Kernel[O, GemmSpec]):
    """A product of matrices or of stacks of them."""

    emit = staticmethod(emit_gemm)

    def scratch(self, spec: GemmSpec, target: CpuTarget) -> int:
        return gemm_scratch_bytes(spec, target)

    def flops(self, spec: GemmSpec) -> int:
        return 2 * prod(spec.batch) * spec.m * spec.n * spec.k


class Matmul(_Product[MatmulOp | BatchMatmulOp]):
    """A product alone."""

    OPS = (MatmulOp, BatchMatmulOp)

    def match(self, op: MatmulOp | BatchMatmulOp, context: CallContext) -> GemmSpec | None:
        return of_rows(product_spec(context, (op.result, op.lhs, op.rhs)), op)

    def operands(
        self, op: MatmulOp | BatchMatmulOp, spec: GemmSpec, context: CallContext
    ) -> list[Operand | None]:
        return [op.result, op.lhs, right_side(op.rhs, spec, context), *present(op.predicate)]


class FullyConnected(_Product[FullyConnectedOp]):
    """A product and a bias row."""

    OPS = (FullyConnectedOp,)

    def match(self, op: FullyConnectedOp, context: CallContext) -> GemmSpec | None:
        epilogue = Epilogue(bias=op.bias is not None)
        buffers = op.result, op.input, op.weights
        return of_rows(product_spec(context, buffers, epilogue=epilogue), op)

    def operands(self, op: FullyConnectedOp, spec: GemmSpec, context: CallContext) -> list[Operand | None]:
        weights = right_side(op.weights, spec, context)
        return [op.result, op.input, weights, *present(op.bias), *present(op.predicate)]


class Gemm(_Product[GemmOp]):
    """A product with transposed operands, scale, bias and further steps."""

    OPS = (GemmOp,)

    def match(self, op: GemmOp, context: CallContext) -> GemmSpec | None:
        epilogue = Epilogue(op.bias is not None, op.scale, program_of(op.body), inplace(op.result, op.extras))
        transposed = op.transpose_a, op.transpose_b
        return of_rows(product_spec(context, (op.result, op.a, op.b), transposed, epilogue), op)

    def operands(self, op: GemmOp, spec: GemmSpec, context: CallContext) -> list[Operand | None]:
        right = right_side(op.b, spec, context)
        return [op.result, op.a, right, *present(op.bias), *op.extras, *present(op.predicate)]
