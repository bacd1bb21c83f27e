"""Changes between plain and channel-blocked layouts of 32-bit activations, at the borders of regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from llvmlite import ir

from glow_backends.cpu.calls import CallContext, dtype_name, shape
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.memory import (
    Index,
    ceil_div,
    load_first,
    minimum,
    split_index,
    store_first,
    transpose,
)
from glow_backends.cpu.kernel import Kernel
from glow_backends.cpu.kernels.data.blocking_ops import BlockOp, UnblockOp
from glow_backends.cpu.kernels.data.copy import CopySpec, emit_copy
from glow_backends.cpu.kernels.data.layouts import block_spec, unblock_spec
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.estimates import usually
from glow_dialects.core.extent import Extent
from glow_dialects.core.instr_op import is_instr_of


@dataclass(frozen=True)
class BlockingSpec:
    """(N, C, P) to (N, C / c, P, c), c the target's lanes, or back with `unblock`.

    P is the product of the spatial sizes. `channels_last`: the plain array is (N, P, C). Lanes
    without a channel are written as 0. Operands: result, source.
    """

    batch: int
    channels: int
    plane: int
    channels_last: bool = False
    unblock: bool = False


class _Emission:
    def __init__(self, k: KernelBuilder, spec: BlockingSpec) -> None:
        self.k, self.spec = k, spec
        self.lanes = k.target.lanes
        self.result, self.source = k.operands
        self.blocks = ceil_div(spec.channels, self.lanes)
        self.rest = spec.channels % self.lanes

    def emit(self) -> None:
        """Pixels (channels last) or squares of channels x pixels, shared by the workers."""
        if self.spec.channels_last:
            self._pixels()
        else:
            self._squares()

    def _pixels(self) -> None:
        k, spec, lanes = self.k, self.spec, self.lanes
        low, high = k.share(k.size(spec.batch * spec.plane))
        plane, image_size = k.size(spec.plane), k.size(self.blocks * spec.plane * lanes)
        block_size = k.size(spec.plane * lanes)
        with k.loop(low, high) as item:
            image, pixel = split_index(k, item, [0, plane])
            plain = k.mul(item, spec.channels)
            first = k.index((image, image_size), (pixel, lanes))

            def move(block: Index, live: int, plain: Index = plain, first: Index = first) -> None:
                at = k.add(plain, k.mul(block, lanes))
                blocked = k.add(first, k.mul(block, block_size))
                if spec.unblock:
                    store_first(k, k.load(self.source, blocked, lanes=lanes), self.result, at, live)
                else:
                    k.store(load_first(k, self.source, at, lanes, live), self.result, blocked)

            if spec.channels >= lanes:
                with k.loop(0, spec.channels // lanes) as block:
                    move(block, lanes)
            if self.rest:
                move(self.blocks - 1, self.rest)

    def _squares(self) -> None:
        k, spec, lanes = self.k, self.spec, self.lanes
        pieces = ceil_div(spec.plane, lanes)
        low, high = k.share(k.size(spec.batch * self.blocks * pieces))
        sizes = [0, k.size(self.blocks), k.size(pieces)]
        image_size, block_size = k.size(spec.channels * spec.plane), k.size(lanes * spec.plane)
        # The last square of whole pixels ends with the plane, and repeats some of the one before.
        last_pixel = k.size(max(0, spec.plane - lanes))
        self.plane, whole_blocks = k.size(spec.plane), k.size(spec.channels // lanes)
        with k.loop(low, high) as item:
            image, block, piece = split_index(k, item, sizes)
            pixel = minimum(k, k.mul(piece, lanes), last_pixel)
            plain = k.index((image, image_size), (block, block_size), (pixel, 1))
            tile = k.index((image, sizes[1]), (block, 1))
            blocked = k.index((tile, block_size), (pixel, lanes))

            pixels = spec.plane if usually(spec.plane, "<", lanes) else lanes
            if self.rest and spec.channels > lanes:
                with k.b.if_else(k.b.icmp_signed("<", k.i(block), whole_blocks)) as (then, otherwise):
                    with then:
                        self._square(plain, blocked, lanes, pixels)
                    with otherwise:
                        self._square(plain, blocked, self.rest, pixels)
            else:
                self._square(plain, blocked, self.rest or lanes, pixels)

    def _square(self, plain: Index, blocked: Index, channels: int, pixels: int) -> None:
        k, spec, lanes = self.k, self.spec, self.lanes
        if isinstance(pixels, Extent):
            self._part(plain, blocked, channels, k.i(pixels))
            return
        zero, steps = k.splat(0.0, lanes), [k.mul(self.plane, c) for c in range(channels)]
        if spec.unblock:
            rows = [
                k.load(self.source, k.add(blocked, p * lanes), lanes=lanes) if p < pixels else zero
                for p in range(lanes)
            ]
            for c, value in enumerate(transpose(k, rows)[:channels]):
                store_first(k, value, self.result, k.add(plain, steps[c]), pixels)
            return
        rows = [
            load_first(k, self.source, k.add(plain, steps[c]), lanes, pixels) if c < channels else zero
            for c in range(lanes)
        ]
        for p, value in enumerate(transpose(k, rows)[:pixels]):
            k.store(value, self.result, k.add(blocked, p * lanes))

    def _part(self, plain: Index, blocked: Index, channels: int, pixels: ir.Value) -> None:
        """The same for pixels of which the run tells how many there are: less than lanes."""
        k, lanes = self.k, self.lanes
        steps = [k.mul(self.plane, c) for c in range(channels)]
        exist = [k.b.icmp_signed("<", k.i(p), pixels) for p in range(lanes)]
        if self.spec.unblock:
            here = [k.b.select(there, k.i(lanes), k.i(0)) for there in exist]
            places = [k.add(blocked, p * lanes) for p in range(lanes)]
            pairs = zip(places, here, strict=True)
            rows = [load_first(k, self.source, place, lanes, live) for place, live in pairs]
            for c, value in enumerate(transpose(k, rows)[:channels]):
                store_first(k, value, self.result, k.add(plain, steps[c]), pixels)
            return
        zeros = [k.splat(0.0, lanes)] * (lanes - channels)
        rows = [load_first(k, self.source, k.add(plain, step), lanes, pixels) for step in steps]
        for p, value in enumerate(transpose(k, [*rows, *zeros])):
            with k.b.if_then(exist[p]):
                k.store(value, self.result, k.add(blocked, p * lanes))


def emit_blocking(module: ir.Module, name: str, spec: BlockingSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(result, source, worker)` of a spec."""
    k = KernelBuilder(module, name, 2, target, sized=True)
    _Emission(k, spec).emit()
    return k.finish()


def blocking_shapes(spec: BlockingSpec, lanes: int) -> Sequence[tuple[int, ...]]:
    """Shapes of result and source."""
    blocks = ceil_div(spec.channels, lanes)
    last = (spec.batch, spec.plane, spec.channels)
    plain = last if spec.channels_last else (spec.batch, spec.channels, spec.plane)
    blocked = (spec.batch, blocks, spec.plane, lanes)
    return (plain, blocked) if spec.unblock else (blocked, plain)


class NarrowBlocking(Kernel[BlockOp | UnblockOp, CopySpec]):
    """Elements of less than 32 bits to channel blocks and back."""

    OPS = (BlockOp, UnblockOp)
    emit = staticmethod(emit_copy)

    def match(self, op: BlockOp | UnblockOp, context: CallContext) -> CopySpec | None:
        width, source, last = values.size(dtype_name(op.input)), shape(op.input), op.layout == "NHWC"
        if width >= 4:
            return None
        if is_instr_of(op, UnblockOp):
            return unblock_spec(source, op.channels, width, last)
        return block_spec(source, shape(op.result)[-1], width, last)


class Blocking(Kernel[BlockOp | UnblockOp, BlockingSpec]):
    """Elements of 32 bits: NCHW or NHWC to channel blocks and back."""

    OPS = (BlockOp, UnblockOp)
    emit = staticmethod(emit_blocking)

    def match(self, op: BlockOp | UnblockOp, context: CallContext) -> BlockingSpec | None:
        unblock, last = is_instr_of(op, UnblockOp), op.layout == "NHWC"
        plain, blocked = (op.result, op.input) if unblock else (op.input, op.result)
        batch, *rest = shape(plain)
        channels = rest[-1] if last else rest[0]
        fits = dtype_name(op.input) in ("f32", "i32") and shape(blocked)[-1] == context.target.lanes
        return BlockingSpec(batch, channels, prod(rest) // channels, last, unblock) if fits else None
