"""Functions of arrays: operators by NumPy's names and by cards, against NumPy and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

RANDOM = np.random.default_rng(0)
W, U, V = (RANDOM.normal(size=s) for s in ((3, 3), (3, 2), (5, 2)))


def perceptron(w, u, xs):
    hidden = np.tanh(xs @ u.T)
    p = glow.ops.softmax(hidden @ w, axis=1)
    return -np.mean(np.log(p[:, 0]))


def perceptron_numpy(w, u, xs):
    z = np.tanh(xs @ u.T) @ w
    p = np.exp(z) / np.sum(np.exp(z), axis=1, keepdims=True)
    return -np.mean(np.log(p[:, 0]))


def recurrent(w, u, xs):
    h = np.zeros(3)
    for x in xs:
        h = np.tanh(w @ h + u @ x)
    return np.sum(h * h)


def recurrent_by_index(w, u, xs):
    h = np.zeros(3)
    i = 0
    while i < xs.shape[0]:
        h = np.tanh(w @ h + u @ xs[i])
        i += 1
    return np.sum(h * h)


def shapes(w, u, xs):
    a = np.reshape(xs, (2, 5)).T
    b = np.concatenate((a, xs), axis=0)
    c = np.stack((b, b * 2), axis=0)
    return np.sum(c[1, 2:7] * c[0, ::2]) + np.max(w) * np.mean(u, axis=0)[1]


def broadcasting(w, u, xs):
    a = w * u[:, :1] + w[0] - 2.0 / (1.0 + np.exp(-w))
    return np.sum(np.where(a > 0, a, 0.1 * a)) + np.sum(np.maximum(w, 0.0) ** 2) + w[0, 1] * u[1, 0]


def closures(w, u, xs):
    layers = (lambda v: np.tanh(w @ v), lambda v: w.T @ v * 0.5)
    h = u[:, 0]
    for layer in layers:
        h = layer(h)
    return np.sum(h) if np.sum(h) > 0 else np.sum(h * h)


PROGRAMS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (perceptron, perceptron_numpy),
    (recurrent, recurrent),
    (recurrent_by_index, recurrent_by_index),
    (shapes, shapes),
    (broadcasting, broadcasting),
    (closures, closures),
]


def differences(f: Callable[..., Any], i: int) -> np.ndarray:
    """Central differences of every element of argument i."""
    arguments = [W, U, V]
    found = np.zeros_like(arguments[i])
    for place in np.ndindex(found.shape):
        sides: list[float] = []
        for h in (1e-6, -1e-6):
            moved = arguments[i].copy()
            moved[place] += h
            sides.append(float(f(*[moved if j == i else a for j, a in enumerate(arguments)])))
        found[place] = (sides[0] - sides[1]) / 2e-6
    return found


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(("program", "plain"), PROGRAMS, ids=lambda p: p.__name__)
def test_value_and_gradient(program: Callable[..., Any], plain: Callable[..., Any], backend: str) -> None:
    """Value and gradients with respect to every array."""
    compiled = glow.jit(program, backend=backend)
    value, found = glow.value_and_grad(compiled, argnums=(0, 1, 2))(W, U, V)
    assert np.isclose(value, plain(W, U, V), rtol=1e-12)
    for i in range(3):
        np.testing.assert_allclose(found[i], differences(plain, i), rtol=1e-5, atol=1e-7)


def test_second_order() -> None:
    """A gradient of a gradient of arrays."""

    def norm(w):
        return np.sum(glow.grad(lambda v: np.sum(np.tanh(v @ v.T)))(w) ** 2)

    found = glow.grad(norm)(W)
    moved = W.copy()
    moved[0, 1] += 1e-6
    expected = (glow.jit(norm)(moved) - glow.jit(norm)(W)) / 1e-6
    assert np.isclose(found[0, 1], expected, rtol=1e-4)


def test_float32_stays() -> None:
    """Numbers of Python take the element type of the arrays beside them."""
    made = glow.jit(lambda x: x * 2.0 + 1)(np.ones(3, np.float32))
    assert made.dtype == np.float32
    assert glow.grad(lambda x: np.sum(x * 3.0))(np.ones(3, np.float32)).dtype == np.float32


ARGUMENTS = (
    lambda x: np.zeros_like(x, dtype=np.float64),
    lambda x: np.ones_like(x, np.float64),
    lambda x: np.asarray(x, np.float64),
    lambda x: np.array((x[0, 0], x[1, 1]), dtype=np.float64),
    lambda x: x.astype(dtype=np.float64),
    lambda x: sum((x, x), start=2.0),
    lambda x: sum(x, start=x[0]),
    lambda x: sum([v * 2.0 for v in x], 1.0),
)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("program", ARGUMENTS)
def test_optional_arguments(program: Callable[..., Any], backend: str) -> None:
    """By position or keyword; none is passed over."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    made, expected = glow.jit(program, backend=backend)(x), program(x)
    np.testing.assert_array_equal(made, expected)
    assert made.dtype == expected.dtype


def halves(x):
    """Slices whose bounds the types tell, of arrays and tuples."""
    k, n = x.shape[0] // 2, x.shape[1] - 1
    s = 0.0
    for v in (1.0, 2.0, 3.0, 4.0)[1:n]:
        s = s + v * np.sum(x[k:, :n])
    for i in range(3):
        s = s + np.sum(x[i : i + 2] ** 2)
    return s + np.sum(x[::-1][: k - 1] ** 3)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_bounds_of_slices(backend: str) -> None:
    """The value, the gradient and the gradient of its norm."""
    x, step = RANDOM.normal(size=(6, 4)), RANDOM.normal(size=(6, 4))
    compiled = glow.jit(halves, backend=backend)

    def norm(y: Any) -> Any:
        return np.sum(glow.grad(halves)(y) ** 2)

    assert np.isclose(compiled(x), halves(x))
    for f, plain in ((compiled, halves), (glow.jit(norm, backend=backend), glow.jit(norm))):
        expected = (plain(x + 1e-6 * step) - plain(x - 1e-6 * step)) / 2e-6
        assert np.isclose(np.sum(glow.grad(f)(x) * step), expected, rtol=1e-5)
