"""Convolutions in LLVM: contractions whose rows are pixels of a packed image, and whose steps are taps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from llvmlite import ir
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import I8, I64, KernelBuilder
from glow_backends.cpu.emit.line_builder import vector
from glow_backends.cpu.emit.memory import Index, ceil_div, table
from glow_backends.cpu.lower.contraction import Contraction
from glow_backends.cpu.lower.rooms import View, rooms_of
from glow_backends.cpu.lower.units import KINDS, LINE
from glow_backends.cpu.target import CpuTarget
from glow_backends.nests.dialect import KernelOp
from glow_backends.nests.images import Image
from glow_backends.nests.operations import NestOp, PackOp
from glow_backends.nests.schedule import Schedule


def pixels_of(p: Image, s: Schedule) -> int:
    """Pixels of the packed image, and those that the last tile may read behind it."""
    return prod(p.phases) * prod(p.packed_size) + s.rows * s.unit.m


class ImageContraction(Contraction):
    """The kernel of a convolution.

    Rows are the pixels of a phase of the packed image, from the first of the result to its last: of each line
    of the image, those beyond the result are computed and not stored.
    """

    def __init__(self, k: KernelBuilder, kernel: KernelOp, p: Image) -> None:
        assert kernel.schedule is not None
        self.k, self.s, self.p = k, kernel.schedule.data, p
        self.unit, shapes = self.s.unit, p.shapes(kernel.schedule.data)
        arguments = kernel.body.block.args
        views = zip(arguments, k.operands, shapes, strict=False)
        self.views: dict[SSAValue, View] = {v: View(at, dtype_name(v), shape) for v, at, shape in views}
        pack, nest = kernel.body.block.ops
        assert isinstance(pack, PackOp)
        assert isinstance(nest, NestOp)
        self.nest, self.maps = nest, [m.data for m in nest.maps]
        self.terms: dict[SSAValue, NestOp] = {}
        self.numbers: dict[SSAValue, int] = {}
        self.y, self.a, self.b = (self.views[v] for v in arguments[:3])
        self.given_b = True
        self.pitch = p.packed_size[1]
        self.m, self.n = (p.out_size[0] - 1) * self.pitch + p.out_size[1], p.blocks[1] * p.lanes
        self.batch = (p.batch,)
        self.sum_kind, self.kind = p.sums, KINDS[p.sums]
        self.lanes = self.unit.columns(self.s.lanes)
        self.lines = p.lines(self.s)
        self.steps = prod(p.kernel) * self.lines
        self.depth = self.lines * self.unit.k
        self.rooms = rooms_of(kernel)
        places = [tap * self._bytes() + i * LINE for tap in p.taps() for i in range(self.lines)]
        self.places = table(k, np.array(places))

    def _bytes(self) -> int:
        """Bytes from a pixel to the next."""
        return (self.lines // 2 * 2 + 1) * LINE

    def _line(self) -> Index:
        return self._bytes()

    def _room_rows(self) -> int:
        return pixels_of(self.p, self.s)

    def _line_of_step(self, at: Index) -> Index:
        return self.k.load(self.places, at, I64)

    def _place(self, batch: Index) -> None:
        k = self.k
        self.a_at, self.y_at = (
            k.gep(v.start, k.mul(batch, prod(v.shape[1:])), values.storage(v.kind)) for v in (self.a, self.y)
        )
        self.b_at, self.image = self.b.start, k.mul(batch, prod(self.y.shape[1:]))

    # --- the image ------------------------------------------------------------------------------------------
    def _inside(self, d: int, phase: int) -> tuple[int, int]:
        """Which lines or pixels of a phase are of the image."""
        p, size = self.p, self.p.packed_size[d]
        low = max(0, ceil_div(p.pads[d] - phase, p.strides[d]))
        high = (p.size[d] - 1 + p.pads[d] - phase) // p.strides[d] + 1
        low = min(size, low)
        return low, max(low, min(size, high))

    def _pack_rows(self, first: Index, stop: Index) -> None:
        """Each line of each phase: what is outside of the image is 0."""
        k, p = self.k, self.p
        rows, columns = p.packed_size
        for phase in range(prod(p.phases)):
            py, px = divmod(phase, p.phases[1])
            lines, pixels = self._inside(0, py), self._inside(1, px)
            base = phase * rows * columns
            for low, high, shown in ((0, lines[0], False), (*lines, True), (lines[1], rows, False)):
                with k.loop(low, high) as line:
                    start = k.add(k.mul(line, columns), base)
                    if not shown:
                        self._clear(start, 0, columns)
                        continue
                    self._clear(start, 0, pixels[0])
                    self._copy(
                        start, k.add(k.mul(line, p.strides[0]), py - p.pads[0]), px - p.pads[1], pixels
                    )
                    self._clear(start, pixels[1], columns)

    def _clear(self, start: Index, low: int, high: int) -> None:
        """Zeros in pixels of a line."""
        k = self.k
        if high <= low:
            return
        room = k.gep(self.room_a, k.mul(k.add(start, low), self._bytes()), I8)
        with k.loop(0, (high - low) * self._bytes(), LINE) as at:
            k.store(values.zero(vector(I8, LINE)), room, at, I8)

    def _copy(self, start: Index, row: Index, shift: int, inside: tuple[int, int]) -> None:
        """The pixels of a line of the image, block by block of their channels."""
        k, p, size = self.k, self.p, self.p.lanes
        height, width = p.size
        with k.loop(0, p.blocks[0]) as block:
            plane = k.mul(k.add(k.mul(block, height), row), width * size)
            source = k.gep(self.a_at, plane, I8)
            room = k.gep(self.room_a, k.add(k.mul(start, self._bytes()), k.mul(block, size)), I8)
            with k.loop(*inside) as at:
                pixel = k.add(k.mul(at, p.strides[1]), shift)
                value = k.load(source, k.mul(pixel, size), I8, size)
                k.store(value, room, k.mul(at, self._bytes()), I8)

    # --- results --------------------------------------------------------------------------------------------
    def _store(self, row: Index, column: Index, sums: Sequence[ir.Value]) -> None:
        """Finish the sums of a pixel and store them, block by block, if the result has it."""
        k, (_, width) = self.k, self.p.out_size
        if self.pitch == width:
            self._store_pixel(row, column, sums)
            return
        line, place = k.b.udiv(k.i(row), k.i(self.pitch)), k.b.urem(k.i(row), k.i(self.pitch))
        with k.b.if_then(k.b.icmp_signed("<", place, k.i(width))):
            self._store_pixel(k.add(k.mul(line, width), place), column, sums)

    def _store_pixel(self, pixel: Index, column: Index, sums: Sequence[ir.Value]) -> None:
        k, plane = self.k, prod(self.p.out_size) * self.p.lanes
        block = k.b.udiv(k.i(column), k.i(self.p.lanes))
        first = k.add(k.mul(block, plane), k.mul(pixel, self.p.lanes))
        for v, total in enumerate(sums):
            if self.live[v] is not None:
                assert isinstance(self.live[v], int)
                if self.live[v] == 0:  # whole blocks are there, or not at all
                    continue
            self.place = k.add(first, v * plane)
            value = self._finished(total, pixel, column, v)
            values.store(k, value, self.y_at, self.place, self.y.kind)

    def _extra(self, view: SSAValue, index: AffineMap, row: Index, column: Index, v: int) -> ir.Value:
        k, known = self.k, self.views[view]
        if len(known.shape) > 1:
            return values.load(k, known.start, k.add(self.image, self.place), known.kind, self.lanes)
        (place,) = index.results
        if place.used_dims():
            return values.load(k, known.start, k.add(column, v * self.lanes), known.kind, self.lanes)
        at = place.eval([0] * index.num_dims, [])
        return values.splat(k, values.load(k, known.start, at, known.kind), self.lanes)


def emit_image_contraction(
    module: ir.Module, name: str, kernel: KernelOp, p: Image, target: CpuTarget
) -> ir.Function:
    """The kernel `name(y, x, w, [bias], [factor], [limits], [extras], rooms, worker)` of a description."""
    assert kernel.schedule is not None
    k = KernelBuilder(module, name, len(p.shapes(kernel.schedule.data)) + 1, target)
    ImageContraction(k, kernel, p).emit()
    return k.finish()
