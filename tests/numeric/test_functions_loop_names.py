"""Names that get their first value in a loop and are read after it, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")


def last_turn(x, n):
    for i in range(n):
        y = x * i
    return y + i


def broken_off(x, n):
    for i in range(n):
        if i * x > 5:
            break
        y = x * i
    return y + i


def nested(x, n):
    for e in range(n):
        for j in range(4):
            loss = x * j + e
    return loss * x


def branches(x, n):
    for i in range(n):
        if i % 2 == 0:
            t = x
        else:
            t = x * 2
        r = t * t
    return r + t


def early_return(x, n):
    for i in range(n):
        a = x * i
        for j in range(3):
            b = a * j
            if b > 100:
                return b
    return a + b


def closure(x, n):
    for i in range(n):
        f = lambda y: y * x + i  # noqa: E731, B023
    return f(2.0)


def until(x, n):
    i = 0
    while i < n:
        z = x + i
        x = x * z
        i += 1
    return z


def found_at(x, n):
    for i in range(10):
        if i * x > n:
            break
    return i * x


def read_by_some(x, n):
    total = 0.0
    for i in range(n):
        for k in range(i):
            last = x * k
        total += last if i > 1 else 0.0
    return total


def test_where_a_read_is_not_certain() -> None:
    """A name that a loop without a turn leaves without a value, and that only some ways read, is refused."""
    with pytest.raises(glow.GlowError, match="'last' may have no value here"):
        glow.jit(read_by_some)(2.0, 3)


def in_the_test(x, n):
    with np.errstate(all="ignore"):
        while (y := x * 1.5) < 20 and n > 0:
            x = y + n
            n -= 1
            if n == 2:
                continue
            x = x + 0.1
    return x + y * n


PROGRAMS = [last_turn, broken_off, nested, branches, early_return, closure, until, found_at, in_the_test]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("x", [1.5, 7.0])
@pytest.mark.parametrize("program", PROGRAMS)
def test_value_and_gradient(program: Callable[..., Any], x: float, n: int, backend: str) -> None:
    """Python's value and differences of it, or the error of a name without a value."""
    compiled = glow.jit(program, backend=backend)
    try:
        wanted = program(x, n)
    except UnboundLocalError:
        with pytest.raises(UnboundLocalError, match="not associated with a value"):
            compiled(x, n)
        return
    assert np.isclose(compiled(x, n), wanted, rtol=1e-12)
    slope = (program(x + 1e-6, n) - program(x - 1e-6, n)) / 2e-6
    assert np.isclose(glow.grad(compiled)(x, n), slope, rtol=1e-5, atol=1e-8)
    assert compiled.report()["instances"][0]["runs on"] == backend


def test_of_arrays() -> None:
    """A training loop that returns what its last turn computed."""

    def train(w, xs):
        for x in xs:
            error = w * x
            w = w - 0.1 * error * x
        return np.sum(error**2) + np.sum(x)

    w, xs = np.linspace(-1, 1, 4), np.arange(12.0).reshape(3, 4) / 7
    compiled = glow.jit(train)
    assert np.isclose(compiled(w, xs), train(w, xs))
    found = glow.grad(compiled)(w, xs)
    for i in range(4):
        step = np.eye(4)[i] * 1e-6
        assert np.isclose(found[i], (train(w + step, xs) - train(w - step, xs)) / 2e-6, rtol=1e-5)
