"""Pipeline: the passes of a compilation in phases, which users change before they compile."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from xdsl.passes import ModulePass

from glow_backends.base import Backend, get_backend
from glow_backends.phases import phases
from glow_dialects.core.errors import UnsupportedError
from glow_passes.pipeline import match_integers


@dataclass(frozen=True)
class Pipeline:
    """A list of passes in phases. It is immutable: each method returns a new pipeline.

    If a pass occurs several times, `remove` and `replace` affect all of them, `insert_before` the first and
    `insert_after` the last.

    Args:
        phases: Pairs of a name and passes; usually made by `Pipeline.default`.

    Examples:
        >>> pipeline = glow.Pipeline.default("cpu").remove("glow-cpu-images")
        >>> "glow-cpu-images" in pipeline.names
        False
    """

    phases: tuple[tuple[str, tuple[ModulePass, ...]], ...]

    @staticmethod
    def default(backend: str | Backend = "cpu", **options: Any) -> Pipeline:
        """The pipeline of a backend, which is named (with its `options`) or given."""
        chosen = get_backend(backend, **options) if isinstance(backend, str) else backend
        return Pipeline(tuple((name, tuple(passes)) for name, passes in phases(chosen)))

    @property
    def passes(self) -> tuple[ModulePass, ...]:
        """All passes in order."""
        return tuple(p for _, passes in self.phases for p in passes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the passes in order."""
        return tuple(p.name for p in self.passes)

    def remove(self, name: str) -> Self:
        """Without a pass."""
        return self.replace(name)

    def replace(self, name: str, *passes: ModulePass) -> Self:
        """With others in place of a pass."""
        self._index(name)
        return self._rewritten(lambda _, p: passes if p.name == name else (p,))

    def insert_before(self, name: str, *passes: ModulePass) -> Self:
        """With passes before one: the first of its name."""
        at = self._index(name)
        return self._rewritten(lambda i, p: (*passes, p) if i == at else (p,))

    def insert_after(self, name: str, *passes: ModulePass) -> Self:
        """With passes behind one: the last of its name."""
        self._index(name)
        at = len(self.names) - 1 - self.names[::-1].index(name)
        return self._rewritten(lambda i, p: (p, *passes) if i == at else (p,))

    def append(self, *passes: ModulePass) -> Self:
        """With passes at the end."""
        return type(self)((*self.phases, ("appended", passes)))

    def exact(self) -> Self:
        """With quantised operators of a model in float, by their definitions, not in integers."""
        return self.replace("glow-match-qdq", *match_integers(exact=True))

    def key(self) -> str:
        """What tells this pipeline from others: passes, options, and the code of passes of users."""
        digest = hashlib.sha256()
        for item in self.passes:
            digest.update(f"{type(item).__module__}.{type(item).__qualname__} {item!r}\n".encode())
            if not type(item).__module__.startswith("glow_"):
                digest.update(_code(type(item)))
        return f"pipeline {digest.hexdigest()}"

    def __str__(self) -> str:
        return ",".join(str(p.spec()) for p in self.passes)

    def _index(self, name: str) -> int:
        if name not in self.names:
            from difflib import get_close_matches

            near = get_close_matches(name, self.names, 3)
            hint = f", did you mean {' or '.join(dict.fromkeys(near))}" if near else ""
            known = ", ".join(dict.fromkeys(self.names))
            raise UnsupportedError(f"the pipeline has no pass '{name}'{hint}; there are: {known}")
        return self.names.index(name)

    def _rewritten(self, change: Callable[[int, ModulePass], Sequence[ModulePass]]) -> Self:
        """With each pass, of a number, replaced by some."""
        rewritten: list[tuple[str, tuple[ModulePass, ...]]] = []
        number = 0
        for phase, passes in self.phases:
            kept: list[ModulePass] = []
            for item in passes:
                kept += change(number, item)
                number += 1
            rewritten.append((phase, tuple(kept)))
        return type(self)(tuple(rewritten))


def _code(kind: type[ModulePass]) -> bytes:
    """The text of the file that a pass of a user is written in; its code where there is no file."""
    try:
        return inspect.getsource(inspect.getmodule(kind) or kind).encode()
    except (OSError, TypeError):
        return kind.apply.__code__.co_code + repr(kind.apply.__code__.co_consts).encode()
