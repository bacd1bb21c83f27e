"""Compiled functions with states, beside the same function in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivative_checks import BACKENDS

import glow_compiler as glow


def _filtered(memory: np.ndarray, x: np.ndarray, count: int, rate: float = 0.5) -> tuple[Any, ...]:
    memory = memory * (1.0 - rate) + x * rate
    count = count + 1
    return np.sum(memory), count * 2, memory, count


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_are_the_next_states(backend: str) -> None:
    """Parameters anywhere, several results, defaults; each state is a caller's own."""
    f = glow.jit(_filtered, backend=backend, states=("memory", "count"))
    r = np.random.default_rng(0)
    states = [f.state(memory=r.standard_normal(3), count=n) for n in range(2)]
    for state in states:
        memory, count = state["memory"], state["count"]
        for call in range(4):
            x = r.standard_normal(3)
            rate = 0.25 * call
            total, double, memory, count = _filtered(memory, x, count, rate)
            got = f(x, rate, state=state) if call % 2 else f(x, rate=rate, state=state)
            np.testing.assert_allclose(got, (total, double), rtol=1e-12)
            np.testing.assert_allclose(state["memory"], memory, rtol=1e-12)
            assert state["count"] == count
    other = states[0].copy()
    f(np.zeros(3), state=other)
    assert (states[0]["count"], other["count"]) == (4, 5)
    other.reset()
    assert other["count"] == 0 and list(other) == ["memory", "count"]


def test_only_states() -> None:
    """A function that gives nothing else, with a first value of its own; a shape may change."""

    @glow.jit(states=("seen",))
    def remember(x: np.ndarray, seen: np.ndarray = np.zeros((0, 2))) -> tuple[np.ndarray]:
        return (np.concatenate((seen, x)),)

    state = remember.state()
    for count in (1, 2, 3):
        assert remember(np.full((1, 2), float(count)), state=state) is None
    np.testing.assert_array_equal(state["seen"], [[1, 1], [2, 2], [3, 3]])


def test_what_is_wrong() -> None:
    """Names, first values, results, and a state that two calls use."""
    f = glow.jit(_filtered, states=("memory", "count"))
    with pytest.raises(
        glow.UnsupportedError, match="_filtered has no parameter 'h'; there are: memory, x, count"
    ):
        glow.jit(_filtered, states=("h",))
    with pytest.raises(glow.UnsupportedError, match="states is a tuple of names, not 'memory'"):
        glow.jit(_filtered, states="memory")
    with pytest.raises(glow.BindingError, match="state 'count' needs a first value"):
        f.state(memory=np.zeros(3))
    with pytest.raises(glow.BindingError, match="has no state 'x'; there are: memory, count"):
        f.state(x=np.zeros(3))
    state = f.state(memory=np.zeros(3), count=0)
    with pytest.raises(glow.BindingError, match="_filtered: missing a required argument: 'x'"):
        f(state=state)
    with state.lock, pytest.raises(glow.BindingError, match="used by another call at the same time"):
        f(np.zeros(3), state=state)
    with pytest.raises(glow.BindingError, match="the state belongs to another function"):
        glow.jit(_filtered, states=("memory",))(np.zeros(3), 1, state=state)

    @glow.jit(states=("h",))
    def forgets(x: float, h: float) -> float:
        return x + h

    kept = forgets.state(h=1.0)
    with pytest.raises(
        glow.BindingError, match="forgets returns no tuple of its results and the next values of h"
    ):
        forgets(1.0, state=kept)
    assert kept["h"] == 1.0 and state["count"] == 0
