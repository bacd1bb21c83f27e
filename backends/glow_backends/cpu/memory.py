"""Memory of a program: aligned arrays, and one block that holds every constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_dialects.core.types import Array

ALIGN = 64
"""Bytes to which every buffer is aligned: a cache line, and one AVX-512 register."""


def rounded(size: int) -> int:
    """`size` bytes rounded up to the alignment."""
    return -(-size // ALIGN) * ALIGN


def aligned_array(shape: Sequence[int], dtype: np.dtype) -> Array:
    """An uninitialised array, aligned."""
    count = dtype.itemsize
    for extent in shape:
        count *= extent
    raw = np.empty(count + ALIGN, np.uint8)
    start = -address(raw) % ALIGN
    return raw[start : start + count].view(dtype).reshape(tuple(shape))


def address(array: Array) -> int:
    """Where the array's first byte is."""
    return array.__array_interface__["data"][0]


class WeightBlock:
    """Constants and packed constants, placed one after another in aligned memory."""

    def __init__(self) -> None:
        self.size = 0
        self._offsets: dict[str, int] = {}
        self._parts: list[tuple[int, Array]] = []

    def place(self, key: str, array: Array) -> int:
        """Offset in bytes of an array; a key is placed once."""
        if key not in self._offsets:
            self._offsets[key] = self.size
            self._parts.append((self.size, array))
            self.size += rounded(array.nbytes)
        return self._offsets[key]

    def offset(self, key: str) -> int | None:
        """Where a key was placed, None if it was not."""
        return self._offsets.get(key)

    def build(self) -> Array:
        """The memory, filled; the arrays are let go."""
        memory = aligned_array((self.size,), np.dtype(np.uint8))
        for offset, array in self._parts:
            target = memory[offset : offset + array.nbytes].view(array.dtype)
            np.copyto(target.reshape(array.shape), array)
        self._parts = []
        return memory
