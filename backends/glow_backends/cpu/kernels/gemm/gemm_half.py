"""Products of a matrix of bfloat16 with a constant one, two products a 32-bit lane."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.halves import dot_bf16, pair_up
from glow_backends.cpu.emit.memory import Index, ceil_div, split_index
from glow_backends.cpu.emit.packing import pack_panels
from glow_backends.cpu.emit.register_blocks import (
    NEAR,
    Block,
    Loop,
    Output,
    Stream,
    choose_block,
    even_tiles,
    multiply,
    zeros,
)
from glow_backends.cpu.emit.values import F16
from glow_backends.cpu.fused_body import program_of
from glow_backends.cpu.kernel import Kernel, inplace
from glow_backends.cpu.kernels.gemm.gemm_op import GemmOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import Array, present


@dataclass(frozen=True)
class HalfGemmSpec:
    """y = steps(scale * x @ w + bias).

    x is (m, k), k even, y and the extras (m, n), all `stored` (bf16); w is what `pack_half_gemm` made of
    (k, n); bias and sums are f32.
    Operands: y, x, w, [bias], [extras].
    """

    m: int
    n: int
    k: int
    stored: str
    epilogue: Epilogue = field(default_factory=Epilogue)

    def block(self, target: CpuTarget) -> Block:
        """The register block."""
        limit = 8 if self.k % 2048 == 0 else 32  # rows 4 KiB apart share a cache set
        return choose_block(self.m, ceil_div(self.n, target.lanes), target, limit)


def pack_half_gemm(weights: np.ndarray, spec: HalfGemmSpec, target: CpuTarget) -> np.ndarray:
    """(k, n) of bfloat16 to (panels, k / 2, width, 2): two rows of a panel of columns inmost."""
    return pair_up(pack_panels(weights, spec.block(target).vectors * target.lanes))


class _Emission:
    def __init__(self, k: KernelBuilder, spec: HalfGemmSpec) -> None:
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        self.block = spec.block(k.target)
        self.width, self.words = self.block.vectors * self.lanes, spec.k // 2
        operands = iter(k.operands)
        self.y, self.x, self.w = next(operands), next(operands), next(operands)
        self.bias = next(operands) if spec.epilogue.bias else None
        self.extras = list(operands)

    def emit(self) -> None:
        """Items (panel, tile of rows), shared by the workers."""
        k, spec = self.k, self.spec
        rows, tiles, rest = even_tiles(spec.m, self.block.rows)
        whole, tail = divmod(spec.n, self.width)
        counts = [whole + (tail > 0), tiles + (rest > 0)]
        self.tiles = counts[1]
        with k.items(counts[0] * counts[1]) as item:
            panel, tile = split_index(k, item, counts)
            full_columns = k.b.icmp_signed("<", k.i(panel), k.i(whole))
            full_rows = k.b.icmp_signed("<", k.i(tile), k.i(tiles))
            for columns, inside in ((self.width * (whole > 0), full_columns), (tail, k.b.not_(full_columns))):
                for height, fits in ((rows, full_rows), (rest, k.b.not_(full_rows))):
                    if columns and height:
                        with k.b.if_then(k.b.and_(inside, fits)):
                            self._tile(panel, k.mul(tile, rows), height, columns)

    def _tile(self, panel: Index, row: Index, rows: int, columns: int) -> None:
        k, spec, lanes = self.k, self.spec, self.lanes
        vectors = ceil_div(columns, lanes)
        column = k.mul(panel, self.width)
        x = k.gep(self.x, k.mul(row, spec.k), F16)
        w = k.gep(self.w, k.mul(panel, self.words * self.width))
        sums = self._sums(x, w, rows, vectors)
        at = k.add(k.mul(row, spec.n), column)
        live = columns - (vectors - 1) * lanes
        output = Output(
            self.y, at, rows, spec.n, lanes, lanes, self.bias, column, self.extras, live, spec.stored
        )
        output.store(k, sums, vectors, spec.epilogue)

    def _sums(self, x: ir.Value, w: ir.Value, rows: int, vectors: int) -> list[ir.Value]:
        """The sums of a tile."""
        k, words = self.k, self.words
        near = Stream(k.gep(w, NEAR), 1, words * self.width) if self.tiles == 1 else None
        offsets = [r * words for r in range(rows)]
        loop, sums = Loop(words, 1, self.width), zeros(k, rows * vectors)
        return multiply(k, x, offsets, w, vectors, [loop], sums, stream=near, dot=dot_bf16)


def emit_gemm_half(module: ir.Module, name: str, spec: HalfGemmSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, [bias], [extras], worker)` of a spec."""
    assert target.computes(spec.stored) and spec.k % 2 == 0
    k = KernelBuilder(module, name, 3 + spec.epilogue.operands, target)
    _Emission(k, spec).emit()
    return k.finish()


class HalfGemm(Kernel[GemmOp, HalfGemmSpec]):
    """A product of bfloat16 by a constant matrix; other products were widened."""

    OPS = (GemmOp,)
    emit = staticmethod(emit_gemm_half)

    def match(self, op: GemmOp, context: CallContext) -> HalfGemmSpec | None:
        stored = dtype_name(op.result)
        if op.transpose_a or not context.target.computes(stored):
            return None
        (*_, k), n = shape(op.a), shape(op.result)[-1]
        epilogue = Epilogue(op.bias is not None, op.scale, program_of(op.body), inplace(op.result, op.extras))
        return HalfGemmSpec(prod(shape(op.a)) // k, n, k, stored, epilogue)

    def operands(self, op: GemmOp, spec: HalfGemmSpec, context: CallContext) -> list[Operand | None]:
        target, transposed = context.target, op.transpose_b

        def pack(weights: Array) -> Array:
            matrix = weights.reshape(weights.shape[-2:])
            return pack_half_gemm(matrix.T if transposed else matrix, spec, target)

        how = f"gemm_half|{spec.block(target).vectors}|{transposed}"
        biases = [context.pack(v, "bias|f32", lambda b: b.astype(np.float32)) for v in present(op.bias)]
        return [op.result, op.a, context.pack(op.b, how, pack), *biases, *op.extras]

    def flops(self, spec: HalfGemmSpec) -> int:
        return 2 * spec.m * spec.n * spec.k
