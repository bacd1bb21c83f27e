"""What installed packages add to Glow: entry points, of which broken ones are left out with a warning."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import Any
from warnings import warn


def added(group: str, problem: Callable[[Any], str | None]) -> dict[str, Any]:
    """What packages offer under a group, such as `glow.passes`, by name.

    `problem` says what is wrong with an object, None where nothing is. What cannot be loaded or is wrong is
    left out, with a warning that names its package.
    """
    loaded = {entry.name: _loaded(entry, problem) for entry in metadata.entry_points(group=group)}
    return {name: thing for name, thing in loaded.items() if thing is not None}


@cache
def _loaded(entry: EntryPoint, problem: Callable[[Any], str | None]) -> Any:
    source = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
    try:
        thing = entry.load()
        told = problem(thing)
    except Exception as error:  # whatever a package does when it is imported
        told = f"{type(error).__name__}: {error}"
    else:
        if told is None:
            return thing
    what = entry.group.removeprefix("glow.").removesuffix("s")
    what = "pass" if what == "passe" else what
    warn(f"{what} '{entry.name}' of package {source} is left out: {told}", RuntimeWarning, stacklevel=4)
    return None
