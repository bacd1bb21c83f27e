"""Blocked values: N x C/c x H x W x c, channels in blocks of c; conversion from and to plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.types import Array, shape_of

N = TypeVar("N", int, float)


@dataclass(frozen=True)
class Blocked:
    """A blocked value and the plain form it stands for: rank 3 or 4, channels at 1 or last.

    Of rank 4 that is N C H W, or N H W C with channels `last`; of rank 3 it lacks H, which is 1 in blocks.
    """

    value: SSAValue
    channels: int
    rank: int
    last: bool

    @property
    def lanes(self) -> int:
        """The channels of a block."""
        return shape_of(self.value)[-1]

    @property
    def axis(self) -> int:
        """Position of the channels in the plain form."""
        return self.rank - 1 if self.last else 1

    @property
    def spatial(self) -> tuple[int, ...]:
        """Positions of the spatial axes in the plain form."""
        return tuple(a for a in range(1, self.rank) if a != self.axis)

    def over_blocks(self, plain: Sequence[N], channel: N, lane: N, height: N) -> tuple[N, ...]:
        """One entry an axis of the plain form as one an axis of the blocked form.

        `channel` and `lane` are the entries of the axes that replace the channels, `height` that of
        the axis that a form of rank 3 lacks.
        """
        spatial = [plain[a] for a in self.spatial]
        if self.rank == 3:
            spatial.insert(0, height)
        return (plain[0], channel, *spatial, lane)


Parts = Callable[[Sequence[SSAValue]], Sequence[SSAValue] | None]
"""The blocked values of operands in the layout of one of them; None where there are none."""


def pad_to(array: Array, axis: int, multiple: int) -> Array:
    """`array` with zeros appended along `axis` up to a multiple."""
    missing = -array.shape[axis] % multiple
    if not missing:
        return array
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, missing)
    return np.pad(array, widths)


def block_channels(array: Array, lanes: int) -> Array:
    """(N, C, spatial...) to (N, ceil(C / lanes), spatial..., lanes), padded with zeros."""
    padded = pad_to(array, 1, lanes)
    n, channels, *spatial = padded.shape
    split = padded.reshape(n, channels // lanes, lanes, *spatial)
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))


def unblock_channels(array: Array, channels: int) -> Array:
    """The inverse of `block_channels`."""
    n, blocks, *spatial, lanes = array.shape
    plain = np.moveaxis(array, -1, 2).reshape(n, blocks * lanes, *spatial)
    return np.ascontiguousarray(plain[:, :channels])


def blocked_shape(shape: Sequence[int], lanes: int) -> tuple[int, ...]:
    """The shape that `block_channels` gives to an array of `shape`."""
    return (shape[0], -(-shape[1] // lanes), *shape[2:], lanes)
