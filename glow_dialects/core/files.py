"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from glow_dialects.core.errors import GlowError


@contextmanager
def whole(path: Path) -> Generator[Path]:
    """A new file to write in the place of `path`; it becomes `path` when the block ends well, else it goes.

    A link stays one, and a device or pipe is written to. GlowError says why `path` cannot be written.
    """
    through = path.is_relative_to("/dev") or (path.exists() and not path.is_file())
    target = path if through else Path(os.path.realpath(path))
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=None if through else target.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        if through:
            with temporary.open("rb") as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        else:
            temporary.chmod(_mode(target))  # mkstemp's files are private
            temporary.replace(target)
    except OSError as error:
        raise GlowError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _mode(target: Path) -> int:
    """Permissions of the file there is, or those of a new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
