"""Memory of a program: aligned arrays, and one block that holds every constant."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.array_utils import byte_bounds

from glow_dialects.core.errors import CompileError
from glow_dialects.core.mapped_files import READ, mapping_of

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

ALIGN = 64
"""Bytes to which every buffer is aligned: a cache line, and one AVX-512 register."""
LARGE_PAGE = 2 * 1024 * 1024
"""Bytes of a large page: weights that pass once a run would otherwise miss the TLB every 4 KiB."""
_NORESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
"""The flag, which Python names from 3.13 on."""
_PIECE = 8 * LARGE_PAGE
"""Bytes of a mapped file that are copied at a time."""
byte_of: Callable[[Array], ctypes.c_char] = ctypes.c_char.from_buffer  # pyright: ignore[reportAssignmentType]
"""The first byte of an array in one piece; others, empty and read-only ones are one of `NO_BYTE`."""
NO_BYTE = (TypeError, ValueError, BufferError)
_TOO_LARGE = "the program needs {} bytes in one piece, which cannot be had"


def rounded(size: int) -> int:
    """`size` bytes rounded up to the alignment."""
    return -(-size // ALIGN) * ALIGN


def aligned_array(shape: Sequence[int], dtype: np.dtype) -> Array:
    """An uninitialised array, aligned; a CompileError where the machine has not so much memory."""
    return Recycled(dtype).array(tuple(shape))[0]


def _unused() -> int:
    block = np.empty(1, np.uint8)
    kept = block, np.ndarray((1,), np.uint8, block)
    del block
    return sys.getrefcount(kept[0])


_UNUSED = _unused()
"""References to a block that nobody else holds, counted as below: Python 3.14 counts fewer for variables."""


class Recycled:
    """Makes arrays of the memory of those that nobody holds any more: new pages cost more than a copy."""

    _ROOM = 4
    """Memory for one shape is taken for others that fill at least this part of it: who keeps a small array
    keeps all of its memory."""

    def __init__(self, dtype: np.dtype) -> None:
        self._dtype = dtype
        #: (memory, shape, an array of it that nobody gets, where this lies)
        self._blocks: list[tuple[Array, tuple[int, ...], Array, int]] = []

    def array(self, shape: tuple[int, ...]) -> tuple[Array, int]:
        """As `aligned_array`, and its address. The last two are remembered: one may be held during a call."""
        for kept in self._blocks:
            if kept[1] == shape and sys.getrefcount(kept[0]) == _UNUSED:
                break
        else:
            kept = self._new(shape)
        return kept[2][...], kept[3]  # a view is made in a quarter of the time of an array

    def _new(self, shape: tuple[int, ...]) -> tuple[Array, tuple[int, ...], Array, int]:
        needed = math.prod(shape) * self._dtype.itemsize + ALIGN
        for kept in self._blocks:
            if sys.getrefcount(kept[0]) == _UNUSED and needed <= kept[0].nbytes <= self._ROOM * needed:
                block = kept[0]
                others = [b for b in self._blocks if b is not kept]
                break
        else:  # where sizes grow from call to call, the next ones find room; pages not written cost nothing
            others = self._blocks[-1:]
            block = self._allocated(needed + needed // 4 if others else needed)
        start = address(block)
        offset = -start % ALIGN
        array = np.ndarray(shape, self._dtype, block, offset)
        self._blocks = [*others, (block, shape, array, start + offset)]
        return self._blocks[-1]

    @staticmethod
    def _allocated(count: int) -> Array:
        try:
            return np.empty(count, np.uint8)
        except MemoryError:
            raise CompileError(_TOO_LARGE.format(count)) from None


def in_large_pages(memory: mmap.mmap) -> None:
    """Ask for large pages, where the system has them, before the memory is written or read."""
    if len(memory) < LARGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    with suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)


def zeros_mapped(size: int, reserved: bool = False) -> mmap.mmap:
    """Zeroed memory of this process alone; pages that nobody touches cost nothing.

    `reserved`: more than the machine may have, most of which is never touched.
    """
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)  # Windows: without a name, no other process sees it
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (_NORESERVE if reserved else 0))


def _grown(memory: mmap.mmap, size: int) -> mmap.mmap:
    """The memory with room for `size` bytes: moved where the system can (Linux), else copied."""
    if hasattr(mmap, "MAP_PRIVATE"):
        with suppress(SystemError):
            memory.resize(size)
            return memory
    larger = zeros_mapped(size)
    np.copyto(np.frombuffer(larger, np.uint8, len(memory)), np.frombuffer(memory, np.uint8))
    return larger


def work_memory(size: int) -> Array:
    """Zeroed bytes for as long as a program lives, aligned; in large pages where they fill some."""
    if size < LARGE_PAGE:
        block = aligned_array((size,), np.dtype(np.uint8))
        block[...] = 0
        return block
    try:
        memory = zeros_mapped(size + LARGE_PAGE)
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


def file_block(path: Path, size: int) -> Array:
    """The bytes of a file, read or mapped; ValueError where they are not `size`."""
    length = path.stat().st_size
    if length != size:
        raise ValueError(f"{path} is {length} bytes, {size} expected")
    if size > READ:
        mapping = np.memmap(path, np.uint8, "r")
        assert isinstance(mapping.base, mmap.mmap)
        in_large_pages(mapping.base)
        return mapping.view(np.ndarray)
    block = work_memory(size)
    with path.open("rb") as file:
        if file.readinto(block.data) != size:
            raise ValueError(f"{path} was truncated while it was read")
    return block


def address(array: Array) -> int:
    """Where the array's first byte is."""
    try:
        return ctypes.addressof(byte_of(array))
    except NO_BYTE:
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


def copy_released(target: Array, source: Array) -> None:
    """Copy an array; pages of a mapped file leave this process's memory as soon as they are copied."""
    if not source.flags.c_contiguous or source.nbytes <= _PIECE:
        np.copyto(target, source)
        release(source)
        return
    to, values = target.reshape(-1), source.reshape(-1)
    step = _PIECE // source.itemsize
    for first in range(0, values.size, step):
        piece = values[first : first + step]
        np.copyto(to[first : first + step], piece)
        release(piece)


_LEAST_NORMAL = (1 << 24) - 1
"""The shifted bits of the least normal f32, less one."""
_LOOK = 1 << 15
"""Elements that are looked at together: temporary arrays stay in the cache."""


def drop_denormals(weights: Array) -> None:
    """Put zeros for denormal numbers of contiguous f32 weights: products with them take 100 times as long.

    Other types are left as they are.
    """
    if weights.dtype != np.float32:
        return
    flat = weights.reshape(-1)
    bits = flat.view(np.uint32)
    shifted = np.empty(min(_LOOK, bits.size), np.uint32)
    for start in range(0, bits.size, _LOOK):
        piece = np.left_shift(bits[start : start + _LOOK], 1, out=shifted[: bits.size - start])
        piece -= 1  # zero becomes the largest number
        if piece.min() < _LEAST_NORMAL:
            values = flat[start : start + _LOOK]
            values[np.abs(values) < np.finfo(np.float32).tiny] = 0


def release(array: Array) -> None:
    """Let the pages of a mapped file that an array is a view of leave this process's memory.

    They come back where somebody reads them. Nothing happens to other arrays.
    """
    root = mapping_of(array)
    pages = None if root is None or root.mode != "r" else root.base  # others may hold what no file has
    if not isinstance(pages, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    lowest, highest = byte_bounds(array)
    begin = address(np.frombuffer(pages, np.uint8))
    start = -(-(lowest - begin) // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (highest - begin) // mmap.PAGESIZE * mmap.PAGESIZE
    if end > start:
        with suppress(OSError):
            pages.madvise(mmap.MADV_DONTNEED, start, end - start)


class WeightBlock:
    """Constants and packed constants, placed one after another in aligned memory that grows.

    An array is copied when it is placed, so that only one packed constant lives beside the block, if it is
    not a view.
    """

    def __init__(self) -> None:
        self.size = 0
        self._offsets: dict[str, int] = {}
        self._memory = zeros_mapped(1 << 16)

    def place(self, key: str, array: Array, normal: bool = False) -> int:
        """Offset in bytes of an array; a key is placed once. `normal`: zeros for denormal numbers of f32."""
        if key not in self._offsets:
            start, self.size = self.size, self.size + rounded(array.nbytes)
            if self.size > len(self._memory):
                room = max(self.size, 2 * len(self._memory))
                whole = room if room < LARGE_PAGE else -(-room // LARGE_PAGE) * LARGE_PAGE
                self._memory = _grown(self._memory, whole)
                in_large_pages(self._memory)
            if array.size:
                held = np.frombuffer(self._memory, array.dtype, array.size, start)
                copy_released(held.reshape(array.shape), array)
                if normal:
                    drop_denormals(held)
                del held  # memory that is seen cannot grow
            self._offsets[key] = start
        return self._offsets[key]

    def offset(self, key: str) -> int | None:
        """Where a key was placed, None if it was not."""
        return self._offsets.get(key)

    def build(self) -> Array:
        """The memory; nothing can be placed any more."""
        return np.frombuffer(self._memory, np.uint8, self.size)
