"""Blocks: a matrix of codes of few bits with a scale for each run of its columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_dialects.ops.dequantize_blocks import FORM, dequantize_blocks


@dataclass(frozen=True)
class Blocks:
    """(level of code - point) scale: `codes` [outputs, inputs bits / 8] bytes, lowest bits first, `scales`
    and, where each block has its own, `points` f32 [outputs, inputs / block]. `order`: the inputs in which
    blocks follow each other, i32 [inputs], where that is not their own order. `levels`: what codes stand for,
    where that is not their number.
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
    def shape(self) -> tuple[int, int]:
        """[outputs, inputs]."""
        return len(self.codes), self.depth

    @property
    def form(self) -> dict[str, Any]:
        """The properties of `glow.dequantize_blocks`."""
        return {n: getattr(self, n) for n in FORM}

    def rows(self, start: int, end: int) -> Blocks:
        """Some of the outputs."""
        points = None if self.points is None else self.points[start:end]
        return replace(self, codes=self.codes[start:end], scales=self.scales[start:end], points=points)

    def array(self) -> Array:
        """The matrix as f32."""
        made = dequantize_blocks(self.codes, self.scales, self.points, **self.form)
        return made if self.order is None else made[:, np.argsort(self.order)]
