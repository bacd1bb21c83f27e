"""What object files say about their functions: just enough of ELF, 64 bits, little endian."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SYMBOLS, _RELOCATIONS = 2, 4
"""Kinds of sections: a table of symbols, relocations with addends."""
_FUNCTION, _GLOBAL = 2, 1


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
    kind: int
    offset: int
    size: int
    link: int
    info: int


class Object:
    """The symbols of an object file and where its code refers to them; nothing of what is no such file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._sections = list(self._read_sections()) if data[:6] == b"\x7fELF\x02\x01" else []
        table = next((s for s in self._sections if s.kind == _SYMBOLS), None)
        self.symbols = [] if table is None else list(self._read_symbols(table))

    def _read_sections(self) -> Iterator[_Section]:
        (start,) = struct.unpack_from("<Q", self._data, 40)
        each, count = struct.unpack_from("<HH", self._data, 58)
        for number in range(count):
            at = start + number * each
            _, kind, _, _, offset, size, link, info = struct.unpack_from("<IIQQQQII", self._data, at)
            yield _Section(kind, offset, size, link, info)

    def _read_symbols(self, table: _Section) -> Iterator[Symbol]:
        names = self._sections[table.link]
        for at in range(table.offset, table.offset + table.size, 24):
            name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", self._data, at)
            start = names.offset + name
            text = self._data[start : self._data.index(b"\0", start)].decode()
            yield Symbol(text, section, value, size, info & 15 == _FUNCTION, info >> 4 == _GLOBAL)

    def references(self, section: int) -> list[tuple[int, str]]:
        """(place in a section, symbol) of what it refers to, in order of the places."""
        found: list[tuple[int, str]] = []
        for table in self._sections:
            if table.kind == _RELOCATIONS and table.info == section:
                for at in range(table.offset, table.offset + table.size, 24):
                    place, info, _ = struct.unpack_from("<QQq", self._data, at)
                    found.append((place, self.symbols[info >> 32].name))
        return sorted(found)
