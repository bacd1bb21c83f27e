"""Loops over items that are known one by one: jumps, `else` and names after them, beside Python."""

from __future__ import annotations

from collections.abc import Callable

import glow_compiler as glow
import pytest


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
        for b in range(3):
            c -= x
        else:
            c += 2.0
        c = c * 0.5 + a + b
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
