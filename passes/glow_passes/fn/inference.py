"""Inference of the types of a program, by the ways to unroll its loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from glow_dialects.core.errors import GlowError
from glow_dialects.fn.domain import ByRows, NotNative, Type
from glow_passes.fn.element_loops import rolled
from glow_passes.fn.functions import Functions
from glow_passes.fn.source_places import with_line
from glow_passes.fn.specialize import Instance, Specializer
from glow_passes.fn.unrolling import ATTEMPTS, MOST_ROOM, TooLong, Unrolling, deep, plain


def infer(
    functions: Functions,
    name: str,
    arguments: Sequence[Type],
    ahead_only: bool = False,
    straight: bool = True,
    turns: bool = True,
    graph: bool = False,
) -> tuple[Specializer, Instance]:
    """The types of a program: loops of tensors with few turns unrolled, where that is not too much.

    `straight`: loops with branches only where types need it: where shapes or texts differ from turn to turn.
    `turns`: loops of straight bodies become loops of several turns at a time. `graph`: all is to be one
    graph; else loops over elements stay loops.
    A map of which the mapped values decide what is computed goes row by row.
    """
    while True:
        try:
            loops, known, root = set[str](), None, None
            if not graph:
                loops, known, root = rolled(functions, name, arguments, ahead_only)
            if known is not None and root is not None:
                return known, root
            return _unrolled(functions, name, arguments, ahead_only, straight, turns, loops)
        except ByRows as rows:
            functions.by_rows.add(str(rows))


def _unrolled(
    functions: Functions,
    name: str,
    arguments: Sequence[Type],
    ahead_only: bool,
    straight: bool,
    turns: bool,
    loops: set[str],
) -> tuple[Specializer, Instance]:
    ways = [Unrolling(straight=way, turns=turns, rolled=loops) for way in (True, False)][not straight :]
    for unrolling in ways:
        try:
            return _inferred(functions, name, arguments, ahead_only, unrolling)
        except (GlowError, NotNative):
            if unrolling is ways[-1] and not unrolling.crowded:
                raise
    return _inferred(
        functions, name, arguments, ahead_only, Unrolling(straight=False, room=MOST_ROOM, rolled=loops)
    )


def _inferred(
    functions: Functions, name: str, arguments: Sequence[Type], ahead_only: bool, first: Unrolling
) -> tuple[Specializer, Instance]:
    """The types of a program with the loops unrolled that `unrolling` has room for, else without."""
    unrolling, again = first, partial(replace, first, met=False, turned=False)
    for _ in range(ATTEMPTS):
        specializer = Specializer(functions, ahead_only, unrolling)
        try:
            with deep():
                return specializer, specializer.infer(name, arguments)
        except TooLong as long:
            rolled = {*unrolling.rolled, plain(str(long))}
            unrolling = again(rolled=rolled, turns=unrolling.turns)
        except NotNative:
            first.crowded |= unrolling.crowded
            if not unrolling.met and not unrolling.turned:
                raise
            if not unrolling.turned:
                break
            unrolling = again(turns=False, rolled=first.rolled)
        except GlowError as error:
            if not unrolling.turned:
                raise with_line(error) from None
            # values that take another shape each turn
            unrolling = again(turns=False, rolled=first.rolled)
    specializer = Specializer(functions, ahead_only, Unrolling(enabled=False, turns=False))
    return specializer, specializer.infer(name, arguments)
