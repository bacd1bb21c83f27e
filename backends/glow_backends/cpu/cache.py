"""The cache under GLOW_CACHE_DIR: kernels' machine code by content, whole programs by model.

Files end in a digest of what they hold: one that was cut short or damaged is not there.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import time
from collections import OrderedDict
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

import llvmlite

from glow_dialects.core.byte_counts import byte_count
from glow_dialects.core.errors import GlowError
from glow_dialects.core.files import STALE, remove_stale, whole

MOST_BYTES = 5 << 30
"""Bytes kept on disk unless GLOW_CACHE_BYTES says otherwise."""
OBJECTS_SHARE = 0.2
"""The part of them for objects and notes; the rest is for programs, which are weights mostly."""
LOG = logging.getLogger("glow")


@cache
def _bytes_of(text: str) -> int:
    """The number of GLOW_CACHE_BYTES, or without one the default."""
    try:
        return byte_count(text) if text else MOST_BYTES
    except GlowError as error:
        LOG.warning("GLOW_CACHE_BYTES is ignored: %s", error)
        return MOST_BYTES


def most_bytes() -> int:
    """How much is kept on disk: GLOW_CACHE_BYTES, such as 500M or 20G."""
    return _bytes_of(os.environ.get("GLOW_CACHE_BYTES", ""))


def directory() -> Path | None:
    """Where objects are kept: GLOW_CACHE_DIR, else the user's cache folder.

    None when that is empty, where there is no home folder (containers with a user of their own), and
    where others can write to it: it holds machine code.
    """
    base = _named_directory()
    return base if base is not None and _is_ours(base) else None


def _named_directory() -> Path | None:
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


_OTHERS, _GROUP = 0o002, 0o020
"""Bits of a folder's mode: who may write."""


def _user() -> int | None:
    """The number of this user; None on systems whose users have none."""
    return os.getuid() if hasattr(os, "getuid") else None


@cache
def _is_ours(base: Path) -> bool:
    """Whether only this user (and root) can write to a folder; one that is not there yet becomes private."""
    with suppress(OSError):
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        status = base.stat()
    except OSError:
        return True  # nothing can be read or written there
    if _user() is None:
        return True
    shared = status.st_mode & _OTHERS or (status.st_mode & _GROUP and status.st_gid != status.st_uid)
    if status.st_uid in (_user(), 0) and not shared:
        return True
    LOG.warning("%s is not used: other users can write to it, and a cache contains machine code", base)
    return False


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
    """Forget what is old at times; called for each program that has been written."""
    if next(_written) % _WRITES == 0:
        forget_old_programs()
        forget_old_objects()


def forget_old_programs(limit: int | None = None) -> None:
    """Remove the programs used longest ago while all together are larger than `limit` bytes."""
    limit = int((1 - OBJECTS_SHARE) * most_bytes()) if limit is None else limit
    base = directory()
    if base is None:
        return
    total = 0
    folders = sorted((base / "programs").iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
    for folder in folders:
        total += sum(f.stat().st_size // f.stat().st_nlink for f in folder.iterdir())
        aside = folder.name.startswith("tmp") and time.time() - folder.stat().st_mtime > STALE
        if total > limit or aside:  # a killed process leaves what it was writing
            shutil.rmtree(folder, ignore_errors=True)


def forget_old_objects(limit: int | None = None) -> None:
    """Remove the objects and notes written first while all together are larger than `limit` bytes."""
    limit = int(OBJECTS_SHARE * most_bytes()) if limit is None else limit
    base = directory()
    if base is None:
        return
    files: list[tuple[float, int, str]] = []
    for folder in (base, base / "notes"):
        remove_stale(folder)
        with suppress(OSError):
            files += [
                (f.stat().st_mtime, f.stat().st_size, f.path) for f in os.scandir(folder) if f.is_file()
            ]
    total = 0
    for _, size, path in sorted(files, reverse=True):
        total += size
        if total > limit:
            with suppress(OSError):
                os.unlink(path)


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
    """Data with its digest, as `read` expects it in a file."""
    return data + hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def read(path: Path) -> bytes | None:
    """The data of a sealed file; None where there is none, or what it holds is not what was written."""
    try:
        sealed_data = path.read_bytes()
    except OSError:
        return None
    return unsealed(sealed_data)


def unsealed(sealed_data: bytes) -> bytes | None:
    """The data of `sealed`; None where it is not what was sealed."""
    data = sealed_data[:-_DIGEST_BYTES]
    return data if sealed(data) == sealed_data else None


def _write(path: Path, data: bytes) -> None:
    with suppress(OSError, GlowError):  # a cache that cannot be written is no cache
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path, tidy=False) as temporary:
            temporary.write_bytes(sealed(data))
