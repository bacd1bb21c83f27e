"""Memory of a program: aligned arrays, and one block that holds every constant."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from glow_dialects.core.errors import CompileError

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

ALIGN = 64
"""Bytes to which every buffer is aligned: a cache line, and one AVX-512 register."""


def rounded(size: int) -> int:
    """`size` bytes rounded up to the alignment."""
    return -(-size // ALIGN) * ALIGN


def aligned_array(shape: Sequence[int], dtype: np.dtype) -> Array:
    """An uninitialised array, aligned; a CompileError where the machine has not so much memory."""
    count = dtype.itemsize
    for extent in shape:
        count *= extent
    try:
        raw = np.empty(count + ALIGN, np.uint8)
    except MemoryError:
        raise CompileError(f"the program needs {count} bytes in one piece, which cannot be had") from None
    start = -address(raw) % ALIGN
    return raw[start : start + count].view(dtype).reshape(tuple(shape))


def address(array: Array) -> int:
    """Where the array's first byte is."""
    return array.__array_interface__["data"][0]


@cache
def _trimmer() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None  # not glibc


def give_back() -> None:
    """Return freed memory to the system: glibc keeps what lies below anything that is in use."""
    trim = _trimmer()
    if trim is not None:
        trim(0)


class WeightBlock:
    """Constants and packed constants, placed one after another in aligned memory that grows.

    An array is copied when it is placed, so that only one packed constant lives beside the block.
    """

    def __init__(self) -> None:
        self.size = 0
        self._offsets: dict[str, int] = {}
        self._memory = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def place(self, key: str, array: Array) -> int:
        """Offset in bytes of an array; a key is placed once."""
        if key not in self._offsets:
            start, self.size = self.size, self.size + rounded(array.nbytes)
            if self.size > len(self._memory):
                # Pages that nobody writes cost nothing.
                self._memory.resize(max(self.size, 2 * len(self._memory)))
            if array.size:
                held = np.frombuffer(self._memory, array.dtype, array.size, start)
                np.copyto(held.reshape(array.shape), array)
                del held  # memory that is seen cannot grow
            self._offsets[key] = start
        return self._offsets[key]

    def offset(self, key: str) -> int | None:
        """Where a key was placed, None if it was not."""
        return self._offsets.get(key)

    def build(self) -> Array:
        """The memory; nothing can be placed any more."""
        return np.frombuffer(self._memory, np.uint8, self.size)
