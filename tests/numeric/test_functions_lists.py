"""Lists that change, sorting, and the arrays made of nested lists: beside Python, with gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow


def inserted(x):
    a = [x, x * 2]
    a.insert(1, x * 3)
    a.insert(-1, 7.0)
    a.insert(100, x)
    return a[0] + a[1] * 2 + a[2] * 3 + a[3] * 4 + a[4] * 5


def popped(x):
    a = [x, x * 2, x * 3, 1.0]
    b = a.pop()
    c = a.pop(0)
    a.pop(-1)
    return b * 10 + c + a[0] * 100 + len(a)


def popped_within(x):
    a = [x, 2 * x, 5.0]
    b, c = a.pop(), a.pop()
    b += a.pop() + len(a)
    return b - c


def reordered(x):
    a = [x, x * x, 0.5]
    a.reverse()
    b = a.copy()
    a.sort()
    return a[0] + 2 * a[1] + 3 * a[2] + b[0] * 4 + b[2] * 5


def removed(x):
    a = [1, 2, 3, 2]
    a.remove(2)
    del a[-1]
    return x * a[1] + len(a)


def asked(x):
    a = [1.0, x, 2.0, x]
    return a.index(x) + a.count(x) * x + a.index(2.0)


def sliced(x):
    a = [x, 2 * x, 3 * x, 4 * x]
    a[1:3] = [5 * x]
    del a[0:1]
    return a[0] + a[1] * 10 + len(a)


def queue(x):
    q = [1.0, x, 3.0]
    t = 0.0
    for _ in range(3):
        v = q.pop(0)
        t = t * x + v
        q.append(v * x)
    return t + sum(q)


def stack(x):
    s = [x]
    for i in range(5):
        s.append(s[-1] * x + i)
        if i % 2 == 0:
            s.reverse()
    return s[0] + 2 * s[3]


def ordered(x):
    a = sorted([x, -x * x, 0.3], key=lambda v: -v)
    b = sorted((3, 1, 2), reverse=True)
    return a[0] + 2 * a[1] + 3 * a[2] + b[0]


def stable(x):
    pairs = [(1, x), (1, 2 * x), (0, 0.5), (1, 3 * x)]
    down = sorted(pairs, key=lambda t: t[0], reverse=True)
    pairs.sort(key=lambda t: t[0])
    return down[0][1] + 10 * down[1][1] + 100 * down[2][1] + 1000 * pairs[1][1]


def extremes(x):
    return max([x, -3 * x, 0.3], key=abs) + min((x, 2.0), key=lambda v: -v) + max([], default=x)


def rotation(x):
    c, s = math.cos(x), math.sin(x)
    return np.sum(np.array([[c, -s], [s, c]]) @ np.array([x, 2.0]))


PROGRAMS = (inserted, popped, popped_within, reordered, removed, asked, sliced, queue, stack, ordered, stable,
            extremes, rotation)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_lists(program: Callable[[float], Any], backend: str) -> None:
    """Value and derivative."""
    compiled = glow.jit(program, backend=backend)
    for x in (1.5, 0.4):
        assert compiled(x) == pytest.approx(program(x), rel=1e-12)
        step = 1e-6
        slope = (program(x + step) - program(x - step)) / (2 * step)
        assert glow.grad(compiled)(x) == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_rows_by_a_list() -> None:
    """Lists as subscripts pick rows and elements."""
    x = np.arange(12.0).reshape(3, 4)

    def picked(x):
        return x[[0, 2]] * 2.0, x[[0, 1], [1, 2]]

    for found, expected in zip(glow.jit(picked)(x), picked(x), strict=True):
        np.testing.assert_array_equal(found, expected)


def other_name(x):
    a = [x]
    b = a
    a.pop()
    return len(b) * x


def _grow(a, x):
    a.append(x)
    return a


def callers(x):
    a = [x]
    _grow(a, x)
    return sum(a)


def skipped(x):
    a = [x, x]
    return a.pop() if x > 0 else x


def repeated(x):
    a = [x, x]
    return sum([a.pop() for _ in range(2)])


def emptied(x):
    a = [x]
    a.pop()
    return a.pop()


def unknown(x):
    a = [x, x, x]
    while x > 0:
        x = x - a.pop()
    return x


def picked_by_mask(x):
    y = np.array([x, -x])
    return y[y > 0][0]


@pytest.mark.parametrize(
    "program, text",
    [
        (other_name, "the same list"),
        (callers, "belongs to the caller"),
        (skipped, "skipped or repeated"),
        (repeated, "skipped or repeated"),
        (emptied, "list of 0"),
        (unknown, "length is not known"),
        (picked_by_mask, "no shape known"),
    ],
)
def test_lists_that_would_differ_are_refused(program: Callable[[float], Any], text: str) -> None:
    """What other names see, what may not happen, and what only the run tells."""
    with pytest.raises(glow.GlowError, match=text):
        glow.jit(program)(1.5)
