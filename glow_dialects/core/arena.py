"""Places of buffers in one arena, by their lives."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

Request = tuple[int, int, int]


def max_live(requests: Sequence[Request], alignment: int = 64) -> int:
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


def plan_offsets(requests: Sequence[Request], alignment: int = 64) -> list[int]:
    """Offsets in one arena for buffers `(start, end, size)`: life [start, end) in steps, bytes.

    Buffers whose lives overlap get disjoint ranges; every offset is a multiple of `alignment`.
    Several orderings are tried (by size, by size x life, by the pressure of the steps a buffer is
    live in, and as given) and the smallest arena is kept. Raises ValueError for a negative size, an
    end before its start, or an alignment that is not positive.
    """
    if alignment < 1:
        raise ValueError(f"alignment must be positive, got {alignment}")
    for start, end, size in requests:
        if size < 0 or end < start:
            raise ValueError(f"request ({start}, {end}, {size}) has a negative size or life")
    sizes = [-(-s // alignment) * alignment for _, _, s in requests]
    bound = max_live(requests, alignment)
    best: list[int] = []
    best_top = -1
    for order in _orders(requests, sizes):
        offsets, top = _place(requests, sizes, order)
        if best_top < 0 or top < best_top:
            best, best_top = offsets, top
        if best_top <= bound:
            break
    return best


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


def _place(requests: Sequence[Request], sizes: Sequence[int], order: Sequence[int]) -> tuple[list[int], int]:
    """Place buffers in `order`, each at the lowest gap between the placed ones it overlaps in time."""
    offsets = [0] * len(requests)
    placed: list[int] = []
    top = 0
    for i in order:
        start, end, _ = requests[i]
        if sizes[i] == 0 or end == start:
            continue
        busy = sorted(
            (offsets[j], offsets[j] + sizes[j])
            for j in placed
            if requests[j][0] < end and start < requests[j][1]
        )
        position = 0
        for low, high in busy:
            if low - position >= sizes[i]:
                break
            position = max(position, high)
        offsets[i] = position
        placed.append(i)
        top = max(top, position + sizes[i])
    return offsets, top
