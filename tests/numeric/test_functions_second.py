"""Second and third derivatives of programs of arrays: forward mode over reverse mode, native, fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(5)
W, X = RANDOM.normal(size=(3, 3)) * 0.3, RANDOM.normal(size=(40, 3))


def loop(w: Any, xs: Any) -> Any:
    """A recurrence of more turns than are written out."""
    s = np.zeros(3)
    for x in xs:
        s = np.tanh(w @ s + x)
    return np.sum(s)


def while_large(w: Any, xs: Any) -> Any:
    """Turns that the values decide."""
    s, i = xs[0], 0
    while np.sum(s * s) > 0.01 and i < 40:
        s = np.tanh(w @ s) + xs[i] * 0.01
        i += 1
    return np.sum(s * s)


def recursion(w: Any, xs: Any) -> Any:
    """Not in tail position."""

    def step(n: Any, s: Any) -> Any:
        return s if n == 0 else np.tanh(w @ step(n - 1, s * 0.9)) + xs[n]

    return np.sum(step(6, xs[0]) ** 2)


def closures(w: Any, xs: Any) -> Any:
    """Functions that captured arrays, chosen by values."""
    first, second = (lambda v: np.sin(w @ v)), (lambda v: v * xs[1])
    s = xs[0]
    for i in range(5):
        s = (first if np.sum(s) > i * 0.1 else second)(s)
    return np.sum(s * s * s)


def nested(w: Any, xs: Any) -> Any:
    """A loop in a loop."""
    s = xs[0]
    for i in range(4):
        for j in range(5):
            s = np.tanh(s * w[i % 3] + xs[j])
    return np.sum(s)


PROGRAMS = (loop, while_large, recursion, closures, nested)


def by_weights(program: Callable[..., Any]) -> Callable[..., Any]:
    def norm(w: Any, xs: Any) -> Any:
        return np.sum(glow.grad(program)(w, xs) ** 2) + np.sum(w * xs[0])

    return norm


def by_both(program: Callable[..., Any]) -> Callable[..., Any]:
    def norm(w: Any, xs: Any) -> Any:
        value, (dw, dx) = glow.value_and_grad(program, argnums=(0, 1))(w, xs)
        return value * np.sum(dw * dw) + np.sum(np.sin(dx))

    return norm


def along(f: Callable[..., Any], arguments: tuple[Any, ...], i: int, step: Any) -> float:
    """The central difference of f in a direction of argument i."""
    sides = [f(*(a + h * step if k == i else a for k, a in enumerate(arguments))) for h in (1e-5, -1e-5)]
    return (sides[0] - sides[1]) / 2e-5


@pytest.mark.parametrize("made", [by_weights, by_both])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_second_order(program: Callable[..., Any], made: Callable[..., Any]) -> None:
    """Gradients of what gradients give, on both backends, against differences of that."""
    norm = made(program)
    for i in (0, 1):
        step = RANDOM.normal(size=(W, X)[i].shape)
        expected = along(glow.jit(norm), (W, X), i, step)
        for backend in ("cpu", "interpreter"):
            found = glow.grad(glow.jit(norm, backend=backend), argnums=i)
            assert np.isclose(np.sum(found(W, X) * step), expected, rtol=1e-4, atol=1e-5)
            assert found.report()["instances"][0]["runs on"] == backend


@pytest.mark.parametrize("program", PROGRAMS[:4], ids=lambda p: p.__name__)
def test_third_order(program: Callable[..., Any]) -> None:
    """One gradient more, native."""
    second = by_weights(by_weights(program))
    step = RANDOM.normal(size=W.shape)
    found = glow.grad(second)
    expected = along(glow.jit(second), (W, X), 0, step)
    assert np.isclose(np.sum(found(W, X) * step), expected, rtol=1e-4, atol=1e-5)
    assert found.report()["instances"] == [{"runs on": "cpu", "because": ""}]


def test_by_numbers_inside_arrays() -> None:
    """A gradient of a gradient by a number, of a function that captured what the outer one is taken by."""

    def outer(w: Any, t: Any) -> Any:
        scale = np.sum(w * w)

        def curve(x: Any) -> Any:
            return scale * x**4 + np.sum(w) * x

        bend = glow.grad(glow.grad(curve))
        return bend(t) * 2.0 + glow.grad(curve)(t)

    for backend in ("cpu", "interpreter"):
        dw, dt = glow.grad(glow.jit(outer, backend=backend), argnums=(0, 1))(W, 1.3)
        np.testing.assert_allclose(dw, 2 * W * (24 * 1.3**2 + 4 * 1.3**3) + 1, rtol=1e-10)
        assert np.isclose(dt, np.sum(W * W) * (48 * 1.3 + 12 * 1.3**2), rtol=1e-10)


def test_gradient_function_as_a_value() -> None:
    """A gradient that is captured, and called where another gradient is taken."""

    def outer(w: Any) -> Any:
        slope = glow.grad(lambda v: np.sum(v * v * v * w))

        def inner(v: Any) -> Any:
            return np.sum(slope(v) * w)

        return np.sum(glow.grad(inner)(w * 2.0))

    # slope(v) = 3 v^2 w, inner = sum(3 v^2 w^2), its gradient 6 v w^2 at v = 2 w: 12 w^3
    for backend in ("cpu", "interpreter"):
        found = glow.grad(glow.jit(outer, backend=backend))(W)
        np.testing.assert_allclose(found, 36 * W * W, rtol=1e-10)


def test_stays_small() -> None:
    """What took half a minute to compile was large: the size of it now, 1,488 operations, and some room."""
    found = glow.grad(by_weights(nested))
    found(W, X)
    assert found.report()["operations"] < 3_000
