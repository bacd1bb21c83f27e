"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from glow_dialects.core.errors import GlowError


@contextmanager
def whole(path: Path) -> Generator[Path]:
    """A new file to write in the place of `path`; it becomes `path` when the block ends well, else it goes.

    A link stays one, and a device or pipe is written to. GlowError says why `path` cannot be written.
    """
    through = path.is_relative_to("/dev") or (path.exists() and not path.is_file())
    target = path if through else Path(os.path.realpath(path))
    folder = Path(tempfile.gettempdir()) if through else target.parent
    temporary = folder / f".{path.name}.{os.urandom(8).hex()}"
    try:
        temporary.touch(exist_ok=False)
        mode = (target if target.exists() else temporary).stat().st_mode & 0o777
        yield temporary
        if through:
            with temporary.open("rb") as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        else:
            temporary.chmod(mode)  # who wrote into it may have made a file of its own
            temporary.replace(target)
    except OSError as error:
        raise GlowError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
