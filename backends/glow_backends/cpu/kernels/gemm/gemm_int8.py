"""Products of a matrix of bytes with constant signed bytes, several products an instruction.

Four where the processor multiplies bytes. Others multiply pairs of 16-bit numbers: there, bytes that many
products read are brought as such (see `glow-cpu-pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from llvmlite import ir
from xdsl.ir import SSAValue

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape, table
from glow_backends.cpu.emit.builder import I8, I32, KernelBuilder
from glow_backends.cpu.emit.integer import I16, LIMITS, Requantize, dot2, dot4, limits_of, room_of
from glow_backends.cpu.emit.memory import Index, ceil_div, minimum, split_index, store_first
from glow_backends.cpu.emit.open_blocks import open_vectors
from glow_backends.cpu.emit.packing import bias_of, factors_of
from glow_backends.cpu.emit.register_blocks import Block, choose_block, even_tiles, may_overlap
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.gemm.pairs_op import PairsFullyConnectedOp
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.blocks import pad_to
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import UniformQuantizedType, element_of, present
from glow_dialects.ops.quantize import quantized_type
from glow_dialects.ops.quantized_fully_connected import IntegerProductOp, QuantizedFullyConnectedOp
from glow_dialects.ops.requantize import stored_limits, zero_of

_HIGH_BITS = -0x7F7F7F80  # 0x80808080: turns four signed bytes into unsigned ones


@dataclass(frozen=True)
class Int8GemmSpec:
    """y = requantize(x @ w + bias) of bytes.

    x is (m, k), unsigned, or `signed` (its bytes then count 128 more); with `pairs` it is 16-bit numbers
    of the size of bytes, which keep their signs; weights that are bytes stay so there if `narrow`. w is
    what `pack_int8_gemm` made of (k, n), signed; bias (i32) and factor (f32) have n values, padded to the
    lanes, the latter behind the limits (`Requantize.table`); y is (m, n). Operands: y, x, w, bias, factor.
    """

    m: int
    n: int
    k: int
    signed: bool = False
    requantize: Requantize = field(default_factory=Requantize)
    pairs: bool = False
    narrow: bool = False

    @property
    def together(self) -> int:
        """Elements of a word of 32 bits."""
        return 2 if self.pairs else 4

    @property
    def words(self) -> int:
        """Groups of elements along k, the last one filled up with zero weights."""
        return ceil_div(self.k, self.together)


def block_of(spec: Int8GemmSpec, target: CpuTarget) -> Block:
    """The register block of a product."""
    open_columns = isinstance(spec.n, Extent)
    vectors = open_vectors(spec.n, target) if open_columns else ceil_div(spec.n, target.lanes)
    return choose_block(estimate(spec.m), vectors, room_of(target, spec.pairs))


Step = Callable[[Index, list[ir.Value], int], list[ir.Value]]
"""(number of a word, sums, its live elements) -> new sums."""


@dataclass(frozen=True)
class RowTiles:
    """`count` tiles of `height` rows. The last begins at row `last`, or has `rest` rows if that is not 0."""

    height: int
    count: int
    last: int
    rest: int


def row_tiles(total: int, size: int, again: bool = True) -> RowTiles:
    """`total` rows in tiles of about `size`; the last takes some of another's `again` where that is cheap."""
    if isinstance(total, Extent):
        assert total >= size, "the block is for the usual number of rows"
        return RowTiles(size, ceil_div(total, size), total - size, 0)
    height, full, rest = even_tiles(total, size)
    count = full + (rest > 0)
    if rest and not (again and may_overlap(total, height)):
        return RowTiles(height, count, full * height, rest)
    return RowTiles(height, count, total - height, 0)


def pack_int8_gemm(weights: np.ndarray, spec: Int8GemmSpec, target: CpuTarget) -> np.ndarray:
    """(k, n) to (panels, k / t, width, t): the t rows of a word inmost, of a panel of columns."""
    width, t = block_of(spec, target).vectors * target.lanes, spec.together
    wide = spec.pairs and not spec.narrow
    padded = pad_to(pad_to(weights.astype(np.int16) if wide else weights, 0, t), 1, width)
    rows, columns = padded.shape
    parts = padded.reshape(rows // t, t, columns // width, width)
    return np.ascontiguousarray(parts.transpose(2, 0, 3, 1))


class Int8Emission:
    """Blocks of a product of bytes."""

    #: Where a number for each row is that its sums get, if anywhere.
    row_terms: ir.Value | None = None

    def __init__(self, k: KernelBuilder, spec: Int8GemmSpec) -> None:
        self.k, self.spec, self.lanes = k, spec, k.target.lanes
        self.block = block_of(spec, k.target)
        self.width = self.block.vectors * self.lanes
        self.rows = row_tiles(spec.m, self.block.rows, again=not spec.pairs)
        self.y, self.x, self.w, self.bias, self.factor = k.operands[:5]

    def emit(self) -> None:
        """Items (panel, tile of rows), shared by the workers."""
        k, spec, rows = self.k, self.spec, self.rows
        whole = spec.n // self.width
        tail = spec.n - whole * self.width
        panels = whole + (tail > 0)
        count = k.size(rows.count)
        low, high = k.share(k.size(panels * rows.count))
        with k.loop(low, high) as item:
            panel, tile = split_index(k, item, [panels, count])
            full_columns = k.b.icmp_signed("<", k.i(panel), k.i(whole))
            for columns, wanted in ((self.width, full_columns), (tail, k.b.not_(full_columns))):
                if columns and (columns == tail or whole):
                    with k.b.if_then(wanted):
                        self._tiles(panel, tile, columns)

    def _tiles(self, panel: Index, tile: Index, columns: int) -> None:
        """One tile of a panel: full, or the rest of the rows."""
        k, rows = self.k, self.rows
        row = self.first_row(tile)
        if not rows.rest:
            self._tile(panel, row, rows.height, columns)
            return
        full = k.b.icmp_signed("<", k.i(tile), k.size(rows.count - 1))
        with k.b.if_else(full) as (then, otherwise):
            with then:
                self._tile(panel, row, rows.height, columns)
            with otherwise:
                self._tile(panel, row, rows.rest, columns)

    def first_row(self, tile: Index) -> Index:
        """Where a tile of rows begins."""
        k, rows = self.k, self.rows
        row = k.mul(tile, rows.height)
        return row if rows.rest else minimum(k, row, k.size(rows.last))

    def _tile(self, panel: Index, row: Index, rows: int, columns: int) -> None:
        k = self.k
        column = k.mul(panel, self.width)
        unit = I16 if self.spec.narrow else I32
        w = k.gep(self.w, k.mul(panel, self.spec.words * self.width), unit)
        bias, factor = k.gep(self.bias, column, I32), k.gep(self.factor, k.add(column, LIMITS))
        self.tile((w, bias, factor), column, row, rows, columns)

    def tile(
        self, panel: tuple[ir.Value, ir.Value, ir.Value], column: Index, row: Index, rows: int, columns: int
    ) -> None:
        """`rows` x `columns` results from `row` and `column` on; `panel`: weights, sums, factors.

        Columns that only the run counts are fewer than a vector has lanes.
        """
        k, spec, lanes = self.k, self.spec, self.lanes
        vectors = 1 if isinstance(columns, Extent) else ceil_div(columns, lanes)
        w, starts, factors = panel
        element, together = (I16, 2) if spec.pairs else (I8, 4)
        dot = dot2 if spec.pairs else dot4
        x = k.gep(self.x, k.mul(row, spec.k), element)
        bias = [k.load(starts, v * lanes, I32, lanes) for v in range(vectors)]

        def step(index: Index, sums: Sequence[ir.Value], live: int) -> list[ir.Value]:
            weights = [self._weights(w, k.add(k.mul(index, self.width), v * lanes)) for v in range(vectors)]
            after: list[ir.Value] = []
            for r in range(rows):
                place = k.gep(x, k.add(k.mul(index, together), r * spec.k), element)
                word = k.splat(self._word(place, live), lanes, I32)
                after += [dot(k, word, v, sums[r * vectors + i]) for i, v in enumerate(weights)]
            return after

        sums: list[ir.Value] = [bias[i % vectors] for i in range(rows * vectors)]
        sums = self.over_words(step, sums)
        if self.row_terms is not None:
            terms = [k.splat(k.load(self.row_terms, k.add(row, r), I32), lanes, I32) for r in range(rows)]
            sums = [k.b.add(total, terms[i // vectors]) for i, total in enumerate(sums)]
        kind, limits = spec.requantize.kind, limits_of(k, self.factor)
        for v in range(vectors):
            factor = k.load(factors, v * lanes, lanes=lanes)
            live = min(lanes, columns - v * lanes)
            for r in range(rows):
                value = spec.requantize.apply(k, sums[r * vectors + v], factor, limits)
                at = k.add(k.mul(k.add(row, r), spec.n), k.add(column, v * lanes))
                self._store(value, at, live, kind)

    def over_words(self, step: Step, sums: list[ir.Value]) -> list[ir.Value]:
        """`step` for all words of a row, and for how many elements of each."""
        k, together, words = self.k, self.spec.together, self.spec.words
        whole, rest = divmod(self.spec.k, together)
        if isinstance(rest, Extent) or whole:
            sums = k.reduce_loop(0, k.opened(whole), 1, sums, lambda index, held: step(index, held, together))
        if isinstance(rest, Extent):
            last = k.opened(whole), k.opened(words)
            return k.reduce_loop(*last, 1, sums, lambda index, held: step(index, held, rest))
        return step(whole, sums, rest) if rest else sums

    def _weights(self, w: ir.Value, place: Index) -> ir.Value:
        """A vector of words of weights."""
        k, lanes = self.k, self.lanes
        if not self.spec.narrow:
            return k.load(w, place, I32, lanes)
        return k.b.sext(k.load(w, k.mul(place, 2), I8, 2 * lanes), ir.VectorType(I16, 2 * lanes))

    def _store(self, value: ir.Value, at: Index, live: int, kind: ir.Type) -> None:
        """The first `live` lanes; bytes one by one, since LLVM 22 widens masked stores of few bytes."""
        k = self.k
        if kind != I8 or (not isinstance(live, Extent) and live == self.lanes):
            store_first(k, value, self.y, at, k.opened(live), kind)
            return
        if isinstance(live, Extent):
            held = k.stack(self.lanes)
            k.store(value, held, 0, I8)
            with k.loop(0, k.opened(live)) as lane:
                k.store(k.load(held, lane, I8), self.y, k.add(at, lane), I8)
            return
        for lane in range(live):
            k.store(k.b.extract_element(value, ir.Constant(I32, lane)), self.y, k.add(at, lane), I8)

    def _word(self, place: ir.Value, live: int) -> ir.Value:
        """The elements of a word (or the first `live` of them); bytes are unsigned ones.

        Where only the run tells how many, others have weights of 0 and may be anything.
        """
        k = self.k
        if self.spec.pairs:
            return k.load(place, 0, I32, align=2) if live == 2 else k.b.zext(k.load(place, 0, I16), I32)
        if not isinstance(live, Extent) and live == 4:
            word = k.load(place, 0, I32, align=1)
        else:
            word = k.b.zext(k.load(place, 0, I8), I32)
            for i in range(1, 4 if isinstance(live, Extent) else live):
                at = minimum(k, i, k.opened(live - 1)) if isinstance(live, Extent) else i
                byte = k.b.zext(k.load(place, at, I8), I32)
                word = k.b.or_(word, k.b.shl(byte, ir.Constant(I32, 8 * i)))
        return k.b.xor(word, ir.Constant(I32, _HIGH_BITS)) if self.spec.signed else word


def emit_gemm_int8(module: ir.Module, name: str, spec: Int8GemmSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(y, x, w, bias, factor, worker)` of a spec."""
    k = KernelBuilder(module, name, 5, target, sized=True)
    Int8Emission(k, spec).emit()
    return k.finish()


def in_bytes(kind: UniformQuantizedType) -> bool:
    """Whether elements are stored in 8 bits."""
    return kind.storage.width.data == 8


def requantize_to(result: SSAValue, low: int, high: int) -> Requantize | None:
    """The epilogue of a product's sums; None where kernels have no such result."""
    to = element_of(result)
    if not isinstance(to, UniformQuantizedType):
        name = dtype_name(result)
        return Requantize(real=name == "f32", sums=name == "i32") if name in ("f32", "i32") else None
    return Requantize(zero_of(to), *stored_limits(to, low, high)) if in_bytes(to) else None


class Int8FullyConnected(Kernel[IntegerProductOp, Int8GemmSpec]):
    """A product of bytes with constant weights and bias."""

    OPS = (QuantizedFullyConnectedOp,)
    emit = staticmethod(emit_gemm_int8)

    def match(self, op: IntegerProductOp, context: CallContext) -> Int8GemmSpec | None:
        source, weights = quantized_type(op.input), quantized_type(op.weights)
        constants = [context.constant(v) for v in (op.weights, *present(op.bias))]
        bytes_only = in_bytes(source) and in_bytes(weights) and weights.signed
        requantize = requantize_to(op.result, op.low, op.high)
        if any(c is None for c in constants) or not bytes_only or requantize is None:
            return None
        (rows, depth), columns = shape(op.input), shape(op.weights)[1]
        return Int8GemmSpec(rows, columns, depth, source.signed, requantize.form)

    def operands(
        self, op: IntegerProductOp, spec: Int8GemmSpec, context: CallContext
    ) -> list[Operand | None]:
        source, weights, to = quantized_type(op.input), quantized_type(op.weights), element_of(op.result)
        array, target = context.constant(op.weights), context.target
        biases = [context.constant(v) for v in present(op.bias)]
        requantize = requantize_to(op.result, op.low, op.high)
        assert array is not None and requantize is not None
        zero = zero_of(source) + (128 if spec.signed else 0)
        bias = bias_of(array.T, biases[0] if biases else None, zero)
        how = f"int8_gemm|{block_of(spec, target).vectors} {spec.together} {spec.narrow}"
        width = 8 * target.lanes  # the reach of the widest panel
        return [
            op.result,
            op.input,
            context.pack(op.weights, how, lambda w: pack_int8_gemm(w, spec, target)),
            table("sums", pad_to(bias, 0, width)),
            table("factor", requantize.table(pad_to(factors_of(weights, source, to, spec.n), 0, width))),
        ]

    def flops(self, spec: Int8GemmSpec) -> int:
        return 2 * spec.m * spec.n * spec.k


class PairsFullyConnected(Int8FullyConnected):
    """The same on bytes that come as 16-bit numbers."""

    OPS = (PairsFullyConnectedOp,)

    def match(self, op: IntegerProductOp, context: CallContext) -> Int8GemmSpec | None:
        requantize = requantize_to(op.result, op.low, op.high)
        constants = [context.constant(v) for v in (op.weights, *present(op.bias))]
        if requantize is None or any(c is None for c in constants):
            return None
        (rows, depth), columns = shape(op.input), shape(op.weights)[1]
        narrow = in_bytes(quantized_type(op.weights))
        return Int8GemmSpec(rows, columns, depth, False, requantize.form, pairs=True, narrow=narrow)
