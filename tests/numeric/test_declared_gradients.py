"""Declared gradients in both modes, against calculus by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from derivative_checks import BACKENDS

import glow_compiler as glow


@glow.custom_gradient(lambda d, y, x: d * y * 3.0)
def exponential(x):
    """exp(x), whose gradient is declared as three times itself."""
    return np.exp(x)


@glow.custom_gradient(lambda d, y, a, b: (d * y, 2.0 * d * a))
def weighted(a, b):
    """a b, whose gradient is declared as (y, 2 a)."""
    return a * b


def of_one(t):
    return exponential(t)


def of_two(t):
    return weighted(t, 2.0 * t)


def of_one_array(t):
    return np.sum(exponential(np.array([t, 2.0 * t])))


def of_two_arrays(t):
    return np.sum(weighted(np.array([t, 2.0 * t]), np.array([1.0, t])))


def exponentials(t):
    return np.exp(np.array([t, 2.0 * t]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "first", "second"),
    [
        # y = exp(t): the slope is 3 y, whose own slope 3 y' is 9 y
        (of_one, lambda t: 3 * np.exp(t), lambda t: 9 * np.exp(t)),
        # a = t, b = 2 t: y a' + 2 a b' = y + 4 t, and y' is that once more
        (of_two, lambda t: 2 * t * t + 4 * t, lambda t: 2 * t * t + 4 * t + 4),
        (
            of_one_array,
            lambda t: np.sum(3 * exponentials(t) * [1, 2]),
            lambda t: np.sum(9 * exponentials(t) * [1, 4]),
        ),
        # a = (t, 2 t), b = (1, t): y a' + 2 a b' = (y0, 2 y1 + 4 t), of which y' is (y0, 2 y1 + 4 t) too
        (of_two_arrays, lambda t: 4 * t * t + 5 * t, lambda t: t + 2 * (4 * t * t + 4 * t) + 4),
    ],
)
def test_by_a_number(
    function: Callable[..., Any], first: Callable[..., Any], second: Callable[..., Any], backend: str
) -> None:
    """The second derivative takes the tangent of the value from the declaration."""
    slope = glow.grad(glow.jit(function, backend=backend))
    for t in (0.5, -1.25):
        assert np.isclose(slope(t), first(t), rtol=1e-12)
        assert np.isclose(glow.grad(slope)(t), second(t), rtol=1e-12)


ARRAY, OTHER, ONE = np.array([0.5, -1.0, 2.0]), np.array([1.5, 2.0, -0.5]), np.arange(3.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_by_arrays(backend: str) -> None:
    """The cotangents of each parameter, and those of the gradient."""
    pair = glow.grad(glow.jit(lambda a, b: np.sum(weighted(a, b) * ONE), backend=backend), argnums=(0, 1))
    by_a, by_b = pair(ARRAY, OTHER)
    assert np.allclose(by_a, ONE * ARRAY * OTHER) and np.allclose(by_b, 2 * ONE * ARRAY)
    again = glow.grad(lambda a: np.sum(glow.grad(lambda b: np.sum(exponential(b)))(a) * ONE))
    assert np.allclose(again(ARRAY), 9 * np.exp(ARRAY) * ONE)
