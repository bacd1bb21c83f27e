"""Blocks: low-bit codes of one or more matrices, with one scale per block of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import FORM, dequantize_blocks


@dataclass(frozen=True)
class Blocks:
    """(level of code - point) scale: `codes` [outputs, inputs bits / 8] bytes, lowest bits first, `scales`
    and, where each block has its own, `points` f32 [outputs, inputs / block]. `order`: the inputs in which
    blocks follow each other, i32 [inputs], where that is not their own order. `levels`: what codes stand for,
    where that is not their number. Matrices of experts have one more axis before these, and no order.
    """

    codes: Array
    scales: Array
    bits: int
    block: int
    depth: int
    point: float = 0.0
    points: Array | None = None
    order: Array | None = None
    levels: tuple[float, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """[outputs, inputs]."""
        return *self.codes.shape[:-1], self.depth

    @property
    def form(self) -> dict[str, Any]:
        """The properties of `glow.dequantize_blocks`."""
        return {n: getattr(self, n) for n in FORM}

    def rows(self, rows: slice | Array) -> Blocks:
        """Some of the outputs."""
        return self._of(lambda part: part[..., rows, :])

    def grouped(self, groups: int) -> Blocks:
        """The outputs as so many matrices, each of as many."""
        return self._of(lambda part: part.reshape(groups, -1, part.shape[-1]))

    def expert(self, number: int) -> Blocks:
        """The matrix of one expert."""
        return self._of(lambda part: part[number])

    def _of(self, change: Callable[[Array], Array]) -> Blocks:
        points = None if self.points is None else change(self.points)
        return replace(self, codes=change(self.codes), scales=change(self.scales), points=points)

    def array(self) -> Array:
        """The matrix as f32."""
        made = dequantize_blocks(self.codes, self.scales, self.points, **self.form)
        return made if self.order is None else made[:, np.argsort(self.order)]


def of_latents(whole: Array | Blocks, heads: int, plain: int, keys: bool) -> Array | Blocks:
    """[heads, outputs, inputs] of a matrix that makes each head's keys, then its values, of latents.

    What makes latents of queries, the first `plain` outputs of a head the other way round, where `keys`; else
    what makes values of latents.
    """
    if not keys and isinstance(whole, Blocks) and whole.order is None:
        return whole.grouped(heads).rows(slice(plain, None))
    array = np.asarray(whole.array() if isinstance(whole, Blocks) else whole)
    array = array.reshape(heads, -1, array.shape[-1])
    return array[:, :plain].swapaxes(1, 2) if keys else array[:, plain:]


def stacked(matrices: Sequence[Array | Blocks], label: str) -> Array | Blocks:
    """The matrices of experts, one behind the other, as codes where all are codes of one form.

    GlowError, which begins with `label`, where their sizes differ.
    """
    first, blocks = matrices[0], [m for m in matrices if isinstance(m, Blocks)]
    other = next((m for m in matrices if m.shape != first.shape), first)
    if other.shape != first.shape:
        raise GlowError(f"{label}: sizes of experts differ: {list(first.shape)} and {list(other.shape)}")
    if not isinstance(first, Blocks) or len(blocks) < len(matrices):
        return np.stack([m.array() if isinstance(m, Blocks) else np.asarray(m) for m in matrices])
    if any(m.order is not None or m.form | {"point": 0} != first.form | {"point": 0} for m in blocks):
        return np.stack([m.array() for m in blocks])
    codes, scales = np.stack([m.codes for m in blocks]), np.stack([m.scales for m in blocks])
    if all(m.points is None and m.point == first.point for m in blocks):
        return replace(first, codes=codes, scales=scales)
    own = [np.full_like(m.scales, m.point) if m.points is None else m.points for m in blocks]
    return replace(first, codes=codes, scales=scales, point=0.0, points=np.stack(own))
