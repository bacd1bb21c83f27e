"""Products of stacks of matrices of bytes, neither of them known at compile time.

Panels of the right-hand side are packed into scratch memory, as `gemm_int8` reads constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, shape, table
from glow_backends.cpu.emit.builder import I8, I32, KernelBuilder
from glow_backends.cpu.emit.common import broadcast_strides
from glow_backends.cpu.emit.integer import LIMITS, Requantize, dot4
from glow_backends.cpu.emit.memory import Index, ceil_div, first_lanes, load_first, minimum, split_index
from glow_backends.cpu.emit.packing import factors_of
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.gemm.gemm_int8 import (
    Int8Emission,
    Int8GemmSpec,
    block_of,
    in_bytes,
    requantize_to,
)
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import broadcast_shapes, element_of
from glow_dialects.ops.quantize import quantized_type
from glow_dialects.ops.quantized_matmul import QuantizedMatmulOp
from glow_dialects.ops.requantize import zero_of

_HIGH_BIT = -128


@dataclass(frozen=True)
class Int8StackSpec:
    """y = requantize((a - a_zero) @ (b - b_zero)), numpy.matmul's axes, bytes.

    a is (*a_batch, m, k), b (*b_batch, k, n), each unsigned or signed; the batch shapes broadcast.
    Operands: y, a, b, factor (f32, 8 vectors of the one factor behind the limits: `Requantize.table`), zeros
    (i32: see `zero_terms`), scratch.
    """

    m: int
    n: int
    k: int
    a_batch: tuple[int, ...] = ()
    b_batch: tuple[int, ...] = ()
    a_signed: bool = False
    b_signed: bool = False
    requantize: Requantize = field(default_factory=Requantize)

    @property
    def batch(self) -> tuple[int, ...]:
        """The result's batch shape."""
        return broadcast_shapes(self.a_batch, self.b_batch)

    def folded(self) -> Int8StackSpec:
        """The same product with the batch of a taken as more rows where b has none."""
        if prod(self.b_batch) != 1:
            return self
        return replace(self, m=self.m * prod(self.a_batch), a_batch=(), b_batch=())

    @property
    def one(self) -> Int8GemmSpec:
        """The product of one pair of matrices."""
        return Int8GemmSpec(self.m, self.n, self.k, self.a_signed, self.requantize)


def zero_terms(spec: Int8StackSpec, a_zero: int, b_zero: int) -> np.ndarray:
    """The kernel's treatment of zero points: with a' = a as unsigned, b' = b as signed bytes,

    sum (a - az)(b - bz) = sum a' b' - az' sum b' - bz' sum a' + k az' bz', of which k is the kernel's to say.
    """
    a_zero += 128 if spec.a_signed else 0
    b_zero -= 0 if spec.b_signed else 128
    return np.array([-a_zero, -b_zero, a_zero * b_zero], np.int32)


def _panel_words(spec: Int8StackSpec, target: CpuTarget) -> int:
    return spec.one.words * block_of(spec.one, target).vectors * target.lanes


def stack_scratch_bytes(spec: Int8StackSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand: a panel, the sums of its columns, those of the rows of a."""
    spec = spec.folded()
    return 4 * target.threads * _own_words(spec, target)


def _own_words(spec: Int8StackSpec, target: CpuTarget) -> int:
    words = _panel_words(spec, target) + 8 * target.lanes + spec.m
    return ceil_div(words, target.lanes) * target.lanes


class _Emission(Int8Emission):
    def __init__(self, k: KernelBuilder, spec: Int8StackSpec) -> None:
        super().__init__(k, spec.one)
        self.stack = spec
        self.y, self.a, self.b, self.factor, self.zeros, scratch = k.operands
        own = k.mul(k.worker, k.size(_own_words(spec, k.target))) if k.target.threads > 1 else 0
        self.panel = k.gep(scratch, own, I32)
        self.sums = k.gep(self.panel, _panel_words(spec, k.target), I32)
        self.row_terms = k.gep(self.sums, 8 * self.lanes, I32)
        self.ones = k.splat(0x01010101, self.lanes, I32)

    def emit(self) -> None:
        """Items (pair of matrices, panel of columns), shared by the workers."""
        k, spec, stack = self.k, self.spec, self.stack
        batch = stack.batch or (1,)
        overlap = isinstance(spec.n, Extent) and spec.n >= self.width
        panels = ceil_div(spec.n, self.width) if overlap or not isinstance(spec.n, Extent) else 1
        y = self.y
        steps = [
            [k.size(step * size) for step in broadcast_strides(shape, batch)]
            for shape, size in ((stack.a_batch, spec.m * spec.k), (stack.b_batch, spec.k * spec.n))
        ]
        sizes, matrix = [k.size(extent) for extent in batch], k.size(spec.m * spec.n)
        low, high = k.share(k.size(prod(batch) * panels))
        panels = k.opened(panels)
        with k.loop(low, high) as item:
            pair, panel = split_index(k, item, [0, panels])
            places = split_index(k, pair, sizes)
            at = [k.index(*zip(places, step, strict=True)) for step in steps]
            column = k.mul(panel, self.width)
            if overlap:  # the last panel has columns of the one before it, too
                column = minimum(k, column, spec.n - self.width)
            self.x = k.gep(self.a, at[0], I8)
            self.y = k.gep(y, k.mul(pair, matrix), spec.requantize.kind)
            b = k.gep(self.b, k.add(at[1], column), I8)
            self._sum_rows()
            if isinstance(spec.n, Extent):
                self._panel(b, column, self.width if overlap else spec.n)
            else:
                self._panels(b, panel, column)

    def _panels(self, b: ir.Value, panel: Index, column: Index) -> None:
        """One of the panels, of which the last may have fewer columns."""
        k = self.k
        whole, tail = divmod(self.spec.n, self.width)
        full = k.b.icmp_signed("<", k.i(panel), k.i(whole))
        for columns, wanted in ((self.width, full), (tail, k.b.not_(full))):
            if columns and (columns == tail or whole):
                with k.b.if_then(wanted):
                    self._panel(b, column, columns)

    def _panel(self, b: ir.Value, column: Index, columns: int) -> None:
        self._pack(b, columns)
        self._rows(column, columns)

    def _rows(self, column: Index, columns: int) -> None:
        """All rows of a panel."""
        k, rows = self.k, self.rows
        parts = self.panel, self.sums, k.gep(self.factor, LIMITS)
        full = rows.count - (rows.rest > 0)
        with k.loop(0, k.size(full)) as tile:
            self.tile(parts, column, self.first_row(tile), rows.height, columns)
        if rows.rest:
            self.tile(parts, column, k.size(rows.last), rows.rest, columns)

    def _pack(self, b: ir.Value, columns: int) -> None:
        """Four rows of the panel side by side in words; sums start as the columns' sums of them."""
        k, lanes = self.k, self.lanes
        vectors = 1 if isinstance(columns, Extent) else ceil_div(columns, lanes)

        def step(index: Index, sums: Sequence[ir.Value], live: int) -> list[ir.Value]:
            after: list[ir.Value] = []
            for v in range(vectors):
                word = self._interleaved(b, index, v, min(lanes, columns - v * lanes), live)
                k.store(word, self.panel, k.add(k.mul(index, self.width), v * lanes), I32)
                after.append(dot4(k, self.ones, word, sums[v]))
            return after

        sums = self.over_words(step, [k.splat(0, lanes, I32)] * vectors)
        factor = k.splat(k.load(self.zeros, 0, I32), lanes, I32)
        for v, total in enumerate(sums):
            k.store(k.b.mul(total, factor), self.sums, v * lanes, I32)

    def _interleaved(self, b: ir.Value, index: Index, v: int, columns: int, live: int) -> ir.Value:
        """Bytes of four rows (or the first `live`) of a vector of columns, signed."""
        k, lanes = self.k, self.lanes
        opened = isinstance(live, Extent)
        flip = 0 if self.stack.b_signed else sum(0x80 << 8 * i for i in range(4 if opened else live))
        word = k.splat(flip - (flip >> 31 << 32), lanes, I32)
        for i in range(4 if opened else live):
            row = k.add(k.mul(index, 4), minimum(k, i, k.opened(live - 1)) if opened else i)
            at = k.add(k.mul(row, self.spec.n), v * lanes)
            part = k.b.zext(load_first(k, b, at, lanes, k.opened(columns), I8), word.type)
            word = k.b.xor(word, k.b.shl(part, k.splat(8 * i, lanes, I32)) if i else part)
        if opened:  # rows beyond the last are 0
            bits = k.b.shl(k.i(1), k.mul(k.opened(live), 8))
            word = k.b.and_(word, k.splat(k.b.trunc(k.b.sub(bits, k.i(1)), I32), lanes, I32))
        return word

    def _sum_rows(self) -> None:
        """The term of b's zero point in each row: its factor times the row's sum, and a constant."""
        k, spec, lanes = self.k, self.spec, self.lanes
        size = 4 * lanes
        factor, both = (k.load(self.zeros, i, I32) for i in (1, 2))
        constant = k.b.mul(both, k.b.trunc(k.size(spec.k), I32))
        words = ir.VectorType(I32, lanes)

        def part(row: ir.Value, start: Index, live: int, total: ir.Value) -> ir.Value:
            held = load_first(k, k.gep(row, start, I8), 0, size, k.opened(live), I8)
            if self.stack.a_signed:
                held = k.b.xor(held, k.splat(_HIGH_BIT, size, I8))
            kept = first_lanes(k, size, k.opened(live))
            ones = k.b.bitcast(k.b.zext(kept, ir.VectorType(I8, size)), words)
            return dot4(k, k.b.bitcast(held, words), ones, total)

        whole = spec.k // size * size
        with k.loop(0, k.size(spec.m)) as r:
            row = k.gep(self.x, k.mul(r, spec.k), I8)
            total = k.splat(0, lanes, I32)
            if isinstance(whole, Extent) or whole:
                (total,) = k.reduce_loop(
                    0, k.opened(whole), size, [total], lambda start, held: [part(row, start, size, held[0])]
                )
            if isinstance(whole, Extent) or spec.k > whole:
                total = part(row, k.opened(whole), spec.k - whole, total)
            summed = k.intrinsic("vector.reduce.add", [total], I32)
            assert self.row_terms is not None
            k.store(k.b.add(k.b.mul(summed, factor), constant), self.row_terms, r, I32)


def emit_gemm_int8_stack(module: ir.Module, name: str, spec: Int8StackSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, a, b, factor, zeros, scratch, worker)` of a spec."""
    k = KernelBuilder(module, name, 6, target, sized=True)
    _Emission(k, spec.folded()).emit()
    return k.finish()


_DEEPEST = 1 << 15
"""Sums of more products might not fit 32 bits."""


class Int8Matmul(Kernel[QuantizedMatmulOp, Int8StackSpec]):
    """A product of stacks of matrices of bytes."""

    OPS = (QuantizedMatmulOp,)
    emit = staticmethod(emit_gemm_int8_stack)

    def match(self, op: QuantizedMatmulOp, context: CallContext) -> Int8StackSpec | None:
        left, right = quantized_type(op.lhs), quantized_type(op.rhs)
        requantize = requantize_to(op.result, op.low, op.high)
        (*a_batch, rows, depth), (*b_batch, _, columns) = shape(op.lhs), shape(op.rhs)
        if requantize is None or not (in_bytes(left) and in_bytes(right)):
            return None
        if 0 in (*shape(op.lhs), *shape(op.rhs)) or depth >= _DEEPEST:
            return None
        batches = tuple(a_batch), tuple(b_batch)
        return Int8StackSpec(rows, columns, depth, *batches, left.signed, right.signed, requantize.form)

    def operands(self, op: QuantizedMatmulOp, spec: Int8StackSpec, context: CallContext) -> list[Operand]:
        left, right, to = quantized_type(op.lhs), quantized_type(op.rhs), element_of(op.result)
        factor = factors_of(right, left, to, 8 * context.target.lanes)
        zeros = zero_terms(spec, zero_of(left), zero_of(right))
        requantize = requantize_to(op.result, op.low, op.high)
        assert requantize is not None
        return [op.result, op.lhs, op.rhs, table("factor", requantize.table(factor)), table("zeros", zeros)]

    def scratch(self, spec: Int8StackSpec, target: CpuTarget) -> int:
        return stack_scratch_bytes(spec, target)

    def flops(self, spec: Int8StackSpec) -> int:
        return 2 * prod(spec.batch) * spec.m * spec.n * spec.k
