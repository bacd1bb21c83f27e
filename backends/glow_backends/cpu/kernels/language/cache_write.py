"""New rows of a cache: written in place if the result is the cache, otherwise after copying it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, Operand, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.kernel import Kernel, inplace
from glow_backends.cpu.kernels.language.rotary import number
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.cached_attention import CacheWriteOp


@dataclass(frozen=True)
class CacheWriteSpec:
    """The cache [sequences, heads, capacity, depth] with rows [batch, tokens, heads, depth].

    Operands: result, [cache unless `in_place`], rows, slots and starts (i32, one a batch).
    """

    sequences: int
    heads: int
    capacity: int
    depth: int
    batch: int
    tokens: int
    dtype: str
    in_place: bool


def emit_cache_write(module: ir.Module, name: str, spec: CacheWriteSpec, target: CpuTarget) -> ir.Function:
    """Emit the rows' way into the cache; workers divide the heads, of the copy too."""
    k = KernelBuilder(module, name, 4 + (not spec.in_place), target, sized=True)
    result, rows, slots, starts = k.operands[0], *k.operands[-3:]
    lanes = max(1, target.vector_bytes // values.size(spec.dtype))
    low, high = k.share(spec.heads)
    with k.loop(low, high) as head:
        if not spec.in_place:
            plane = spec.capacity * spec.depth
            with k.loop(0, spec.sequences) as sequence:
                start = k.mul(k.add(k.mul(sequence, spec.heads), head), k.size(plane))
                for at, width, active in common.sized_strips(k, start, plane, lanes, 1):
                    value = values.load(k, k.operands[1], at, spec.dtype, width, active)
                    values.store(k, value, result, at, spec.dtype, active)
        with k.loop(0, k.size(spec.batch)) as batch:
            slot, begin = number(k, slots, batch), number(k, starts, batch)
            known = k.b.icmp_unsigned("<", slot, k.size(spec.sequences))
            base = k.mul(k.add(k.mul(slot, spec.heads), head), k.size(spec.capacity))
            with k.loop(0, k.size(spec.tokens)) as token:
                place = k.b.add(begin, token)
                inside = k.b.icmp_unsigned("<", place, k.size(spec.capacity))
                with k.b.if_then(k.b.and_(known, inside)):
                    row = k.add(k.mul(batch, k.size(spec.tokens)), token)
                    source = k.mul(k.add(k.mul(row, spec.heads), head), spec.depth)
                    where = k.mul(k.add(base, place), spec.depth)
                    for at, width, active in common.strips(k, 0, spec.depth, lanes, 1):
                        value = values.load(k, rows, k.add(source, at), spec.dtype, width, active)
                        values.store(k, value, result, k.add(where, at), spec.dtype, active)
    return k.finish()


class CacheWrite(Kernel[CacheWriteOp, CacheWriteSpec]):
    """New rows of a cache."""

    OPS = (CacheWriteOp,)
    emit = staticmethod(emit_cache_write)

    def match(self, op: CacheWriteOp, context: CallContext) -> CacheWriteSpec | None:
        dtype = dtype_name(op.cache)
        if op.predicate is not None or not values.has(dtype) or not prod(shape(op.rows)):
            return None
        batch, tokens, *_ = shape(op.rows)
        sequences, heads, capacity, depth = shape(op.cache)
        in_place = inplace(op.result, [op.cache])
        return CacheWriteSpec(sequences, heads, capacity, depth, batch, tokens, dtype, in_place)

    def operands(self, op: CacheWriteOp, spec: CacheWriteSpec, context: CallContext) -> list[Operand | None]:
        cache = [] if spec.in_place else [op.cache]
        return [op.result, *cache, op.rows, op.slots, op.starts]
