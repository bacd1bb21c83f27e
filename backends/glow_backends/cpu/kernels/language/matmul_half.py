"""Products by constant matrices of 16-bit floats, which are widened in registers as they come.

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
from glow_backends.cpu.emit.memory import Index, ceil_div, split_index
from glow_backends.cpu.emit.packing import pack_panels
from glow_backends.cpu.emit.register_blocks import Output, even_tiles, zeros
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array
from glow_dialects.ops.matmul_half import MatmulHalfOp
from glow_dialects.ops.module import GetOp

_VECTORS = 4
"""Vectors of columns of a panel."""
_ROWS = 64
"""Rows of an item of work, about."""


@dataclass(frozen=True)
class MatmulHalfSpec:
    """y [m, n] = x [m, k] @ w, f32, w in panels of `stored` (f16, bf16). Operands: y, x, w."""

    m: int
    n: int
    k: int
    stored: str

    def rows(self, target: CpuTarget) -> int:
        """Rows of a register block."""
        return even_tiles(self.m, 6 if target.registers >= 32 and target.vector_bytes > 16 else 3)[0]


def pack_halves(weights: Array, target: CpuTarget) -> Array:
    """A matrix [n, k] as panels (panels, k, columns)."""
    bits = np.ascontiguousarray(weights).view(np.uint16)
    return np.ascontiguousarray(pack_panels(bits.T, _VECTORS * target.lanes)).view(weights.dtype)


class _Emission:
    def __init__(self, k: KernelBuilder, spec: MatmulHalfSpec) -> None:
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        self.width = _VECTORS * self.lanes
        self.y, self.x, self.w = k.operands

    def emit(self) -> None:
        """Items (group of rows, panel of columns), shared by the workers."""
        k, spec = self.k, self.spec
        panels, vectors = ceil_div(spec.n, self.width), ceil_div(spec.n, self.lanes)
        tail, live = (vectors - 1) % _VECTORS + 1, spec.n - (vectors - 1) * self.lanes
        rows = spec.rows(k.target)
        group = max(1, _ROWS // rows) * rows
        with k.items(k.size(ceil_div(spec.m, group) * panels)) as item:
            number, panel = split_index(k, item, [0, k.size(panels)])
            self.first = k.mul(number, group)
            if panels == 1 or (tail, live) == (_VECTORS, self.lanes):
                self._panel(panel, group, tail, live)
                return
            last = k.b.icmp_signed("==", k.i(panel), k.size(panels - 1))
            with k.b.if_else(last) as (then, otherwise):
                with then:
                    self._panel(panel, group, tail, live)
                with otherwise:
                    self._panel(panel, group, _VECTORS, self.lanes)

    def _panel(self, panel: Index, group: int, vectors: int, live: int) -> None:
        k, spec = self.k, self.spec
        rows = spec.rows(k.target)
        self.own = k.gep(self.w, k.mul(panel, spec.k * self.width), values.storage(spec.stored))
        self.column, self.live = k.mul(panel, self.width), live
        if spec.m <= rows:
            self._tile(0, spec.m, vectors)
            return
        last = k.size(spec.m - rows)
        with k.loop(0, group, rows) as step:
            row = k.b.add(k.i(self.first), step)
            with k.b.if_then(k.b.icmp_signed("<", row, k.size(spec.m))):
                # The last tile begins early enough to end with the last row.
                early = k.b.icmp_signed("<", row, last)
                self._tile(k.b.select(early, row, last), rows, vectors)

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
    k = KernelBuilder(module, name, 3, target, sized=True)
    _Emission(k, spec).emit()
    return k.finish()


class MatmulHalf(Kernel[MatmulHalfOp, MatmulHalfSpec]):
    """A product of f32 by a constant matrix of 16-bit floats."""

    OPS = (MatmulHalfOp,)
    emit = staticmethod(emit_matmul_half)

    def supports(self, node: GraphOp) -> bool:
        constant = isinstance(node.operands[1].owner, GetOp)
        return (
            constant
            and node.predicate is None
            and 0 not in (*shape(node.results[0]), shape(node.operands[0])[1])
        )

    def match(self, op: MatmulHalfOp, context: CallContext) -> MatmulHalfSpec | None:
        (m, k), n = shape(op.x), shape(op.weights)[0]
        if context.constant(op.weights) is None or 0 in (m, k, n):
            return None
        return MatmulHalfSpec(m, n, k, dtype_name(op.weights))

    def operands(self, op: MatmulHalfOp, spec: MatmulHalfSpec, context: CallContext) -> list[Operand | None]:
        target = context.target
        how = f"half_panels|{target.vector_bytes}"
        return [op.result, op.x, context.pack(op.weights, how, lambda w: pack_halves(w, target))]

    def flops(self, spec: MatmulHalfSpec) -> int:
        return 2 * spec.m * spec.n * spec.k
