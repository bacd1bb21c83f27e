"""load_program: an executable of the programs in a file of `Executable.save`."""

from __future__ import annotations

from pathlib import Path

from glow_backends.base import get_backend
from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_runtime.executable import Executable
from glow_runtime.saved import Archive, SavedPrograms


def load_program(path: str | Path) -> Executable:
    """The executable that `Executable.save` wrote. It has the programs of the file, and compiles none.

    Raises GlowError where the file is none, damaged or of another version, UnsupportedError where this
    machine lacks what its code needs, ShapeError for inputs that it has no program for.
    """
    archive = Archive(Path(path))
    manifest = archive.manifest
    try:
        backend = get_backend(manifest["backend"])
        lacking = backend.lacks(manifest["needs"])
        if lacking:
            raise UnsupportedError(
                f"{path} holds code for processors with {', '.join(lacking)}, which this one has not: "
                "compile the model here, or with cpu= for the processors that are to run it"
            )
        net = Executable(SavedPrograms(archive, backend, manifest))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GlowError(f"{path} is damaged: {error!r}") from None
    return net
