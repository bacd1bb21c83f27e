"""States of files, by which it is known that they have not changed since they were read."""

from __future__ import annotations

import time
from pathlib import Path

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
