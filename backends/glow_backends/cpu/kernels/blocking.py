"""Changes between plain and channel-blocked layouts of f32 activations, at the borders of regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from glow_backends.cpu.builder import KernelBuilder
from glow_backends.cpu.kernels.memory import (
    Index,
    ceil_div,
    load_first,
    split_index,
    store_first,
    transpose,
)
from glow_backends.cpu.target import CpuTarget

Emit = Callable[[], None]


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
        low, high = k.share(spec.batch * spec.plane)
        with k.loop(low, high) as item:
            image, pixel = split_index(k, item, [spec.batch, spec.plane])
            plain = k.mul(item, spec.channels)
            first = k.index((image, self.blocks * spec.plane * lanes), (pixel, lanes))

            def move(block: Index, live: int, plain: Index = plain, first: Index = first) -> None:
                at = k.add(plain, k.mul(block, lanes))
                blocked = k.add(first, k.mul(block, spec.plane * lanes))
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
        sizes = [spec.batch, self.blocks, pieces]
        low, high = k.share(spec.batch * self.blocks * pieces)
        with k.loop(low, high) as item:
            image, block, piece = split_index(k, item, sizes)
            pixel = k.mul(piece, lanes)
            plain = k.index((image, spec.channels * spec.plane), (block, lanes * spec.plane), (pixel, 1))
            tile = k.index((image, self.blocks), (block, 1))
            blocked = k.index((tile, spec.plane * lanes), (pixel, lanes))

            def whole_channels(pixels: int, plain: Index = plain, blocked: Index = blocked) -> None:
                self._square(plain, blocked, lanes, pixels)

            def last_channels(pixels: int, plain: Index = plain, blocked: Index = blocked) -> None:
                self._square(plain, blocked, self.rest, pixels)

            def pixels(live: int, block: Index = block) -> None:
                self._either(
                    block,
                    self.blocks,
                    self.rest,
                    lambda: whole_channels(live),
                    lambda: last_channels(live),
                )

            last = spec.plane % lanes
            self._either(piece, pieces, last, lambda: pixels(lanes), lambda: pixels(last))

    def _either(self, index: Index, count: int, rest: int, whole: Emit, part: Emit) -> None:
        """`part` for the last index where there is a rest, else `whole`."""
        k = self.k
        if not rest:
            whole()
        elif count == 1:
            part()
        else:
            test = k.b.icmp_signed("<", k.i(index), k.i(count - 1))
            with k.b.if_else(test) as (then, otherwise):
                with then:
                    whole()
                with otherwise:
                    part()

    def _square(self, plain: Index, blocked: Index, channels: int, pixels: int) -> None:
        k, spec, lanes = self.k, self.spec, self.lanes
        zero = k.splat(0.0, lanes)
        if spec.unblock:
            rows = [
                k.load(self.source, k.add(blocked, p * lanes), lanes=lanes) if p < pixels else zero
                for p in range(lanes)
            ]
            for c, value in enumerate(transpose(k, rows)[:channels]):
                store_first(k, value, self.result, k.add(plain, c * spec.plane), pixels)
            return
        rows = [
            load_first(k, self.source, k.add(plain, c * spec.plane), lanes, pixels) if c < channels else zero
            for c in range(lanes)
        ]
        for p, value in enumerate(transpose(k, rows)[:pixels]):
            k.store(value, self.result, k.add(blocked, p * lanes))


def emit_blocking(module: ir.Module, name: str, spec: BlockingSpec, target: CpuTarget) -> ir.Function:
    """The kernel `name(result, source, worker)` of a spec."""
    k = KernelBuilder(module, name, 2, target)
    _Emission(k, spec).emit()
    return k.finish()


def blocking_shapes(spec: BlockingSpec, lanes: int) -> Sequence[tuple[int, ...]]:
    """Shapes of result and source."""
    blocks = ceil_div(spec.channels, lanes)
    last = (spec.batch, spec.plane, spec.channels)
    plain = last if spec.channels_last else (spec.batch, spec.channels, spec.plane)
    blocked = (spec.batch, blocks, spec.plane, lanes)
    return (plain, blocked) if spec.unblock else (blocked, plain)
