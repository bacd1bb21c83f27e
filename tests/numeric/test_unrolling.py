"""Loops of arrays whose turns the types tell: which become an instance a turn, and which stay loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

W = np.random.default_rng(0).normal(size=(3, 3)) * 0.5


def halving(turns: int, inner: int = 1) -> Callable[..., Any]:
    """A loop whose counter is halved, so that it is not taken several turns at a time."""

    def total(w):
        n, s = 2**turns, w[0]
        while n > 1:
            for _ in range(inner):
                s = np.tanh(w @ s + n * 1e-3)
            n = n // 2
        return np.sum(s)

    return total


def branching(turns: int) -> Callable[..., Any]:
    """A loop that branches on what the run tells."""

    def total(w):
        n, s = 2**turns, w[0]
        while n > 1:
            s = np.tanh(w @ s) if np.sum(s) > 0 else w[1] * s + n * 1e-3
            n = n // 2
        return np.sum(s)

    return total


def of_numbers(turns: int) -> Callable[..., Any]:
    """A loop without arrays."""

    def total(x):
        n = 2**turns
        while n > 1:
            x = x * 0.5 + n
            n = n // 2
        return x

    return total


def bodies(compiled: Any) -> int:
    """The instances of the body of the outer loop."""
    ((program),) = compiled.program.instances.values()
    assert program.reason == ""
    return Counter(i.name for i in program.types.instances)["total.body.total.loop"]


@pytest.mark.parametrize(
    ("program", "given", "count"),
    [
        (halving(1), W, 1),
        (halving(5), W, 5),
        (halving(33), W, 33),
        (halving(34), W, 1),  # too many turns
        (halving(10, 30), W, 10),
        (halving(30, 30), W, 1),  # not too many, but too much in all
        (branching(3), W, 1),
        (of_numbers(5), 1.5, 1),
    ],
)
def test_turns(program: Callable[..., Any], given: Any, count: int) -> None:
    """The value is Python's either way, and the gradient that of differences."""
    compiled = glow.jit(program)
    assert np.isclose(compiled(given), program(given), rtol=1e-12)
    assert bodies(compiled) == count
    step = np.random.default_rng(1).normal(size=np.shape(given))
    slope = (program(given + 1e-6 * step) - program(given - 1e-6 * step)) / 2e-6
    assert np.isclose(np.sum(glow.grad(program)(given) * step), slope, rtol=1e-5, atol=1e-8)


def by_name(w):
    parts = {"first": w[0], "second": w[1], "third": w[2]}
    s = w[0] * 0.5
    for name, part in parts.items():
        s = np.tanh(s) * part if name != "second" else s + part
    return np.sum(s)


def test_names_of_parts() -> None:
    """Turns over the names of a dict are known, so that each is compared when compiling."""
    compiled = glow.jit(by_name)
    assert np.isclose(compiled(W), by_name(W), rtol=1e-12)
    assert compiled.report()["instances"] == [{"runs on": "cpu", "because": ""}]
