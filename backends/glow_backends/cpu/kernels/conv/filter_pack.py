"""Filters that change at run time, brought into the order that the blocked convolutions read.

Compile-time filters are packed by the same functions in NumPy; here a kernel does it at every run,
the Winograd transform included. A filter may also stand for the adjoint convolution's (channels
exchanged, taps reversed), whose plain form is then never made.
"""

from __future__ import annotations

from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.filters import FILTER, FORMS, FilterPackSpec
from glow_backends.cpu.emit.memory import (
    Index,
    ceil_div,
    load_first,
    load_strided,
    minimum,
    split_index,
    transpose,
)
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.conv.training_ops import PackFilterOp, filter_pack_spec
from glow_backends.cpu.target import CpuTarget


class FilterTaps:
    """Vectors of a filter's taps, read in any form, and their Winograd transform."""

    def __init__(self, k: KernelBuilder, spec: FilterPackSpec, filters: ir.Value) -> None:
        self.k, self.spec, self.filter, self.vector = k, spec, filters, k.target.lanes
        self.taps = prod(spec.kernel)

    def read(self, first: Index, channel: Index) -> list[ir.Value]:
        """The taps of output channels `first` and following (the last one repeated) and one input."""
        k, spec, lanes = self.k, self.spec, self.vector
        out, inner, tap = spec.strides
        base = k.gep(self.filter, k.mul(channel, inner))
        whole = spec.out_channels % spec.width == 0
        taps: list[ir.Value] = []
        if whole and tap != 1:
            at = k.mul(first, out)
            taps = [
                load_strided(k, base, k.add(at, t * tap), out, lanes, ir.FloatType())
                for t in range(self.taps)
            ]
        else:
            limit = spec.out_channels - 1
            rows = [k.add(first, lane) for lane in range(lanes)]
            rows = [k.mul(row if whole else minimum(k, row, limit), out) for row in rows]
            for begin in range(0, self.taps, lanes):
                live = min(lanes, self.taps - begin)
                taps += self._square(base, rows, begin, live)
        return taps[::-1] if spec.form[0] == "I" else taps

    def _square(self, base: ir.Value, rows: list[Index], begin: int, live: int) -> list[ir.Value]:
        """Taps [begin, begin + live) of the rows, each a vector over the rows."""
        k, lanes, tap = self.k, self.vector, self.spec.strides[2]
        if tap == 1:
            read = [load_first(k, base, k.add(row, begin), lanes, live) for row in rows]
            return transpose(k, read)[:live]
        taps: list[ir.Value] = []
        for t in range(begin, begin + live):
            value: ir.Value = ir.Constant(ir.VectorType(ir.FloatType(), lanes), ir.Undefined)
            for lane, row in enumerate(rows):
                element = k.load(base, k.add(row, t * tap))
                value = k.b.insert_element(value, element, ir.Constant(ir.IntType(32), lane))
            taps.append(value)
        return taps

    def transformed(self, taps: list[ir.Value]) -> list[ir.Value]:
        """G w G^T."""
        half = [self._line(taps[c::3]) for c in range(3)]
        return [value for r in range(len(half[0])) for value in self._line([half[c][r] for c in range(3)])]

    def _line(self, w: list[ir.Value]) -> list[ir.Value]:
        """G w."""
        k, lanes = self.k, self.vector
        line: list[ir.Value] = []
        for row in FILTER[self.spec.tile]:
            total: ir.Value | None = None
            for factor, value in zip(row.tolist(), w, strict=True):
                if factor:
                    scale = k.splat(float(factor), lanes)
                    if total is None:
                        total = value if factor == 1 else k.b.fmul(value, scale)
                    else:
                        total = k.fma(value, scale, total)
            assert total is not None
            line.append(total)
        return line

    def emit(self, packed: ir.Value) -> None:
        """A vector of output channels and one input channel after another."""
        k, spec = self.k, self.spec
        filters, blocks = ceil_div(spec.out_channels, spec.width), ceil_div(spec.in_channels, spec.lanes)
        vectors = spec.width // self.vector
        low, high = k.share(filters * vectors * blocks)
        with k.loop(low, high) as item:
            output, vector, block = split_index(k, item, [filters, vectors, blocks])
            own = k.mul(k.add(k.mul(output, vectors), vector), self.vector)
            first = k.mul(block, spec.lanes)
            last = minimum(k, k.add(first, spec.lanes), spec.in_channels)
            with k.loop(first, last) as channel:
                values = self.read(own, channel)
                inside = k.mul(k.b.sub(channel, k.i(first)), spec.width)
                at = k.add(inside, k.mul(vector, self.vector))
                size, tile = spec.lanes * spec.width, spec.tile
                if tile:
                    at = k.add(at, k.index((output, blocks * size), (block, size)))
                    step, values = filters * blocks * size, self.transformed(values)
                else:
                    at = k.add(at, k.index((output, blocks * self.taps * size), (block, self.taps * size)))
                    step = size
                for i, value in enumerate(values):
                    k.store(value, packed, k.add(at, i * step))


def emit_filter_pack(module: ir.Module, name: str, spec: FilterPackSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(packed, filter, worker)` of a spec."""
    assert spec.form in FORMS and spec.width % target.lanes == 0
    k = KernelBuilder(module, name, 2, target)
    packed, filters = k.operands
    FilterTaps(k, spec, filters).emit(packed)
    return k.finish()


class FilterPack(Kernel[PackFilterOp, FilterPackSpec]):
    """A filter that changes, in the order of an algorithm."""

    OPS = (PackFilterOp,)
    emit = staticmethod(emit_filter_pack)

    def match(self, op: PackFilterOp, context: CallContext) -> FilterPackSpec | None:
        fits = op.width % context.target.lanes == 0 and dtype_name(op.input) == "f32"
        return filter_pack_spec(op) if fits else None
