"""Matrix products with constant low-bit weights, with one scale per block of the reduction.

Weights stay packed in memory. A few rows of A take them in registers as they come, for which memory is
read at the rate of its bits; more rows share a slice of the panel that is unpacked into scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, shape, table
from glow_backends.cpu.emit.builder import F32, I8, I32, KernelBuilder
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.emit.line_builder import vector
from glow_backends.cpu.emit.memory import Index, ceil_div, minimum, split_index
from glow_backends.cpu.emit.packing import pack_panels
from glow_backends.cpu.emit.panel_rows import PanelRows, each_expert
from glow_backends.cpu.emit.register_blocks import (
    Block,
    Loop,
    Output,
    choose_block,
    even_tiles,
    multiply,
    zeros,
)
from glow_backends.cpu.emit.values import F16, I16
from glow_backends.cpu.fused_body import program_of
from glow_backends.cpu.kernel import Kernel, inplace
from glow_backends.cpu.kernels.gemm.block_gemm_op import BlockGemmOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import pad_to
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, present
from glow_dialects.ops.dequantize_blocks import E4M3, DequantizeBlocksOp, unpack
from glow_dialects.ops.expert_matmul import ExpertMatmulOp
from glow_dialects.ops.module import GetOp

_FEW = 8
"""Products of at most so many rows unpack weights in registers."""
_RUN = 6
"""Rows of one expert that share what is unpacked."""
_SLICE = 1024
"""Elements along the reduction that are unpacked together for many rows."""
_HALVES = 256.0
"""A float of 8 bits (e4m3) is so many times what its bits are as one of 16: exponents begin elsewhere."""
_AHEAD = 4096
"""How many bytes of codes ahead are fetched."""


@dataclass(frozen=True)
class BlockGemmSpec:
    """C [m, n] = A [m, k] @ W, plus bias row (n), then the epilogue's steps; f32.

    W [k, n] is (code - point) scale by codes of `bits`; each run of `block` places of k has a scale for each
    column, and an offset -point scale where `offsets`; else `point` is everyone's. `levels`: what codes stand
    for, where that is not their numbers. Each row has the one of so many `experts` that it names; 0: there is
    one matrix for all.

    Operands: C, A, codes, scales, [offsets], [experts], [bias], [extras], [where experts out of range are
    reported, if `checked`], [scratch].
    """

    m: int
    n: int
    k: int
    bits: int
    block: int
    point: float = 0.0
    levels: tuple[float, ...] | None = None
    offsets: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)
    experts: int = 0
    checked: bool = False

    @property
    def together(self) -> int:
        """Rows by one matrix, or as many of them as are taken together."""
        return _RUN if self.experts else self.m

    @property
    def each(self) -> int:
        """Elements along the reduction in one stored word (32 bits, or one byte) of a column."""
        return 1 if self.bits == 8 else 32 // self.bits

    def tile(self, target: CpuTarget) -> Block:
        """The register block."""
        vectors, limit = ceil_div(self.n, target.lanes), target.registers * 3 // 4
        if self.together > _FEW:
            # Rows a multiple of 4 KiB apart share a cache set: use no more of them than its ways.
            return choose_block(self.m, vectors, target, 32 if self.k % 1024 else 8)
        rows = self.together
        widths = [v for v in (4, 3, 2) if v * rows <= limit and v <= vectors]
        return Block(rows, next((v for v in widths if vectors % v == 0), max(widths, default=1)))


def has_block_kernel(bits: int, block: int, levels: Sequence[float] | None, target: CpuTarget) -> bool:
    """Whether there is a kernel for codes of this form."""
    if levels is None:
        return bits == 8 or block * bits % 32 == 0
    return levels == E4M3 if bits == 8 else _looks_up(bits, levels, target) and block * bits % 32 == 0


def _looks_up(bits: int, levels: Sequence[float] | None, target: CpuTarget) -> bool:
    """Whether numbers are looked up by codes: one instruction has 16 of them, or two have 8 each.

    Two take longer than to convert codes that stand for their own number.
    """
    twice = target.vector_bytes == 32 and "x86" in target.triple and levels is not None
    return bits < 8 and (target.vector_bytes == 64 or twice)


def block_scratch_bytes(spec: BlockGemmSpec, target: CpuTarget) -> int:
    """Bytes of the scratch operand; 0 means that the kernel takes none."""
    if spec.together <= _FEW:
        return 0
    return 4 * target.threads * _slice(spec) * spec.tile(target).vectors * target.lanes


def _slice(spec: BlockGemmSpec) -> int:
    """Places of a slice: whole blocks."""
    return min(spec.k, max(1, _SLICE // spec.block) * spec.block)


def pack_codes(codes: np.ndarray, spec: BlockGemmSpec, target: CpuTarget) -> np.ndarray:
    """Codes [n, k] as words of each column, (panels, ceil(k / each), width)."""
    width = spec.tile(target).vectors * target.lanes
    rows = pad_to(codes, 1, spec.each)
    if spec.bits == 8:
        return np.ascontiguousarray(pack_panels(rows.T, width))
    each = rows.reshape(len(rows), -1, spec.each)
    words = np.zeros(each.shape[:2], np.uint32)
    for place in range(spec.each):
        words |= each[:, :, place].astype(np.uint32) << np.uint32(place * spec.bits)
    return np.ascontiguousarray(pack_panels(words.T, width))


def pack_scales(scales: np.ndarray, spec: BlockGemmSpec, target: CpuTarget) -> np.ndarray:
    """Numbers of blocks [n, blocks] as (panels, blocks, width)."""
    return np.ascontiguousarray(pack_panels(scales.T, spec.tile(target).vectors * target.lanes))


class _Emission:
    def __init__(self, k: KernelBuilder, spec: BlockGemmSpec) -> None:
        self.k, self.spec = k, spec
        self.block = spec.tile(k.target)
        self.lanes = k.target.lanes
        self.width = self.block.vectors * self.lanes
        self.blocks = ceil_div(spec.k, spec.block)
        operands = iter(k.operands)
        self.c, self.a, self.codes, self.scales = (next(operands) for _ in range(4))
        self.offsets = next(operands) if spec.offsets else None
        self.experts = next(operands) if spec.experts else None
        self.bias = next(operands) if spec.epilogue.bias else None
        self.extras = [next(operands) for _ in range(spec.epilogue.extras)]
        self.faults = next(operands) if spec.checked else None
        self.scratch = next(operands) if block_scratch_bytes(spec, k.target) else None
        self.looks_up = _looks_up(spec.bits, spec.levels, k.target)
        self.floats = spec.bits == 8 and spec.levels is not None
        self.late = False

    def emit(self) -> None:
        """Items (group of rows, panel of columns), shared by the workers."""
        k, spec = self.k, self.spec
        if spec.experts:
            rows = PanelRows(spec.m, spec.n, self.block.vectors, self.block.rows, spec.experts)
            rows.emit(k, self.experts, self._begin, self._few, self.faults)
            return
        vectors, panels = ceil_div(spec.n, self.lanes), ceil_div(spec.n, self.width)
        tail = vectors % self.block.vectors or self.block.vectors
        live = spec.n - (vectors - 1) * self.lanes
        if self.scratch is not None and k.target.threads > 1:
            self.scratch = k.gep(self.scratch, k.mul(k.worker, _slice(spec) * self.width))
        rows = min(spec.m, max(self.block.rows, k.target.l2 // 8 // _slice(spec)))
        self.group = rows // self.block.rows * self.block.rows
        groups = ceil_div(spec.m, self.group)
        with k.items(k.size(groups * panels)) as item:
            group, panel = split_index(k, item, [0, k.size(panels)])
            if panels == 1 or (tail == self.block.vectors and live == self.lanes):
                self._panel(group, panel, tail, live)
                return
            last = k.b.icmp_signed("==", k.i(panel), k.size(panels - 1))
            with k.b.if_else(last) as (then, otherwise):
                with then:
                    self._panel(group, panel, tail, live)
                with otherwise:
                    self._panel(group, panel, self.block.vectors, self.lanes)

    def _panel(self, group: Index, panel: Index, vectors: int, live: int) -> None:
        self._begin(self.k.mul(panel, self.width), panel, live)
        if self.scratch is None:
            self._few(0, self.spec.m, vectors)
        else:
            self._sliced(group, vectors)

    def _begin(self, column: Index, panel: Index, live: int) -> None:
        k, spec = self.k, self.spec
        words = ceil_div(spec.k, spec.each) * self.width
        self.at = k.mul(panel, self.blocks * self.width)
        self.words = k.gep(self.codes, k.mul(panel, words), I8 if spec.bits == 8 else I32)
        self.column, self.live = column, live

    def _few(self, row: Index, rows: int, vectors: int) -> None:
        """The sums of a few rows."""
        k, spec = self.k, self.spec
        # Where no level has a point besides, sums of a block may be scaled when they are whole.
        count, pointless = rows * self.block.vectors, self.looks_up or (self.floats and not spec.point)
        self.late = pointless and not spec.offsets and 2 * count <= k.target.registers * 3 // 4
        sums = zeros(k, rows * vectors)
        a = k.gep(self.a, k.mul(row, spec.k))
        sums = self._blocks(0, self.blocks, spec.k, vectors, sums, self._fused(a, rows, vectors))
        self._output(row, rows, True).store(k, sums, vectors, spec.epilogue)

    def _output(self, row: Index, rows: int, last: bool) -> Output:
        k, spec = self.k, self.spec
        at = k.add(k.mul(row, k.size(spec.n)), self.column)
        live = None if self.live == self.lanes else self.live
        bias, extras = (self.bias, self.extras) if last else (None, ())
        step = k.size(spec.n)
        return Output(self.c, at, rows, step, self.lanes, self.lanes, bias, self.column, extras, live)

    # Many rows: a slice is unpacked, then each tile of rows takes it.
    def _sliced(self, group: Index, vectors: int) -> None:
        k, spec = self.k, self.spec
        length = _slice(spec)
        slices = ceil_div(spec.k, length)
        first = k.mul(group, self.group)
        end = minimum(k, k.add(first, self.group), k.size(spec.m))

        def slice_(number: Index, count: int, load: bool, last: bool) -> None:
            blocks = ceil_div(count, spec.block)
            start = k.mul(number, length // spec.block)
            self._blocks(start, blocks, count, vectors, [], self._stored(start, vectors))
            self._tiles(first, end, k.mul(number, length), count, vectors, load, last)

        if slices > 1:
            slice_(0, length, False, False)
            with k.loop(1, slices - 1) as number:
                slice_(number, length, True, False)
        slice_(slices - 1, spec.k - (slices - 1) * length, slices > 1, True)

    def _tiles(
        self, first: Index, end: Index, start: Index, count: int, vectors: int, load: bool, last: bool
    ) -> None:
        k, spec, rows = self.k, self.spec, self.block.rows
        assert self.scratch is not None
        rest = even_tiles(spec.m, rows)[2]

        def tile(row: Index, rows: int) -> None:
            a = k.gep(self.a, k.add(k.mul(row, spec.k), start))
            output = self._output(row, rows, last)
            sums = output.load(k, vectors) if load else zeros(k, rows * vectors)
            assert self.scratch is not None
            places = [r * spec.k for r in range(rows)]
            sums = multiply(k, a, places, self.scratch, vectors, [Loop(count, 1, self.width)], sums)
            output.store(k, sums, vectors, spec.epilogue if last else Epilogue())

        whole = minimum(k, end, k.size(spec.m - rest))
        with k.loop(first, whole, rows) as row:
            tile(row, rows)
        if rest:
            final = k.b.icmp_signed("==", k.i(end), k.size(spec.m))
            with k.b.if_then(final):
                tile(k.size(spec.m - rest), rest)

    def _stored(self, start: Index, vectors: int) -> _Take:
        """Unpacked weights go to scratch memory."""
        k = self.k
        assert self.scratch is not None
        scratch, origin = self.scratch, k.mul(start, self.spec.block)

        def take(place: Index, weights: list[ir.Value], sums: list[ir.Value]) -> list[ir.Value]:
            at = k.mul(k.add(place, k.mul(origin, -1)), self.width)
            for v in range(vectors):
                k.store(weights[v], scratch, k.add(at, v * self.lanes), align=k.target.vector_bytes)
            return sums

        return take

    # Few rows: weights are taken as they are unpacked.
    def _fused(self, a: ir.Value, rows: int, vectors: int) -> _Take:
        k, spec = self.k, self.spec

        def take(place: Index, weights: list[ir.Value], sums: list[ir.Value]) -> list[ir.Value]:
            after: list[ir.Value] = []
            for row in range(rows):
                x = k.splat(k.load(a, k.add(place, row * spec.k)), self.lanes)
                own = sums[row * vectors : (row + 1) * vectors]
                after += [k.fma(x, w, y) for w, y in zip(weights, own, strict=True)]
            return after

        return take

    def _blocks(
        self, start: Index, count: int, places: int, vectors: int, sums: list[ir.Value], take: _Take
    ) -> list[ir.Value]:
        """`take` every place of `count` blocks from `start`, whose last ends with `places`."""
        k, spec = self.k, self.spec
        rest = places - (count - 1) * spec.block
        whole = count if rest == spec.block else count - 1

        def body(number: Index, carried: list[ir.Value]) -> Sequence[ir.Value]:
            return self._block(k.add(start, number), spec.block, vectors, carried, take)

        if whole:
            sums = k.reduce_loop(0, k.size(whole), 1, sums, body)
        if whole < count:
            sums = self._block(k.add(start, whole), rest, vectors, sums, take)
        return sums

    def _block(
        self, number: Index, places: int, vectors: int, sums: list[ir.Value], take: _Take
    ) -> list[ir.Value]:
        """One block: scales, whole words, and the last places of a word."""
        k, spec, lanes = self.k, self.spec, self.lanes
        at = k.add(self.at, k.mul(number, self.width))
        late = self.late and bool(sums)
        scales = [k.load(self.scales, k.add(at, v * lanes), F32, lanes) for v in range(vectors)]
        offsets = self._offsets(at, scales)
        if self.floats:
            scales = [k.b.fmul(s, k.splat(_HALVES, lanes)) for s in scales]
        first = k.mul(number, spec.block // spec.each)
        own = zeros(k, len(sums)) if late else sums

        def word(index: Index, carried: list[ir.Value], steps: int) -> list[ir.Value]:
            row = k.add(first, index)
            held = self._load(row, vectors)
            for step in range(steps):
                levels = [self._level(h, step) for h in held]
                weights = levels if late else self._scaled(levels, scales, offsets)
                carried = take(k.add(k.mul(row, spec.each), step), weights, carried)
            return carried

        words, rest = divmod(places, spec.each)
        if words:
            own = k.reduce_loop(0, words, 1, own, lambda i, c: word(i, c, spec.each))
        if rest:
            own = word(words, own, rest)
        if not late:
            return own
        return [
            k.fma(y, scales[i % vectors], total) for i, (y, total) in enumerate(zip(own, sums, strict=True))
        ]

    def _offsets(self, at: Index, scales: list[ir.Value]) -> list[ir.Value] | None:
        """The offset added to scaled codes; None where the table of levels has the point in it."""
        k = self.k
        if self.offsets is not None:
            return [
                k.load(self.offsets, k.add(at, v * self.lanes), F32, self.lanes) for v in range(len(scales))
            ]
        if self.looks_up or not self.spec.point:
            return None
        return [k.b.fmul(s, k.splat(-self.spec.point, self.lanes)) for s in scales]

    def _scaled(
        self, levels: list[ir.Value], scales: list[ir.Value], offsets: list[ir.Value] | None
    ) -> list[ir.Value]:
        k = self.k
        if offsets is None:
            return [k.b.fmul(x, s) for x, s in zip(levels, scales, strict=True)]
        return [k.fma(x, s, o) for x, s, o in zip(levels, scales, offsets, strict=True)]

    def _load(self, row: Index, vectors: int) -> list[ir.Value]:
        """The words of a row of the panel; those further on are fetched."""
        k, kind = self.k, I8 if self.spec.bits == 8 else I32
        size = kind.width // 8
        at = k.mul(row, self.width)
        for line in range(0, vectors * self.lanes * size, 64):
            k.prefetch(k.gep(self.words, k.add(k.mul(at, size), line + _AHEAD), I8))
        if self.floats:
            return self._halves(k.load(self.words, at, kind, vectors * self.lanes), vectors)
        loaded = [k.load(self.words, k.add(at, v * self.lanes), kind, self.lanes) for v in range(vectors)]
        if kind is I32:
            return loaded
        return [k.b.zext(value, vector(I32, self.lanes)) for value in loaded]

    def _halves(self, bits: ir.Value, vectors: int) -> list[ir.Value]:
        """Floats of 8 bits as vectors of 16, of the same sign, exponent and mantissa."""
        k, count = self.k, vectors * self.lanes
        wide = k.b.shl(k.b.sext(bits, vector(I16, count)), k.splat(7, count, I16))
        bare = k.b.bitcast(k.b.and_(wide, k.splat(0xBFFF, count, I16)), vector(F16, count))
        places = ([v * self.lanes + i for i in range(self.lanes)] for v in range(vectors))
        return [k.b.shuffle_vector(bare, bare, ir.Constant(vector(I32, self.lanes), p)) for p in places]

    def _level(self, word: ir.Value, step: int) -> ir.Value:
        """The value of the code at `step` of each word, but for points that are not in the table."""
        k, bits, lanes = self.k, self.spec.bits, self.lanes
        if self.floats:
            return k.b.fpext(word, vector(F32, lanes))
        if step:
            word = k.b.lshr(word, k.splat(step * bits, lanes, I32))
        if not self.looks_up:
            if bits < 8:
                word = k.b.and_(word, k.splat((1 << bits) - 1, lanes, I32))
            return k.b.sitofp(word, vector(F32, lanes))
        count = 1 << bits
        levels = self.spec.levels or tuple(range(count))
        point = 0.0 if self.offsets is not None else self.spec.point
        table = [ir.Constant(F32, float(np.float32(levels[i % count] - point))) for i in range(16)]
        if lanes == 16:
            numbers = ir.Constant(vector(F32, 16), table)
            return k.named_intrinsic("llvm.x86.avx512.permvar.sf.512", [numbers, word], [])
        low, high = (
            k.named_intrinsic("llvm.x86.avx2.permps", [ir.Constant(vector(F32, 8), half), word], [])
            for half in (table[:8], table[8:])
        )
        late = k.b.icmp_signed("<", k.b.shl(word, k.splat(28, 8, I32)), k.splat(0, 8, I32))
        return k.b.select(late, high, low)


_Take = Callable[[Index, list[ir.Value], list[ir.Value]], list[ir.Value]]
"""(place of the reduction, weights of its columns, sums) -> new sums."""


def emit_gemm_blocks(module: ir.Module, name: str, spec: BlockGemmSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(C, A, codes, scales, [offsets], [bias], [extras], [scratch], worker)` of a spec."""
    scratch = int(block_scratch_bytes(spec, target) > 0)
    count = 4 + spec.offsets + bool(spec.experts) + spec.epilogue.operands + spec.checked + scratch
    k = KernelBuilder(module, name, count, target, sized=True)
    _Emission(k, spec).emit()
    return k.finish()


class BlockGemm(Kernel[BlockGemmOp, BlockGemmSpec]):
    """A product by constant weights of few bits."""

    OPS = (BlockGemmOp,)
    MADE_FROM = (DequantizeBlocksOp,)
    emit = staticmethod(emit_gemm_blocks)

    def supports(self, node: GraphOp) -> bool:
        return all(isinstance(v.owner, GetOp) for v in node.operands)

    def match(self, op: BlockGemmOp, context: CallContext) -> BlockGemmSpec | None:
        (*lead, _), (*experts, columns, _) = shape(op.a), shape(op.codes)
        return BlockGemmSpec(
            prod(lead),
            columns,
            op.depth,
            op.bits,
            op.block,
            op.point,
            op.levels,
            op.points is not None,
            Epilogue(op.bias is not None, None, program_of(op.body), inplace(op.result, op.extras)),
            *experts,
            checked=bool(experts) and context.checked,
        )

    def operands(self, op: BlockGemmOp, spec: BlockGemmSpec, context: CallContext) -> list[Operand | None]:
        target, bits, depth = context.target, op.bits, op.depth
        width = spec.tile(target).vectors

        def codes(array: Array) -> Array:
            return each_expert(lambda own: pack_codes(unpack(own, bits, depth), spec, target), array)

        def scales(array: Array) -> Array:
            return each_expert(lambda own: pack_scales(own, spec, target), array)

        return [
            op.result,
            op.a,
            context.pack(op.codes, f"few_bits|{bits}|{depth}|{width}", codes),
            context.pack(op.scales, f"blocks|{width}", scales),
            *self._offsets(op, spec, context),
            *present(op.experts),
            *present(op.bias),
            *op.extras,
        ]

    def _offsets(self, op: BlockGemmOp, spec: BlockGemmSpec, context: CallContext) -> list[Operand | None]:
        """-point scale of each block, where points differ."""
        if op.points is None:
            return []
        scales, points, target = context.constant(op.scales), context.constant(op.points), context.target
        if scales is None or points is None:
            return [None]
        return [table("offsets", each_expert(lambda own: pack_scales(own, spec, target), -points * scales))]

    def scratch(self, spec: BlockGemmSpec, target: CpuTarget) -> int:
        return block_scratch_bytes(spec, target)

    def checked(self, op: BlockGemmOp, spec: BlockGemmSpec) -> str | None:
        return ExpertMatmulOp.name if spec.checked else None

    def flops(self, spec: BlockGemmSpec) -> int:
        return 2 * spec.m * spec.n * spec.k
