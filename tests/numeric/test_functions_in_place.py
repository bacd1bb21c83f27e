"""Stores write in place: values beside CPython, copies that are told, time and gradients of long loops."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow


def prefix(x):
    y = x.copy()
    for i in range(1, len(y)):
        y[i] = y[i] + 0.5 * y[i - 1]
    return y


def kept(x):
    y = x * 2.0
    old = y.copy()
    for i in range(len(y)):
        y[i] = old[-1 - i] + 1.0
    return y, old


def exchanged(x):
    a, b = x.copy(), x * 0.0
    for _ in range(5):
        for i in range(len(x)):
            b[i] = 0.5 * a[i] + a[i - 1]
        a, b = b, a
    return a, b


def rows(x):
    m = np.zeros((len(x), 3))
    for i in range(len(x)):
        m[i] = x[i]
        m[i, 1:] += m[i - 1, :2]
        first = m[i].copy()
        m[i] = m[0]
        m[0] = first
    return m


def columns(x):
    m = np.zeros((3, len(x)))
    for j in range(3):
        m[j, ::2] = x[::2] + j
        m[:, j] = x[:3]
        m[-1, ::-1] = x
    return m


def held(x):
    d = {"y": x.copy(), "n": 0}
    for i in range(len(x)):
        if x[i] > 0.0:
            d["y"][i] = d["y"][i - 1] * 0.5
            d["n"] += 1
    return d["y"], d["n"]


def called(x):
    def smoothed(u, i):
        u = u.copy()
        u[i] = 0.25 * u[i - 1]
        return u

    y = x.copy()
    for i in range(len(x)):
        y = smoothed(y, i)
    return y, y


def nested(x):
    n = len(x)
    c = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            if (i + j) % 3 == 1:
                continue
            for k in range(j):
                c[i, j] += x[k] * c[i - 1, k]
            c[i, j] += x[j]
    return c


def counted(x):
    h = np.zeros(5, np.int64)
    seen = np.zeros(5, np.bool_)
    small = np.zeros(5, np.float32)
    for i in range(len(x)):
        k = int(abs(x[i]) * 3.0) % 5
        h[k] += 1
        seen[-k] = x[i] > 0.0
        small[k] = x[i]
    return h, seen, small


CAPTURED = np.arange(4.0)


def constants(x):
    y = CAPTURED
    t = np.zeros(4)
    for i in range(4):
        t[i] = y[i] + x[i]
    y = y.copy()
    y[0] = t[1]
    return y, t, CAPTURED


PROGRAMS = [prefix, kept, exchanged, rows, columns, held, called, nested, counted, constants]


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_values_are_those_of_cpython(f: Callable[[Any], Any], backend: str) -> None:
    x = np.random.default_rng(3).normal(size=7)
    given, compiled = x.copy(), glow.jit(f, backend=backend)
    for _ in range(2):  # the second call meets the memory of the first one
        got, want = compiled(given), f(x.copy())
        if not isinstance(want, tuple):
            got, want = (got,), (want,)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b)
    np.testing.assert_array_equal(given, x)
    assert {i["runs on"] for i in compiled.report()["instances"]} == {backend}
    assert "copies" not in compiled.report()


def scaled(x, n):
    for i in range(len(x)):
        if i == n:
            raise ValueError("too far")
        x[i] *= 2.0
    return x[0]


@pytest.mark.parametrize("size", [7, 5000])  # small arguments are copied anyway, large ones are not
def test_arguments_change_when_a_run_is_done(size: int) -> None:
    f, x = glow.jit(scaled), np.ones(size)
    assert f(x, size) == 2.0
    np.testing.assert_array_equal(x, 2.0)
    with pytest.raises(ValueError, match="too far"):
        f(x, 3)
    np.testing.assert_array_equal(x, 2.0)


def saved(x):
    y = x
    for _ in range(3):
        y = np.tanh(y)
        y[0] = 0.5
    return np.sum(y)


def test_copies_that_are_not_asked_for_are_told() -> None:
    f, x = glow.value_and_grad(saved), np.linspace(-1.0, 1.0, 9)
    np.testing.assert_allclose(f(x)[0], saved(x.copy()))
    line = saved.__code__.co_firstlineno + 4
    assert all(f"{__file__}:{line}" in text for text in f.report().get("copies", [f"{__file__}:{line}"]))


# --- gradients ------------------------------------------------------------------------------------
def triangular(a, b):
    y = np.zeros(len(b))
    for i in range(len(b)):
        s = b[i]
        for j in range(i):
            s -= a[i, j] * y[j]
        y[i] = s / a[i, i]
    return np.sum(y * y)


def chosen(a, b):
    y = b.copy()
    for i in range(1, len(b)):
        if b[i] > 0.0:
            y[i] += a[0, i] * y[i - 1]
        elif b[i] > -0.5:
            y[i] = a[i, 1] * b[i]
        else:
            y[i - 1] *= b[0]
    return np.sum(y * b)


def warped(a, b):
    n = len(b)
    d = np.zeros((n + 1, n + 1))
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            cost = abs(a[0, i - 1] - b[j - 1])
            d[i, j] = cost + min(d[i - 1, j], min(d[i, j - 1], d[i - 1, j - 1]))
    return d[n, n]


def product(a, b):
    n = len(b)
    c = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for k in range(n):
                c[i, j] += a[i, k] * a[k, j]
    return np.sum(c * b)


GRADIENTS = [triangular, chosen, warped, product]


def _arguments(size: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(size)
    return np.tril(rng.normal(size=(size, size))) * 0.2 + 2.0 * np.eye(size), rng.normal(size=size)


@pytest.mark.parametrize("f", GRADIENTS)
def test_gradients_are_differences(f: Callable[..., Any]) -> None:
    given = _arguments(5)
    compiled = glow.value_and_grad(f, argnums=(0, 1))
    value, gradients = compiled(*given)
    np.testing.assert_allclose(value, f(*copy.deepcopy(given)))
    interpreted = glow.grad(glow.jit(f, backend="interpreter"), argnums=(0, 1))(*given)
    for k, gradient in enumerate(gradients):
        wanted = np.zeros_like(gradient)
        for place in np.ndindex(wanted.shape):
            ends: list[float] = []
            for step in (1e-6, -1e-6):
                moved = copy.deepcopy(given)
                moved[k][place] += step
                ends.append(f(*moved))
            wanted[place] = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(gradient, wanted, atol=1e-7)
        np.testing.assert_allclose(gradient, interpreted[k])
    assert "copies" not in compiled.report()


def _seconds(f: Callable[..., Any], *given: Any) -> float:
    f(*given)
    best = 1e9
    for _ in range(5):
        start = time.process_time()
        f(*given)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("f", [prefix, glow.grad(lambda x: np.sum(prefix(x)))], ids=["value", "gradient"])
def test_time_is_linear(f: Callable[..., Any]) -> None:
    compiled = glow.jit(f) if f is prefix else f
    short, long = (_seconds(compiled, np.ones(n)) for n in (8_000, 128_000))
    assert long < 80 * short  # 16 times; 256 times where each store copies the array


@pytest.mark.parametrize("f", [triangular, warped])
def test_gradients_take_memory_for_steps_only(f: Callable[..., Any]) -> None:
    given = _arguments(200)  # 16 GB, if each of 40,000 steps kept an array
    value, (da, db) = glow.value_and_grad(f, argnums=(0, 1))(*given)
    direction = np.random.default_rng(0).normal(size=200)
    ends = [f(given[0], given[1] + step * direction) for step in (1e-6, -1e-6)]
    np.testing.assert_allclose(np.sum(db * direction), (ends[0] - ends[1]) / 2e-6, rtol=1e-4)
    assert np.isfinite(value) and da.shape == (200, 200)
