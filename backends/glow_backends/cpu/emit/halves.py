"""Arithmetic on pairs of 16-bit floats: two products a 32-bit lane."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit.builder import F32, KernelBuilder, shuffle_mask
from glow_backends.cpu.emit.line_builder import vector
from glow_backends.cpu.emit.values import F16


class BFloat(ir.Type):
    """LLVM's `bfloat`, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat)

    def __hash__(self) -> int:
        return hash("bfloat")


BF16 = BFloat()

MOST_PRODUCTS = 80
"""Products that a lane of float16 sums holds at most before they go to float32 ones."""


def pair_up(packed: np.ndarray) -> np.ndarray:
    """(..., c, width) to (..., c / 2, width, 2): pairs of neighbouring rows inmost."""
    *outer, rows, width = packed.shape
    return np.ascontiguousarray(packed.reshape(*outer, rows // 2, 2, width).swapaxes(-1, -2))


def dot_bf16(k: KernelBuilder, x: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
    """total + x0 w0 + x1 w1 in f32, for vectors of 32 bits a lane that hold two bfloat16 each."""
    pairs = vector(BF16, 2 * total.type.count)
    operands = [total, k.b.bitcast(x, pairs), k.b.bitcast(w, pairs)]
    return k.named_intrinsic("llvm.x86.avx512bf16.dpbf16ps.512", operands, ())


def dot_f16(k: KernelBuilder, x: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
    """total + x w in float16, both products of a pair in lanes of their own."""
    return k.fma(k.b.bitcast(x, total.type), k.b.bitcast(w, total.type), total)


class HalfSums:
    """float16 sums of pairs of products; those of `many` products end in f32 sums on the stack.

    At most `count` sums at a time.
    """

    def __init__(self, k: KernelBuilder, count: int, many: bool) -> None:
        self.k, self.lanes = k, k.target.lanes
        self.held = k.stack(2 * count * self.lanes) if many else None

    def start(self, count: int) -> list[ir.Value]:
        """`count` sums before the first product."""
        if self.held is not None:
            zero = self.k.splat(0.0, self.lanes)
            for i in range(2 * count):
                self.k.store(zero, self.held, i * self.lanes, align=self.k.target.vector_bytes)
        return self._zeros(count)

    def moved(self, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Add float16 sums to those on the stack; zeros are left."""
        k, held = self.k, self.held
        assert held is not None
        for i, part in enumerate(part for total in sums for part in self._widened(total)):
            k.store(k.b.fadd(self._at(held, i), part), held, i * self.lanes, align=k.target.vector_bytes)
        return self._zeros(len(sums))

    def finished(self, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """One f32 vector a sum, both products of a pair together."""
        held = self.held
        if held is None:
            return [self._joined(*self._widened(total)) for total in sums]
        return [self._joined(self._at(held, 2 * i), self._at(held, 2 * i + 1)) for i in range(len(sums))]

    def _zeros(self, count: int) -> list[ir.Value]:
        return [self.k.splat(0.0, 2 * self.lanes, F16)] * count

    def _at(self, held: ir.Value, number: int) -> ir.Value:
        return self.k.load(held, number * self.lanes, lanes=self.lanes, align=self.k.target.vector_bytes)

    def _widened(self, total: ir.Value) -> list[ir.Value]:
        """The lower and upper lanes as f32."""
        k, lanes = self.k, self.lanes
        none = ir.Constant(total.type, ir.Undefined)
        parts = (shuffle_mask(tuple(range(at, at + lanes))) for at in (0, lanes))
        return [k.b.fpext(k.b.shuffle_vector(total, none, part), vector(F32, lanes)) for part in parts]

    def _joined(self, low: ir.Value, high: ir.Value) -> ir.Value:
        """The sums of neighbouring lanes of two vectors."""
        k = self.k
        even, odd = (shuffle_mask(tuple(range(at, 2 * self.lanes, 2))) for at in (0, 1))
        return k.b.fadd(k.b.shuffle_vector(low, high, even), k.b.shuffle_vector(low, high, odd))
