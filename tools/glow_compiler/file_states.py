"""States of files, by which it is known that they have not changed since they were read; digests of them."""

from __future__ import annotations

import hashlib
import mmap
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

SETTLED = 2.0
"""Seconds after which a file's time of change tells it from what it was before."""


def state(path: Path) -> str:
    """A text that changes when the file does: where it is, its size and time of change."""
    try:
        status, whole = path.stat(), path.resolve()
    except (OSError, ValueError, RuntimeError):  # also names that no file can have, links in a circle
        return f"{path} is missing"
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino} {whole}"


def settled(path: Path) -> bool:
    """Whether a file, if there is one, has not changed for some time."""
    return not path.exists() or time.time() - path.stat().st_mtime > SETTLED


_PIECE = 1 << 25
"""Bytes digested at a time: behind each the thread waits for its turn, 5 ms beside one that is busy."""


@contextmanager
def digesting(path: Path | None) -> Generator[Callable[[], str | None]]:
    """What waits for the sha256 of a file, which a thread makes while the body of this goes on.

    None for anything but a file that holds something, and for one that changed meanwhile.
    """
    if path is None or not path.is_file() or not path.stat().st_size:
        yield lambda: None
        return
    from concurrent.futures import ThreadPoolExecutor  # models that are known start without it

    unwanted, before = Event(), state(path)

    def digest() -> str | None:
        made = hashlib.sha256()
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for start in range(0, len(data), _PIECE):
                if unwanted.is_set():
                    break
                with memoryview(data)[start : start + _PIECE] as piece:
                    made.update(piece)
                if hasattr(mmap, "MADV_DONTNEED"):  # pages that were read leave this process's memory
                    data.madvise(mmap.MADV_DONTNEED, start, min(_PIECE, len(data) - start))
        return made.hexdigest() if state(path) == before else None

    with ThreadPoolExecutor(1, "glow-digest") as thread:
        result = thread.submit(digest)
        try:
            yield result.result
        finally:
            unwanted.set()
