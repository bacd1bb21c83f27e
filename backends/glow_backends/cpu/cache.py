"""The object cache: machine code by content, under GLOW_CACHE_DIR."""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

import llvmlite


def directory() -> Path | None:
    """Where objects are kept: GLOW_CACHE_DIR, else the user's cache folder; None when it is empty."""
    given = os.environ.get("GLOW_CACHE_DIR")
    if given == "":
        return None
    if given is not None:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "glow"


@cache
def compiler_digest() -> str:
    """Changes whenever llvmlite or the source of a kernel emitter changes."""
    digest = hashlib.sha256(llvmlite.__version__.encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key(*parts: str) -> str:
    """The content key of some text, the compiler included."""
    digest = hashlib.sha256(compiler_digest().encode())
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:32]


def get(name: str) -> bytes | None:
    """The cached object, None where there is none."""
    base = directory()
    if base is None:
        return None
    try:
        return (base / f"{name}.o").read_bytes()
    except OSError:
        return None


def put(name: str, data: bytes) -> None:
    """Store an object; written aside and renamed, so that no reader sees half of it."""
    base = directory()
    if base is None:
        return
    try:
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=base, delete=False) as file:
            file.write(data)
        Path(file.name).replace(base / f"{name}.o")
    except OSError:
        return  # a cache that cannot be written is no cache
