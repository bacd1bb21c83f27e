"""The seal of files that hold machine code: made with this user's key, so that none is taken for another's.

The key is a file of 32 random bytes that only its user can read: GLOW_KEY_FILE, else `key` in the folder
`glow` of the user's configuration, made when the first file is sealed.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import stat
from pathlib import Path

from glow_backends.cpu import cache
from glow_dialects.core.errors import GlowError

_BYTES = 32
_LARGE = 16 << 20
"""Bytes of files whose digests take long."""
LOG = logging.getLogger("glow")


def key_file() -> Path | None:
    """Where the key is; None where there is no home folder."""
    if named := os.environ.get("GLOW_KEY_FILE"):
        return Path(named)
    base = Path(os.environ.get("XDG_CONFIG_HOME") or "")
    try:
        return (base if base.is_absolute() else Path.home() / ".config") / "glow" / "key"
    except RuntimeError:
        return None


def seal(data: bytes) -> str:
    """The seal of data, with a new key if there is none yet; empty where no key can be kept."""
    key = _key() or _new_key()
    return "" if key is None else _seal(key, data)


def is_sealed(data: bytes, made: str) -> bool:
    """Whether a seal is that of data and this user's key."""
    key = _key()
    return key is not None and hmac.compare_digest(_seal(key, data).encode(), made.encode())


def keep_unchanged(path: Path) -> None:
    """Note that a file is as it was saved, so that its next start need not read it twice."""
    if (found := _state(path)) is not None:
        cache.keep_note(found, "checked")


def is_unchanged(path: Path) -> bool:
    """Whether a file that only this user can write has been noted, and not been written since."""
    return (found := _state(path)) is not None and cache.note(found) is not None


def _state(path: Path) -> str | None:
    """A large file of this user's: which one it is, and when it was last changed."""
    try:
        status = path.stat()
    except OSError:
        return None
    if status.st_size < _LARGE or not hasattr(os, "getuid"):
        return None
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022:
        return None
    times = status.st_mtime_ns, status.st_ctime_ns
    return f"saved {status.st_dev} {status.st_ino} {status.st_size} {times}"


def _seal(key: bytes, data: bytes) -> str:
    return hmac.digest(key, data, "sha256").hex()


def _key() -> bytes | None:
    """The key; GlowError for a file that others can read or that is no key."""
    file = key_file()
    try:
        if file is None:
            return None
        with file.open("rb") as source:
            status = os.fstat(source.fileno())
            key = source.read(1 << 16)
    except OSError:
        return None
    if hasattr(os, "getuid"):
        if status.st_uid not in (os.getuid(), 0):
            raise GlowError(f"{file}: the key is another user's; remove it, or name one in GLOW_KEY_FILE")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise GlowError(f"{file}: others can read the key; chmod 600 it, or remove it if they have")
    if len(key) < _BYTES:
        raise GlowError(f"{file}: this is no key: {len(key)} bytes, expected {_BYTES}; remove it")
    return key


def _new_key() -> bytes | None:
    """A new key, or that of a process that was faster."""
    file = key_file()
    if file is None:
        return None
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(secrets.token_bytes(_BYTES))
        try:
            os.link(temporary, file)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    except OSError as error:
        LOG.warning("%s: no key can be kept there (%s): programs are saved without a seal", file, error)
        return None
    return _key()
