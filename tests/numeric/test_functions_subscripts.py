"""Subscripts that only the run tells: values, gradients, and IndexError outside an axis, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")
X, A, B = np.arange(6.0), np.arange(12.0).reshape(3, 4), np.arange(24.0).reshape(2, 3, 4) / 7


def at(*numbers: int) -> Any:
    """An array of subscripts."""
    return np.array(numbers)


def item(x, i):
    return x[i]


def assigned(x, i):
    x = x.copy()
    x[i] = 5.0
    return x


def assigned_pair(a, i, j):
    a = a.copy()
    a[i, j] = 1.0
    return a


def assigned_rows(a, i):
    a = a.copy()
    a[i, 1:] = 3.0
    a[1:, i] *= 2.0
    return a


def row(a, i):
    return a[i, :].sum() + a[:, i].sum()


def taken(x, i):
    return np.take(x, i)


def walk(x, n):
    s = 0.0
    for i in range(n):
        s += x[i]
    return s


def ten_turns(a):
    s = np.zeros(a.shape[1])
    for i in range(10):
        s = s + a[i]
    return s


def added(x, i):
    x = x.copy()
    x[i] += 1.0
    return x


def backwards(x, k):
    x = x.copy()
    while k > 0:
        x[k] = x[k - 1] * 2
        k -= 1
    return x


def largest(x):
    return x[np.argmax(x)]


def pair(a, i, j):
    return a[i, j]


def last(b, i):
    return b[..., i]


def new_axis(b, i):
    return b[None, i]


def middle(b, i, j):
    return b[:, i, j]


def around(b, i, j):
    return b[i, :, j]


def mixed(b, i):
    return b[1:, i, None, 0]


def lists(b, i):
    return b[:, [0, 2], i]


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    *((item, (X, i)) for i in (5, 6, -6, -7, at(1, 5), at(1, 6), at(-6), at(-7))),
    *((item, ((1.0, 2.0), i)) for i in (1, 2, -2, -3)),
    *((assigned, (X, i)) for i in (0, 6, -1, -7, at(1, 2), at(1, 7))),
    *((assigned_pair, (A, *ij)) for ij in ((1, 3), (1, 4), (-3, -1), (-4, 0))),
    *((assigned_rows, (A, i)) for i in (0, 2, 3, -3, -4, -5)),
    *((row, (A, i)) for i in (0, 2, 3, -3, -4)),
    *((taken, (X, i)) for i in (at(5, 0), at(6))),
    *((walk, (X, n)) for n in (0, 6, 7)),
    *((ten_turns, (np.ones((n, 3)),)) for n in (9, 10, 11)),
    *((added, (X, i)) for i in (at(1, 2), at(1, 7))),
    *((backwards, (X, n)) for n in (5, 6)),
    (largest, (X,)),
    *((pair, (A, *ij)) for ij in ((2, 3), (2, 4), (at(0, 1), at(0, 3)), (at(0, 1), at(0, 4)), (at(0, 2), 1))),
    *((last, (B, i)) for i in (2, 4, at(3, 1), at(3, 4))),
    (new_axis, (B, 1)),
    *((middle, (B, *ij)) for ij in ((2, 1), (at(0, 2), 1), (at(0, 1, 1), at(1, 2, 3)))),
    *((around, (B, *ij)) for ij in ((1, 3), (at(0, 1, 1), 1), (at(0, 1), at(2, 2)))),
    *((mixed, (B, i)) for i in (2, at(0, 1))),
    (lists, (B, at(0, 1))),
]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("f", "args"), CASES)
def test_value(f: Callable[..., Any], args: tuple[Any, ...], backend: str) -> None:
    """NumPy's value, or IndexError where NumPy raises one."""
    compiled = glow.jit(f, backend=backend)
    try:
        wanted = f(*args)
    except IndexError:
        with pytest.raises(IndexError, match="outside its axis"):
            compiled(*args)
        return
    found = compiled(*args)
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted)
    assert compiled.report()["instances"][0]["runs on"] == backend


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("f", "indices"),
    [
        (last, (2,)), (last, (at(3, 3),)), (middle, (at(0, 2), 1)), (middle, (at(0, 1, 1), at(1, 2, 2))),
        (around, (at(0, 1, 1), 1)), (around, (1, 2)), (mixed, (at(0, 1),)), (lists, (at(0, 1),)),
    ],
)  # fmt: skip
def test_gradient(f: Callable[..., Any], indices: tuple[Any, ...], backend: str) -> None:
    """The gradient of a weighted sum of squares: what is picked several times counts as often."""

    def loss(b, w):
        return np.sum(w * f(b, *indices) ** 2)

    weights = np.cos(np.arange(f(B, *indices).size)).reshape(f(B, *indices).shape)
    places = f(np.arange(B.size).reshape(B.shape), *indices)
    wanted = np.zeros(B.size)
    np.add.at(wanted, places.ravel(), (2 * weights * f(B, *indices)).ravel())
    found = glow.grad(glow.jit(loss, backend=backend))(B, weights)
    np.testing.assert_allclose(found, wanted.reshape(B.shape), atol=1e-12)
