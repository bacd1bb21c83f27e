"""The indices of non-zero elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I64, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.kernel import Kernel, known
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.non_zero import NonZeroOp


@dataclass(frozen=True)
class NonZeroSpec:
    """Operands: indices (i64, [rank, elements]; columns from the count on are 0), count (i64), input."""

    shape: tuple[int, ...]
    dtype: str


def emit_non_zero(module: ir.Module, name: str, spec: NonZeroSpec, target: CpuTarget) -> ir.Function:
    """Emit the search, by one worker: every place is written where the next index goes."""
    k = KernelBuilder(module, name, 3, target)
    indices, count, source = k.operands
    total = prod(spec.shape)

    def walk(at: list[Index], count_so_far: ir.Value) -> ir.Value:
        axis = len(at)
        if axis == len(spec.shape):
            for number, index in enumerate(at):
                k.store(k.i(index), indices, k.add(number * total, count_so_far), I64)
            x = values.load(
                k, source, k.index(*zip(at, common.row_major(spec.shape), strict=True)), spec.dtype
            )
            if values.is_float(spec.dtype):
                there = k.b.fcmp_unordered("!=", x, values.zero(x.type))
            else:
                there = k.b.icmp_unsigned("!=", x, values.zero(x.type))
            return k.b.add(count_so_far, k.b.zext(there, I64))
        return k.reduce_loop(
            0, spec.shape[axis], 1, [count_so_far], lambda index, carried: [walk([*at, index], carried[0])]
        )[0]

    with common.first_worker(k):
        count_of_all = walk([], k.i(0)) if total else k.i(0)
        with k.loop(count_of_all, total) as rest:
            for number in range(len(spec.shape)):
                k.store(k.i(0), indices, k.add(number * total, rest), I64)
        k.store(count_of_all, count, 0, I64)
    return k.finish()


class NonZero(Kernel[NonZeroOp, NonZeroSpec]):
    """Places of elements that are not zero, in order."""

    OPS = (NonZeroOp,)
    emit = staticmethod(emit_non_zero)

    def match(self, op: NonZeroOp, context: CallContext) -> NonZeroSpec | None:
        return NonZeroSpec(shape(op.input), dtype_name(op.input)) if known(op) else None
