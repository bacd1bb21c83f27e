"""Delta debugging: the smallest part of something that is still wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest(items: Sequence[T], wrong: Callable[[list[T]], bool]) -> list[T]:
    """A part of `items`, all of which are wrong, of which nothing more can be left out.

    Halves are tried first, then what remains without a quarter, an eighth, and so on to single items.
    """
    rest = list(items)
    parts = 2
    while len(rest) > 1:
        found = _part(rest, parts, wrong)
        if found is not None:
            rest, parts = found, 2
            continue
        found = _without(rest, parts, wrong)
        if found is not None:
            rest, parts = found, max(parts - 1, 2)
        elif parts >= len(rest):
            break
        else:
            parts = min(2 * parts, len(rest))
    return rest


def _chunks(items: list[T], parts: int) -> list[tuple[int, int]]:
    bounds = [len(items) * i // parts for i in range(parts + 1)]
    return list(zip(bounds, bounds[1:], strict=False))


def _part(items: list[T], parts: int, wrong: Callable[[list[T]], bool]) -> list[T] | None:
    """One of equal parts that is wrong by itself; the last first, where faults show."""
    for low, high in reversed(_chunks(items, parts)):
        if wrong(items[low:high]):
            return items[low:high]
    return None


def _without(items: list[T], parts: int, wrong: Callable[[list[T]], bool]) -> list[T] | None:
    """What is wrong still without one of equal parts."""
    if parts == 2:  # the halves themselves
        return None
    for low, high in reversed(_chunks(items, parts)):
        rest = items[:low] + items[high:]
        if wrong(rest):
            return rest
    return None
