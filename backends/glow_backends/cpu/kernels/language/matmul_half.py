"""Products by constant matrices of 16-bit floats, which are widened in registers as they come; and by those
of experts, of 32 bits too, of which each row reads one.

A panel of columns lies in memory as it is read, for one row and for many, so that programs of all sizes
share it; one row takes it at the rate of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.memory import Index
from glow_backends.cpu.emit.packing import pack_panels
from glow_backends.cpu.emit.panel_rows import PanelRows, each_expert
from glow_backends.cpu.emit.register_blocks import Output, even_tiles, zeros
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import is_instr_of
from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import DequantizeBlocksOp
from glow_dialects.ops.expert_matmul import ExpertMatmulOp
from glow_dialects.ops.matmul_half import MatmulHalfOp
from glow_dialects.ops.module import ConstantOp, GetOp

_VECTORS = 4
"""Vectors of columns of a panel."""


@dataclass(frozen=True)
class MatmulHalfSpec:
    """y [m, n] = x [m, k] @ w, f32, w in panels of `stored` (f32, f16, bf16).

    Each row has the one of so many `experts` that it names; 0: there is one matrix for all.
    Operands: y, x, w, [experts], [where experts out of range are reported, if `checked`].
    """

    m: int
    n: int
    k: int
    stored: str
    experts: int = 0
    checked: bool = False

    def rows(self, target: CpuTarget) -> int:
        """Rows of a register block; with experts runs of rows have any length."""
        most = 6 if target.registers >= 32 and target.vector_bytes > 16 else 3
        return most if self.experts else even_tiles(self.m, most)[0]


def pack_halves(weights: Array, target: CpuTarget) -> Array:
    """A matrix [n, k] as panels (panels, k, columns)."""
    bits = np.ascontiguousarray(weights).view(f"u{weights.itemsize}")
    return np.ascontiguousarray(pack_panels(bits.T, _VECTORS * target.lanes)).view(weights.dtype)


class _Emission:
    def __init__(self, k: KernelBuilder, spec: MatmulHalfSpec) -> None:
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        self.width = _VECTORS * self.lanes
        self.y, self.x, self.w = k.operands[:3]
        self.experts = k.operands[3] if spec.experts else None
        self.faults = k.operands[4] if spec.checked else None

    def emit(self) -> None:
        """Tiles of rows by panels of columns."""
        k, spec = self.k, self.spec
        rows = PanelRows(spec.m, spec.n, _VECTORS, spec.rows(k.target), spec.experts)
        rows.emit(k, self.experts, self._begin, self._tile, self.faults)

    def _begin(self, column: Index, panel: Index, live: int) -> None:
        k, spec = self.k, self.spec
        self.own = k.gep(self.w, k.mul(panel, spec.k * self.width), values.storage(spec.stored))
        self.column, self.live = column, live

    def _tile(self, row: Index, rows: int, vectors: int) -> None:
        k, spec = self.k, self.spec
        starts = [k.gep(self.x, k.mul(k.add(row, r), spec.k)) for r in range(rows)]
        chains = 2 if rows == 1 else 1
        count = rows * vectors

        def step(place: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
            return self._place(starts, place, vectors, sums)

        def some(index: Index, sums: list[ir.Value]) -> list[ir.Value]:
            parts = [
                step(k.add(k.mul(index, chains), c), sums[c * count : (c + 1) * count]) for c in range(chains)
            ]
            return [value for part in parts for value in part]

        sums = k.reduce_loop(0, spec.k // chains, 1, zeros(k, chains * count), some)
        totals = sums[:count]
        for c in range(1, chains):
            own = sums[c * count : (c + 1) * count]
            totals = [k.b.fadd(x, y) for x, y in zip(totals, own, strict=True)]
        for place in range(spec.k // chains * chains, spec.k):
            totals = step(place, totals)
        at = k.add(k.mul(row, k.size(spec.n)), self.column)
        live = None if self.live == self.lanes else self.live
        output = Output(self.y, at, rows, k.size(spec.n), self.lanes, self.lanes, live=live)
        output.store(k, totals, vectors, Epilogue())

    def _place(
        self, starts: Sequence[ir.Value], place: Index, vectors: int, sums: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """The sums with the products of one place of the reduction."""
        k, lanes = self.k, self.lanes
        at = k.mul(place, self.width)
        weights = [
            values.load(k, self.own, k.add(at, v * lanes), self.spec.stored, lanes) for v in range(vectors)
        ]
        after: list[ir.Value] = []
        for r, start in enumerate(starts):
            x = k.splat(k.load(start, place), lanes)
            own = sums[r * vectors : (r + 1) * vectors]
            after += [k.fma(x, w, total) for w, total in zip(weights, own, strict=True)]
        return after


def emit_matmul_half(module: ir.Module, name: str, spec: MatmulHalfSpec, target: CpuTarget) -> ir.Function:
    """Emit the kernel of a spec."""
    k = KernelBuilder(module, name, 3 + bool(spec.experts) + spec.checked, target, sized=True)
    _Emission(k, spec).emit()
    return k.finish()


class MatmulHalf(Kernel[MatmulHalfOp | ExpertMatmulOp, MatmulHalfSpec]):
    """A product of f32 by a constant matrix of 16-bit floats, or by constant matrices of experts."""

    OPS = (MatmulHalfOp, ExpertMatmulOp)
    emit = staticmethod(emit_matmul_half)

    def supports(self, node: GraphOp) -> bool:
        weights = node.operands[1].owner
        parts = weights.operands if isinstance(weights, DequantizeBlocksOp) else node.operands[1:2]
        return (
            all(isinstance(v.owner, GetOp) and isinstance(v.owner.target(), ConstantOp) for v in parts)
            and node.predicate is None
            and 0 not in (*shape(node.results[0]), shape(node.operands[0])[1])
        )

    def match(self, op: MatmulHalfOp | ExpertMatmulOp, context: CallContext) -> MatmulHalfSpec | None:
        (m, k), (*experts, n, _) = shape(op.x), shape(op.weights)
        if context.constant(op.weights) is None or 0 in (m, k, n):
            return None
        checked = bool(experts) and context.checked
        return MatmulHalfSpec(m, n, k, dtype_name(op.weights), *experts, checked=checked)

    def operands(
        self, op: MatmulHalfOp | ExpertMatmulOp, spec: MatmulHalfSpec, context: CallContext
    ) -> list[Operand | None]:
        target = context.target

        def pack(weights: Array) -> Array:
            return each_expert(lambda w: pack_halves(w, target), weights)

        experts = [op.experts] if is_instr_of(op, ExpertMatmulOp) else []
        return [
            op.result,
            op.x,
            context.pack(op.weights, f"half_panels|{target.vector_bytes}", pack),
            *experts,
        ]

    def checked(self, op: MatmulHalfOp | ExpertMatmulOp, spec: MatmulHalfSpec) -> str | None:
        return ExpertMatmulOp.name if spec.checked else None

    def flops(self, spec: MatmulHalfSpec) -> int:
        return 2 * spec.m * spec.n * spec.k
