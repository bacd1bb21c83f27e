"""Numbers that follow from sizes: counting up, and the sizes themselves."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.kernel import Kernel, known
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.iota import IotaOp, SizesOp


@dataclass(frozen=True)
class IotaSpec:
    """0, 1, 2... `count` numbers. Operand: the result."""

    count: int
    dtype: str


@dataclass(frozen=True)
class SizesSpec:
    """The numbers, one after another. Operand: the result."""

    numbers: tuple[int, ...]
    dtype: str


def emit_iota(module: ir.Module, name: str, spec: IotaSpec, target: CpuTarget) -> ir.Function:
    """Emit the loop; see the spec for the operand."""
    k = KernelBuilder(module, name, 1, target, sized=True)
    with common.first_worker(k), k.loop(0, common.length(k, spec.count)) as i:
        _store(k, i, i, spec.dtype)
    return k.finish()


def emit_sizes(module: ir.Module, name: str, spec: SizesSpec, target: CpuTarget) -> ir.Function:
    """Emit the stores; see the spec for the operand."""
    k = KernelBuilder(module, name, 1, target, sized=True)
    with common.first_worker(k):
        for place, number in enumerate(spec.numbers):
            _store(k, k.size(number), place, spec.dtype)
    return k.finish()


def _store(k: KernelBuilder, number: ir.Value, place: int | ir.Value, dtype: str) -> None:
    """Store a whole number (i64) as an element of a type."""
    kind = values.compute(dtype)
    if values.is_float(dtype):
        number = k.b.sitofp(number, kind)
    elif kind.width < 64:
        number = k.b.trunc(number, kind)
    values.store(k, number, k.operands[0], place, dtype)


class Iota(Kernel[IotaOp, IotaSpec]):
    """Counting up."""

    OPS = (IotaOp,)
    emit = staticmethod(emit_iota)

    def match(self, op: IotaOp, context: CallContext) -> IotaSpec | None:
        return IotaSpec(shape(op.result)[0], dtype_name(op.result)) if known(op) else None


class Sizes(Kernel[SizesOp, SizesSpec]):
    """Sizes as numbers."""

    OPS = (SizesOp,)
    emit = staticmethod(emit_sizes)

    def match(self, op: SizesOp, context: CallContext) -> SizesSpec | None:
        return SizesSpec(op.values, dtype_name(op.result)) if known(op) else None
