"""Shapes that int arguments decide: a program for each value of the ints, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")


def filled(n, x):
    a = np.zeros(n)
    for i in range(n):
        a[i] = x * i
    return a.sum()


def table(n, m, x):
    d = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d[i, j] = max(d[i - 1, j], d[i, j - 1]) + x * ((i * j) % 3)
    return d[n, m]


def ranges(n, x):
    return np.sum(np.arange(n) * x) + np.sum(np.linspace(0.0, x, n))


def part(x, a, b):
    return x[a:b].sum()


def record(c):
    return np.ones((c["n"], 2)).sum() * c["x"]


def rows(x, k):
    return np.sum(x.reshape(k, -1)[0])


def sieve(n):
    s = np.ones(n + 1, dtype=bool)
    s[0] = s[1] = False
    i = 2
    while i * i <= n:
        if s[i]:
            for j in range(i * i, n + 1, i):
                s[j] = False
        i += 1
    return s.sum()


def pascal(n):
    row = np.zeros(n + 1, dtype=np.int64)
    row[0] = 1
    for i in range(1, n + 1):
        for j in range(i, 0, -1):
            row[j] += row[j - 1]
    return row


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (filled, (5, 2.0)),
    (table, (4, 3, 2.0)),
    (ranges, (5, 2.0)),
    (part, (np.arange(6.0), 2, 5)),
    (record, ({"n": 4, "x": 2.0},)),
    (rows, (np.arange(6.0), 2)),
    (sieve, (30,)),
    (pascal, (6,)),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("f", "args"), CASES)
def test_value(f: Callable[..., Any], args: tuple[Any, ...], backend: str) -> None:
    """NumPy's value."""
    compiled = glow.jit(f, backend=backend)
    np.testing.assert_allclose(compiled(*args), f(*args))
    assert compiled.report()["instances"][-1]["runs on"] == backend


@pytest.mark.parametrize("backend", BACKENDS)
def test_types_of_elements(backend: str) -> None:
    """`x.dtype`, and types of elements that functions get as arguments."""

    def filled(n, kind):
        return np.full(n, 2.0, dtype=kind)

    def made(x):
        y = np.zeros(3, dtype=x.dtype) + np.array([1, 2, 3], dtype=x.dtype)
        same = x.dtype == np.float32, (x * 2).dtype == np.float64, x.dtype == "float32"
        return y, filled(4, x.dtype) * x, filled(4, np.float64) * x, np.ones_like(x, dtype=int), same

    x = np.arange(4, dtype=np.float32)
    for found, wanted in zip(glow.jit(made, backend=backend)(x), made(x), strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype
    slope = glow.grad(glow.jit(lambda x: np.sum(x.astype(np.float64).astype(x.dtype) ** 2), backend=backend))
    np.testing.assert_allclose(slope(x), 2 * x)


def test_values_of_ints() -> None:
    """Each value of an int has its own program; floats beside it do not."""
    compiled = glow.jit(filled)
    for n in (3, 4, 3, 5):
        assert compiled(n, 2.0) == filled(n, 2.0)
        assert compiled(n, 3.0) == filled(n, 3.0)
    assert len(compiled.report()["instances"]) == 3
    assert compiled.profile(3, 2.0).lines
    assert np.isclose(glow.grad(compiled, argnums=1)(4, 2.0), 6.0)


def test_a_float_is_no_shape() -> None:
    """What no int tells is refused."""
    with pytest.raises(glow.GlowError, match="a shape must be known at compile time"):
        glow.jit(lambda x: np.zeros(x).sum())(2.5)


def test_programs_of_ints_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the programs for ints that decide shapes, those that were used last are kept."""
    monkeypatch.setattr("glow_runtime.functions.KEPT", 3)
    compiled = glow.jit(ranges, backend="interpreter")
    for n in (2, 3, 4, 2, 5):
        assert compiled(n, 2.0) == pytest.approx(ranges(n, 2.0))
    assert len(compiled.report()["instances"]) == 3
    kept = dict(compiled.program.instances)
    compiled(2, 2.0)  # used before 5, after 3
    assert compiled.program.instances == kept
