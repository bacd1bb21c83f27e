"""Places of buffers in an arena: never on each other, and close to what lives at once."""

from __future__ import annotations

import random
import time
from itertools import combinations

import numpy as np
import pytest

from glow_dialects.core import arena
from glow_dialects.core.arena import Request, max_live, plan_like, plan_offsets

K = 64
#: Activations of a residual network with two stages: no order by size, life or pressure is best.
RESIDUAL: list[Request] = [
    (start, end, parts * K)
    for start, end, parts in (
        *((0, 3, 2), (2, 14, 8), (7, 9, 8), (8, 11, 2), (10, 13, 2)),
        *((12, 22, 8), (20, 29, 8), (26, 38, 4), (28, 30, 4)),
    )
]


def top_of(requests: list[Request], offsets: list[int]) -> int:
    """The arena's size; an error where two live buffers share a byte."""
    live = [(r, o) for r, o in zip(requests, offsets, strict=True) if r[0] < r[1] and r[2]]
    for (a, x), (b, y) in combinations(live, 2):
        if a[0] < b[1] and b[0] < a[1]:
            assert x + a[2] <= y or y + b[2] <= x, (a, x, b, y)
    return max(o + -(-size // K) * K for (_, _, size), o in live)


def some(count: int, seed: int) -> list[Request]:
    """Random buffers, empty ones among them."""
    rng = random.Random(seed)
    starts = [rng.randrange(2 * count) for _ in range(count)]
    return [(s, s + rng.randrange(30), rng.choice((0, 1, 64, 128, 640, 1024, 4096))) for s in starts]


def test_search_reaches_what_lives_at_once() -> None:
    """Orders near the best one find the plan that none of those by a rule has."""
    bound = max_live(RESIDUAL)
    assert top_of(RESIDUAL, plan_offsets(RESIDUAL)) > bound
    assert top_of(RESIDUAL, plan_offsets(RESIDUAL, search=True)) == bound


@pytest.mark.parametrize("seed", range(10))
def test_plans_are_right(seed: int) -> None:
    """Random lives: nothing overlaps, the search is never larger, and ends soon."""
    requests = some(200, seed)
    start = time.process_time()
    searched = top_of(requests, plan_offsets(requests, search=True))
    assert time.process_time() - start < 5
    assert max_live(requests) <= searched <= top_of(requests, plan_offsets(requests))


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_serves_for_other_sizes(seed: int) -> None:
    """The order of a plan for some sizes is one for others: right, and no larger than is asked for."""
    requests = some(30, seed)
    known = plan_offsets(requests)
    others = [(start, end, size * 3 + 64 * (size > 100)) for start, end, size in requests]
    bound = max_live(others)
    found = plan_like(others, known, 2.0)
    assert found is not None and top_of(others, found) <= 2.0 * bound
    assert plan_like(others, known, 0.5) is None
    again = plan_like(requests, known, 2.0)
    assert again is not None and top_of(requests, again) <= top_of(requests, known)


def test_plans_repeat() -> None:
    """A program is planned as it was before."""
    requests = some(120, 3)
    assert plan_offsets(requests, search=True) == plan_offsets(requests, search=True)


@pytest.mark.parametrize("request_", [(0, 1, -1), (3, 2, 8)])
def test_wrong_requests(request_: Request) -> None:
    """Sizes and lives that are none, and an alignment of 0."""
    with pytest.raises(ValueError, match="negative size or life"):
        plan_offsets([request_])
    with pytest.raises(ValueError, match="alignment must be positive"):
        plan_offsets([(0, 1, 8)], alignment=0)


def test_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rivals are too many to be listed, places are the same."""
    rng = np.random.default_rng(3)
    starts = rng.integers(0, 40, 60)
    ends = starts + rng.integers(0, 25, 60)
    sizes = rng.choice([0, 1, 64, 100, 640, 3000], 60)
    requests = list(zip(starts.tolist(), ends.tolist(), sizes.tolist(), strict=True))
    known = plan_offsets(requests)
    again = plan_like(requests, known, 3.0)
    monkeypatch.setattr(arena, "SEARCH", -1)
    assert plan_offsets(requests, search=True) == known
    assert plan_like(requests, known, 3.0) == again
