"""Interleaving of several tensors: concatenation along an innermost axis of size one."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import KernelBuilder, shuffle_mask
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.memory import maximum, minimum
from glow_backends.cpu.emit.values import Active
from glow_backends.cpu.kernel import Kernel, known
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import estimate
from glow_dialects.core.extent import Extent
from glow_dialects.ops.concat import ConcatOp


@dataclass(frozen=True)
class InterleaveSpec:
    """result[i * sources + j] = source j [i], i < count. Operands: result, then the sources.

    `width`: bytes of an element.
    """

    sources: int
    count: int
    width: int


def emit_interleave(module: ir.Module, name: str, spec: InterleaveSpec, target: CpuTarget) -> ir.Function:
    """Emit a loop over vectors of every source, merged by shuffles."""
    k = KernelBuilder(module, name, 1 + spec.sources, target)
    lanes = max(1, min(16, target.vector_bytes // spec.width))
    size = 2 * spec.sources * spec.count * spec.width
    blocks, rest = divmod(spec.count, lanes)
    low, high = common.share(k, blocks, size)
    with k.loop(low, high) as block:
        _block(k, spec, k.mul(block, lanes), lanes, lanes)
    if isinstance(rest, Extent) or rest:
        with common.last_worker(k) if target.threads > 1 else nullcontext():
            _block(k, spec, blocks * lanes, lanes, rest)
    return k.finish()


def _block(k: KernelBuilder, spec: InterleaveSpec, first: Index, lanes: int, active: int) -> None:
    """`active` elements of every source from `first` on."""
    dtype, many = f"u{8 * spec.width}", spec.sources
    loaded = [values.load(k, source, first, dtype, lanes, active) for source in k.operands[1:]]
    for part in range(many):
        exist: Active
        if isinstance(active, Extent):
            left = minimum(k, k.add(k.mul(k.i(active), many), -part * lanes), lanes)
            exist = values.first_lanes(k, lanes, k.i(maximum(k, left, 0)))
        else:
            exist = min(lanes, active * many - part * lanes)
            if exist <= 0:
                return
        wanted = [divmod(part * lanes + i, many) for i in range(lanes)]  # (element, source)
        merged = loaded[wanted[0][1]]
        if lanes > 1:
            merged = _gather(k, loaded, wanted, lanes)
        at = k.add(k.mul(first, many), part * lanes)
        values.store(k, merged, k.operands[0], at, dtype, exist)


def _gather(k: KernelBuilder, loaded: list[ir.Value], wanted: list[tuple[int, int]], lanes: int) -> ir.Value:
    """One vector of the result: element and source of each lane."""
    merged: ir.Value | None = None
    for number in sorted({source for _, source in wanted}):
        if merged is None:
            merged = values.shuffle(k, loaded[number], [e if s == number else 0 for e, s in wanted])
            continue
        order = [lanes + e if s == number else i for i, (e, s) in enumerate(wanted)]
        mask = shuffle_mask(tuple(order))
        merged = k.b.shuffle_vector(merged, loaded[number], mask)
    assert merged is not None
    return merged


class Interleave(Kernel[ConcatOp, InterleaveSpec]):
    """Single elements of a few inputs in turn, merged by shuffles."""

    OPS = (ConcatOp,)
    emit = staticmethod(emit_interleave)

    def match(self, op: ConcatOp, context: CallContext) -> InterleaveSpec | None:
        shapes = [shape(v) for v in op.inputs]
        single = all(prod(s[op.axis :]) == 1 for s in shapes)
        if not known(op) or not single or not 2 <= len(shapes) <= 16 or estimate(prod(shapes[0])) < 16:
            return None
        return InterleaveSpec(len(shapes), prod(shapes[0]), values.size(dtype_name(op.result)))
