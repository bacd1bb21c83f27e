"""Statistics, polynomials and slopes of NumPy, written with other functions of it, and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np


# --- statistics --------------------------------------------------------------------------------------------
def average(a: Any, axis: Any = None, weights: Any = None) -> Any:
    """The mean, weighted where weights are given."""
    if weights is None:
        return np.mean(a) if axis is None else np.mean(np.moveaxis(a, axis, 0), 0)
    if axis is None:
        return np.sum(a * weights) / np.sum(weights)
    moved = np.moveaxis(a, axis, 0)
    return np.tensordot(weights, moved, 1) / np.sum(weights)


def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None) -> Any:
    """The covariance of rows of observations, as doubles."""
    rows = _observed(m, rowvar)
    if y is not None:
        rows = np.concatenate((rows, _observed(y, rowvar)))
    less = (0 if bias else 1) if ddof is None else ddof
    d = rows - np.mean(rows, 1, keepdims=True)
    return np.squeeze(d @ d.T / (rows.shape[1] - less))


def _observed(m: Any, rowvar: bool) -> Any:
    rows = np.atleast_2d(np.float64(m))
    return rows if rowvar or rows.shape[0] == 1 else rows.T


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """How far rows of observations are one a multiple of the other, from -1 to 1, as doubles."""
    c = np.cov(x, y, rowvar)
    if np.ndim(c) == 0:
        return c / c
    deviations = np.sqrt(np.diag(c))
    return np.clip(c / deviations[:, None] / deviations[None, :], -1.0, 1.0)


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """In which of the intervals between bins, which rise or fall, numbers lie."""
    edges = np.asarray(bins)
    below = np.searchsorted(edges, x, side="left" if right else "right")
    above = len(edges) - np.searchsorted(edges[::-1], x, side="left" if right else "right")
    return np.where(edges[0] <= edges[-1], below, above)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None) -> Any:
    """The edges of bins: as many of one width, from the least element to the largest, or those given."""
    if np.ndim(np.asarray(bins)) == 1:
        return np.asarray(bins)
    x = np.ravel(a) * 1.0
    low, high = (np.min(x), np.max(x)) if range is None else range
    same = low == high
    ends = np.float64(np.where(same, low - 0.5, low)), np.float64(np.where(same, high + 0.5, high))
    return np.linspace(ends[0], ends[1], bins + 1).astype(np.asarray(x).dtype)


def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """How many elements, or what weights, lie in each bin, of which the last holds its end; and the edges."""
    edges = np.histogram_bin_edges(a, bins, range)
    x = np.ravel(a)
    below = x < edges[:-1, None]
    whole = np.concatenate((below, x[None] <= edges[-1]))
    if weights is None:
        counts = np.diff(np.sum(whole, 1))
    else:
        counts = np.diff(np.sum(np.where(whole, np.ravel(weights), 0), 1))
    if density:
        return counts / np.float64(np.diff(edges)) / np.sum(counts), edges
    return counts, edges


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


# --- polynomials -------------------------------------------------------------------------------------------
def polyval(p: Any, x: Any) -> Any:
    """The polynomial of coefficients p, the highest power first, at x."""
    total = np.zeros_like(x)
    for c in p:
        total = total * x + c
    return total


def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """Powers of x as columns, the highest first unless they increase."""
    powers = np.arange(len(x) if N is None else N)
    return x[:, None] ** (powers if increasing else powers[::-1])


def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials, the highest power first."""
    a, b = _as_long(a1, a2)
    return a + b


def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials, the highest power first."""
    a, b = _as_long(a1, a2)
    return a - b


def _as_long(a1: Any, a2: Any) -> Any:
    """Two polynomials with zeros before the shorter one."""
    a, b = np.atleast_1d(a1), np.atleast_1d(a2)
    n = max(len(a), len(b))
    return np.pad(a, (n - len(a), 0)), np.pad(b, (n - len(b), 0))


def polymul(a1: Any, a2: Any) -> Any:
    """The product of two polynomials; leading zeros, which NumPy leaves out, stay."""
    return np.convolve(np.atleast_1d(a1), np.atleast_1d(a2))


def polyder(p: Any, m: int = 1) -> Any:
    """The derivative of order m of a polynomial."""
    made = np.atleast_1d(p)
    for _ in range(m):
        made = made[:-1] * np.arange(len(made) - 1, 0, -1)
    return made


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The integral of order m of a polynomial, with the constants k."""
    made = np.atleast_1d(p)
    constants = np.zeros(m) if k is None else np.asarray(k) * np.ones(m)
    for i in range(m):
        made = np.concatenate((made / np.arange(len(made), 0, -1), constants[i : i + 1]))
    return made


def polyfit(x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None) -> Any:
    """The polynomial of least squares, the highest power first; columns have length 1 while it is sought."""
    if full:
        raise ValueError("polyfit gives the polynomial only, full=False")
    powers, wanted = np.vander(np.float64(x), deg + 1), np.float64(y)
    narrow = (np.asarray(x) * 1.0).dtype == np.float32
    cut = len(powers) * (2.0**-23 if narrow else 2.0**-52) if rcond is None else rcond
    if w is not None:
        powers = powers * np.array(w).astype(np.float64)[:, None]
        wanted = (wanted.T * np.float64(w)).T
    scale = np.sqrt(np.sum(powers * powers, 0))
    return (np.linalg.lstsq(powers / scale, wanted, cut)[0].T / scale).T


# --- slopes, sums and sequences ----------------------------------------------------------------------------
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by trapezoids between places x, or at distances dx."""
    moved = np.moveaxis(y, axis, -1)
    steps = dx if x is None else np.diff(x) if np.ndim(x) == 1 else np.diff(np.moveaxis(x, axis, -1))
    return np.sum(steps * (moved[..., 1:] + moved[..., :-1]) / 2.0, -1)


def slopes(f: Any, step: Any, edge_order: int) -> Any:
    """np.gradient: slopes along the only axis, or the tuple of those along all."""
    y = np.asarray(f)
    if y.ndim == 1:
        return slope(y, step, 0, edge_order)
    if y.ndim == 2:
        return slope(y, step, 0, edge_order), slope(y, step, 1, edge_order)
    if y.ndim == 3:
        return tuple([slope(y, step, a, edge_order) for a in (0, 1, 2)])
    if y.ndim == 4:
        return tuple([slope(y, step, a, edge_order) for a in (0, 1, 2, 3)])
    raise ValueError("np.gradient of this many axes; name them by axis")


def slope(f: Any, step: Any, axis: int, edge_order: int) -> Any:
    """Slopes along an axis, by differences of neighbours on both sides, which are a step or places apart."""
    return np.moveaxis(_slope(np.moveaxis(f, axis, -1) * 1.0, step, edge_order), -1, axis)


def _slope(y: Any, step: Any, edge_order: int) -> Any:
    n = y.shape[-1]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, "
            "at least (edge_order + 1) elements are required."
        )
    d = np.diff(step).astype(y.dtype) if np.ndim(step) == 1 else step * np.ones(n - 1, y.dtype)
    rise = np.diff(y) / d
    before, behind = d[:-1] / (d[:-1] + d[1:]), d[1:] / (d[:-1] + d[1:])
    middle = rise[..., :-1] * behind + rise[..., 1:] * before
    first, last = rise[..., :1], rise[..., -1:]
    if edge_order == 2:
        first = first + (first - rise[..., 1:2]) * before[0]
        last = last + (last - rise[..., -2:-1]) * behind[-1]
    return np.concatenate((first, middle, last), -1)


def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """Sums of products of a row with a shorter one at each place."""
    if len(a) >= len(v):
        return np.convolve(a, np.flip(v), mode)
    return np.flip(np.convolve(v, np.flip(a), mode))


def unwrap(p: Any, discont: Any = None, axis: int = -1, period: float = 6.283185307179586) -> Any:
    """Angles along an axis, with whole periods added so that no step is more than half of one."""
    y = np.moveaxis(p * 1.0, axis, -1)
    half = period / 2.0
    step = np.diff(y)
    short = np.mod(step + half, period) - half
    short = np.where(np.logical_and(short == -half, step > 0), half, short)
    more = np.where(np.abs(step) < (half if discont is None else max(discont, half)), 0.0, short - step)
    return np.moveaxis(np.concatenate((y[..., :1], y[..., 1:] + np.cumsum(more, -1)), -1), -1, axis)


#: Compiled functions in place of NumPy's.
ANALYSIS: dict[Any, Any] = {
    getattr(np, f.__name__): f
    for f in (average, cov, corrcoef, digitize, histogram_bin_edges, histogram, interp, polyval, vander,
              polyadd, polysub, polymul, polyder, polyint, polyfit, trapezoid, correlate, unwrap)
    if hasattr(np, f.__name__)
}  # fmt: skip
