"""What attention computes, where its operands lie, and by which code."""

from __future__ import annotations

from dataclasses import dataclass

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

    def reads_rows(self, target: CpuTarget) -> bool:
        """Whether its rows are so few that each passes over the keys and values where they lie."""
        few = not isinstance(self.rows, Extent) and self.rows < FEW_ROWS
        return few and self.k[3] == 1 and target.lanes > 1
