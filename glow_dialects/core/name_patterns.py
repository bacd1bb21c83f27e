"""Selection of names by patterns: `*` and `?` as in file names, and `!` to exclude."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from glow_dialects.core.errors import GlowError


def selected(names: Collection[str], patterns: Sequence[str], what: str = "weight") -> list[str]:
    """The names that a pattern matches and none with `!` does; with `!` only, all the others.

    Raises GlowError for a pattern that matches no name.
    """
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern.removeprefix("!")) for name in names):
            raise GlowError(f"no {what} matches '{pattern}'; there are: {', '.join(names) or 'none'}")
    wanted = [p for p in patterns if not p.startswith("!")] or ["*"]
    unwanted = [p[1:] for p in patterns if p.startswith("!")]
    return [
        name
        for name in names
        if any(fnmatchcase(name, p) for p in wanted) and not any(fnmatchcase(name, p) for p in unwanted)
    ]
