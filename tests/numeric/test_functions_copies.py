"""Loops over items that are known one by one: jumps, `else` and names after them, beside Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow


def _continued(x: float, n: int) -> float:
    c = 0.0
    for a in (-1, 0, 1):
        for b in (-1, 0, 1):
            if a == 0 and b == 0:
                continue
            c += x * (a + 2 * b)
    return c + a * 100 + b


def _broken(x: float, n: int) -> float:
    c = 0.0
    for a, b in zip((1, 2, 3), (4, 5, 6), strict=True):
        for k in [2, 1, 0]:
            for i in range(n):
                if i > k:
                    break
                c += x
            else:
                c += 100.0
            if k < b - 4:
                break
            c += k
        else:
            c += 1000.0 * a
            continue
        c -= 1.0
    return c


def _returned(x: float, n: int) -> float:
    c = x
    for a in (1, 2, 3):
        for b in (1, 2):
            for d in (0, 1):
                if d == n:
                    continue
                if c > 40.0:
                    return c + 1000 * a
                if b == 2 and x > 2.0:
                    break
                c += a * b + d
            else:
                c += 0.5
    return -c


def _else_in_copies(x: float, n: int) -> float:
    c = 0.0
    for a in (-1, 0, 1):
        for _ in range(3):
            c -= x
        else:
            c += 2.0
        c = c * 0.5 + a
    for a in (1, 2):
        if True:
            c += a
        c += 10.0
    return c


@pytest.mark.parametrize("function", [_continued, _broken, _returned, _else_in_copies])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_jumps_in_copies(function: Callable[[float, int], float], backend: str) -> None:
    compiled = glow.jit(function, backend=backend)
    for arguments in ((0.0, 0), (1.5, 2), (2.5, 1), (3.0, 4)):
        assert compiled(*arguments) == function(*arguments)


def _slices(x: Any) -> Any:
    x, s = x.copy(), 0.0
    for a, b in zip(x[:-1], x[1:], strict=True):
        x[4] = 10.0
        s += a * b
    return s


def _named_view(x: Any) -> Any:
    x, s = x.copy(), 0.0
    y = x[1:]
    for a in y:
        x[4] = 10.0
        s += a
    return s


def _parts(x: Any) -> Any:
    y, s = np.stack([x, x]), 0.0
    for r in (y[0], y[1]):
        s += r.sum()
        y[:] = 0.0
    return s


def _reversed_part(x: Any) -> Any:
    x, s = x.copy(), 0.0
    for a in x[::-1]:
        s += a
        x += 1.0
    return s


X = np.array([1.5, -2.0, 0.25, 3.0, -0.5])


@pytest.mark.parametrize("function", [_slices, _named_view, _parts, _reversed_part])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_loops_over_views_that_change_are_refused(function: Callable[[Any], Any], backend: str) -> None:
    with pytest.raises(glow.UnsupportedError, match=r"the loop over .* changes '[xy]'"):
        glow.jit(function, backend=backend)(X)


def _enumerated(x: Any) -> Any:
    x, s = x.copy(), 0.0
    for i, a in enumerate(x):
        x[(i + 1) % 5] = a + 1
        s += a
    for a in x[1:].copy():
        x[4] = 10.0
        s += a
    return s


def _list_ahead(x: Any) -> Any:
    items, s = [1, 2, 3, 4], 0
    for i, v in enumerate(items):
        if i < 3 and x[0] > 0:
            items[i + 1] = v * 2
        s += v
    for v in items[1:]:
        items[2] = v * 5
        s += v
    return s


@pytest.mark.parametrize("function", [_enumerated, _list_ahead])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_loops_read_what_they_wrote(function: Callable[[Any], Any], backend: str) -> None:
    assert glow.jit(function, backend=backend)(X) == function(X)
