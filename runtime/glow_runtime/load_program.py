"""load_program: an executable of the programs in a file of `Executable.save`."""

from __future__ import annotations

from pathlib import Path

from glow_backends.base import get_backend
from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_runtime.executable import Executable
from glow_runtime.saved import Archive, SavedPrograms


def load_program(path: str | Path, trust: bool = False) -> Executable:
    """Load a file that `Executable.save` wrote, without compiling anything.

    The file contains machine code, which runs in this process. So it must have the signature of this user's
    key, unless `trust` is set. Its checksums are always checked.

    Args:
        path: The file, usually .glow.
        trust: Also load a file that another user saved.

    Returns:
        An Executable with the programs of the file.

    Raises:
        GlowError: The file is damaged, of another version, not a saved program, or not trusted.
        UnsupportedError: This machine lacks features that the code needs.
        ShapeError: Raised by a run whose shapes have no program in the file.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> g.save(g.relu(g.placeholder("x", (2,))), "y")
        >>> glow.compile(g).save("net.glow")
        >>> glow.load_program("net.glow").run({"x": np.array([-1, 2], np.float32)})["y"].tolist()
        [0.0, 2.0]
    """
    archive = Archive(Path(path), trust)
    manifest = archive.manifest
    try:
        backend = get_backend(manifest["backend"])
        lacking = backend.lacks(manifest["needs"])
        if lacking:
            raise UnsupportedError(
                f"{path} contains code for processors with {', '.join(lacking)}, which this one does not "
                "have: compile the model here, or with cpu= for the target processors"
            )
        net = Executable(SavedPrograms(archive, backend, manifest))
        archive.checked()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GlowError(f"{path} is damaged: {error!r}") from None
    return net
