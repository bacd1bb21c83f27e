"""Lengths of caches as sizes: inputs whose values follow from sizes, so that programs serve any.

What a program is specialised on is not the number, but the sizes that it is the sum of, as a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from glow_dialects.core.extent import is_open

if TYPE_CHECKING:
    from glow_dialects.core.types import Array

Shapes = Mapping[str, Sequence[int]]


def as_sizes(count: Array, caches: Sequence[str], shapes: Shapes) -> Array:
    """A count as a text: the places of the least of the caches, where it is within these, or they and as
    many as an input has of something. Other counts stay numbers.
    """
    rooms = {c: shapes[c][2] for c in caches if len(shapes.get(c, ())) > 2}
    if not rooms or count.size != 1:
        return count
    cache = min(rooms, key=lambda name: rooms[name])
    more = int(count.item()) - rooms[cache]
    if more <= 0:
        return np.full(count.shape, f"{cache}.2")
    axes = ((name, axis) for name in shapes if name not in rooms for axis in _axes(shapes[name]))
    found = next((f"{name}.{axis}" for name, axis in axes if shapes[name][axis] == more), None)
    return count if found is None else np.full(count.shape, f"{cache}.2\n{found}")


def _axes(shape: Sequence[int]) -> list[int]:
    """The axes of an input: those that count positions, rather than samples, are behind the first."""
    return [*range(1, len(shape)), *range(min(1, len(shape)))]


def as_numbers(
    values: Mapping[str, Array], counts: Mapping[str, np.dtype], shapes: Shapes
) -> dict[str, Array]:
    """Contents with numbers, or extents of open shapes, for the texts of counts of these types."""
    made = dict(values)
    for name, dtype in counts.items():
        if name in made and made[name].dtype.kind == "U":
            parts = (text.rpartition(".") for text in str(made[name].item()).split("\n"))
            total = sum(shapes[of][int(axis)] for of, _, axis in parts)
            whole = np.empty(made[name].shape, object)
            whole[...] = total
            made[name] = whole if is_open((total,)) else whole.astype(dtype)
    return made
