"""The ways in which the types of a program are inferred, by the instances that its loops get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.fn.domain import NotNative
from glow_passes.fn import specialize
from glow_passes.fn.inference import infer
from glow_runtime.functions import type_of

X = np.ones((3, 3))
LOOP = "total.body.total.loop"


def instances(function: Callable[..., Any], given: Any = X, **ways: bool) -> Counter[str]:
    """How many instances each function of a program has."""
    program = glow.jit(function, backend="interpreter").program
    found, _ = infer(program.functions, program.name, (type_of(given),), **ways)
    return Counter(i.name for i in found.instances)


def halving(turns: int) -> Callable[..., Any]:
    """A straight loop whose counter is halved."""

    def total(x):
        n, s = 2**turns, x
        while n > 1:
            s = np.sin(s) + n
            n = n // 2
        return np.sum(s)

    return total


def branching(turns: int) -> Callable[..., Any]:
    """The same with a branch on what the run tells."""

    def total(x):
        n, s = 2**turns, x
        while n > 1:
            s = s * n if np.sum(s) > n else s + n
            n = n // 2
        return np.sum(s)

    return total


def growing(turns: int) -> Callable[..., Any]:
    """A loop with a branch, whose array grows each turn: as one instance it has no type."""

    def total(x):
        n, s = 2**turns, x
        while n > 1:
            s = np.concatenate([s, x]) if np.sum(s) > n else np.concatenate([s * n, x])
            n = n // 2
        return np.sum(s)

    return total


def counted(x):
    s = x
    for i in range(9):
        s = np.sin(s) * i
    return np.sum(s)


def slope(x):
    return glow.grad(lambda v: v * v * v)(x)


def test_straight_loops() -> None:
    """An instance a turn; where loops branch too, if that is asked for or their types need it."""
    assert instances(halving(5))[LOOP] == instances(halving(5), straight=False)[LOOP] == 5
    assert instances(branching(5))[LOOP] == 1 and instances(branching(5), straight=False)[LOOP] == 5
    assert instances(growing(5))[LOOP] == instances(growing(5), straight=False)[LOOP] == 5
    with pytest.raises(GlowError, match="test_inference.py:.*keep one type and shape"):
        instances(growing(40))


def test_counted_loops() -> None:
    """Several turns at a time, unless that is not wanted."""
    several, single = instances(counted), instances(counted, turns=False)
    assert (several["counted.body.counted.loop.rows_9_by_3"], several["counted.body.counted.loop"]) == (1, 0)
    assert single["counted.body.counted.loop"] == 9


def test_modes_of_gradients() -> None:
    """Of numbers in reverse mode, unless forward mode is asked for."""
    assert instances(slope, 2.0)["slope.lambda.fwd"] == 1 and not instances(slope, 2.0)["slope.lambda.jvp"]
    ahead = instances(slope, 2.0, ahead_only=True)
    assert ahead["slope.lambda.jvp"] == 1 and not ahead["slope.lambda.fwd"]


def test_room_of_straight_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as much as usual; more than that stays a loop."""
    half = (sum(instances(halving(12)).values()) + 1) // 2
    for limit, count in ((half, 12), (half - 1, 1)):
        monkeypatch.setattr(specialize, "MAX_INSTANCES", limit)
        assert instances(halving(12))[LOOP] == count


@pytest.mark.parametrize("limit", [20, 13, 5])
def test_room_where_nothing_else_works(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight times as much as usual for loops that have no type otherwise."""
    monkeypatch.setattr(specialize, "MAX_INSTANCES", limit)
    assert instances(growing(12))[LOOP] == 12


def test_no_room_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is that of the loop as it is written."""
    monkeypatch.setattr(specialize, "MAX_INSTANCES", 4)
    with pytest.raises((GlowError, NotNative), match="keep one type and shape|too many instances"):
        instances(growing(12))


def test_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of several turns that are visited too often give way to loops of single turns."""
    monkeypatch.setattr(specialize, "MAX_VISITS", 50)
    assert instances(counted)["counted.body.counted.loop"] == 9
    monkeypatch.setattr(specialize, "MAX_VISITS", 1)
    with pytest.raises(NotNative, match="take long to settle|too many instances"):
        instances(counted)
