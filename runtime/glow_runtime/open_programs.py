"""Programs of any size for an executable: which dimensions are left open, and the programs that do so.

The first shapes that a model meets get a program of their own. When other sizes come, the dimensions that
have differed become symbols (see `glow_dialects.core.extent`), and one program serves all the sizes that
meet what was decided for its examples.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from glow_backends.base import Program
from glow_dialects.core.conditions import Conditions, Symbol
from glow_dialects.core.errors import GlowError
from glow_dialects.core.extent import Extent, symbol

if TYPE_CHECKING:
    from glow_dialects.core.types import Array
    from glow_runtime.executable import ProgramSource, Signature

LOG = logging.getLogger("glow")
Shapes = Mapping[str, tuple[int, ...]]
Contents = Mapping[str, "Array"]
ATTEMPTS = 3
"""How often sizes that turned out fixed, or took no open form, are tried again with others."""
_ALIKE = 512, 16
"""Sizes up to the first, and up to so many times as much, share a program."""
_SHIFTED = 5
"""How far the examples of a second attempt are from the sizes met: equal by chance they would stay equal."""


class OpenPrograms:
    """The open programs of a model, and the sizes that its dimensions have had."""

    def __init__(self, source: ProgramSource) -> None:
        self._source = source
        self._signatures = {s.name: s for s in (*source.inputs, *source.defaults)}
        #: With the inputs and contents that each is specialised on.
        self._programs: list[tuple[object, Program]] = []
        self._met: dict[str, set[int]] = {}
        self._failed: dict[frozenset[str], int] = {}
        self._lock = threading.Lock()

    def find(self, shapes: Shapes, contents: Contents) -> Program | None:
        """A program that is for these shapes."""
        if not self._programs:
            return None
        key = _key(shapes, contents)
        return next((p for known, p in self._programs if known == key and p.fits(shapes)), None)

    def program(self, shapes: Shapes, contents: dict[str, Array]) -> Program | None:
        """A program for these shapes and others: one that there is, or a new one where sizes have differed.

        None where a program of these shapes alone is to be compiled.
        """
        with self._lock:
            return self.find(shapes, contents) or self._attempt(shapes, contents)

    def _attempt(self, shapes: Shapes, contents: dict[str, Array]) -> Program | None:
        dims = self._dims(shapes)
        for name, extent in dims.items():
            self._met.setdefault(name, set()).add(extent)
        differed = frozenset(n for n in dims if len(self._met[n]) > 1 and dims[n] > 1)
        if not differed or self._failed.get(differed, 0) >= ATTEMPTS:
            return None
        if any(p.excludes(shapes) for key, p in self._programs if key == _key(shapes, contents)):
            return None
        for shift in (_SHIFTED, 0):
            if self._failed.get(differed, 0) >= ATTEMPTS:
                return None
            program = self._compiled(shapes, contents, differed, shift)
            if program is not None and program.fits(shapes):
                self._programs.append((_key(shapes, contents), program))
                LOG.info("compiled for any %s", ", ".join(sorted(differed)))
                return program
        self._failed[differed] = self._failed.get(differed, 0) + 1
        return None

    def _compiled(
        self, shapes: Shapes, contents: dict[str, Array], differed: frozenset[str], shift: int
    ) -> Program | None:
        """The program that leaves some dimensions open; None where it would fix one of them, or cannot."""
        conditions = Conditions()
        opened = self._opened(shapes, differed, conditions, shift)
        try:
            program = self._source.open_program(opened, contents)
        except Exception as error:  # whatever has no open form yet: the shapes get a program of their own
            kind = "" if isinstance(error, GlowError) else f"{type(error).__name__}: "
            LOG.debug("no program for any %s: %s%s", ", ".join(sorted(differed)), kind, error)
            if kind:  # other sizes would do no better
                self._failed[differed] = ATTEMPTS
            return None
        if any(s.least == s.most for s in conditions.symbols):
            LOG.debug("no program for any %s: what is compiled fixes a size", ", ".join(sorted(differed)))
            return None
        return program

    def _dims(self, shapes: Shapes) -> dict[str, int]:
        """The open dimensions of the inputs and their sizes, by name."""
        dims: dict[str, int] = {}
        for name, shape in shapes.items():
            for axis, extent in enumerate(shape):
                text = _name(self._signatures[name], axis)
                if text is not None:
                    dims[text] = extent
        return dims

    def _opened(
        self, shapes: Shapes, differed: frozenset[str], conditions: Conditions, shift: int
    ) -> dict[str, tuple[int, ...]]:
        """The shapes with symbols for the dimensions that have differed."""
        dims = self._dims(shapes)
        symbols: dict[str, int] = {
            n: symbol(conditions, n, dims[n] + shift, most=_most(dims[n]))
            for n in sorted(differed)
            if "+" not in n
        }

        def extent(text: str | None, size: int) -> int:
            if text is None or text not in differed:
                return size
            if text in symbols:
                return symbols[text]
            parts = [_part(p, symbols, dims) for p in re.split(r"\s*\+\s*", text)]
            known = [p for p in parts if p is not None]
            total = sum(known)
            fits = len(known) == len(parts) and sum(_actual(p, dims) for p in known) == size
            symbols[text] = total if fits else symbol(conditions, text, size + shift, most=_most(size))
            return symbols[text]

        return {
            name: tuple(extent(_name(self._signatures[name], i), d) for i, d in enumerate(shape))
            for name, shape in shapes.items()
        }


def _most(size: int) -> int:
    """The largest size that a program is used for which was made for another: it suits sizes like that."""
    return max(_ALIKE[0], _ALIKE[1] * size)


def _name(signature: Signature, axis: int) -> str | None:
    """What an open dimension is called; None where the model fixes it."""
    if axis >= len(signature.shape) or signature.shape[axis] is not None:
        return None
    names = signature.names
    return (names[axis] if axis < len(names) else "") or f"{signature.name}.{axis}"


def _part(text: str, symbols: Mapping[str, int], dims: Mapping[str, int]) -> int | None:
    """A term of a sum of dimensions' names and numbers."""
    if text.isdigit():
        return int(text)
    return symbols.get(text, dims.get(text))


def _actual(value: int, dims: Mapping[str, int]) -> int:
    """The size that a term has in the call."""
    if not isinstance(value, Extent):
        return value
    known: Symbol | None = value.symbol
    return -1 if known is None else dims[known.name]


def _key(shapes: Shapes, contents: Contents) -> object:
    """What programs are told apart by beside their sizes: the inputs, and contents of some."""
    return shapes.keys(), {n: a.tobytes() for n, a in contents.items()}
