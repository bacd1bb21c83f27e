"""load_program: an executable of the programs in a file of `Executable.save`."""

from __future__ import annotations

from pathlib import Path

from glow_backends.base import get_backend
from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_runtime.executable import Executable
from glow_runtime.saved import Archive, SavedPrograms


def load_program(path: str | Path, trust: bool = False) -> Executable:
    """The executable that `Executable.save` wrote. It has the programs of the file, and compiles none.

    The file holds machine code, which runs in this process: it must be one that this user saved, as the seal
    in it says, or one whose maker you `trust`. Its digests are checked in both cases.

    Raises GlowError where the file is none, damaged, of another version or not trusted, UnsupportedError
    where this machine lacks what its code needs, ShapeError for inputs that it has no program for.
    """
    archive = Archive(Path(path), trust)
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
        archive.checked()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GlowError(f"{path} is damaged: {error!r}") from None
    return net
