"""Tables of 256 bytes: result[i] = table[input[i]], 64 bytes an iteration where the CPU permutes bytes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit.builder import I8, I64, KernelBuilder
from glow_backends.cpu.emit.memory import Index, minimum
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.types import UniformQuantizedType, element_of
from glow_dialects.ops.lookup import LookupOp

_WIDE = 64
"""Bytes of a permutation."""
_PERMUTE = "llvm.x86.avx512.vpermi2var.qi.512"
_CPUS = ("znver4", "znver5", "sapphirerapids")


@dataclass(frozen=True)
class LookupSpec:
    """`count` bytes; `signed` ones index the table from -128 on. Operands: result, input, table."""

    count: int
    signed: bool


def permutes_bytes(target: CpuTarget) -> bool:
    """Whether the CPU has AVX-512 VBMI."""
    return "+avx512vbmi," in f"{target.features}," or target.cpu in _CPUS


def emit_lookup(module: ir.Module, name: str, spec: LookupSpec, target: CpuTarget) -> ir.Function:
    """Emit the loop; workers share blocks of 64 bytes."""
    k = KernelBuilder(module, name, 3, target)
    y, x, table = k.operands
    blocks = -(-spec.count // _WIDE)
    low, high = k.share(blocks)
    begin = k.mul(low, _WIDE)
    end = minimum(k, k.mul(high, _WIDE), spec.count)
    if permutes_bytes(target):
        whole = minimum(k, end, spec.count - spec.count % _WIDE)
        quarters = [k.load(table, _WIDE * i, I8, _WIDE) for i in range(4)]
        with k.loop(begin, whole, _WIDE) as at:
            k.store(_permuted(k, k.load(x, at, I8, _WIDE), quarters, spec), y, at, I8)
        begin = _larger(k, begin, whole)
    with k.loop(begin, end) as at:
        index = k.load(x, at, I8)
        if spec.signed:
            index = k.b.xor(index, ir.Constant(I8, -128))
        k.store(k.load(table, k.b.zext(index, I64), I8), y, at, I8)
    return k.finish()


def _larger(k: KernelBuilder, x: Index, y: Index) -> Index:
    if isinstance(x, int) and isinstance(y, int):
        return max(x, y)
    return k.b.select(k.b.icmp_signed(">", k.i(x), k.i(y)), k.i(x), k.i(y))


def _permuted(k: KernelBuilder, index: ir.Value, quarters: list[ir.Value], spec: LookupSpec) -> ir.Value:
    """The table's entries: seven bits choose in each half, the eighth the half."""
    kind = ir.VectorType(I8, _WIDE)
    callee = k.module.globals.get(_PERMUTE) or ir.Function(
        k.module, ir.FunctionType(kind, [kind] * 3), _PERMUTE
    )
    first = k.b.call(callee, [quarters[0], index, quarters[1]])
    second = k.b.call(callee, [quarters[2], index, quarters[3]])
    # A signed byte is -128 at the table's start, so that negative ones take the first half.
    upper = k.b.icmp_signed("<", index, ir.Constant(kind, [ir.Constant(I8, 0)] * _WIDE))
    return k.b.select(upper, first, second) if spec.signed else k.b.select(upper, second, first)


class Lookup(Kernel[LookupOp, LookupSpec]):
    """A table of bytes."""

    OPS = (LookupOp,)
    emit = staticmethod(emit_lookup)

    def match(self, op: LookupOp, context: CallContext) -> LookupSpec | None:
        kind = element_of(op.input)
        if dtype_name(op.result) not in ("i8", "u8") or op.predicate is not None:
            return None
        signed = isinstance(kind, UniformQuantizedType) and kind.signed
        return LookupSpec(prod(shape(op.input)), signed)
