"""Products of 8-bit activations and low-bit weights: integer sums per block, float between blocks.

A panel of two vectors of columns lies in memory as it is read, for one row and for many, so that programs
of all sizes share it. What a word of 32 bits of a column holds depends on the instructions there are:
4 codes of 8 bits, 8 of 4 or 16 of 2 bits for sums of four products, 2 codes of 8 bits for sums of two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, shape, table
from glow_backends.cpu.emit.builder import F32, I8, I32, KernelBuilder
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.integer import I16, dot4
from glow_backends.cpu.emit.line_builder import vector
from glow_backends.cpu.emit.memory import Index
from glow_backends.cpu.emit.packing import pack_panels
from glow_backends.cpu.emit.panel_rows import PanelRows, each_expert
from glow_backends.cpu.emit.register_blocks import Output, even_tiles, zeros
from glow_backends.cpu.emit.values import F16
from glow_backends.cpu.fused_body import program_of
from glow_backends.cpu.kernel import Kernel, inplace
from glow_backends.cpu.kernels.language.integer_blocks_ops import IntegerBlockGemmOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, present
from glow_dialects.ops.dequantize_blocks import unpack
from glow_dialects.ops.expert_matmul import ExpertMatmulOp
from glow_dialects.ops.round_blocks import RoundBlocksOp

RUNS = (32, 16)
"""Places of the reduction that are written out: of 4-bit codes their sums of products stay within 16 bits."""
_VECTORS = 2
"""Vectors of columns of a panel."""


def in_pairs(bits: int, target: CpuTarget) -> bool:
    """Whether products are summed in pairs of 16-bit integers, as AVX2 does for codes of 8 bits."""
    return bits == 8 and target.vector_bytes == 32


def stored_point(bits: int, point: float, target: CpuTarget) -> float:
    """The point of codes as they are kept: pairs have signed ones."""
    return point - 128 if in_pairs(bits, target) else point


def has_integer_kernel(bits: int, block: int, depth: int) -> bool:
    """Whether there is a kernel for codes of this form."""
    return bits in (2, 4, 8) and block % min(RUNS) == 0 and depth % block == 0


@dataclass(frozen=True)
class IntegerBlockGemmSpec:
    """y [m, n] = x [m, k] @ w + bias, then the epilogue's steps.

    Each run of `block` places has a scale for each column (f16 if `half`, else f32), and with `offsets` a
    number that is added for each unit of x. `point`: of the codes as they are kept. Each row has the one of
    so many `experts` that it names; 0: there is one matrix for all.
    Operands: y, codes of x, factors of x, codes, scales, [offsets], [experts], [bias], [extras], [where
    experts out of range are reported, if `checked`].
    """

    m: int
    n: int
    k: int
    bits: int
    block: int
    point: float
    half: bool = False
    offsets: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)
    experts: int = 0
    checked: bool = False

    def rows(self, target: CpuTarget) -> int:
        """Rows of a register block; with experts runs of rows have any length."""
        most = 6 if target.registers >= 32 else 4
        return most if self.experts else even_tiles(self.m, most)[0]

    @property
    def run(self) -> int:
        """Places of the reduction that are written out."""
        return next(run for run in RUNS if self.block % run == 0)

    @property
    def each(self) -> int:
        """Places of the reduction that a word holds."""
        return 32 // self.bits


def pack_integer_codes(codes: Array, bits: int, target: CpuTarget) -> Array:
    """Codes [n, k] as panels of words, (panels, words, columns)."""
    width = _VECTORS * target.lanes
    if in_pairs(bits, target):
        pairs = np.ascontiguousarray(codes ^ np.uint8(128)).view(np.uint16)
        return np.ascontiguousarray(pack_panels(pairs.T, width))
    fours = codes.reshape(len(codes), -1, 8 // bits, 4)
    codes = fours[:, :, 0].copy()
    for place in range(1, 8 // bits):
        codes |= fours[:, :, place] << bits * place
    words = codes.reshape(len(codes), -1).view(np.uint32)
    return np.ascontiguousarray(pack_panels(words.T, width))


def pack_numbers(numbers: Array, target: CpuTarget, half: bool) -> Array:
    """Numbers of blocks [n, blocks] as (panels, blocks, columns)."""
    kind = np.float16 if half else np.float32
    return np.ascontiguousarray(pack_panels(numbers.T.astype(kind), _VECTORS * target.lanes))


class _Emission:
    def __init__(self, k: KernelBuilder, spec: IntegerBlockGemmSpec) -> None:
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        self.width = _VECTORS * self.lanes
        self.blocks = spec.k // spec.block
        operands = iter(k.operands)
        self.y, self.x, self.factors, self.codes, self.scales = (next(operands) for _ in range(5))
        self.offsets = next(operands) if spec.offsets else None
        self.experts = next(operands) if spec.experts else None
        self.bias = next(operands) if spec.epilogue.bias else None
        self.extras = [next(operands) for _ in range(spec.epilogue.extras)]
        self.faults = next(operands) if spec.checked else None
        self.pairs = in_pairs(spec.bits, k.target)
        #: How many codes of x a word of 32 bits holds.
        self.kind, self.together = (I16, 2) if self.pairs else (I8, 4)

    def emit(self) -> None:
        """Tiles of rows by panels of columns."""
        k, spec = self.k, self.spec
        rows = PanelRows(spec.m, spec.n, _VECTORS, spec.rows(k.target), spec.experts)
        rows.emit(k, self.experts, self._begin, self._tile, self.faults)

    def _begin(self, column: Index, panel: Index, live: int) -> None:
        k, spec = self.k, self.spec
        word = 2 if self.pairs else 4
        line = spec.k // (2 if self.pairs else spec.each) * self.width
        self.own = k.gep(self.codes, k.mul(k.mul(panel, line), word), I8)
        self.at = k.mul(panel, self.blocks * self.width)
        self.column, self.live = column, live

    def _tile(self, row: Index, rows: int, vectors: int) -> None:
        k, spec = self.k, self.spec

        def block(number: Index, sums: list[ir.Value]) -> list[ir.Value]:
            return self._block(row, rows, number, vectors, sums)

        sums = k.reduce_loop(0, self.blocks, 1, zeros(k, rows * vectors), block)
        at = k.add(k.mul(row, k.size(spec.n)), self.column)
        live = None if self.live == self.lanes else self.live
        step, lanes = k.size(spec.n), self.lanes
        output = Output(self.y, at, rows, step, lanes, lanes, self.bias, self.column, self.extras, live)
        output.store(k, sums, vectors, spec.epilogue)

    def _block(
        self, row: Index, rows: int, number: Index, vectors: int, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """The sums with the products of one block."""
        k, spec, lanes = self.k, self.spec, self.lanes
        dots = self._dots(row, rows, number, vectors)
        at = k.add(self.at, k.mul(number, self.width))
        scales = [self._number(self.scales, k.add(at, v * lanes)) for v in range(vectors)]
        after: list[ir.Value] = []
        for r in range(rows):
            place = k.mul(k.add(k.mul(k.add(row, r), self.blocks), number), 2)
            scale = k.splat(k.load(self.factors, place), lanes)
            rest = None
            if spec.point or self.offsets is not None:
                rest = k.splat(k.load(self.factors, k.add(place, 1)), lanes)
            for v in range(vectors):
                total = k.b.sitofp(dots[r * vectors + v], vector(F32, lanes))
                if rest is not None and self.offsets is None:
                    total = k.fma(total, scale, rest)
                else:
                    total = k.b.fmul(total, scale)
                made = k.fma(total, scales[v], sums[r * vectors + v])
                if rest is not None and self.offsets is not None:
                    offset = k.load(self.offsets, k.add(at, v * lanes), F32, lanes)
                    made = k.fma(offset, rest, made)
                after.append(made)
        return after

    def _number(self, pointer: ir.Value, at: Index) -> ir.Value:
        """A vector of scales."""
        k = self.k
        if not self.spec.half:
            return k.load(pointer, at, F32, self.lanes)
        return k.b.fpext(k.load(pointer, at, F16, self.lanes), vector(F32, self.lanes))

    # --- integers -----------------------------------------------------------------------------------
    def _dots(self, row: Index, rows: int, number: Index, vectors: int) -> list[ir.Value]:
        """Sums of products of a block, i32, [rows x vectors]."""
        k, spec = self.k, self.spec
        first = k.mul(number, spec.block)
        none: list[ir.Value] = [k.splat(0, self.lanes, I32)] * (rows * vectors)
        if spec.block == spec.run:
            return self._run(row, rows, first, vectors, none)

        def run(index: Index, totals: list[ir.Value]) -> list[ir.Value]:
            return self._run(row, rows, k.add(first, k.mul(index, spec.run)), vectors, totals)

        return k.reduce_loop(0, spec.block // spec.run, 1, none, run)

    def _run(
        self, row: Index, rows: int, first: Index, vectors: int, totals: list[ir.Value]
    ) -> list[ir.Value]:
        """The totals with the products of the places that are written out."""
        starts = [self._x(k_row, first) for k_row in self._rows(row, rows)]
        if self.spec.bits == 8:
            return self._bytes(starts, first, vectors, totals)
        if self.k.target.vector_bytes == 32:
            return self._few_in_pairs(starts, first, vectors, totals)
        for four, codes in self._fours(first, vectors):
            totals = self._added(starts, four, codes, totals)
        return totals

    def _rows(self, row: Index, rows: int) -> list[Index]:
        return [self.k.add(row, r) for r in range(rows)]

    def _x(self, row: Index, first: Index) -> ir.Value:
        """The address of a row's codes from a place on."""
        k = self.k
        return k.gep(self.x, k.add(k.mul(row, self.spec.k), first), self.kind)

    def _word(self, start: ir.Value, word: int) -> ir.Value:
        """A word of a row's codes in every lane."""
        k = self.k
        return k.splat(k.load(start, word, I32), self.lanes, I32)

    def _added(
        self, starts: Sequence[ir.Value], word: int, codes: Sequence[ir.Value], totals: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Sums of four products each."""
        k, after = self.k, list[ir.Value]()
        for r, start in enumerate(starts):
            x = self._word(start, word)
            own = totals[r * len(codes) : (r + 1) * len(codes)]
            after += [dot4(k, w, x, total) for w, total in zip(codes, own, strict=True)]
        return after

    def _bytes(
        self, starts: Sequence[ir.Value], first: Index, vectors: int, totals: list[ir.Value]
    ) -> list[ir.Value]:
        """Codes of 8 bits: four products at a time, or two."""
        k, lanes = self.k, self.lanes
        line = k.mul(k.b.udiv(k.i(first), k.i(self.together)), self.width)
        for word in range(self.spec.run // self.together):
            at = k.add(line, word * self.width)
            if self.pairs:
                codes = [self._pair(k.add(at, v * lanes)) for v in range(vectors)]
                totals = self._pairs_added(starts, word, codes, totals)
            else:
                codes = [k.load(self.own, k.add(at, v * lanes), I32, lanes) for v in range(vectors)]
                totals = self._added(starts, word, codes, totals)
        return totals

    def _pair(self, at: Index) -> ir.Value:
        """Two signed codes of each column, as 16-bit integers."""
        k = self.k
        raw = k.load(k.gep(self.own, k.mul(at, 2), I8), 0, I8, 2 * self.lanes)
        return k.b.sext(raw, vector(I16, 2 * self.lanes))

    def _pairs_added(
        self, starts: Sequence[ir.Value], word: int, codes: Sequence[ir.Value], totals: Sequence[ir.Value]
    ) -> list[ir.Value]:
        k, after = self.k, list[ir.Value]()
        for r, start in enumerate(starts):
            x = k.b.bitcast(self._word(start, word), vector(I16, 2 * self.lanes))
            own = totals[r * len(codes) : (r + 1) * len(codes)]
            after += [k.b.add(total, _madd(k, w, x)) for w, total in zip(codes, own, strict=True)]
        return after

    def _fours(self, first: Index, vectors: int) -> Iterator[tuple[int, list[ir.Value]]]:
        """The number of each four places of a run, and their codes as the bytes of a word of each column."""
        k, lanes, spec = self.k, self.lanes, self.spec
        mask = k.splat(0x01010101 * ((1 << spec.bits) - 1), lanes, I32)
        for word in range(spec.run // spec.each):
            at = k.mul(k.add(k.b.udiv(k.i(first), k.i(spec.each)), word), self.width)
            held = [k.load(self.own, k.add(at, v * lanes), I32, lanes) for v in range(vectors)]
            for part in range(spec.each // 4):
                if part:
                    held = [k.b.lshr(h, k.splat(spec.bits, lanes, I32)) for h in held]
                yield word * spec.each // 4 + part, [k.b.and_(h, mask) for h in held]

    def _few_in_pairs(
        self, starts: Sequence[ir.Value], first: Index, vectors: int, totals: list[ir.Value]
    ) -> list[ir.Value]:
        """Products of bytes summed in pairs to 16 bits, which hold the sums of a run."""
        k, lanes = self.k, self.lanes
        sums: list[ir.Value | None] = [None] * len(totals)
        for four, codes in self._fours(first, vectors):
            for r, start in enumerate(starts):
                x = self._word(start, four)
                for v, w in enumerate(codes):
                    product, before = _maddubs(k, w, x), sums[r * vectors + v]
                    sums[r * vectors + v] = product if before is None else k.b.add(before, product)
        ones = k.splat(1, 2 * lanes, I16)
        found = [s for s in sums if s is not None]
        return [k.b.add(total, _madd(k, s, ones)) for total, s in zip(totals, found, strict=True)]


def _madd(k: KernelBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of 16-bit integers, neighbours added."""
    return k.named_intrinsic("llvm.x86.avx2.pmadd.wd", [x, y], [], vector(I32, 8))


def _maddubs(k: KernelBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Products of unsigned bytes of x by signed ones of y, neighbours added to 16 bits."""
    pair = [k.b.bitcast(v, vector(I8, 32)) for v in (x, y)]
    return k.named_intrinsic("llvm.x86.avx2.pmadd.ub.sw", pair, [], vector(I16, 16))


def emit_integer_block_gemm(
    module: ir.Module, name: str, spec: IntegerBlockGemmSpec, target: CpuTarget
) -> ir.Function:
    """Emit the kernel of a spec."""
    count = 5 + spec.offsets + bool(spec.experts) + spec.epilogue.operands + spec.checked
    k = KernelBuilder(module, name, count, target, sized=True)
    _Emission(k, spec).emit()
    return k.finish()


def _fits_half(scales: Array) -> bool:
    """Whether f16 holds the scales as they are."""
    with np.errstate(over="ignore"):
        return bool(np.array_equal(scales.astype(np.float16).astype(np.float32), scales))


class IntegerBlockGemm(Kernel[IntegerBlockGemmOp, IntegerBlockGemmSpec]):
    """A product of integers by constant weights of few bits."""

    OPS = (IntegerBlockGemmOp,)
    MADE_FROM = (RoundBlocksOp,)
    emit = staticmethod(emit_integer_block_gemm)

    def supports(self, node: GraphOp) -> bool:
        return node.predicate is None

    def match(self, op: IntegerBlockGemmOp, context: CallContext) -> IntegerBlockGemmSpec | None:
        (*lead, k), (*experts, columns, _) = shape(op.a), shape(op.codes)
        scales = context.constant(op.scales)
        if scales is None:
            return None
        epilogue = Epilogue(op.bias is not None, None, program_of(op.body), inplace(op.result, op.extras))
        point = stored_point(op.bits, op.point, context.target)
        points = op.points is not None
        half = _fits_half(scales)
        form = op.bits, op.block, point, half, points, epilogue
        checked = bool(experts) and context.checked
        return IntegerBlockGemmSpec(prod(lead), columns, k, *form, *experts, checked=checked)

    def operands(
        self, op: IntegerBlockGemmOp, spec: IntegerBlockGemmSpec, context: CallContext
    ) -> list[Operand | None]:
        target, bits, depth = context.target, op.bits, op.depth

        def codes(array: Array) -> Array:
            return each_expert(lambda own: pack_integer_codes(unpack(own, bits, depth), bits, target), array)

        def scales(array: Array) -> Array:
            return each_expert(lambda own: pack_numbers(own, target, spec.half), array)

        return [
            op.result,
            op.a,
            op.factors,
            context.pack(op.codes, f"integer_codes|{bits}|{depth}|{target.vector_bytes}", codes),
            context.pack(op.scales, f"integer_scales|{spec.half}|{target.vector_bytes}", scales),
            *self._offsets(op, context),
            *present(op.experts),
            *present(op.bias),
            *op.extras,
        ]

    def _offsets(self, op: IntegerBlockGemmOp, context: CallContext) -> list[Operand | None]:
        """-point scale of each block, where points differ."""
        if op.points is None:
            return []
        scales, points = context.constant(op.scales), context.constant(op.points)
        if scales is None or points is None:
            return [None]
        shift = 128 if in_pairs(op.bits, context.target) else 0
        offsets = (shift - points) * scales
        return [table("offsets", each_expert(lambda own: pack_numbers(own, context.target, False), offsets))]

    def checked(self, op: IntegerBlockGemmOp, spec: IntegerBlockGemmSpec) -> str | None:
        return ExpertMatmulOp.name if spec.checked else None

    def flops(self, spec: IntegerBlockGemmSpec) -> int:
        return 2 * spec.m * spec.n * spec.k
