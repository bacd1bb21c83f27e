"""Iteration: the loops that an operator consists of, and the elements of each tensor that an iteration
uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Along:
    """A dimension that a loop walks: turn i touches `window` elements from `stride * i - pad` on.

    Of these, those before the first element of the tensor and behind its last are padding.
    """

    loop: int
    stride: int = 1
    window: int = 1
    pad: int = 0


Axes = tuple[Along | None, ...]
"""An entry for each dimension of a tensor; None: every turn touches all of it."""


@dataclass(frozen=True)
class Iteration:
    """Loops of some `sizes`, and the part of each result and operand (those that are there) in a turn.

    The turns of a loop that a result follows may run in any order and in tiles: the operator itself, on
    parts of its operands, gives a part of its result. Others are summed, or whatever it does with them.
    `padded` are the loops whose paddings the property `pads` has: all begins, then all ends; `counts` the
    properties that say how many turns a loop has.
    """

    sizes: tuple[int, ...]
    results: tuple[Axes, ...]
    operands: tuple[Axes, ...]
    padded: tuple[int, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()

    @property
    def parallel(self) -> tuple[int, ...]:
        """The loops whose turns are independent: those that every result follows."""
        followed = [{axis.loop for axis in axes if axis is not None} for axes in self.results]
        return tuple(i for i in range(len(self.sizes)) if all(i in loops for loops in followed))


def loops(count: int, without: Iterable[int] = ()) -> Axes:
    """A loop for each dimension, but for some that every turn has whole."""
    skipped = set(without)
    return tuple(None if i in skipped else Along(i) for i in range(count))


def broadcast(shape: Sequence[int], whole: Sequence[int]) -> Axes:
    """The dimensions of a tensor of `shape` that broadcasts to the shape `whole`, which has the loops."""
    ahead = len(whole) - len(shape)
    return tuple(None if n == 1 else Along(ahead + i) for i, n in enumerate(shape))


def pointwise(
    result: Sequence[int], operands: Iterable[Sequence[int]], whole: Iterable[int] = ()
) -> Iteration:
    """The loops over a result's elements, whose operands broadcast to it; some dimensions stay whole."""
    kept = set(whole)

    def axes(shape: Sequence[int]) -> Axes:
        found = broadcast(shape, result)
        return tuple(None if axis is None or axis.loop in kept else axis for axis in found)

    return Iteration(tuple(result), (axes(result),), tuple(map(axes, operands)))


def product(lhs: Sequence[int], rhs: Sequence[int], result: Sequence[int], vectors: int = 0) -> Iteration:
    """[..., N, K] x [..., K, M] -> [..., N, M]: loops of the result, and one over K; `vectors` are [M]."""
    rank = len(result)
    rows, columns, depth = Along(rank - 2), Along(rank - 1), Along(rank)
    stacks = [broadcast(shape[:-2], result[:-2]) for shape in (lhs, rhs)]
    operands = ((*stacks[0], rows, depth), (*stacks[1], depth, columns), *(((columns,),) * vectors))
    return Iteration((*result, lhs[-1]), (loops(rank),), operands)
