"""Derivatives of programs of two numbers, by differences, and how close is close enough."""

from __future__ import annotations

from collections.abc import Callable

X, Y = 1.3, 0.7
BACKENDS = ("cpu", "interpreter")


def difference(f: Callable[..., float], i: int, h: float = 1e-6) -> float:
    """The central difference of f at (X, Y) along argument i."""
    up, down = [X, Y], [X, Y]
    up[i] += h
    down[i] -= h
    return (f(*up) - f(*down)) / (2 * h)


def close(a: float, b: float, tolerance: float = 1e-5) -> bool:
    """Relative to the larger of 1 and the values."""
    return abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))
