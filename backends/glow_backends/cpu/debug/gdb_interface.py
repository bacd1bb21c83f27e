"""Code of this process for gdb, by its JIT interface: a list of objects, and a function that it stops at.

https://sourceware.org/gdb/current/onlinedocs/gdb.html/JIT-Interface.html. LLVM has both for its older linker,
which cannot be used (see `Linked`). Its library does not export them; gdb finds them in its table of symbols.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections.abc import Sequence
from functools import cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from glow_backends.cpu.debug.elf import Object
from glow_backends.cpu.jit import Linked

_ADDED, _REMOVED = 1, 2
_LIBRARY = "libllvmlite.so"


class _Entry(ctypes.Structure):
    """`jit_code_entry`: an object file, between others of the list."""


_Link = ctypes.POINTER(_Entry)
_Entry._fields_ = [("next", _Link), ("previous", _Link), ("file", ctypes.c_char_p), ("size", ctypes.c_uint64)]


class _Descriptor(ctypes.Structure):
    """`jit_descriptor`: the list of all object files, and what happens to one."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("action", ctypes.c_uint32),
        ("entry", _Link),
        ("first", _Link),
    )


class _Interface:
    """The list of object files of this process, of which others may have some. Safe for our threads."""

    def __init__(self, descriptor: int, stop: int) -> None:
        self._list = _Descriptor.from_address(descriptor)
        self._stop = ctypes.CFUNCTYPE(None)(stop)
        self._lock = threading.RLock()  # collected programs end within a call, too

    @property
    def first(self) -> Any:
        """A pointer to the newest entry, or null."""
        return self._list.first

    def add(self, file: bytes) -> _Entry:
        """Tell of a file; the entry that stands for it must be kept until it is removed."""
        entry = _Entry(None, None, file, len(file))
        with self._lock:
            if self._list.first:
                entry.next = self._list.first
                entry.next.contents.previous = ctypes.pointer(entry)
            self._list.first = ctypes.pointer(entry)
            self._tell(_ADDED, entry)
        return entry

    def remove(self, entry: _Entry) -> None:
        """The code of a file is no more."""
        with self._lock:
            if entry.next:
                entry.next.contents.previous = entry.previous
            if entry.previous:
                entry.previous.contents.next = entry.next
            else:
                self._list.first = entry.next
            self._tell(_REMOVED, entry)

    def _tell(self, action: int, entry: _Entry) -> None:
        self._list.action, self._list.entry = action, ctypes.pointer(entry)
        self._stop()


@cache
def interface() -> _Interface | None:
    """That of LLVM's library; None where it has none that gdb finds."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines() if sys.platform == "linux" else []
    for start, path in ((m.partition("-")[0], m.partition("/")[2]) for m in maps):
        if path.endswith(_LIBRARY):  # its first piece: the file from its beginning
            with open(f"/{path}", "rb") as file:
                library = Object(mmap(file.fileno(), 0, access=ACCESS_READ))
            places = [library.value(f"__jit_debug_{name}") for name in ("descriptor", "register_code")]
            descriptor, stop = (int(start, 16) + place if place else None for place in places)
            return _Interface(descriptor, stop) if descriptor and stop else None
    return None


def tell_gdb(linked: Linked, objects: Sequence[bytes]) -> None:
    """Let gdb know of linked objects as long as they are loaded; nothing where it cannot be told."""
    told = interface()
    for code in map(Object, objects if told else ()):
        bases = code.bases(linked.address)
        if told is not None and bases:
            weakref.finalize(linked, told.remove, told.add(code.placed(bases)))
