"""Weights of safetensors files, mapped: nothing is read before it is used."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from glow_dialects.core.element_types import by
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array


@dataclass(frozen=True)
class Stored:
    """A tensor of a file."""

    file: Path
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    def __call__(self) -> Array:
        """The tensor, a view of the mapped file."""
        if not prod(self.shape):
            return np.empty(self.shape, self.dtype)
        return np.memmap(self.file, self.dtype, "r", self.offset, self.shape)


def tensors_of(file: Path) -> dict[str, Stored]:
    """The tensors of one file by name; GlowError where it is not whole."""
    try:
        size = file.stat().st_size
        with file.open("rb") as source:
            start = 8 + int.from_bytes(source.read(8), "little")
            if size < 8 or start > size:
                raise GlowError(f"{file}: the file is cut off: {size} bytes, {start} of them its table")
            table: dict[str, dict[str, Any]] = json.loads(source.read(start - 8))
    except OSError as error:
        raise GlowError(f"{file}: {error.strerror or error}") from None
    except ValueError:
        raise GlowError(f"{file}: this is no safetensors file: its table cannot be read") from None
    found: dict[str, Stored] = {}
    for name, entry in table.items():
        if name != "__metadata__":
            found[name] = _tensor(file, name, entry, start, size)
    return found


def _tensor(file: Path, name: str, entry: dict[str, Any], start: int, size: int) -> Stored:
    try:
        kind, shape, (first, end) = entry["dtype"], tuple(map(int, entry["shape"])), entry["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise GlowError(f"{file}: the table's entry of '{name}' cannot be read") from None
    if kind not in by("safetensors"):
        raise GlowError(f"{file}: '{name}' has elements of type {kind}, which are not known")
    dtype = by("safetensors")[kind].dtype
    if end - first != prod(shape) * dtype.itemsize or first < 0:
        raise GlowError(f"{file}: '{name}' of shape {list(shape)} has {end - first} bytes")
    if start + end > size:
        raise GlowError(f"{file}: the file is cut off: '{name}' ends at byte {start + end} of {size}")
    return Stored(file, dtype, shape, start + first)


def folder_tensors(folder: Path) -> dict[str, Stored]:
    """The tensors of a folder's files: those of the index if there is one, else of all."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, AttributeError):
            raise GlowError(f"{index}: the index cannot be read") from None
        files = [folder / name for name in names]
    else:
        files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise GlowError(f"{folder}: there are no .safetensors files; convert other weights to that format")
    return {name: tensor for file in files for name, tensor in tensors_of(file).items()}
