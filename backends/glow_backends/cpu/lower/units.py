"""How LLVM writes the instructions of `glow_backends.nests`: products of vectors, and of tile registers."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import F32, F64, I8, I32, I64, PTR, KernelBuilder
from glow_backends.cpu.emit.halves import dot_bf16
from glow_backends.cpu.emit.integer import dot4
from glow_backends.cpu.emit.line_builder import vector
from glow_backends.cpu.emit.memory import Index
from glow_backends.nests.instructions import Instruction

I16 = ir.IntType(16)
VOID = ir.VoidType()
KINDS: dict[str, ir.Type] = {"f32": F32, "f64": F64, "i32": I32, "i64": I64}
"""The LLVM types of sums."""


def multiply_add(k: KernelBuilder, unit: Instruction, x: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
    """total + x * w, lane by lane; x and w hold `unit.group` numbers a lane, as they are stored."""
    if unit.name.startswith("fma."):
        return k.fma(x, w, total)
    if unit.name.startswith("muladd."):
        return k.b.add(total, k.b.mul(x, w))
    if unit.group == 4:
        return dot4(k, x, w, total)
    return _pair(k, x, w, total)


def _pair(k: KernelBuilder, x: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
    """Two products of bfloat16 a lane, the second first."""
    lanes = total.type.count
    words = vector(I32, lanes)
    if k.target.has_bf16 and lanes == 16:
        return dot_bf16(k, x, w, total)
    for half in (_high, _low):
        left, right = (k.b.bitcast(half(k, k.b.bitcast(v, words)), total.type) for v in (x, w))
        total = k.fma(left, right, total)
    return total


def _high(k: KernelBuilder, words: ir.Value) -> ir.Value:
    return k.b.and_(words, values.constant(words.type, 0xFFFF0000))


def _low(k: KernelBuilder, words: ir.Value) -> ir.Value:
    return k.b.shl(words, values.constant(words.type, 16))


_DOTS = {
    "tile.u8s8": "tdpbusd",
    "tile.s8s8": "tdpbssd",
    "tile.u8u8": "tdpbuud",
    "tile.s8u8": "tdpbsud",
    "tile.bf16": "tdpbf16ps",
    "tile.bf16x3": "tdpbf16ps",
}
LINE = 64
"""Bytes of a row of a tile."""


class Tiles:
    """The tile registers of AMX, of which those in `tall` have `rows` rows and the others 16."""

    def __init__(self, k: KernelBuilder, unit: Instruction, rows: Index, tall: Sequence[int]) -> None:
        self.k, self.unit = k, unit
        config = values.stack(k, ir.ArrayType(I8, LINE))
        k.store(ir.Constant(vector(I8, LINE), [1] + [0] * (LINE - 1)), config, 0, I8)
        for tile in range(unit.registers):
            k.store(ir.Constant(I16, LINE), config, 8 + tile, I16)
            height = k.b.trunc(k.i(rows), I8) if tile in tall else ir.Constant(I8, unit.m)
            k.store(height, config, 48 + tile, I8)
        self._call("ldtilecfg", config)

    def zero(self, tile: int) -> None:
        """All numbers of a tile 0."""
        self._call("tilezero", tile)

    def load(self, tile: int, start: ir.Value, stride: Index) -> None:
        """The rows of a tile, `stride` bytes apart."""
        self._call("tileloadd64", tile, start, self.k.i(stride))

    def store(self, tile: int, start: ir.Value, stride: Index) -> None:
        """The rows of a tile to memory."""
        self._call("tilestored64", tile, start, self.k.i(stride))

    def dot(self, total: int, a: int, b: int) -> None:
        """The product of two tiles, added to a third."""
        self._call(_DOTS[self.unit.name], total, a, b)

    def end(self) -> None:
        """Give the registers back."""
        self._call("tilerelease")

    def _call(self, name: str, *arguments: ir.Value | int) -> None:
        k, full = self.k, f"llvm.x86.{name}"
        known = [ir.Constant(I8, v) if isinstance(v, int) else v for v in arguments]
        kind = ir.FunctionType(VOID, [v.type for v in known])
        k.b.call(k.module.globals.get(full) or ir.Function(k.module, kind, full), known)


class TilesInMemory(Tiles):
    """The same registers in memory and their instructions as loops of vectors: the meaning, anywhere."""

    def __init__(self, k: KernelBuilder, unit: Instruction, rows: Index, tall: Sequence[int]) -> None:
        self.k, self.unit, self.rows, self.tall = k, unit, rows, tall
        self.file = values.stack(k, ir.ArrayType(I8, unit.registers * unit.m * LINE))

    def _at(self, tile: int, row: Index) -> ir.Value:
        return self.k.gep(self.file, self.k.add(tile * self.unit.m * LINE, self.k.mul(row, LINE)), I8)

    def _height(self, tile: int) -> Index:
        return self.rows if tile in self.tall else self.unit.m

    def zero(self, tile: int) -> None:
        with self.k.loop(0, self.unit.m) as row:
            self.k.store(values.zero(vector(I32, 16)), self._at(tile, row), 0, I32)

    def load(self, tile: int, start: ir.Value, stride: Index) -> None:
        k = self.k
        with k.loop(0, self._height(tile)) as row:
            line = k.load(k.gep(start, k.mul(row, k.i(stride)), I8), 0, I32, 16, align=1)
            k.store(line, self._at(tile, row), 0, I32)

    def store(self, tile: int, start: ir.Value, stride: Index) -> None:
        k = self.k
        with k.loop(0, self._height(tile)) as row:
            line = k.load(self._at(tile, row), 0, I32, 16)
            k.store(line, k.gep(start, k.mul(row, k.i(stride)), I8), 0, I32, align=1)

    def dot(self, total: int, a: int, b: int) -> None:
        k, exact = self.k, self.unit.c == "i32"
        with k.loop(0, self._height(total)) as row:
            place = self._at(total, row)

            def step(word: ir.Value, sums: Sequence[ir.Value], row: ir.Value = row) -> list[ir.Value]:
                x = k.splat(k.load(self._at(a, row), word, I32), 16, I32)
                w = k.load(self._at(b, word), 0, I32, 16)
                return self._bytes(x, w, sums) if exact else self._halves(x, w, sums)

            kind = I32 if exact else F32
            held = k.load(place, 0, kind, 16)
            if exact:
                (held,) = k.reduce_loop(0, 16, 1, [held], step)
            else:
                even, odd = k.reduce_loop(0, 16, 1, [values.zero(held.type)] * 2, step)
                held = k.b.fadd(held, k.b.fadd(even, odd))
            k.store(held, place, 0, kind)

    def _halves(self, x: ir.Value, w: ir.Value, sums: Sequence[ir.Value]) -> list[ir.Value]:
        k, kind = self.k, vector(F32, 16)
        return [
            k.intrinsic("fma", [k.b.bitcast(half(k, x), kind), k.b.bitcast(half(k, w), kind), total])
            for half, total in zip((_low, _high), sums, strict=True)
        ]

    def _bytes(self, x: ir.Value, w: ir.Value, sums: Sequence[ir.Value]) -> list[ir.Value]:
        k, (total,) = self.k, sums
        for place in range(4):
            left, right = (self._byte(v, place, kind) for v, kind in ((x, self.unit.a), (w, self.unit.b)))
            total = k.b.add(total, k.b.mul(left, right))
        return [total]

    def _byte(self, words: ir.Value, place: int, kind: str) -> ir.Value:
        k = self.k
        up = k.b.shl(words, values.constant(words.type, 24 - 8 * place))
        shift = k.b.ashr if kind == "i8" else k.b.lshr
        return shift(up, values.constant(words.type, 24))

    def end(self) -> None:
        pass


__all__ = ["I16", "KINDS", "LINE", "PTR", "Tiles", "TilesInMemory", "multiply_add"]
