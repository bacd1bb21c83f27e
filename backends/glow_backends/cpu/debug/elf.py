"""What object files say about their functions: just enough of ELF, 64 bits, little endian."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from mmap import mmap

import numpy as np

_SYMBOLS, _RELOCATIONS = 2, 4
"""Kinds of sections: a table of symbols, relocations with addends."""
_FUNCTION, _GLOBAL = 2, 1
_IN_MEMORY = 2
"""The flag of sections that are loaded."""
_ENTRY = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
"""An entry of a table of symbols."""


@dataclass(frozen=True)
class Symbol:
    """A symbol: the section that it is in (0: another object's), its place there, its bytes."""

    name: str
    section: int
    offset: int
    size: int
    is_function: bool
    is_global: bool


@dataclass(frozen=True)
class _Section:
    header: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int


class Object:
    """The symbols of an object file and where its code refers to them; nothing of what is no such file."""

    def __init__(self, data: bytes | mmap) -> None:
        self._data = data
        self._sections = list(self._read_sections()) if data[:6] == b"\x7fELF\x02\x01" else []
        self._table = next((s for s in self._sections if s.kind == _SYMBOLS), None)

    def _read_sections(self) -> Iterator[_Section]:
        (start,) = struct.unpack_from("<Q", self._data, 40)
        each, count = struct.unpack_from("<HH", self._data, 58)
        for number in range(count):
            at = start + number * each
            _, kind, flags, _, offset, size, link, info = struct.unpack_from("<IIQQQQII", self._data, at)
            yield _Section(at, kind, flags, offset, size, link, info)

    @cached_property
    def symbols(self) -> list[Symbol]:
        """All symbols, in order of the table."""
        return [] if self._table is None else list(self._read_symbols(self._table))

    def _read_symbols(self, table: _Section) -> Iterator[Symbol]:
        names = self._sections[table.link]
        for at in range(table.offset, table.offset + table.size, _ENTRY.itemsize):
            name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", self._data, at)
            start = names.offset + name
            text = self._data[start : self._data.find(b"\0", start)].decode()
            yield Symbol(text, section, value, size, info & 15 == _FUNCTION, info >> 4 == _GLOBAL)

    def value(self, name: str) -> int | None:
        """The value of a symbol, looked up without reading the others, of which a library has many."""
        if self._table is None:
            return None
        names = self._sections[self._table.link]
        at = self._data.find(b"\0%s\0" % name.encode(), names.offset, names.offset + names.size)
        count = self._table.size // _ENTRY.itemsize
        entries = np.frombuffer(self._data, _ENTRY, count, self._table.offset)
        found = entries["value"][entries["name"] == at + 1 - names.offset]
        return int(found[0]) if at >= 0 and len(found) else None

    def references(self, section: int) -> list[tuple[int, str]]:
        """(place in a section, symbol) of what it refers to, in order of the places."""
        found: list[tuple[int, str]] = []
        for table in self._sections:
            if table.kind == _RELOCATIONS and table.info == section:
                for at in range(table.offset, table.offset + table.size, 24):
                    place, info, _ = struct.unpack_from("<QQq", self._data, at)
                    found.append((place, self.symbols[info >> 32].name))
        return sorted(found)

    def bases(self, addresses: Callable[[str], int]) -> dict[int, int]:
        """Where the sections of exported functions are, of which something tells the addresses."""
        exported = [s for s in self.symbols if s.is_function and s.is_global and s.section]
        return {s.section: addresses(s.name) - s.offset for s in exported}

    def placed(self, bases: Mapping[int, int]) -> bytes:
        """The file with the addresses of its sections in their headers.

        Those of which no address is known are put before the code: what they tell of it by distances (how
        to unwind the stack) is read from the file, not from there.
        """
        data = bytearray(self._data)
        below = min(bases.values())
        for number, section in enumerate(self._sections):
            if section.flags & _IN_MEMORY:
                if number not in bases:
                    below = (below - section.size) & -64
                struct.pack_into("<Q", data, section.header + 16, bases.get(number, below))
        return bytes(data)
