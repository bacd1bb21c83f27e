"""Arithmetic of 8-bit products: four at a time into 32-bit sums, and back to stored integers."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.builder import I8, I32, KernelBuilder

I16 = ir.IntType(16)


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
    if k.target.vector_bytes == 32 and words.count == 8:
        name = "llvm.x86.avx2.pmadd.wd"
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


@dataclass(frozen=True)
class Requantize:
    """q = clip(round(float32(sum) * factor) + zero) as a byte; with `real`, sum * factor as f32.

    The arithmetic of `glow_dialects.ops.requantize`. `factor` is an operand, one an output channel.
    With `residual` a byte of another operand is added before the result is stored.
    """

    zero: int = 0
    low: int = 0
    high: int = 255
    real: bool = False
    residual: Residual | None = None

    def apply(
        self, k: KernelBuilder, total: ir.Value, factor: ir.Value, other: ir.Value | None = None
    ) -> ir.Value:
        """Bytes (or floats) of a vector of sums; `other` holds the residual's bytes."""
        lanes = total.type.count
        value = k.b.fmul(k.b.sitofp(total, factor.type), factor)
        if self.real:
            return value
        value = _rounded(k, value, self.zero, self.low, self.high)
        if self.residual is not None:
            assert other is not None
            r, words = self.residual, ir.VectorType(I32, lanes)
            read = k.b.sitofp(k.b.zext(other, words), factor.type)
            mine = _scaled(k, value, r.own_zero, r.own_factor)
            total_of_both = k.b.fadd(mine, _scaled(k, read, r.zero, r.factor))
            value = _rounded(k, total_of_both, r.to_zero, r.low, r.high)
        whole = k.b.fptosi(value, ir.VectorType(I32, lanes))
        return k.b.trunc(whole, ir.VectorType(I8, lanes))


def _scaled(k: KernelBuilder, value: ir.Value, zero: int, factor: float) -> ir.Value:
    lanes = value.type.count
    if zero:
        value = k.b.fsub(value, k.splat(float(zero), lanes))
    return k.b.fmul(value, k.splat(float(factor), lanes))


def _rounded(k: KernelBuilder, value: ir.Value, zero: int, low: int, high: int) -> ir.Value:
    """clip(round(value) + zero), still floats."""
    lanes = value.type.count
    value = k.b.fadd(k.intrinsic("rint", [value]), k.splat(float(zero), lanes))
    for bound, beyond in ((low, "<"), (high, ">")):
        limit = k.splat(float(bound), lanes)
        value = k.b.select(k.b.fcmp_ordered(beyond, value, limit), limit, value)
    return value
