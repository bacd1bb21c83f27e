"""GGUF files: settings and tensors, mapped; nothing of the tensors is read before it is used."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.files import unreadable
from glow_dialects.core.types import Array
from glow_frontends.language.settings import Settings

_NUMBERS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_TEXT, _LIST = 8, 9
_DEEPEST = 4
_MOST = 1 << 40
"""No count in a file is larger."""


@dataclass(frozen=True)
class Entry:
    """A tensor of the file: its type by number, its shape (rows first), where it begins."""

    kind: int
    shape: tuple[int, ...]
    offset: int


@dataclass
class GgufFile(Settings):
    """The settings and tensors of a file; GlowError where it is damaged."""

    path: Path
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    asked: list[str] = field(default_factory=list[str], compare=False)  # pyright: ignore

    def __post_init__(self) -> None:
        try:
            self._bytes = np.memmap(self.path, np.uint8, "r")
        except OSError as error:
            raise unreadable(self.path, error) from None
        except ValueError:
            raise GlowError(f"{self.path}: the file is empty") from None
        _Reader(self, self._bytes).read()

    def bytes_of(self, name: str, size: int) -> Array:
        """The first `size` bytes of a tensor; GlowError where the file ends before."""
        start = self.entries[name].offset
        if start + size > len(self._bytes):
            whole = len(self._bytes)
            raise GlowError(
                f"{self.path}: the file is truncated: '{name}' ends at byte {start + size} of {whole}"
            )
        return self._bytes[start : start + size]

    @cached_property
    def kind(self) -> str:
        """The architecture."""
        return str(self.settings.get("general.architecture", "nothing"))

    def get(self, name: str, default: Any = None) -> Any:
        """A setting of the architecture."""
        self.asked.append(name)
        return self.settings.get(f"{self.kind}.{name}", default)

    def label(self, name: str) -> str:
        return f"{self.path}: '{self.kind}.{name}'"


class _Reader:
    """Reads the head of a file."""

    def __init__(self, file: GgufFile, data: Array) -> None:
        self.file, self.data, self.at = file, data, 0

    def read(self) -> None:
        """Fill the file's settings and entries."""
        if bytes(self.data[:4]) != b"GGUF":
            raise GlowError(f"{self.file.path}: this is no GGUF file")
        self.at = 4
        version = self._number("I")
        if version not in (2, 3):
            raise GlowError(f"{self.file.path}: GGUF of version {version}; versions 2 and 3 are known")
        tensors, settings = self._count(), self._count()
        for _ in range(settings):
            name = self._text()
            self.file.settings[name] = self._value(self._number("I"))
        found = [self._entry() for _ in range(tensors)]
        step = self.file.settings.get("general.alignment", 32)
        if type(step) is not int or not 0 < step < 1 << 20:
            raise GlowError(f"{self.file.path}: 'general.alignment' is {str(step)[:60]}")
        start = -(-self.at // step) * step
        for name, kind, shape, offset in found:
            self.file.entries[name] = Entry(kind, shape, start + offset)

    def _take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise GlowError(
                f"{self.file.path}: the file is truncated at byte {len(self.data)}, in its header"
            )
        taken = bytes(self.data[self.at : end])
        self.at = end
        return taken

    def _number(self, form: str) -> Any:
        packed = Struct(f"<{form}")
        return packed.unpack(self._take(packed.size))[0]

    def _count(self) -> int:
        count = self._number("Q")
        if count > _MOST:
            raise GlowError(
                f"{self.file.path}: the head is damaged: a count of {count} at byte {self.at - 8}"
            )
        return count

    def _text(self) -> str:
        return self._take(self._count()).decode("utf-8", "replace")

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind == _LIST:
            inner, count = self._number("I"), self._count()
            if inner in _NUMBERS:
                dtype = np.dtype(_NUMBERS[inner]).newbyteorder("<")
                return np.frombuffer(self._take(count * dtype.itemsize), dtype).tolist()
            if depth > _DEEPEST:
                raise GlowError(f"{self.file.path}: the head is damaged: lists in lists at byte {self.at}")
            return [self._value(inner, depth + 1) for _ in range(count)]
        if kind not in _NUMBERS:
            raise GlowError(f"{self.file.path}: a setting of type {kind} before byte {self.at} is not known")
        return self._number(_NUMBERS[kind])

    def _entry(self) -> tuple[str, int, tuple[int, ...], int]:
        name, rank = self._text(), self._number("I")
        if rank > 8:
            raise GlowError(f"{self.file.path}: the head is damaged: '{name}' has {rank} axes")
        shape = tuple(self._count() for _ in range(rank))[::-1]
        if prod(shape) > _MOST:
            raise GlowError(f"{self.file.path}: the head is damaged: '{name}' has shape {list(shape)}")
        kind, offset = self._number("I"), self._count()
        return name, kind, shape, offset
