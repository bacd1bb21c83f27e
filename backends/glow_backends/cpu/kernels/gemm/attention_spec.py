"""The spec of attention: what it computes, operand layouts, and the choice of code."""

from __future__ import annotations

from dataclasses import dataclass

from glow_backends.cpu.emit.builder import KernelBuilder
from glow_backends.cpu.emit.memory import Index
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.extent import Extent

FEW_ROWS = 4
"""Rows of q below which packing keys and values costs more than it saves."""

Strides = tuple[int, int, int, int]
"""Elements between neighbours in batch, heads, rows and columns."""


@dataclass(frozen=True)
class AttentionSpec:
    """result = softmax(scale * q k' + mask) v, f32, in every head of every batch.

    q is `rows` x `depth`, k `keys` x `depth` (columns or rows adjacent in memory), v `keys` x `width`
    and the result `rows` x `width` (columns adjacent). Operands: result, q, k, v, [mask], scratch.
    """

    batch: int
    heads: int
    rows: int
    keys: int
    depth: int
    width: int
    result: Strides
    q: Strides
    k: Strides
    v: Strides
    mask: Strides | None = None
    scale: float | None = None
    #: Whether rows of scores that are all -inf give 0, not NaN.
    masked: bool = False
    #: Heads of q that share keys and values.
    each: int = 1

    def places(self, k: KernelBuilder, batch: Index, head: Index) -> list[Index]:
        """Where the result, q, keys and values of a head begin."""
        shared = head if self.each == 1 else k.b.udiv(k.i(head), k.i(self.each))
        heads = (head, head, shared, shared)
        strides = (self.result, self.q, self.k, self.v)
        return [k.index((batch, s[0]), (h, s[1])) for h, s in zip(heads, strides, strict=True)]

    def reads_rows(self, target: CpuTarget) -> bool:
        """Whether its rows are so few that each passes over the keys and values where they lie."""
        few = not isinstance(self.rows, Extent) and self.rows < FEW_ROWS
        return few and self.k[3] == 1 and target.lanes > 1
