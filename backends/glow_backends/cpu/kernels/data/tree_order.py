"""The memory order of decision-tree nodes: nodes on a common path are close together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glow_dialects.core.types import Array


class Order(NamedTuple):
    """Nodes in pairs, the branches of a node; a root makes a pair with nothing."""

    #: The node at each place, -1 for nothing.
    nodes: Array
    #: Places from each node to its left branch, -1 for leaves; the right branch is the next.
    ways: Array
    #: The place of each root.
    roots: Array


class _Level(NamedTuple):
    """Pairs that are equally many branches below their roots."""

    #: Nodes [pairs, 2].
    nodes: Array
    #: Places in `nodes` (flat) of those with branches, whose pairs are those of the next level, in order.
    inner: Array


def order_of(left: Array, roots: Array) -> Order:
    """A pair, the pairs below it, then in the same way each of the pairs below these.

    So two questions are asked of one line of the cache, or of two next to each other. A node stands as often
    as a way leads to it.
    """
    levels = _levels(left, roots)
    sizes = _sizes(levels)
    places = [np.cumsum(sizes[0]) - sizes[0]]
    for k in range(0, len(levels), 2):
        below = levels[k].inner // 2  # for each pair of the next level the place of its parents
        places.append(places[k][below] + 1 + _before(np.ones(len(below), np.int64), below))
        if k + 1 < len(levels):
            parents = levels[k + 1].inner // 2
            own = below[parents]
            room = 1 + np.bincount(below, minlength=len(sizes[k]))
            places.append(places[k][own] + room[own] + _before(sizes[k + 2], own))
    nodes = np.full(2 * int(sizes[0].sum()), -1)
    ways = np.full(len(nodes), -1)
    for k, level in enumerate(levels):
        at = np.stack([2 * places[k], 2 * places[k] + 1], 1).reshape(-1)
        nodes[at] = level.nodes.reshape(-1)
        ways[at[level.inner]] = 2 * places[k + 1] - at[level.inner]
    return Order(nodes, ways, 2 * places[0])


def _levels(left: Array, roots: Array) -> list[_Level]:
    nodes = np.stack([roots, np.full(len(roots), -1)], 1).astype(np.int64)
    levels = list[_Level]()
    while len(nodes):
        flat = nodes.reshape(-1)
        inner = np.flatnonzero((flat >= 0) & (left[flat] != flat))
        levels.append(_Level(nodes, inner))
        below = left[flat[inner]].astype(np.int64)
        nodes = np.stack([below, below + 1], 1)
    return levels


def _sizes(levels: list[_Level]) -> list[Array]:
    """Pairs at and below each pair of each level; then those of two levels that are empty."""
    sizes: list[Array] = [np.zeros(0, np.int64)] * 2
    for level in reversed(levels):
        below = np.bincount(level.inner // 2, sizes[0], len(level.nodes))
        sizes.insert(0, 1 + below.astype(np.int64))
    return sizes


def _before(sizes: Array, groups: Array) -> Array:
    """What stands before each member of its group; groups are in order."""
    sums = np.cumsum(sizes) - sizes
    return sums - sums[np.searchsorted(groups, groups)] if len(sums) else sums
