"""Arithmetic of 8-bit products: four at a time into 32-bit sums, and back to stored integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit.builder import F32, I8, I32, KernelBuilder
from glow_backends.cpu.target import CpuTarget

I16 = ir.IntType(16)


def room_of(target: CpuTarget, pairs: bool) -> CpuTarget:
    """The target with the registers that sums, weights and one broadcast may take beside a product.

    Products that are added by an instruction of their own lie in a register; where four bytes are
    multiplied in steps, so do the halves of both factors.
    """
    taken = 0 if target.has_vnni and not pairs else 1 if pairs else 4
    return replace(target, registers=target.registers - taken)


def dot4(k: KernelBuilder, x: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
    """total + sum of four products, lane by lane: unsigned bytes of x times signed bytes of w.

    x and w are vectors of 32 bits a lane, of whatever type. Exact: sums are 32 bits wide.
    """
    lanes = x.type.count
    words = ir.VectorType(I32, lanes)
    x, w = k.b.bitcast(x, words), k.b.bitcast(w, words)
    if k.target.has_vnni and lanes == 16:
        return _vnni(k, total, x, w)
    halves = ir.VectorType(I16, 2 * lanes)
    eight = ir.Constant(halves, [8] * (2 * lanes))
    x, w = k.b.bitcast(x, halves), k.b.bitcast(w, halves)
    odd = (k.b.lshr(x, eight), k.b.ashr(w, eight))
    low = ir.Constant(halves, [255] * (2 * lanes))
    even = (k.b.and_(x, low), k.b.ashr(k.b.shl(w, eight), eight))
    for left, right in (even, odd):
        total = k.b.add(total, _pairs(k, left, right, words))
    return total


def dot2(k: KernelBuilder, x: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
    """total + sum of two products, lane by lane, of 16-bit numbers; x and w have 32 bits a lane."""
    words = total.type
    halves = ir.VectorType(I16, 2 * words.count)
    return k.b.add(total, _pairs(k, k.b.bitcast(x, halves), k.b.bitcast(w, halves), words))


def _vnni(k: KernelBuilder, total: ir.Value, x: ir.Value, w: ir.Value) -> ir.Value:
    words = total.type
    bytes_ = ir.VectorType(I8, 4 * words.count)
    name = "llvm.x86.avx512.vpdpbusd.512"
    callee = k.module.globals.get(name)
    if callee is None:
        callee = ir.Function(k.module, ir.FunctionType(words, [words, bytes_, bytes_]), name)
    return k.b.call(callee, [total, k.b.bitcast(x, bytes_), k.b.bitcast(w, bytes_)])


def _pairs(k: KernelBuilder, x: ir.Value, w: ir.Value, words: ir.VectorType) -> ir.Value:
    """Products of 16-bit lanes, added in pairs to 32 bits."""
    if k.target.vector_bytes >= 32 and words.count in (8, 16):
        name = "llvm.x86.avx2.pmadd.wd" if words.count == 8 else "llvm.x86.avx512.pmaddw.d.512"
        callee = k.module.globals.get(name)
        if callee is None:
            callee = ir.Function(k.module, ir.FunctionType(words, [x.type, x.type]), name)
        return k.b.call(callee, [x, w])
    sixteen = ir.Constant(words, [16] * words.count)
    x, w = k.b.bitcast(x, words), k.b.bitcast(w, words)
    low = k.b.mul(k.b.ashr(k.b.shl(x, sixteen), sixteen), k.b.ashr(k.b.shl(w, sixteen), sixteen))
    high = k.b.mul(k.b.ashr(x, sixteen), k.b.ashr(w, sixteen))
    return k.b.add(low, high)


@dataclass(frozen=True)
class Residual:
    """q' = clip(round((q - own_zero) own_factor + (r - zero) factor) + to_zero): a quantised sum.

    q is a requantised byte, r the byte of another operand; floats in the order of `quantized_add`.
    """

    own_zero: int
    own_factor: float
    zero: int
    factor: float
    to_zero: int
    low: int
    high: int


class Limits(NamedTuple):
    """What a kernel reads of its requantisation: bounds less the zero point (f32), and that (a byte)."""

    low: ir.Value
    high: ir.Value
    zero: ir.Value


LIMITS = 16
"""Numbers in front of a table of factors, a whole vector: the first three are the limits."""


@dataclass(frozen=True)
class Requantize:
    """q = clip(round(float32(sum) * factor) + zero) as a byte; with `real`, sum * factor as f32; with
    `sums`, the sum as i32.

    The arithmetic of `glow_dialects.ops.requantize`. `factor` is an operand, one an output channel.
    With `residual` a byte of another operand is added before the result is stored. Values are clipped
    before they are rounded, which comes to the same between integers.

    A kernel of `form` reads the three numbers from in front of the factors: layers that differ in them
    alone are one kernel.
    """

    zero: int = 0
    low: int = 0
    high: int = 255
    real: bool = False
    residual: Residual | None = None
    sums: bool = False

    @property
    def form(self) -> Requantize:
        """The same without its numbers."""
        return Requantize(real=self.real, sums=self.sums)

    def table(self, factor: np.ndarray) -> np.ndarray:
        """Factors behind the limits."""
        return np.concatenate([self.limits, np.zeros(LIMITS - 3, np.float32), factor])

    @property
    def limits(self) -> np.ndarray:
        """The least and the largest result less the zero point, and that."""
        return np.array([self.low - self.zero, self.high - self.zero, self.zero], np.float32)

    def words(
        self,
        k: KernelBuilder,
        total: ir.Value,
        factor: ir.Value,
        other: ir.Value | None = None,
        limits: Limits | None = None,
    ) -> ir.Value:
        """A vector of sums requantised: i32 whose low bytes, and `shift` more, are stored.

        With `real`, floats. `other` holds the residual's bytes.
        """
        if self.sums:
            return total
        value = k.b.fmul(k.b.sitofp(total, factor.type), factor)
        if self.real:
            return value
        bounds = limits[:2] if limits else (self.low - self.zero, self.high - self.zero)
        if self.residual is not None:
            assert other is not None and self.residual.own_zero == self.zero
            r, words = self.residual, total.type
            mine = k.b.fsub(_rounded(k, value, *bounds), k.splat(ROUNDING, words.count))
            read = k.b.zext(other, words)
            if r.zero:
                read = k.b.sub(read, k.splat(r.zero, words.count, I32))
            mine = k.b.fmul(mine, k.splat(r.own_factor, words.count))
            read = k.b.fmul(k.b.sitofp(read, factor.type), k.splat(r.factor, words.count))
            value, bounds = k.b.fadd(mine, read), (r.low - r.to_zero, r.high - r.to_zero)
        return k.b.bitcast(_rounded(k, value, *bounds), total.type)

    @property
    def shift(self) -> int:
        """The zero point that is added to the low bytes of `words`."""
        return self.zero if self.residual is None else self.residual.to_zero

    def apply(self, k: KernelBuilder, total: ir.Value, factor: ir.Value, limits: Limits) -> ir.Value:
        """Bytes (or floats) of a vector of sums, without a residual."""
        words = self.words(k, total, factor, limits=limits)
        return words if self.real or self.sums else self.packed(k, [words], limits)

    @property
    def kind(self) -> ir.Type:
        """The type of stored elements."""
        return F32 if self.real else I32 if self.sums else I8

    def packed(self, k: KernelBuilder, words: Sequence[ir.Value], limits: Limits | None = None) -> ir.Value:
        """The bytes of vectors of words, one vector after the other."""
        kept = ir.VectorType(I8, words[0].type.count)
        if len(words) == 4:
            value = _low_bytes(k, words)
        else:
            value = k.b.trunc(words[0], kept)
            assert len(words) == 1
        shift = limits.zero if limits else self.shift
        return k.b.add(value, k.splat(shift, value.type.count, I8)) if shift else value


#: A float this large plus a small one is rounded to an integer, which its low bits hold.
ROUNDING = 1.5 * 2**23


def limits_of(k: KernelBuilder, table: ir.Value) -> Limits:
    """The limits in front of a table of factors."""
    low, high, zero = (k.load(table, i) for i in range(3))
    word = k.b.bitcast(k.b.fadd(zero, ir.Constant(F32, ROUNDING)), I32)
    return Limits(low, high, k.b.trunc(word, I8))


def _rounded(k: KernelBuilder, value: ir.Value, low: ir.Value | int, high: ir.Value | int) -> ir.Value:
    """round(clip(value)) + ROUNDING; halves round to even, as ROUNDING is."""
    lanes = value.type.count
    for bound, beyond in ((low, "<"), (high, ">")):
        limit = k.splat(float(bound) if isinstance(bound, int) else bound, lanes)
        value = k.b.select(k.b.fcmp_ordered(beyond, value, limit), limit, value)
    return k.b.fadd(value, k.splat(ROUNDING, lanes))


def _low_bytes(k: KernelBuilder, words: Sequence[ir.Value]) -> ir.Value:
    """The low byte of each word of four vectors, by permutations of two vectors' bytes."""
    size = 4 * words[0].type.count
    bytes_ = [k.b.bitcast(w, ir.VectorType(I8, size)) for w in words]

    def chosen(a: ir.Value, b: ir.Value, places: Sequence[int]) -> ir.Value:
        mask = ir.Constant(ir.VectorType(I32, len(places)), list(places))
        return k.b.shuffle_vector(a, b, mask)

    low = [4 * i for i in range(size // 2)]
    halves = [chosen(bytes_[i], bytes_[i + 1], low) for i in (0, 2)]
    return chosen(halves[0], halves[1], range(size))
