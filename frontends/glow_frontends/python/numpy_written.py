"""Functions of NumPy that are written with other functions of NumPy: compiled like functions of the user.

Matrices are solved by elimination with pivots, whose gradients are declared where they are known; a singular
one gives infinities or NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def flipud(m: Any) -> Any:
    """Rows in the other order."""
    return np.flip(m, 0)


def fliplr(m: Any) -> Any:
    """Columns in the other order."""
    return np.flip(m, 1)


def vdot(a: Any, b: Any) -> Any:
    """The sum of products of all elements."""
    return np.dot(np.ravel(a), np.ravel(b))


def average(a: Any, axis: Any = None, weights: Any = None) -> Any:
    """The mean, weighted where weights are given."""
    if weights is None:
        return np.mean(a) if axis is None else np.mean(np.moveaxis(a, axis, 0), 0)
    if axis is None:
        return np.sum(a * weights) / np.sum(weights)
    moved = np.moveaxis(a, axis, 0)
    return np.tensordot(weights, moved, 1) / np.sum(weights)


def polyval(p: Any, x: Any) -> Any:
    """The polynomial of coefficients p, the highest power first, at x."""
    total = np.zeros_like(x)
    for c in p:
        total = total * x + c
    return total


def heaviside(x1: Any, x2: Any) -> Any:
    """0 below 0, 1 above it, x2 at it."""
    side = np.sign(x1 * 1.0)
    return np.where(side == 0, x2, np.maximum(side, 0.0))


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), 1 at 0."""
    y = np.where(x == 0, 1.0, x) * 3.141592653589793
    return np.where(x == 0, 1.0, np.sin(y) / y)


def real(x: Any) -> Any:
    """The floats in which NumPy computes mathematical functions of x: a primitive of its own."""
    return np.asarray(x).astype(np.promote_types(np.asarray(x).dtype, np.float16))


def degrees(x: Any) -> Any:
    """Radians as degrees."""
    return real(x) * 57.29577951308232


def radians(x: Any) -> Any:
    """Degrees as radians."""
    return real(x) * 0.017453292519943295


def exp2(x: Any) -> Any:
    """2 to the power x."""
    return 2.0 ** real(x)


def divmod_(x1: Any, x2: Any) -> Any:
    """Quotient and rest."""
    return np.floor_divide(x1, x2), np.mod(x1, x2)


def float_power(x1: Any, x2: Any) -> Any:
    """The power of doubles."""
    return np.float64(x1) ** np.float64(x2)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Any:
    """Whether elements are nearly equal."""
    near = np.abs(a - b * 1.0) <= atol + rtol * np.abs(b)
    return np.logical_or(a == b, np.logical_and(near, np.isfinite(b)))


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Any:
    """Whether all elements are nearly equal."""
    return np.all(isclose(a, b, rtol, atol))


def array_equal(a1: Any, a2: Any) -> Any:
    """Whether two arrays have one shape and equal elements."""
    if np.asarray(a1).shape != np.asarray(a2).shape:
        return False
    return np.all(np.equal(a1, a2))


def interp(x: Any, xp: Any, fp: Any) -> Any:
    """The value at x of the line through the points (xp, fp), which are in order."""
    x, xp, fp = (np.array(v).astype(np.float64) for v in (x, xp, fp))
    if len(xp) != len(fp):
        raise ValueError("fp and xp are not of the same length.")
    last = len(xp) - 1
    at = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, last - 1)
    low, high = np.take(xp, at), np.take(xp, at + 1)
    part = np.clip((x - low) / (high - low), 0.0, 1.0)
    return np.take(fp, at) + part * (np.take(fp, at + 1) - np.take(fp, at))


def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0) -> Any:
    """Powers of the base at even distances."""
    return base ** np.linspace(start, stop, num, endpoint)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True) -> Any:
    """Numbers at even ratios."""
    return np.exp(np.linspace(np.log(start), np.log(stop), num, endpoint))


def broadcast_to(array: Any, shape: Any) -> Any:
    """The array repeated along axes to a shape."""
    return array + np.zeros(shape, np.bool_)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """The first choice whose condition holds."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    chosen = default
    for condition, choice in zip(condlist[::-1], choicelist[::-1], strict=True):
        chosen = np.where(condition, choice, chosen)
    return chosen


def cov(m: Any, ddof: int = 1) -> Any:
    """The covariance of rows of observations."""
    d = m - np.mean(m, axis=-1, keepdims=True)
    return d @ d.T / (m.shape[-1] - ddof)


def vander(x: Any, N: int) -> Any:
    """Powers of x as columns, the highest first."""
    return x[:, None] ** np.arange(N - 1, -1, -1)


# --- matrices ----------------------------------------------------------------------------------------------
def _swapped(a: Any, rows: Any, k: int, p: int) -> Any:
    """Rows k and p exchanged."""
    place = rows[:, None]
    return np.where(place == k, a[p], np.where(place == p, a[k], a))


def _pivot(a: Any, rows: Any, k: int) -> Any:
    """The row from k on with the largest number in column k."""
    return np.argmax(np.where(rows >= k, np.abs(a[:, k]), -1.0))


def _side(a: Any) -> int:
    """The rows of a square matrix."""
    if a.ndim != 2 or a.shape[0] != a.shape[-1]:
        raise ValueError("the matrix must be square, of two axes")
    return a.shape[0]


def solve(a: Any, b: Any) -> Any:
    """x with a x = b, by elimination."""
    n = _side(a)
    rows = np.arange(n)
    both = np.concatenate((a, b.reshape(n, -1)), axis=1)
    for k in range(n):
        both = _swapped(both, rows, k, _pivot(both, rows, k))
        top = both[k] / both[k, k]
        factor = np.where(rows == k, 0.0, both[:, k])
        both = np.where(rows[:, None] == k, top, both - np.outer(factor, top))
    return both[:, n:].reshape(b.shape)


def _solve_gradient(d: Any, x: Any, a: Any, b: Any) -> Any:
    back = np.linalg.solve(a.T, d)
    n = a.shape[0]
    return -(back.reshape(n, -1) @ x.reshape(n, -1).T), back


def inv(a: Any) -> Any:
    """The inverse."""
    return np.linalg.solve(a, np.eye(_side(a)))


def slogdet(a: Any) -> Any:
    """The sign of the determinant and the logarithm of its size."""
    value = np.linalg.det(a)
    return np.sign(value), np.log(np.abs(value))


def det(a: Any) -> Any:
    """The determinant."""
    n = _side(a)
    rows = np.arange(n)
    value = 1.0
    for k in range(n):
        p = _pivot(a, rows, k)
        a = _swapped(a, rows, k, p)
        top = a[k]
        pivot = top[k]
        value = value * np.where(p == k, pivot, -pivot)
        factor = np.where(rows > k, a[:, k], 0.0) / np.where(pivot == 0, 1.0, pivot)
        a = a - np.outer(factor, top)
    return value


def cholesky(a: Any) -> Any:
    """The lower triangular matrix whose product with its transpose is a."""
    n = _side(a)
    rows = np.arange(n)
    factor = np.zeros_like(a)
    for j in range(n):
        column = a[:, j] - factor @ factor[j]
        column = np.where(rows >= j, column / np.sqrt(column[j]), 0.0)
        factor = factor + np.outer(column, np.where(rows == j, 1.0, 0.0))
    return factor


def matrix_power(a: Any, n: int) -> Any:
    """The product of n times a matrix; of its inverse for negative n."""
    if n < 0:
        a, n = np.linalg.inv(a), -n
    power = np.eye(a.shape[0])
    while n > 0:
        if n % 2 == 1:
            power = power @ a
        a = a @ a
        n = n // 2
    return power


class Declared:
    """A function with a declared gradient, as `glow.custom_gradient` makes it."""

    def __init__(self, function: Callable[..., Any], gradient: Callable[..., Any]) -> None:
        self.glow_function, self.glow_declared = function, gradient


#: Compiled functions in place of NumPy's.
ARRAY_WRITTEN: dict[Any, Any] = {
    **{
        getattr(np, f.__name__): f
        for f in (flipud, fliplr, vdot, average, polyval, heaviside, sinc, degrees, radians, exp2,
                  float_power, isclose, allclose, array_equal, interp, logspace, geomspace,
                  broadcast_to, select, cov, vander)
    },
    np.divmod: divmod_, np.deg2rad: radians, np.rad2deg: degrees,
    **{getattr(np.linalg, f.__name__): f for f in (inv, slogdet, det, cholesky, matrix_power)},
    np.linalg.solve: Declared(solve, _solve_gradient),
}  # fmt: skip
