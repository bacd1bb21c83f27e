"""Programs that go through arrays element by element: values and gradients, natively."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

R = np.random.default_rng(7)
A, S, V = R.normal(size=(3, 4)), R.normal(size=(4, 4)), R.normal(size=5)
S = S @ S.T + 4 * np.eye(4)


def early(a, limit):
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > limit:
                return s * 2.0 + a[i, j]
            if a[i, j] < -1.0:
                continue
            s += a[i, j] ** 2
    return s


def gauss(a, b):
    n = len(b)
    a = a.copy()
    b = b.copy()
    for i in range(n):
        for j in range(i + 1, n):
            f = a[j, i] / a[i, i]
            a[j] -= f * a[i]
            b[j] -= f * b[i]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return x.sum()


def conjugate(a, b):
    x = np.zeros_like(b)
    r = b - a @ x
    d = r.copy()
    rs = r @ r
    for _ in range(3):
        ad = a @ d
        step = rs / (d @ ad)
        x = x + step * d
        r = r - step * ad
        new = r @ r
        if np.sqrt(new) < 1e-10:
            break
        d = r + new / rs * d
        rs = new
    return np.sum(x)


def warped(a, b):
    n, m = len(a), len(b)
    table = np.full((n + 1, m + 1), 1e9)
    table[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = abs(a[i - 1] - b[j - 1])
            table[i, j] = cost + min(table[i - 1, j], table[i, j - 1], table[i - 1, j - 1])
    return table[n, m]


def sorted_sum(v, w):
    v = v.copy()
    for i in range(1, len(v)):
        key = v[i]
        j = i - 1
        while j >= 0 and v[j] > key:
            v[j + 1] = v[j]
            j -= 1
        v[j + 1] = key
    return v @ w


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (early, (A, 1.2)),
    (early, (A, 9.0)),
    (gauss, (S, S[0] / 3)),
    (conjugate, (S, S[1])),
    (warped, (V, V[::-1] * 1.3 + 0.1)),
    (sorted_sum, (V, np.arange(5.0))),
]


@pytest.mark.slow
@pytest.mark.parametrize(("f", "args"), CASES)
def test_value_and_gradient(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Python's value and differences of it; all is machine code, with loops that branch left as loops."""
    compiled = glow.value_and_grad(glow.jit(f))
    value, found = compiled(*args)
    assert np.isclose(value, f(*args), rtol=1e-12)
    first = args[0]
    for at in np.ndindex(*first.shape):
        values: list[float] = []
        for step in (1e-6, -1e-6):
            moved = first.copy()
            moved[at] += step
            values.append(float(f(moved, *args[1:])))
        assert np.isclose(found[at], (values[0] - values[1]) / 2e-6, rtol=1e-4, atol=1e-6)
    assert compiled.report()["instances"] == [{"runs on": "cpu", "because": ""}]
    assert compiled.report()["operations"] < 1500
