"""Sums of several vectors at once: each becomes a lane of the result."""

from __future__ import annotations

from llvmlite import ir

from glow_backends.cpu.emit.builder import KernelBuilder, shuffle_mask


def sums_of(k: KernelBuilder, rows: list[ir.Value]) -> ir.Value:
    """The sums of as many vectors as each has lanes (a power of two), in their order."""
    lanes = rows[0].type.count
    if lanes == 2:
        return _added(k, rows[0], rows[1], [(0, 2), (1, 3)])
    for _ in range(2):
        masks = [
            tuple(
                4 * s + half + 2 * i + lanes * side
                for s in range(lanes // 4)
                for side in (0, 1)
                for i in (0, 1)
            )
            for half in (0, 1)
        ]
        rows = [_added(k, a, b, masks) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    while len(rows) > 1:
        segments = [[s for s in range(lanes // 2) if s % 2 == half] for half in (0, 1)]
        masks = [tuple(4 * s + i for s in part for i in range(4)) for part in segments]
        rows = [_added(k, a, b, masks) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    return rows[0]


def _added(k: KernelBuilder, a: ir.Value, b: ir.Value, masks: list[tuple[int, ...]]) -> ir.Value:
    left, right = (k.b.shuffle_vector(a, b, shuffle_mask(mask)) for mask in masks)
    return k.b.fadd(left, right)
