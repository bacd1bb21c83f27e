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
from glow_dialects.core.files import unreadable
from glow_dialects.core.types import Array

_MOST_AXES = 32


def _are_counts(value: Any) -> bool:
    """Whether a value is a list of whole numbers from 0."""
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 1 << 62 for v in value)  # pyright: ignore


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
                raise GlowError(f"{file}: the file is truncated: {size} bytes, {start} of them its table")
            table: dict[str, dict[str, Any]] = json.loads(source.read(start - 8))
    except OSError as error:
        raise unreadable(file, error) from None
    except (ValueError, RecursionError, MemoryError):
        raise GlowError(f"{file}: this is not a safetensors file: its table cannot be read") from None
    if not isinstance(table, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GlowError(f"{file}: this is not a safetensors file: it has no valid table")
    found: dict[str, Stored] = {}
    for name, entry in table.items():
        if name != "__metadata__":
            found[name] = _tensor(file, name, entry, start, size)
    return found


def _tensor(file: Path, name: str, entry: Any, start: int, size: int) -> Stored:
    fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
    kind: Any
    shape: Any
    offsets: Any
    kind, shape, offsets = (fields.get(n) for n in ("dtype", "shape", "data_offsets"))
    for what, right in (
        ("dtype", isinstance(kind, str)),
        ("shape", _are_counts(shape) and len(shape) <= _MOST_AXES),
        ("data_offsets", _are_counts(offsets) and len(offsets) == 2),
    ):
        if not right:
            raise GlowError(f"{file}: '{what}' of '{name}' is {str(fields.get(what))[:60]}")
    shape, (first, end) = tuple(shape), offsets
    if kind not in by("safetensors"):
        raise GlowError(f"{file}: '{name}' has elements of type {kind}, which are not known")
    dtype = by("safetensors")[kind].dtype
    if end - first != prod(shape) * dtype.itemsize or first < 0:
        raise GlowError(f"{file}: '{name}' of shape {list(shape)} has {end - first} bytes")
    if start + end > size:
        raise GlowError(f"{file}: the file is truncated: '{name}' ends at byte {start + end} of {size}")
    return Stored(file, dtype, shape, start + first)


def folder_tensors(folder: Path) -> dict[str, Stored]:
    """The tensors of a folder's files: those of the index if there is one, else of all."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
            if any(Path(name).name != name or "\0" in name for name in names):
                raise ValueError("a file of another folder")
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError, MemoryError):
            raise GlowError(
                f"{index}: the index cannot be read: 'weight_map' has a file of this folder for each name"
            ) from None
        files = [folder / name for name in names]
    else:
        files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise GlowError(f"{folder}: there are no .safetensors files; convert other weights to that format")
    return {name: tensor for file in files for name, tensor in tensors_of(file).items()}
