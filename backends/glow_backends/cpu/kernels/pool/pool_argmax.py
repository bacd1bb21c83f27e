"""Max pooling that also says where each maximum is."""

from __future__ import annotations

from llvmlite import ir

from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.emit import common, values
from glow_backends.cpu.emit.builder import I64, KernelBuilder
from glow_backends.cpu.emit.common import Index
from glow_backends.cpu.emit.memory import maximum, minimum
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.pool.pool_spec import PoolSpec, plain_pool_spec
from glow_backends.cpu.kernels.reduction.reduce import identity
from glow_backends.cpu.target import CpuTarget
from glow_dialects.ops.max_pool import MaxPoolWithArgmaxOp


def emit_pool_argmax(module: ir.Module, name: str, spec: PoolSpec, target: CpuTarget) -> ir.Function:
    """Emit a max pool (`spec.mode` max). Operands: result, argmax (i64), input.

    argmax is the offset in the whole input of the first maximum of the window (a NaN is one); a
    window of padding alone points at the nearest element.
    """
    k = KernelBuilder(module, name, 3, target)
    extents = [spec.outer, *spec.out_size, spec.inner]
    if common.product(extents):
        with common.nest(k, extents, 4 * spec.bytes_touched) as places:
            best, where = _window(k, spec, places)
            at = k.index(*zip(places, common.row_major(extents), strict=True))
            values.store(k, best, k.operands[0], at, spec.dtype)
            values.store(k, where, k.operands[1], at, "i64")
    return k.finish()


def _window(k: KernelBuilder, spec: PoolSpec, places: list[Index]) -> tuple[ir.Value, ir.Value]:
    """(maximum, its offset) of one window, searched in the order of the input's memory."""
    outer, *window, channel = places
    strides = common.row_major((spec.outer, *spec.size, spec.inner))
    rank = len(spec.size)
    bounds: list[tuple[Index, Index, Index]] = []
    nearest = k.index((outer, strides[0]), (channel, 1))
    for axis, place in enumerate(window):
        step, size = spec.dilations[axis], spec.size[axis]
        first = k.add(k.mul(place, spec.strides[axis]), -spec.pads[axis])
        low, high = 0, spec.kernel[axis]
        if spec.pads[axis] or spec.pads[axis + rank]:
            before = maximum(k, k.mul(first, -1), 0)
            after = maximum(k, k.add(k.mul(first, -1), size - 1 + step), 0)
            low = minimum(k, k.b.sdiv(k.i(k.add(before, step - 1)), k.i(step)), high)
            high = minimum(k, k.b.sdiv(k.i(after), k.i(step)), high)
        bounds.append((first, low, high))
        inside = minimum(k, maximum(k, first, 0), size - 1)
        nearest = k.add(nearest, k.mul(inside, strides[axis + 1]))
    kind = values.compute("u8" if spec.dtype == "i1" else spec.dtype)
    start = [values.constant(kind, identity("max", spec.dtype)), k.i(nearest)]

    def search(axis: int, at: Index, carried: list[ir.Value]) -> list[ir.Value]:
        if axis == rank:
            best, where = carried
            x = values.load(k, k.operands[2], at, spec.dtype)
            better = _better(k, spec.dtype, x, best)
            return [k.b.select(better, x, best), k.b.select(better, k.i(at), where)]
        first, low, high = bounds[axis]

        def step(i: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
            position = k.add(first, k.mul(i, spec.dilations[axis]))
            return search(axis + 1, k.add(at, k.mul(position, strides[axis + 1])), inner)

        return k.reduce_loop(low, high, 1, carried, step)

    best, where = search(0, k.index((outer, strides[0]), (channel, 1)), start)
    assert where.type == I64
    return best, where


def _better(k: KernelBuilder, dtype: str, x: ir.Value, best: ir.Value) -> ir.Value:
    """Whether x is larger than all before it, or the first NaN."""
    if values.is_float(dtype):
        missing = k.b.and_(k.b.fcmp_unordered("uno", x, x), k.b.fcmp_ordered("ord", best, best))
        return k.b.or_(k.b.fcmp_ordered(">", x, best), missing)
    return k.b.icmp_signed(">", x, best) if values.is_signed(dtype) else k.b.icmp_unsigned(">", x, best)


class PoolArgmax(Kernel[MaxPoolWithArgmaxOp, PoolSpec]):
    """Maxima and their places."""

    OPS = (MaxPoolWithArgmaxOp,)
    emit = staticmethod(emit_pool_argmax)

    def match(self, op: MaxPoolWithArgmaxOp, context: CallContext) -> PoolSpec | None:
        spec = plain_pool_spec(op)
        return spec if spec is not None and spec.dtype != "i1" else None
