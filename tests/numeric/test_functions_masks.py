"""What masks pick of arrays: sums and their like, arithmetic, assignment, gradients, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")


def sums(x):
    return x[x > 0].sum() + x[x < 0].mean() * 2 + np.sum(x[x > 0.1] ** 2)


def extremes(x):
    return x[x > 0].max() - x[x < 0].min() + len(x[x > 0]) * np.max(x)


def of_elements(x):
    return np.sqrt(x[x > 0]).sum() + np.log(x[x > 0]).mean()


def products(x):
    y = x[::-1] * 2
    return np.sum(x[x > 0] * y[x > 0]) + np.dot(x[y > 0], y[y > 0])


def spread(x):
    some = x[(x > -1) & (x < 1)]
    return np.std(some) + some.var() + np.linalg.norm(some) + np.prod(some) + some.size * x[0]


def rows(x):
    a = x.reshape(2, 4)
    return a[a > 0].sum() + a[a[:, 0] > 0].sum() + a[a[:, 0] > 0].mean()


def assigned(x):
    x = x.copy()
    x[x > 0.3] = x[x > 0.3] ** 2 + 1
    x[x < 0] *= 0.1
    return (x * x).sum()


PROGRAMS = [sums, extremes, of_elements, products, spread, rows, assigned]
X = np.random.default_rng(5).normal(size=8)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_value_and_gradient(program: Callable[..., Any], backend: str) -> None:
    """NumPy's value, and differences of it."""
    compiled = glow.jit(program, backend=backend)
    assert np.isclose(compiled(X), program(X), rtol=1e-12)
    found = glow.grad(compiled)(X)
    for i in range(X.size):
        step = np.eye(X.size)[i] * 1e-6
        assert np.isclose(found[i], (program(X + step) - program(X - step)) / 2e-6, rtol=1e-5, atol=1e-8)
    assert compiled.report()["instances"][0]["runs on"] == backend


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_elements(backend: str) -> None:
    """Ints, NaN, nothing picked, rows of ints, and a bool that picks from a tuple."""

    def ints(x):
        y = x.copy()
        y[y % 3 == 0] *= 2
        return x[x > 2].sum(), x[x > 2].max(), x[x % 2 == 0].min(), x[x > 2].mean(), y

    def numbers(x):
        return x[~np.isnan(x)].mean(), np.max(x[np.isfinite(x)]), x[x > 9].sum(), len(x[x > 9])

    for f, x in ((ints, np.arange(6)), (numbers, np.array([1.0, np.nan, 3.0]))):
        for found, wanted in zip(glow.jit(f, backend=backend)(x), f(x), strict=True):
            np.testing.assert_allclose(found, wanted)
    with pytest.raises(ValueError, match="zero-size array"):
        glow.jit(lambda x: x[x > 100].max(), backend=backend)(X)
    assert glow.jit(lambda x: (x, x * x)[x > 1], backend=backend)(3.0) == 9.0
    assert glow.jit(lambda t, x: t[x > 1], backend=backend)((2.0, 5.0), 3.0) == 5.0


@pytest.mark.parametrize(
    "f", [lambda x: np.sort(x[x > 0]), lambda x: x[x > 0], lambda x: x[x > 0].sum(axis=0)]
)
def test_what_needs_the_elements_is_refused(f: Callable[..., Any]) -> None:
    """The elements themselves have no shape."""
    with pytest.raises(
        glow.GlowError, match="an array selected by a mask has no shape known at compile time"
    ):
        glow.jit(f)(X)


def test_different_masks_are_refused() -> None:
    """Elements that stand apart are not put beside each other."""
    with pytest.raises(glow.GlowError, match="picked by different masks"):
        glow.jit(lambda x: np.sum(x[x > 0] * x[x < 0]))(X)
    with pytest.raises(glow.GlowError, match="picked by different masks"):
        glow.jit(lambda x: np.sum(x[np.cumsum(x, axis=0) > 0] * x[np.cumsum(x, axis=1) > 0]))(np.eye(2))


def given(x, m):
    return x[m].sum() + x[m].mean() * 2 + np.max(x[m] * 2.0) + np.std(x[m])


def given_arithmetic(x, m):
    y = x[m]
    return ((y - 1.0) ** 2).mean() + np.sum(y * y) + len(y) + y.min()


def given_and_others(x, m):
    return x[m].mean() + x[~m].max()


def _loss(p, x, m):
    return np.sum((p * x - 1.0)[m] ** 2) + np.mean((p * x)[m])


def given_further(x, m):
    total = 0.0
    for k in range(3):
        total = total * 0.5 + _loss(x[0], x, m) * k
    return total


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [given, given_arithmetic, given_and_others, given_further])
def test_parameters_are_masks(program: Callable[..., Any], backend: str) -> None:
    """The types tell that a parameter is a mask."""
    compiled = glow.jit(program, backend=backend)
    mask = X > -0.2
    assert np.isclose(compiled(X, mask), program(X, mask), rtol=1e-12)
    direction, step = np.linspace(-1.0, 1.0, X.size), 1e-6
    slope = (program(X + step * direction, mask) - program(X - step * direction, mask)) / (2 * step)
    assert np.isclose(np.sum(glow.grad(compiled)(X, mask) * direction), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_are_places(backend: str) -> None:
    """The same program picks rows where the parameter is a number or an array of ints."""

    def total(x, i):
        return x[i].sum() + np.sum(x[i] * 2.0) + np.mean(x[i])

    compiled, x = glow.jit(total, backend=backend), X.reshape(4, 2)
    for place in (1, np.array([0, 2]), np.array([True, False, True, True])):
        assert np.isclose(compiled(x, place), total(x, place), rtol=1e-12)
