"""Windows of one spatial axis as those of two, of which the first has size 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class Window(TypedDict):
    """How windows lie: pads are begins, then ends."""

    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int]


def pair(sizes: Sequence[int], missing: int) -> tuple[int, int]:
    """Two axes of one or two; a missing first one has the neutral value."""
    return (missing, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


def pads_of_two(pads: Sequence[int]) -> tuple[int, int, int, int]:
    """Pads, begins then ends, of one or two axes as those of two."""
    half = len(pads) // 2
    return (*pair(pads[:half], 0), *pair(pads[half:], 0))


def window(strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]) -> Window:
    """A window over one or two axes as one over two."""
    return Window(strides=pair(strides, 1), pads=pads_of_two(pads), dilations=pair(dilations, 1))
