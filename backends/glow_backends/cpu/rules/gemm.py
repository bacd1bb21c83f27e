"""Matrix products and attention: constant right-hand sides are packed once, epilogues stay in registers."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, KernelCall, Operand, Rule, dtype_name, shape
from glow_backends.cpu.emit.common import broadcast_strides
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.kernels.conv.conv_generic import GenericConvSpec, emit_conv_generic
from glow_backends.cpu.kernels.gemm.attention import AttentionSpec, attention_scratch_bytes, emit_attention
from glow_backends.cpu.kernels.gemm.gemm import GemmSpec, emit_gemm, gemm_scratch_bytes, pack_b, plan_gemm
from glow_backends.cpu.kernels.gemm.gemm_blocks import (
    BlockGemmSpec,
    block_scratch_bytes,
    emit_gemm_blocks,
    pack_codes,
    pack_scales,
)
from glow_backends.cpu.kernels.gemm.gemm_half import HalfGemmSpec, emit_gemm_half, pack_half_gemm
from glow_backends.cpu.ops.attention import four, ordered, result_order, strides_of
from glow_backends.cpu.rules.common import inplace, table
from glow_backends.cpu.steps import steps_of
from glow_dialects.core.types import Array, present
from glow_dialects.ops.dequantize_blocks import unpack


def _product(
    context: CallContext,
    result: SSAValue,
    a: SSAValue,
    b: SSAValue,
    transposed: tuple[bool, bool] = (False, False),
    epilogue: Epilogue | None = None,
    others: tuple[SSAValue, ...] = (),
) -> KernelCall | None:
    """result = epilogue(op(a) @ op(b)); `others` are the epilogue's operands."""
    if {dtype_name(v) for v in (result, a, b)} != {"f32"} or 0 in shape(result) or 0 in shape(a):
        return None
    (*a_batch, m, k), (*b_batch, rows, n) = shape(a), shape(b)
    spec = GemmSpec(
        k if transposed[0] else m,
        rows if transposed[1] else n,
        m if transposed[0] else k,
        *transposed,
        packed_b=context.constant(b) is not None,
        a_batch=tuple(a_batch),
        b_batch=tuple(b_batch),
        epilogue=epilogue or Epilogue(),
    )
    weights: Operand = b
    if spec.packed_b:
        how = f"gemm|{plan_gemm(spec, context.target).block.vectors}|{spec.trans_b}"
        packed = context.pack(b, how, lambda w: pack_b(w, spec, context.target))
        assert packed is not None
        weights = packed
    return KernelCall(
        emit_gemm,
        spec,
        [result, a, weights, *others],
        scratch=gemm_scratch_bytes(spec, context.target),
        flops=2 * prod(spec.batch) * spec.m * spec.n * spec.k,
    )


def matmul(op: Any, context: CallContext) -> KernelCall | None:
    """A product of matrices or of stacks of them."""
    if op.predicate is not None:
        return None
    return _product(context, op.result, op.lhs, op.rhs) or _double(op.result, op.lhs, op.rhs)


def _double(result: SSAValue, a: SSAValue, b: SSAValue) -> KernelCall | None:
    """A product in double precision: rows of A are filters of one tap over the rows of B."""
    if {dtype_name(v) for v in (result, a, b)} != {"f64"} or 0 in shape(result) or 0 in shape(a):
        return None
    (*a_batch, m, k), (*b_batch, _, n) = shape(a), shape(b)
    batch, group, rows = prod(b_batch), 1, m
    if a_batch and not b_batch:
        rows *= prod(a_batch)
    elif a_batch == b_batch:
        batch, group, rows = 1, batch, batch * m
    elif a_batch:
        return None
    spec = GenericConvSpec((batch, group * k, n), rows, (1,), (1,), (0, 0), (1,), group, double=True)
    return KernelCall(emit_conv_generic, spec, [result, b, a], flops=2 * prod(shape(result)) * k)


def fully_connected(op: Any, context: CallContext) -> KernelCall | None:
    """A product and a bias row."""
    if op.predicate is not None:
        return None
    bias = present(op.bias)
    epilogue = Epilogue(bias=bool(bias))
    return _product(context, op.result, op.input, op.weights, epilogue=epilogue, others=(*bias,))


def gemm(op: Any, context: CallContext) -> KernelCall | None:
    """A product with transposed operands, scale, bias and further steps."""
    bias, extras = present(op.bias), op.extras
    epilogue = Epilogue(bool(bias), op.scale, steps_of(op.properties["steps"]), inplace(op))
    transposed = (op.transpose_a, op.transpose_b)
    if context.target.computes(dtype_name(op.result)):
        return _half_product(op, context, epilogue)
    return _product(context, op.result, op.a, op.b, transposed, epilogue, (*bias, *extras))


def _half_product(op: Any, context: CallContext, epilogue: Epilogue) -> KernelCall | None:
    """A product of 16-bit floats by a constant matrix; what else there is was widened."""
    (*_, k), n = shape(op.a), shape(op.result)[-1]
    spec = HalfGemmSpec(prod(shape(op.a)) // k, n, k, dtype_name(op.result), epilogue)

    def make(weights: Array) -> Array:
        matrix = weights.reshape(weights.shape[-2:])
        return pack_half_gemm(matrix.T if op.transpose_b else matrix, spec, context.target)

    how = f"gemm_half|{spec.block(context.target).vectors}|{op.transpose_b}"
    biases = [context.pack(v, "bias|f32", lambda b: b.astype(np.float32)) for v in present(op.bias)]
    operands = [
        op.result,
        op.a,
        context.pack(op.b, how, make),
        *biases,
        *op.extras,
    ]
    if op.transpose_a or None in operands:
        return None
    given = [o for o in operands if o is not None]
    return KernelCall(emit_gemm_half, spec, given, flops=2 * spec.m * spec.n * spec.k)


def block_gemm(op: Any, context: CallContext) -> KernelCall | None:
    """A product by constant weights of few bits."""
    target, bits, depth = context.target, op.bits, op.depth
    points, bias, extras = (op.operand_group(name) for name in ("points", "bias", "extras"))
    epilogue = Epilogue(bool(bias), None, steps_of(op.properties["steps"]), inplace(op))
    (*lead, _), (columns, _) = shape(op.a), shape(op.codes)
    spec = BlockGemmSpec(
        prod(lead),
        columns,
        depth,
        bits,
        op.block,
        op.point,
        op.levels,
        bool(points),
        epilogue,
    )
    width = spec.tile(target).vectors
    known = [context.constant(v) for v in (op.scales, *points)]

    def offsets(zero: Array) -> Array:
        assert known[0] is not None
        return pack_scales(-zero * known[0], spec, target)

    how = f"few_bits|{bits}|{depth}|{width}"
    codes = context.pack(op.codes, how, lambda c: pack_codes(unpack(c, bits, depth), spec, target))
    scales = context.pack(op.scales, f"blocks|{width}", lambda s: pack_scales(s, spec, target))
    shifts = [table("offsets", offsets(z)) for z in known[1:] if z is not None]
    if codes is None or scales is None or len(shifts) != len(points):
        return None
    return KernelCall(
        emit_gemm_blocks,
        spec,
        [op.result, op.a, codes, scales, *shifts, *bias, *extras],
        scratch=block_scratch_bytes(spec, target),
        flops=2 * spec.m * spec.n * spec.k,
    )


def attention(op: Any, context: CallContext) -> KernelCall | None:
    """Attention over heads of four axes."""
    q, k, v = (ordered(shape(op.operand_group(n)[0]), getattr(op, f"{n}_order")) for n in ("q", "k", "v"))
    if dtype_name(op.q) != "f32" or 0 in (*q, *k, *v):
        return None
    (mask,) = present(op.mask) or (None,)
    strides = {
        n: strides_of(shape(op.operand_group(n)[0]), getattr(op, f"{n}_order")) for n in ("q", "k", "v")
    }
    if mask is not None:
        strides["mask"] = four(broadcast_strides(shape(mask), (*q[:3], k[2])))
    spec = AttentionSpec(
        batch=q[0],
        heads=q[1],
        rows=q[2],
        keys=k[2],
        depth=q[3],
        width=v[3],
        result=strides_of(shape(op.result), result_order(op.order)),
        scale=op.scale,
        **strides,
    )
    if spec.v[3] != 1 or spec.result[3] != 1 or 1 not in spec.k[2:]:
        return None
    return KernelCall(
        emit_attention,
        spec,
        [op.result, op.q, op.k, op.v, *present(op.mask)],
        scratch=attention_scratch_bytes(spec, context.target),
        flops=2 * prod(q[:3]) * k[2] * (q[3] + v[3]),
    )


RULES: dict[str, Rule] = {
    "matmul": matmul,
    "batch_matmul": matmul,
    "fully_connected": fully_connected,
    "glow_cpu_instr.block_gemm": block_gemm,
    "glow_cpu_instr.gemm": gemm,
    "glow_cpu_instr.attention": attention,
}
