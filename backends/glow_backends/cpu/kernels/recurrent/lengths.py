"""Samples of a recurrent network in the order of their lengths, so that blocks end together."""

from __future__ import annotations

from llvmlite import ir

from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.builder import I32, I64, KernelBuilder
from glow_backends.cpu.emit.common import Index


def order_bytes(samples: int, steps: int) -> int:
    """Bytes that `Lengths` works in: a number for each sample and for each length."""
    return 4 * (samples + steps + 1)


class Lengths:
    """The lengths [samples] of a network of so many steps; those outside 0 ... steps are the nearest there.

    `order` takes the samples by falling length, those of one length as they come: a counting sort.
    """

    def __init__(
        self, k: KernelBuilder, lengths: ir.Value, dtype: str, samples: int, steps: int, order: ir.Value
    ) -> None:
        self.k, self.lengths, self.dtype, self.steps, self.order = k, lengths, dtype, steps, order
        counts = k.gep(order, samples, I32)
        with k.loop(0, steps + 1) as length:
            k.store(ir.Constant(I32, 0), counts, length, I32)
        with k.loop(0, samples) as sample:
            self._next(counts, self.of(sample))

        def place(i: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
            length = k.b.sub(k.i(steps), i)
            count = k.load(counts, length, I32)
            k.store(before[0], counts, length, I32)
            return [k.b.add(before[0], count)]

        k.reduce_loop(0, steps + 1, 1, [ir.Constant(I32, 0)], place)
        with k.loop(0, samples) as sample:
            k.store(k.b.trunc(sample, I32), order, self._next(counts, self.of(sample)), I32)

    def _next(self, counts: ir.Value, length: Index) -> ir.Value:
        """Count one more of a length; how many there were."""
        k = self.k
        count = k.load(counts, length, I32)
        k.store(k.b.add(count, ir.Constant(I32, 1)), counts, length, I32)
        return k.b.sext(count, I64)

    def of(self, sample: Index) -> ir.Value:
        """A sample's length."""
        k = self.k
        length = values.load(k, self.lengths, sample, self.dtype)
        if length.type != I64:
            length = k.b.sext(length, I64) if values.is_signed(self.dtype) else k.b.zext(length, I64)
        length = k.b.select(k.b.icmp_signed("<", length, k.i(0)), k.i(0), length)
        return k.b.select(k.b.icmp_signed(">", length, k.i(self.steps)), k.i(self.steps), length)

    def sample(self, first: Index, row: Index) -> ir.Value:
        """The sample at place first + row of the order."""
        k = self.k
        return k.b.sext(k.load(self.order, k.add(first, row), I32), I64)
