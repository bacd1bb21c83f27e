"""The cache under GLOW_CACHE_DIR: kernels' machine code by content, whole programs by model.

Files end in a digest of what they hold: one that was cut short or damaged is not there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import OrderedDict
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

import llvmlite

from glow_dialects.core.errors import GlowError
from glow_dialects.core.files import whole

PROGRAM_BYTES = 4 << 30
"""Programs (their weights, mostly) kept on disk; the oldest go first."""


def directory() -> Path | None:
    """Where objects are kept: GLOW_CACHE_DIR, else the user's cache folder.

    None when that is empty, and where there is no home folder (containers with a user of their own).
    """
    folder = os.environ.get("GLOW_CACHE_DIR")
    if folder == "":
        return None
    if folder is not None:
        return Path(folder)
    base = Path(os.environ.get("XDG_CACHE_HOME") or "")
    if base.is_absolute():  # others are ignored, as the XDG standard says
        return base / "glow"
    try:
        return Path.home() / ".cache" / "glow"
    except RuntimeError:
        return None


@cache
def compiler_digest() -> str:
    """Changes whenever llvmlite or the source of a kernel emitter changes."""
    digest = hashlib.sha256(llvmlite.__version__.encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def project_digest() -> str:
    """Changes whenever llvmlite or any source of the compiler changes: size and time of each file."""
    from importlib.util import find_spec

    digest = hashlib.sha256(llvmlite.__version__.encode())
    for package in ("glow_dialects", "glow_frontends", "glow_passes", "glow_backends", "glow_runtime"):
        spec = find_spec(package)
        base = (spec.submodule_search_locations or [""])[0] if spec is not None else ""
        for path in sorted(Path(base).rglob("*.py")) if base else ():
            status = path.stat()
            digest.update(f"{path}{status.st_size}{status.st_mtime_ns}".encode())
    return digest.hexdigest()


def program_folder(*parts: str) -> Path | None:
    """Where the program of a model is kept; None where nothing is."""
    base = directory()
    if base is None:
        return None
    digest = hashlib.sha256("\0".join([project_digest(), *parts]).encode())
    return base / "programs" / digest.hexdigest()[:32]


_WRITES = 64
"""Programs that a process writes for each look at the size of all: the look reads every folder."""
_written = count()


def program_written() -> None:
    """Forget old programs at times; called for each program that has been written."""
    if next(_written) % _WRITES == 0:
        forget_old_programs()


def forget_old_programs(limit: int = PROGRAM_BYTES) -> None:
    """Remove the programs used longest ago while all together are larger than `limit` bytes."""
    base = directory()
    if base is None:
        return
    total = 0
    folders = sorted((base / "programs").iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
    for folder in folders:
        total += sum(f.stat().st_size // f.stat().st_nlink for f in folder.iterdir())
        if total > limit:
            shutil.rmtree(folder, ignore_errors=True)


def _note_file(key: str) -> Path | None:
    base = directory()
    if base is None:
        return None
    digest = hashlib.sha256(f"{project_digest()}\0{key}".encode())
    return base / "notes" / f"{digest.hexdigest()[:32]}"


def note(key: str) -> str | None:
    """The text kept under a key, by this compiler; None where there is none."""
    file = _note_file(key)
    data = None if file is None else read(file)
    return None if data is None else data.decode()


def keep_note(key: str, text: str) -> None:
    """Keep a text under a key."""
    file = _note_file(key)
    if file is not None:
        _write(file, text.encode())


def key(*parts: str) -> str:
    """The content key of some text, the compiler included."""
    digest = hashlib.sha256(compiler_digest().encode())
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:32]


_recent: OrderedDict[str, bytes] = OrderedDict()
_RECENT = 2048
"""Objects of this process that are kept in memory: some kilobytes each."""


def _note_recent(name: str, data: bytes) -> None:
    _recent[name] = data
    while len(_recent) > _RECENT:
        _recent.popitem(last=False)


def forget_recent() -> None:
    """Give back the memory of the objects of this process."""
    _recent.clear()


def get(name: str) -> bytes | None:
    """The cached object, None where there is none."""
    base = directory()
    if base is None or name in _recent:
        return _recent.get(name)
    data = read(base / f"{name}.o")
    if data is not None:
        _note_recent(name, data)
    return data


def put(name: str, data: bytes) -> None:
    """Store an object."""
    _note_recent(name, data)
    base = directory()
    if base is not None:
        _write(base / f"{name}.o", data)


# --- files ------------------------------------------------------------------------------------------

_DIGEST_BYTES = 16


def sealed(data: bytes) -> bytes:
    """What a file that `read` reads holds."""
    return data + hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def read(path: Path) -> bytes | None:
    """The data of a sealed file; None where there is none, or what it holds is not what was written."""
    try:
        sealed_data = path.read_bytes()
    except OSError:
        return None
    data = sealed_data[:-_DIGEST_BYTES]
    return data if sealed(data) == sealed_data else None


def _write(path: Path, data: bytes) -> None:
    with suppress(OSError, GlowError):  # a cache that cannot be written is no cache
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as temporary:
            temporary.write_bytes(sealed(data))
