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
from glow_passes.fn import inference, specialize
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


def counted_times(turns: int) -> Callable[..., Any]:
    """A straight loop that counts to a number."""

    def total(x):
        s = x
        for i in range(turns):
            s = np.sin(s) * i
        return np.sum(s)

    return total


def total_beside_branches(x):
    if np.sum(x) > 0:
        f = (lambda v: np.sin(v) + x) if np.sum(x) > 1 else (lambda v: v * 2)
        n, s = 32, f(x)
        while n > 1:
            s = np.sin(s) + n
            n = n // 2
        return np.sum(s)
    return np.sum(x)


def slope(x):
    return glow.grad(lambda v: v * v * v)(x)


def cubes(x):
    return np.sum(x * x * x)


def norm(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the gradient."""
    return lambda x: np.sum(glow.grad(function)(x))


def test_straight_loops() -> None:
    """An instance a turn; where loops branch too, if that is asked for or their types need it."""
    assert instances(halving(5))[LOOP] == instances(halving(5), straight=False)[LOOP] == 5
    assert instances(branching(5))[LOOP] == 1 and instances(branching(5), straight=False)[LOOP] == 5
    found = instances(total_beside_branches)  # what branches is no part of a turn
    assert sum(count for name, count in found.items() if name.endswith(".loop")) == 6
    assert instances(growing(5))[LOOP] == instances(growing(5), straight=False)[LOOP] == 5
    with pytest.raises(GlowError, match="test_inference.py:.*keep one type and shape"):
        instances(growing(40))


def test_counted_loops() -> None:
    """Several turns at a time, unless that is not wanted."""
    several, single = instances(counted), instances(counted, turns=False)
    assert (several["counted.body.counted.loop.rows_9_by_3"], several["counted.body.counted.loop"]) == (1, 0)
    assert single["counted.body.counted.loop"] == 9
    one, two = instances(counted_times(1)), instances(counted_times(2))
    assert one[LOOP] == 1 and two[f"{LOOP}.rows_2"] == 1
    assert not any(".rows" in name for name in (*one, *instances(counted_times(9), 2.0)))


@pytest.mark.parametrize(("order", "chunk"), [(0, 3), (1, 3), (2, 1)])
def test_counted_loops_of_derivatives(order: int, chunk: int) -> None:
    """The higher the order, the fewer turns at a time."""
    function = counted_times(9)
    for _ in range(order):
        function = norm(function)
    counts = {n.partition(".rows_")[2]: k for n, k in instances(function).items() if ".rows_" in n}
    assert set(counts.values()) == {1}
    found = set(counts)
    assert {name.partition(".")[0] for name in found} == {f"9_by_{chunk}"}
    assert found >= [set[str](), {"9_by_3.fwd"}, {"9_by_1.fwd.jvp", "9_by_1.bwd.jvp"}][order]


def test_modes_of_gradients() -> None:
    """Of numbers in reverse mode, unless forward mode is asked for."""
    assert instances(slope, 2.0)["slope.lambda.fwd"] == 1 and not instances(slope, 2.0)["slope.lambda.jvp"]
    ahead = instances(slope, 2.0, ahead_only=True)
    assert ahead["slope.lambda.jvp"] == 1 and not ahead["slope.lambda.fwd"]


@pytest.mark.parametrize(
    ("function", "given", "gradients"),
    [
        (slope, 2.0, {".alone": 1}),
        (lambda x: glow.grad(slope)(x), 2.0, {".either": 1, ".ahead": 1, ".jvp": 1}),
        (norm(cubes), X, {".alone": 1}),
        (norm(norm(cubes)), X, {".either": 1, "": 2, ".fwd": 1, ".bwd": 1, ".whole.jvp": 1}),
        (
            norm(norm(norm(cubes))),
            X,
            {
                **{".either": 1, "": 3, ".fwd": 2, ".bwd": 2, ".whole.jvp": 2},
                **{".jvp": 1, ".fwd.jvp": 1, ".bwd.jvp": 1, ".whole.jvp.jvp": 1},
            },
        ),
    ],
    ids=["number", "number twice", "array", "array twice", "array three times"],
)
def test_forms_of_gradients(function: Callable[..., Any], given: Any, gradients: dict[str, int]) -> None:
    """Of gradients the types choose the mode: forward for numbers, for arrays forward over reverse."""
    found = instances(function, given)
    assert {n.removeprefix("grad.1.0"): k for n, k in found.items() if n.startswith("grad.")} == gradients


def counted_and_halved(x):
    s = x
    for i in range(9):
        s = np.sin(s) * i
    n = 2**40
    while n > 1:
        s = np.sin(s) + n
        n = n // 2
    return np.sum(s)


def test_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of too many turns stays one, and others do not; after too many attempts all stay."""

    counted, halved = (f"counted_and_halved.body{n}.counted_and_halved.loop{n}" for n in ("", "_1"))
    found = instances(counted_and_halved)
    assert (found[f"{counted}.rows_9_by_3"], found[halved]) == (1, 1)
    monkeypatch.setattr(inference, "ATTEMPTS", 1)
    found = instances(counted_and_halved)
    assert (found[counted], found[halved]) == (1, 1)


def growing_counted(x):
    s = x
    for i in range(40):
        s = np.concatenate([s, x * i])
    return np.sum(s)


@pytest.mark.parametrize("function", [growing(40), growing_counted])
def test_message(function: Callable[..., Any]) -> None:
    """The line of text stands under it, whatever was tried before."""
    with pytest.raises(GlowError, match=r"keep one type and shape.*\n    (n|s|while|for) "):
        instances(function)


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
