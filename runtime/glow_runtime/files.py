"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Generator[Path]:
    """A file beside `path` to write; it becomes `path` when the block ends well, else it goes."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp's files are private
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
