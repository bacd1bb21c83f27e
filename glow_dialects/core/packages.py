"""Extensions from installed packages (entry points); a broken one is ignored with a warning."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from warnings import warn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_T = TypeVar("_T")
_PACKAGES: dict[int, str] = {}
"""The package of each object that was loaded, by its id; loaded objects stay."""


def added(group: str, problem: Callable[[Any], str | None]) -> dict[str, Any]:
    """What packages offer under a group, such as `glow.passes`, by name.

    `problem` says what is wrong with an object, None where nothing is. What cannot be loaded or is wrong is
    left out, with a warning that names its package.
    """
    from importlib import metadata  # takes as long as a small program

    loaded = {entry.name: _loaded(entry, problem) for entry in metadata.entry_points(group=group)}
    return {name: thing for name, thing in loaded.items() if thing is not None}


def package_of(thing: Any) -> str:
    """What stands behind the name of an object: " of package glow-npu 0.1"; nothing for ours."""
    return f" of package {_PACKAGES[id(thing)]}" if id(thing) in _PACKAGES else ""


def answer_of(thing: Any, name: str, what: str, ask: Callable[[], _T], default: _T) -> _T:
    """What an object of a package answers; `default`, with a warning that names both, where it fails."""
    try:
        return ask()
    except Exception as error:  # whatever code of a package does
        told = f"{what} of {name}{package_of(thing)} are left out: {type(error).__name__}: {error}"
        warn(told, RuntimeWarning, stacklevel=3)
        return default


def no_mapping(thing: Any) -> str | None:
    """What keeps an object of a package from being a dict by names."""
    good = isinstance(thing, dict) and all(isinstance(n, str) for n in thing)  # pyright: ignore[reportUnknownVariableType]
    return None if good else f"{thing!r} is no dict by names"


def no_function(thing: Any) -> str | None:
    """What keeps an object of a package from being a function."""
    return None if callable(thing) else f"{thing!r} is no function"


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
            _PACKAGES[id(thing)] = source
            return thing
    what = entry.group.removeprefix("glow.").removesuffix("s").replace("_", " ")
    what = "pass" if what == "passe" else what
    warn(f"{what} '{entry.name}' of package {source} is ignored: {told}", RuntimeWarning, stacklevel=4)
    return None
