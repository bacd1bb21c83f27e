"""Functions of NumPy that are written with other functions of NumPy: compiled like functions of the user."""

from __future__ import annotations

import math
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


def real(x: Any) -> Any:
    """The floats in which NumPy computes mathematical functions of x: a primitive of its own."""
    return np.asarray(x).astype(np.promote_types(np.asarray(x).dtype, np.float16))


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


def size(a: Any, axis: Any = None) -> int:
    """How many elements there are, or how many along an axis."""
    return math.prod(np.shape(a)) if axis is None else np.shape(a)[axis]


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """Values behind those of an array."""
    if axis is None:
        return np.concatenate((np.ravel(np.asarray(arr)), np.ravel(np.asarray(values))))
    return np.concatenate((np.asarray(arr), np.asarray(values)), axis)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours, between what is given for the ends."""
    steps = np.diff(np.ravel(ary))
    if to_begin is not None:
        steps = np.concatenate((np.ravel(np.asarray(to_begin)).astype(steps.dtype), steps))
    if to_end is not None:
        steps = np.concatenate((steps, np.ravel(np.asarray(to_end)).astype(steps.dtype)))
    return steps


def isin(element: Any, test_elements: Any, invert: bool = False) -> Any:
    """Which elements are among others."""
    found = np.any(np.expand_dims(element, -1) == np.ravel(np.asarray(test_elements)), -1)
    return np.logical_not(found) if invert else found


def isposinf(x: Any) -> Any:
    """Which elements are infinity."""
    return np.logical_and(np.isinf(x), np.greater(x, 0))


def isneginf(x: Any) -> Any:
    """Which elements are minus infinity."""
    return np.logical_and(np.isinf(x), np.less(x, 0))


def gcd(x1: Any, x2: Any) -> Any:
    """The greatest common divisors."""
    a, b = np.abs(x1) + np.zeros_like(x2), np.abs(x2) + np.zeros_like(x1)
    while np.any(b != 0):
        a, b = np.where(b == 0, a, b), np.where(b == 0, 0, a % np.where(b == 0, 1, b))
    return a


def lcm(x1: Any, x2: Any) -> Any:
    """The least common multiples."""
    divisor = np.gcd(x1, x2)
    return np.abs(x1) // np.where(divisor == 0, 1, divisor) * np.abs(x2)


def modf(x: Any) -> Any:
    """Fractions and whole parts, both with the sign of the number."""
    y = real(x)
    whole = np.trunc(y)
    return np.copysign(np.where(np.isinf(y), 0.0, y - whole), y), whole


def ldexp(x1: Any, x2: Any) -> Any:
    """x1 times 2 to the power of an int x2, which may be more than a float holds."""
    y, half = real(x1), x2 // 2
    return (np.float64(y) * 2.0**half * 2.0 ** (x2 - half)).astype(np.atleast_1d(y).dtype)


def diagflat(v: Any, k: int = 0) -> Any:
    """A matrix with all elements on a diagonal."""
    return np.diag(np.ravel(v), k)


def unstack(x: Any, axis: int = 0) -> Any:
    """The tuple of the parts along an axis."""
    return tuple([part for part in np.moveaxis(x, axis, 0)])


def unravel_index(indices: Any, shape: Any) -> Any:
    """The places along each axis of elements that are counted in rows."""
    steps = np.flip(np.cumprod(np.flip(np.asarray(shape))))
    return tuple([np.asarray(indices) // (step // n) % n for n, step in zip(shape, steps)])  # noqa: B905


def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise") -> Any:
    """Elements, counted in rows, of places along axes."""
    total = 0
    for i, n in zip(multi_index, dims, strict=True):
        if mode == "raise" and np.any((i < 0) | (i >= n)):
            raise ValueError("invalid entry in coordinates array")
        place = np.asarray(i).astype(np.int64)
        total = total * n + (np.clip(place, 0, n - 1) if mode == "clip" else place % n)
    return total


def nanargmax(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Where the largest number is that is no NaN."""
    _some_number(a, axis)
    b = np.where(np.isnan(a), -np.inf, a)
    return np.argmax(b, keepdims=keepdims) if axis is None else np.argmax(b, axis, keepdims=keepdims)


def nanargmin(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Where the smallest number is that is no NaN."""
    _some_number(a, axis)
    b = np.where(np.isnan(a), np.inf, a)
    return np.argmin(b, keepdims=keepdims) if axis is None else np.argmin(b, axis, keepdims=keepdims)


def _some_number(a: Any, axis: Any) -> None:
    if np.any(np.all(np.isnan(a)) if axis is None else np.all(np.isnan(a), axis)):
        raise ValueError("All-NaN slice encountered")


def cumulative_sum(x: Any, axis: Any = None, include_initial: bool = False) -> Any:
    """Sums of the first elements, of no element too where that is wanted."""
    along = _only_axis(x) if axis is None else axis
    made = np.cumsum(x, along)
    return (
        np.concatenate((np.zeros_like(np.take(made, [0], along)), made), along) if include_initial else made
    )


def cumulative_prod(x: Any, axis: Any = None, include_initial: bool = False) -> Any:
    """Products of the first elements, of no element too where that is wanted."""
    along = _only_axis(x) if axis is None else axis
    made = np.cumprod(x, along)
    return np.concatenate((np.ones_like(np.take(made, [0], along)), made), along) if include_initial else made


def _only_axis(x: Any) -> int:
    if np.ndim(x) != 1:
        raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
    return 0


def matrix_transpose(x: Any) -> Any:
    """Rows and columns of the last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


def vecdot(x1: Any, x2: Any, axis: int = -1) -> Any:
    """Products of vectors along an axis."""
    return np.einsum("...i,...i->...", np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1))


def matvec(x1: Any, x2: Any) -> Any:
    """Products of matrices with vectors."""
    return np.einsum("...mn,...n->...m", x1, x2)


def vecmat(x1: Any, x2: Any) -> Any:
    """Products of vectors with matrices."""
    return np.einsum("...n,...nm->...m", x1, x2)


def piecewise(x: Any, condlist: Any, funclist: Any) -> Any:
    """The function, or number, of the last condition that holds; of none, the one behind, or 0."""
    y = np.zeros_like(x)
    if len(funclist) == len(condlist) + 1:
        y = y + _piece(funclist[-1], x)
    for condition, function in zip(condlist, funclist, strict=False):
        y = np.where(condition, _piece(function, x), y)
    return y.astype(x.dtype)


def _piece(function: Any, x: Any) -> Any:
    return function(x) if callable(function) else function


def choose(a: Any, choices: Any, mode: str = "raise") -> Any:
    """The element of the array that each int names."""
    a, count = np.asarray(a), len(choices)
    if mode == "raise" and np.any((a < 0) | (a >= count)):
        raise ValueError("invalid entry in choice array")
    place = np.clip(a, 0, count - 1) if mode == "clip" else a % count
    chosen = choices[0]
    for i in range(count):
        chosen = np.where(place == i, choices[i], chosen)
    return chosen


def apply_along_axis(func1d: Any, axis: int, arr: Any) -> Any:
    """A function of each row along an axis; what it gives lies along the axis again."""
    moved = np.moveaxis(arr, axis, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    made = np.array([func1d(row) for row in rows])
    whole = made.reshape((*moved.shape[:-1], *made.shape[1:]))
    return whole if made.ndim == 1 else np.moveaxis(whole, -1, axis)


#: Compiled functions in place of NumPy's; some are new in a later NumPy than ours may be.
ELEMENTS: dict[Any, Any] = {
    **{
        getattr(np, f.__name__): f
        for f in (flipud, fliplr, vdot, float_power, isclose,
                  allclose, array_equal, logspace, geomspace, broadcast_to, select, size,
                  append, ediff1d, isin, isposinf, isneginf, gcd, lcm, modf, ldexp,
                  diagflat, unstack, unravel_index, ravel_multi_index, nanargmax,
                  nanargmin, cumulative_sum, cumulative_prod, matrix_transpose, vecdot, matvec, vecmat,
                  piecewise, choose, apply_along_axis)
        if hasattr(np, f.__name__)
    },
    np.divmod: divmod_,
}  # fmt: skip
