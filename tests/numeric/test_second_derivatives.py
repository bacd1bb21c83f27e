"""Gradients of programs that take gradients, against what calculus gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from derivative_checks import BACKENDS

import glow_compiler as glow

W = np.random.default_rng(3).normal(size=3)
ONE, TWO = np.arange(3.0), np.array([2.0, -1.0, 0.5])


def cubes(w):
    return np.sum(w * w * w)


def product(v, w):
    return np.sum(v * v * w * w * w)


def of_value_and_gradient(w):
    value, slope = glow.value_and_grad(cubes)(w)
    return value * 2 + np.sum(slope * ONE)


def of_several(w):
    value, (by_v, by_w) = glow.value_and_grad(product, argnums=(0, -1))(w, w)
    return value * np.sum(by_v * ONE) + np.sum(by_w * TWO)


def by_one_twice(w):
    first, second = glow.grad(cubes, argnums=(0, 0))(w)
    return np.sum(first * ONE) + np.sum(second * TWO)


def by_the_last_alone(w):
    return np.sum(glow.grad(lambda v, u: np.sum(v * u * u), argnums=-1)(TWO, w) * ONE)


def captured(w):
    slope = glow.grad(cubes)
    return np.sum((lambda v: slope(v) * v)(w))


def captured_inside(w):
    slope = glow.grad(cubes)
    return np.sum(glow.grad(lambda v: np.sum(slope(v) * v))(w) * ONE)


def captured_twice(w):
    slope = glow.grad(lambda v: np.sum(glow.grad(cubes)(v) * TWO))
    return np.sum(glow.grad(lambda v: np.sum(slope(v) * v))(w) * ONE)


def one_of_two(w):
    f = (lambda v: np.sum(v * v * w)) if np.sum(w * w) > 0 else (lambda v: np.sum(v * w))
    return np.sum(glow.grad(lambda v: f(v * 2))(w))


def the_other(w):
    f = (lambda v: np.sum(v * v * w)) if np.sum(w * w) < 0 else (lambda v: np.sum(v * w))
    return np.sum(glow.grad(lambda v: f(v * 2))(w))


def by_number(w):
    return glow.grad(lambda t: np.sum(w * w) * t * t)(3.0)


def of_several_slope(w):
    value, by_v = np.sum(w**5), 2 * w**4
    return 5 * w**4 * np.sum(by_v * ONE) + value * 8 * w**3 * ONE + 12 * w**3 * TWO


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (of_value_and_gradient, 6 * W**2 + 6 * W * ONE),
        (of_several, of_several_slope(W)),
        (by_one_twice, 6 * W * (ONE + TWO)),
        (by_the_last_alone, 2 * TWO * ONE),
        (captured, 9 * W**2),
        (captured_inside, 18 * W * ONE),
        (captured_twice, 12 * TWO * ONE),
        (one_of_two, 16 * W),
        (the_other, np.full(3, 2.0)),
        (by_number, 12 * W),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_gradient(function: Callable[..., Any], slope: Any, backend: str) -> None:
    """The gradient, native where that is asked for."""
    found = glow.grad(glow.jit(function, backend=backend))
    assert np.allclose(found(W), slope, rtol=1e-12)
    assert found.report()["instances"][0]["runs on"] == backend


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "value"),
    [
        (of_several, np.sum(W**5) * np.sum(2 * W**4 * ONE) + np.sum(3 * W**4 * TWO)),
        (captured_inside, np.sum(9 * W**2 * ONE)),
        (captured_twice, np.sum(12 * W * TWO * ONE)),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_value(function: Callable[..., Any], value: Any, backend: str) -> None:
    """What is made of gradients."""
    assert np.isclose(glow.jit(function, backend=backend)(W), value, rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "slope"), [(of_value_and_gradient, 12 * W + 6 * ONE), (captured, 18 * W)]
)
def test_gradient_of_the_gradient(function: Callable[..., Any], slope: Any) -> None:
    """One order more."""
    first = glow.grad(glow.jit(function, backend="interpreter"))
    assert np.allclose(glow.grad(lambda w: np.sum(first(w)))(W), slope, rtol=1e-12)
