"""Arithmetic on pairs of bfloat16: two products a 32-bit lane."""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.line_builder import vector


class BFloat(ir.Type):
    """LLVM's `bfloat`, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat)

    def __hash__(self) -> int:
        return hash("bfloat")


BF16 = BFloat()


def pair_up(packed: np.ndarray) -> np.ndarray:
    """(..., c, width) to (..., c / 2, width, 2): pairs of neighbouring rows inmost."""
    *outer, rows, width = packed.shape
    return np.ascontiguousarray(packed.reshape(*outer, rows // 2, 2, width).swapaxes(-1, -2))


def dot_bf16(k: KernelBuilder, x: ir.Value, w: ir.Value, total: ir.Value) -> ir.Value:
    """total + x0 w0 + x1 w1 in f32, for vectors of 32 bits a lane that hold two bfloat16 each."""
    pairs = vector(BF16, 2 * total.type.count)
    operands = [total, k.b.bitcast(x, pairs), k.b.bitcast(w, pairs)]
    return k.named_intrinsic("llvm.x86.avx512bf16.dpbf16ps.512", operands, ())
