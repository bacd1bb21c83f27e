"""Memory of a program: aligned arrays, and one block that holds every constant."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glow_dialects.core.errors import CompileError

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

ALIGN = 64
"""Bytes to which every buffer is aligned: a cache line, and one AVX-512 register."""
LARGE_PAGE = 2 * 1024 * 1024
"""Bytes of a large page: weights that pass once a run would otherwise miss the TLB every 4 KiB."""
_Byte = ctypes.c_char
_TOO_LARGE = "the program needs {} bytes in one piece, which cannot be had"


def rounded(size: int) -> int:
    """`size` bytes rounded up to the alignment."""
    return -(-size // ALIGN) * ALIGN


def aligned_array(shape: Sequence[int], dtype: np.dtype) -> Array:
    """An uninitialised array, aligned; a CompileError where the machine has not so much memory."""
    return placed_array(shape, dtype)[0]


def placed_array(shape: Sequence[int], dtype: np.dtype) -> tuple[Array, int]:
    """`aligned_array`, and its address."""
    count = dtype.itemsize
    for extent in shape:
        count *= extent
    try:
        raw = np.empty(count + ALIGN, np.uint8)
    except MemoryError:
        raise CompileError(_TOO_LARGE.format(count)) from None
    where = address(raw)
    start = -where % ALIGN
    return np.ndarray(shape, dtype, raw, start), where + start


def in_large_pages(memory: mmap.mmap) -> None:
    """Ask for large pages, where the system has them, before the memory is written or read."""
    if len(memory) < LARGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    with suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)


def _zeros_mapped(size: int) -> mmap.mmap:
    """Zeroed memory of its own; pages that nobody touches cost nothing."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def work_memory(size: int) -> Array:
    """Zeroed bytes for as long as a program lives, aligned; in large pages where they fill some."""
    if size < LARGE_PAGE:
        block = aligned_array((size,), np.dtype(np.uint8))
        block[...] = 0
        return block
    try:
        memory = _zeros_mapped(size + LARGE_PAGE)
    except OSError:
        raise CompileError(_TOO_LARGE.format(size)) from None
    in_large_pages(memory)
    raw = np.frombuffer(memory, np.uint8)
    start = -address(raw) % LARGE_PAGE
    return raw[start : start + size]


def zeros(shape: Sequence[int], dtype: np.dtype) -> Array:
    """A zeroed array, aligned; where it is large, pages that nobody touches cost nothing."""
    count = math.prod(shape)
    return work_memory(count * dtype.itemsize).view(dtype)[:count].reshape(shape)


def mapped_file(path: Path, size: int) -> Array:
    """The bytes of a file, mapped; ValueError where they are not `size`."""
    if not size:
        return np.empty(0, np.uint8)
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if len(memory) != size:
        raise ValueError(f"{path} is {len(memory)} bytes, {size} expected")
    in_large_pages(memory)
    return np.frombuffer(memory, np.uint8)


def address(array: Array) -> int:
    """Where the array's first byte is."""
    try:
        return ctypes.addressof(_Byte.from_buffer(array.data))
    except (TypeError, ValueError, BufferError):  # of arrays that are not to be written, empty, or strided
        return array.__array_interface__["data"][0]  # takes three times as long


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
        self._memory = _zeros_mapped(1 << 16)

    def place(self, key: str, array: Array) -> int:
        """Offset in bytes of an array; a key is placed once."""
        if key not in self._offsets:
            start, self.size = self.size, self.size + rounded(array.nbytes)
            if self.size > len(self._memory):
                room = max(self.size, 2 * len(self._memory))
                self._memory.resize(room if room < LARGE_PAGE else -(-room // LARGE_PAGE) * LARGE_PAGE)
                in_large_pages(self._memory)
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
