"""Programs for dynamic sizes of an executable: which dimensions are dynamic, and the compiled programs.

The first shapes that a model meets get a program of their own. When other sizes come, the dimensions that
have differed become symbols (see `glow_dialects.core.extent`), and one program serves all the sizes that
meet what was decided for its examples.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from math import gcd, inf
from typing import TYPE_CHECKING

from glow_backends.base import Program
from glow_dialects.core.conditions import Conditions
from glow_dialects.core.errors import GlowError, OpenSizes, ShapeError
from glow_dialects.core.extent import Extent
from glow_dialects.core.forks import ForkLock
from glow_dialects.core.symbols import Symbols, parse_size, symbol
from glow_runtime.program_source import dimension_name

if TYPE_CHECKING:
    from glow_dialects.core.types import Array
    from glow_runtime.program_source import Key, ProgramSource

LOG = logging.getLogger("glow")
Shapes = Mapping[str, tuple[int, ...]]
Contents = Mapping[str, "Array"]
ATTEMPTS = 2
"""How many sizes that could not stay open one after another are each tried, before ever fewer are."""
KEPT = 16
"""Programs of one model: contents that they are specialised on may be others in each call."""
_ALIKE = 512, 16
"""Sizes up to the first, and up to so many times as much, share a program."""
_SHIFTS = range(5, 17)
"""How far examples may be from the sizes met, to be unlike sizes that the model fixes: see `_apart`."""


class OpenPrograms:
    """The open programs of a model, and which of its dimensions have differed from call to call.

    `eager`: every dimension that may differ is taken for one that has.
    """

    def __init__(self, source: ProgramSource, eager: bool = False) -> None:
        self._source, self.eager = source, eager
        self._signatures = {s.name: s for s in (*source.inputs, *source.defaults)}
        self._names = Symbols()
        self._limits = {s.name: s for s in source.symbols}
        #: The rooms of states, which differ from call to call.
        self._rooms = frozenset(() if source.states is None else source.states.rooms)
        #: What the texts of dimensions stand for, None where one is a name and nothing else.
        self._forms: dict[str, Extent | None] = {}
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

    def has(self, program: Program) -> bool:
        """Whether a program is one of them."""
        return any(p is program for _, p in self._programs)

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
        differed = frozenset(n for n in (*self._differed, *self._rooms) if dims.get(n, 0) > 1)
        if self.eager:
            every = frozenset(n for n, size in dims.items() if size > 1)
            if differed != every and self._waits(every):
                self._failures[every] += 1
            else:
                differed = every
        if not differed:
            return None
        key, names = _key(shapes, contents), ", ".join(sorted(differed - self._rooms)) or "state"
        if any(p.excludes(shapes) for known, p in self._programs if known == key):
            raise OpenSizes(f"not any {names}: programs for others are not for these sizes")
        if self._waits(differed):
            self._failures[differed] += 1
            raise OpenSizes(self._reasons[differed])
        reason = "programs for others do not suit these sizes"
        for shift in (_apart([dims[n] for n in differed]), 0):
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

    def _waits(self, differed: frozenset[str]) -> bool:
        """Whether it is too soon for another attempt, where others failed at the cost of a program each.

        It may have been the sizes of the moment that failed: attempts do not end, but come at powers of two.
        """
        failures = self._failures[differed]
        return failures >= ATTEMPTS and failures & (failures - 1) != 0

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
        """The sizes of the open dimensions of the inputs by name, but for those that follow from others."""
        dims: dict[str, int] = {}
        for name, shape in shapes.items():
            for axis, extent in enumerate(shape):
                text = dimension_name(self._signatures[name], axis)
                if text is not None:
                    dims[self._plain(text)] = extent
        for text, size in list(dims.items()):
            form = self._form(text)
            linear = None if form is None else form.linear
            if linear is not None and (size - linear[2]) % linear[0] == 0:
                dims.setdefault(linear[1].name, (size - linear[2]) // linear[0] * linear[1].divisor)
        return {n: d for n, d in dims.items() if not self._follows(n, d, dims)}

    def _follows(self, text: str, size: int, dims: Mapping[str, int]) -> bool:
        """Whether a dimension is what its text says of others, such as `past + 1`."""
        form = self._form(text)
        if form is None or form.symbol is not None:
            return False
        try:
            return parse_size(text, dims.__getitem__) == size
        except (KeyError, ShapeError):
            return False

    def _form(self, text: str) -> Extent | None:
        """The size that the text of a dimension stands for, if it is not a mere name."""
        if text not in self._forms:
            try:
                form = self._names.size(text)
            except ShapeError:
                form = None
            self._forms[text] = form if isinstance(form, Extent) else None
        return self._forms[text]

    def _plain(self, text: str) -> str:
        """A name without its quotes; another text as it is."""
        form = self._form(text)
        single = None if form is None else form.symbol
        return text if single is None else single.name

    def _opened(
        self, shapes: Shapes, differed: frozenset[str], conditions: Conditions, shift: int
    ) -> dict[str, tuple[int, ...]]:
        """The shapes with symbols for the dimensions that have differed."""
        dims = self._dims(shapes)
        known = {n: self._symbol(n, d, conditions, shift) for n, d in sorted(dims.items()) if n in differed}

        def extent(text: str | None, size: int) -> int:
            if text is None:
                return size
            name = self._plain(text)
            if name in dims:
                return known.get(name, size)
            return parse_size(text, lambda name: known.get(name, dims[name]))

        return {
            name: tuple(extent(dimension_name(self._signatures[name], i), d) for i, d in enumerate(shape))
            for name, shape in shapes.items()
        }

    def _symbol(self, name: str, size: int, conditions: Conditions, shift: int) -> int:
        """A symbol for sizes like one that was met, within the limits that the model says."""
        limits = self._limits.get(name)
        if name in self._rooms:
            return symbol(conditions, name, size + shift, most=inf, usual=size)
        if limits is None:
            return symbol(conditions, name, size + shift, most=_most(size), usual=size)
        by = limits.divisor
        least, most = max(2, limits.least * by), min(_most(size), limits.most * by)
        example = size + shift * by
        return symbol(
            conditions, name, example if example <= most else size, least, most, usual=size, divisor=by
        )


def _most(size: int) -> int:
    """The largest size that a program is used for which was made for another: it suits sizes like that."""
    return max(_ALIKE[0], _ALIKE[1] * size)


def _apart(sizes: Iterable[int]) -> int:
    """How far examples are from sizes: what is equal by chance, to a size that the model has or to another,
    would have to stay so. Sizes of models have small factors, so as many examples as can be have none."""
    known = list(sizes)
    return max(_SHIFTS, key=lambda shift: (sum(gcd(n + shift, 6) == 1 for n in known), -shift))


def _key(shapes: Shapes, contents: Contents) -> Key:
    """What programs are told apart by beside their sizes: the inputs, and contents of some."""
    return set(shapes), {n: a.tobytes() for n, a in contents.items()}
