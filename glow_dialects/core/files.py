"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from glow_dialects.core.errors import GlowError

WEIGHTS = ".weights.safetensors"
"""Where the weights of `net.mlir` are: `net.weights.safetensors`."""
STALE = 3600.0
"""Seconds after which a temporary file is what a killed process left."""
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}")


def unreadable(path: object, error: OSError) -> GlowError:
    """The error of a file that cannot be read; where there is none, with the one that is most like it."""
    near = beside(str(path)) if isinstance(error, FileNotFoundError) else None
    hint = f"; did you mean {near}?" if near else ""
    return GlowError(f"{path}: {error.strerror or error}{hint}")


def beside(path: str) -> str | None:
    """The file or folder that is there and whose name is most like that of one that is not."""
    from difflib import get_close_matches

    place = Path(path)
    try:
        names = [p.name for p in place.parent.iterdir()]
    except OSError:
        return None
    near = get_close_matches(place.name, names, 1, 0.7)
    return str(place.with_name(near[0])) if near else None


@contextmanager
def whole(path: Path, tidy: bool = True) -> Generator[Path]:
    """A new file to write in the place of `path`; it becomes `path` when the block ends well, else it goes.

    A link stays one, and a device or pipe is written to. GlowError says why `path` cannot be written.
    With `tidy`, what killed processes left of earlier writes of `path` goes.
    """
    through = path.is_relative_to("/dev") or (path.exists() and not path.is_file())
    target = path if through else Path(os.path.realpath(path))
    folder = Path(tempfile.gettempdir()) if through else target.parent
    temporary = folder / f".{path.name}.{os.urandom(8).hex()}"
    if tidy:
        remove_stale(folder, path.name)
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


def remove_stale(folder: Path, name: str | None = None) -> None:
    """Remove temporary files of killed processes, those of one file or of all."""
    with suppress(OSError):
        for file in os.scandir(folder):
            match = _TEMPORARY.fullmatch(file.name)
            if match is None or name not in (None, match["name"]):
                continue
            with suppress(OSError):
                if file.is_file() and time.time() - file.stat().st_mtime > STALE:
                    os.unlink(file)
