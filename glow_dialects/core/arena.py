"""Allocation of buffers in one arena, by their lifetimes."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from math import inf

import numpy as np

Request = tuple[int, int, int]
ALIGNMENT = 64


def max_live(requests: Sequence[Request], alignment: int = ALIGNMENT) -> int:
    """The largest sum of (aligned) sizes live at one step: no plan can be smaller."""
    events: list[tuple[int, int]] = []
    for start, end, size in requests:
        if end > start and size > 0:
            rounded = -(-size // alignment) * alignment
            events += [(start, rounded), (end, -rounded)]
    live = most = 0
    for _, change in sorted(events):
        live += change
        most = max(most, live)
    return most


def plan_offsets(requests: Sequence[Request], alignment: int = ALIGNMENT, search: bool = False) -> list[int]:
    """Offsets in one arena for buffers `(start, end, size)`: life [start, end) in steps, bytes.

    Buffers whose lives overlap get disjoint ranges; every offset is a multiple of `alignment`.
    Several orderings are tried (by size, by size x life, by the pressure of the steps a buffer is
    live in, and as given) and the smallest arena is kept. With `search`, orders near the best one are
    tried, too, while the arena is larger than what lives at once: some hundredths of a second at most.
    Raises ValueError for a negative size, an end before its start, or an alignment that is not positive.
    """
    if alignment < 1:
        raise ValueError(f"alignment must be positive, got {alignment}")
    for start, end, size in requests:
        if size < 0 or end < start:
            raise ValueError(f"request ({start}, {end}, {size}) has a negative size or life")
    sizes = [-(-s // alignment) * alignment if end > start else 0 for start, end, s in requests]
    bound = max_live(requests, alignment)
    rivals = _rivals(requests, sizes)
    best: Placed | None = None
    for order in _orders(requests, sizes):
        best = _placed(requests, sizes, rivals, order, inf if best is None else best[1] - 1) or best
        assert best is not None
        if best[1] <= bound:
            return best[0]
    assert best is not None
    return best[0] if rivals is None or not search else _searched(sizes, rivals, best, bound)


def plan_like(requests: Sequence[Request], known: Sequence[int], most: float) -> list[int] | None:
    """Offsets for buffers whose plan for other sizes is `known`: placed in its order, from the lowest on.

    None where the arena is larger than `most` times what lives at once. Far cheaper than `plan_offsets`.
    """
    sizes = [-(-s // ALIGNMENT) * ALIGNMENT if end > start else 0 for start, end, s in requests]
    order = sorted(range(len(sizes)), key=known.__getitem__)
    placed = _placed(requests, sizes, _rivals(requests, sizes), order, most * max_live(requests))
    return None if placed is None else placed[0]


def _orders(requests: Sequence[Request], sizes: Sequence[int]) -> Iterable[list[int]]:
    indices = list(range(len(requests)))
    pressure = _pressure(requests, sizes)

    def life(i: int) -> int:
        return requests[i][1] - requests[i][0]

    keys: list[Callable[[int], object]] = [
        lambda i: (-pressure[i], -sizes[i], requests[i][0]),
        lambda i: (-sizes[i], -life(i), requests[i][0]),
        lambda i: (-sizes[i] * life(i), requests[i][0]),
        lambda i: (-life(i), -sizes[i]),
        lambda i: (-pressure[i], -life(i), -sizes[i]),
        lambda i: (requests[i][0], -sizes[i]),
        lambda i: (-requests[i][1], -sizes[i]),
    ]
    for key in keys:
        yield sorted(indices, key=key)  # pyright: ignore
    yield indices


def _pressure(requests: Sequence[Request], sizes: Sequence[int]) -> list[int]:
    """For each buffer the largest live total of a step it is live in."""
    steps = sorted({s for s, _, _ in requests})
    where = {s: i for i, s in enumerate(steps)}
    change = [0] * (len(steps) + 1)
    spans: list[tuple[int, int]] = []
    for (start, end, _), size in zip(requests, sizes, strict=True):
        low, high = where[start], bisect_left(steps, end)
        spans.append((low, high))
        change[low] += size
        change[max(low, high)] -= size
    totals: list[int] = []
    live = 0
    for delta in change[:-1]:
        live += delta
        totals.append(live)
    return [max(totals[a:b], default=0) for a, b in spans]


def _rivals(requests: Sequence[Request], sizes: Sequence[int]) -> list[list[int]] | None:
    """For each buffer those that live at one time with it; empty ones have and are none.

    None where there are more than would be searched through even once.
    """
    rivals: list[list[int]] = [[] for _ in requests]
    live: list[int] = []
    count = 0
    for i in sorted((i for i, size in enumerate(sizes) if size), key=lambda i: requests[i][0]):
        live = [j for j in live if requests[j][1] > requests[i][0]]
        count += 2 * len(live)
        if count > SEARCH:
            return None
        for j in live:
            rivals[j].append(i)
        rivals[i].extend(live)
        live.append(i)
    return rivals


Placed = tuple[list[int], int, Sequence[int]]
"""Offsets, the arena's size, and the order that gave them."""


def _place(
    sizes: Sequence[int],
    rivals: Sequence[Sequence[int]],
    order: Sequence[int],
    kept: tuple[Sequence[int], int] = ((), 0),
    most: float = inf,
) -> Placed | None:
    """Place buffers in `order`, each at the lowest gap between the placed ones it overlaps in time.

    `kept`: offsets that the first so many of the order are known to have. None where the arena is larger
    than `most`.
    """
    offsets, first = [-1] * len(sizes), kept[1]
    for i in order[:first]:
        offsets[i] = kept[0][i]
    for i in order[first:]:
        position, size = 0, sizes[i]
        for j in sorted([j for j in rivals[i] if offsets[j] >= 0], key=offsets.__getitem__):
            if offsets[j] - position >= size:
                break
            high = offsets[j] + sizes[j]
            if high > position:
                position = high
        if position + size > most:
            return None
        offsets[i] = position
    return offsets, max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0), order


def _placed(
    requests: Sequence[Request],
    sizes: Sequence[int],
    rivals: Sequence[Sequence[int]] | None,
    order: Sequence[int],
    most: float,
) -> Placed | None:
    """What `_place` gives for all of an order, be the rivals known or too many to be listed."""
    if rivals is not None:
        return _place(sizes, rivals, order, most=most)
    offsets, top = [0] * len(sizes), 0
    low, high, first, last = (np.zeros(len(sizes), np.int64) for _ in range(4))  # by offset
    count = 0
    for i in order:
        start, end, _ = requests[i]
        if not sizes[i]:
            continue
        there = (first[:count] < end) & (last[:count] > start)
        behind = np.maximum.accumulate(np.append(0, high[:count][there]))
        fits = low[:count][there] - behind[:-1] >= sizes[i]
        position = int(behind[fits.argmax() if fits.any() else -1])
        if position + sizes[i] > most:
            return None
        offsets[i], top = position, max(top, position + sizes[i])
        at = int(np.searchsorted(low[:count], position))
        for column, value in ((low, position), (high, position + sizes[i]), (first, start), (last, end)):
            column[at + 1 : count + 1] = column[at:count]
            column[at] = value
        count += 1
    return offsets, top, order


#: Rivals looked at in one search (some 30 ms), and orders tried before it begins again at the first.
SEARCH, PATIENCE = 300_000, 100


def _searched(sizes: Sequence[int], rivals: Sequence[Sequence[int]], start: Placed, bound: int) -> list[int]:
    """The best plan of orders near that of `start`: a buffer that stands out above `bound` comes earlier.

    A change stays where the arena is not larger for it: several are needed at times, each of which alone
    helps nothing. The choice is random, of one seed, so that a program is planned as it was before.
    """
    rng = random.Random(0)
    turns = SEARCH // (len(sizes) + sum(map(len, rivals)))
    best = now = start
    for turn in range(turns):
        if turn % PATIENCE == 0:
            now = start
        offsets, top, order = now
        over = [k for k, i in enumerate(order) if k and offsets[i] + sizes[i] > bound]
        if not over:
            break
        tried = list(order)
        at = rng.choice(over)
        to = rng.randrange(at)
        tried.insert(to, tried.pop(at))
        now = _place(sizes, rivals, tried, (offsets, to), top) or now
        best = min(best, now, key=lambda placed: placed[1])
        if best[1] <= bound:
            break
    return best[0]
