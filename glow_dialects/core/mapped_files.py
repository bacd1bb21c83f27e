"""Reading files: small ones completely, large ones by mapping, with checks that they do not become shorter.

The system ends a process (SIGBUS) that reads mapped bytes which a file no longer has: whoever writes a file
in place, as `cp new.onnx model.onnx` does, makes it shorter for a moment at least.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from glow_dialects.core.errors import GlowError

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

READ = 16 << 20
"""Bytes of a file up to which it is read: no longer than a program takes to start."""


def file_bytes(path: Path, offset: int = 0, size: int | None = None) -> Array:
    """The bytes of a file, or `size` of them from `offset` on: at a page of their own if all are asked for.

    OSError or ValueError where the file has them not.
    """
    length = path.stat().st_size
    size = length - offset if size is None else size
    if not size:
        return np.empty(0, np.uint8)
    if length > READ:
        return np.memmap(path, np.uint8, "r", offset, (size,))
    memory = mmap.mmap(-1, size)
    with path.open("rb") as file:
        file.seek(offset)
        if file.readinto(memory) != size:
            raise ValueError(f"{path} is too short: it has no {size} bytes at {offset}")
    bytes_of_file = np.frombuffer(memory, np.uint8)
    bytes_of_file.flags.writeable = False
    return bytes_of_file


def mapping_of(array: Array) -> np.memmap | None:
    """The mapped file that an array is a view of."""
    mapping: np.memmap | None = None
    part: object = array
    while isinstance(part, np.ndarray):
        if isinstance(part, np.memmap):
            mapping = cast(np.memmap, part)
        part = part.base
    return mapping


def check_whole(mapping: np.memmap | None) -> None:
    """GlowError where a mapped file has become shorter, so that reading it would end the process."""
    pages = None if mapping is None else cast(object, mapping.base)
    if mapping is None or not isinstance(pages, mmap.mmap):
        return
    if pages.size() < mapping.offset + mapping.nbytes:
        raise GlowError(
            f"{mapping.filename} was truncated while in use: load it again, and replace files that are "
            "in use by renaming new ones"
        )
