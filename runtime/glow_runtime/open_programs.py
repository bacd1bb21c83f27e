"""Programs of any size for an executable: which dimensions are left open, and the programs that do so.

The first shapes that a model meets get a program of their own. When other sizes come, the dimensions that
have differed become symbols (see `glow_dialects.core.extent`), and one program serves all the sizes that
meet what was decided for its examples.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from glow_backends.base import Program
from glow_dialects.core.conditions import Conditions, Symbol
from glow_dialects.core.errors import GlowError, OpenSizes
from glow_dialects.core.extent import Extent, symbol
from glow_dialects.core.forks import ForkLock

if TYPE_CHECKING:
    from glow_dialects.core.types import Array
    from glow_runtime.program_source import Key, ProgramSource, Signature

LOG = logging.getLogger("glow")
Shapes = Mapping[str, tuple[int, ...]]
Contents = Mapping[str, "Array"]
ATTEMPTS = 2
"""How often dimensions that could not stay open are tried again with other sizes."""
KEPT = 16
"""Programs of one model: contents that they are specialised on may be others in each call."""
_ALIKE = 512, 16
"""Sizes up to the first, and up to so many times as much, share a program."""
_SHIFTS = 5, 0
"""How far examples are from the sizes met: sizes that are equal to others by chance would have to stay so."""


class OpenPrograms:
    """The open programs of a model, and which of its dimensions have differed from call to call."""

    def __init__(self, source: ProgramSource) -> None:
        self._source = source
        self._signatures = {s.name: s for s in (*source.inputs, *source.defaults)}
        #: With the inputs and contents that each is specialised on.
        self._programs: list[tuple[Key, Program]] = [*source.open_programs]
        self._first: dict[str, int] = {}
        self._differed: set[str] = set()
        self._failures: Counter[frozenset[str]] = Counter()
        self._reasons: dict[frozenset[str], str] = {}
        self._lock = ForkLock()

    def find(self, shapes: Shapes, contents: Contents) -> Program | None:
        """A program that is for these shapes."""
        if not self._programs:
            return None
        key = _key(shapes, contents)
        return next((p for known, p in self._programs if known == key and p.fits(shapes)), None)

    def programs(self) -> list[tuple[Key, Program]]:
        """All of them, with the inputs and contents that each is for."""
        return list(self._programs)

    def meet(self, shapes: Shapes) -> None:
        """Note the sizes of a call."""
        for name, extent in self._dims(shapes).items():
            if self._first.setdefault(name, extent) != extent:
                self._differed.add(name)

    def program(self, shapes: Shapes, contents: dict[str, Array]) -> Program | None:
        """A program for these shapes and others: one that there is, or a new one where sizes have differed.

        None where none have. OpenSizes where sizes cannot be left open: these shapes need their own program.
        """
        with self._lock:
            self.meet(shapes)
            return self.find(shapes, contents) or self._new(shapes, contents)

    def _new(self, shapes: Shapes, contents: dict[str, Array]) -> Program | None:
        dims = self._dims(shapes)
        differed = frozenset(n for n in self._differed if dims.get(n, 0) > 1)
        if not differed:
            return None
        key, names = _key(shapes, contents), ", ".join(sorted(differed))
        if any(p.excludes(shapes) for known, p in self._programs if known == key):
            raise OpenSizes(f"not any {names}: programs for others are not for these sizes")
        if self._failures[differed] >= ATTEMPTS:
            raise OpenSizes(self._reasons[differed])
        reason = "programs for others do not suit these sizes"
        for shift in _SHIFTS:
            try:
                program = self._compiled(shapes, contents, differed, shift)
            except GlowError as error:  # of a model that asks more of its sizes than the example has, perhaps
                reason = str(error).splitlines()[-1].strip(" -")
                continue
            except Exception as error:  # of code that has no open form yet
                reason = str(error) if isinstance(error, OpenSizes) else f"{type(error).__name__}: {error}"
                break
            self._programs.append((key, program))
            del self._programs[:-KEPT]
            program.report.notes["sizes"] = f"any {names}"
            LOG.info("compiled for any %s", names)
            if program.fits(shapes):
                return program
            if program.excludes(shapes):
                raise OpenSizes(f"not any {names}: the program for others is not for these sizes")
        self._failures[differed] += 1
        self._reasons[differed] = f"not any {names}: {reason}"
        LOG.debug("%s", self._reasons[differed])
        raise OpenSizes(self._reasons[differed])

    def _compiled(
        self, shapes: Shapes, contents: dict[str, Array], differed: frozenset[str], shift: int
    ) -> Program:
        """The program that leaves some dimensions open; OpenSizes where it would fix one of them."""
        conditions = Conditions()
        program = self._source.open_program(self._opened(shapes, differed, conditions, shift), contents)
        if program is None:
            raise OpenSizes("the model, or the backend, has no open form")
        return program

    def _dims(self, shapes: Shapes) -> dict[str, int]:
        """The open dimensions of the inputs and their sizes, by name."""
        dims: dict[str, int] = {}
        for name, shape in shapes.items():
            for axis, extent in enumerate(shape):
                text = dimension_name(self._signatures[name], axis)
                if text is not None:
                    dims[text] = extent
        return dims

    def _opened(
        self, shapes: Shapes, differed: frozenset[str], conditions: Conditions, shift: int
    ) -> dict[str, tuple[int, ...]]:
        """The shapes with symbols for the dimensions that have differed."""
        dims = self._dims(shapes)
        symbols: dict[str, int] = {
            n: symbol(conditions, n, dims[n] + shift, most=_most(dims[n]), usual=dims[n])
            for n in sorted(differed)
            if "+" not in n
        }

        def extent(text: str | None, size: int) -> int:
            if text is None or text not in differed:
                return size
            if text in symbols:
                return symbols[text]
            parts = [term_of(p, symbols, dims) for p in re.split(r"\s*\+\s*", text)]
            known = [p for p in parts if p is not None]
            total = sum(known)
            fits = len(known) == len(parts) and sum(_actual(p, dims) for p in known) == size
            if not fits:
                total = symbol(conditions, text, size + shift, most=_most(size), usual=size)
            symbols[text] = total
            return total

        return {
            name: tuple(extent(dimension_name(self._signatures[name], i), d) for i, d in enumerate(shape))
            for name, shape in shapes.items()
        }


def _most(size: int) -> int:
    """The largest size that a program is used for which was made for another: it suits sizes like that."""
    return max(_ALIKE[0], _ALIKE[1] * size)


def dimension_name(signature: Signature, axis: int) -> str | None:
    """What an open dimension is called; None where the model fixes it."""
    if axis >= len(signature.shape) or signature.shape[axis] is not None:
        return None
    names = signature.names
    return (names[axis] if axis < len(names) else "") or f"{signature.name}.{axis}"


def term_of(text: str, symbols: Mapping[str, int], dims: Mapping[str, int]) -> int | None:
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


def _key(shapes: Shapes, contents: Contents) -> Key:
    """What programs are told apart by beside their sizes: the inputs, and contents of some."""
    return set(shapes), {n: a.tobytes() for n, a in contents.items()}
