"""NumPy's functions of arrays and assignment to elements, in compiled functions: values as NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

R = np.random.default_rng(7)
A, B, X, Y = R.normal(size=(3, 4)), R.normal(size=(4, 4)), R.normal(size=(2, 3, 4)), R.normal(size=(4, 5))
V, W, S = R.normal(size=4), R.normal(size=3), np.sort(R.normal(size=10))


def accumulations(x):
    return np.cumsum(x, axis=1), np.cumprod(x, axis=0), x.cumsum(), np.diff(x), np.diff(x, n=2, axis=0)


def joins(x):
    return np.vstack([x, x]), np.hstack([x, x]), np.stack([x, x], axis=-1), np.column_stack([x[0], x[1]])


def orders(x):
    ranked = np.sort(x, axis=0), np.argsort(x, axis=1), np.argmax(x), np.argmin(x, axis=0), x.argmax(axis=1)
    turned = np.flip(x), np.flipud(x), np.roll(x, 1, 0)
    return ranked, turned, np.median(x), np.percentile(x, 30, axis=1), np.ptp(x)


def shapes(x):
    made = x.reshape(-1), x.reshape(6, -1), x.swapaxes(0, 1), np.moveaxis(x, 0, -1), x.T, np.ravel(x), x.size
    return made, np.expand_dims(x, 1), np.squeeze(x[None]), np.repeat(x, 2, axis=1), np.tile(x, (2, 1, 1))


def reductions(x):
    made = x.mean(axis=(0, 2)), x.std(axis=-1, ddof=1), np.var(x), x.max(axis=-1, keepdims=True)
    return (
        made,
        (x > 0).all(axis=0),
        np.any(x > 5),
        np.count_nonzero(x > 0),
        x.prod(axis=2),
        np.nansum(x),
        np.nanmean(x, axis=0),
    )


def products(x, y):
    made = np.tensordot(x, y, axes=1), np.tensordot(x, x, axes=([0, 1], [0, 1])), np.matmul(x, y), x.dot(y)
    return made, np.einsum("...ij,jk->...ik", x, y), np.einsum("ijk->k", x), np.einsum("ij,ij", x[0], x[1])


def matrices(x, y):
    made = np.trace(x), np.diag(x), np.diag(x[0], 1), np.tril(x), np.triu(x, 1), x.diagonal(), np.kron(x, y)
    return made, np.outer(x[0], y[0]), np.inner(x[0], x[1]), np.linalg.norm(x, axis=0), np.linalg.norm(x)


def algebra(x, b):
    made = np.linalg.solve(x, b), np.linalg.inv(x), np.linalg.det(x), np.linalg.matrix_power(x, 3)
    return made, np.linalg.cholesky(x @ x.T + np.eye(len(b))), np.eye(x.shape[0])


def rows(a, v):
    made = np.searchsorted(a, v), np.interp(v, a, a**2), np.convolve(a, v), np.polyval(v, a)
    return (
        made,
        np.take(a, [1, 2]),
        np.pad(v, 2),
        np.pad(v, (1, 2), mode="edge"),
        a[np.array([0, 3])],
        np.trapezoid(a),
    )


def elements(v):
    made = np.clip(v, -1, None), v.clip(0, 1), np.logaddexp(v, 0.0), np.heaviside(v, 0.5), np.sinc(v)
    return (
        made,
        np.mod(v, 0.3),
        np.logical_and(v > 0, v < 1),
        ~(v > 0),
        (v > 0) | (v < -1),
        np.arctan2(v, 0.5),
        np.cbrt(v),
    )


def numbers(x):
    n = x.shape[1]
    grid = np.meshgrid(np.arange(n), x[:, 0])
    return np.arange(n), np.linspace(0, 1, n), np.zeros((n, 2)), np.full(n, -1), grid


def parts(x):
    a, b = np.split(x, 2, axis=1)
    return a, b, np.split(x, [1, 3], axis=1), x[..., 0], x[::-1, ::2], x[np.array([0, 2]), np.array([1, 1])]


def stored(x):
    a = x.copy()
    a[0, 1] = 3.0
    a[1, :] += 2.0
    a[:, 2] = a[:, 3]
    a[-1] = 0
    a[1:3, 1:3] *= 2.0
    a[..., 0] = 1.0
    a[a < 0] = 0
    a[::-1, 3] = x[:, 0]
    return a


def stored_by_turn(x):
    n, m = x.shape
    a = np.zeros((n, m))
    b = x.copy()
    for i in range(n):
        for j in range(m - 1):
            a[i, j] = x[i, j + 1] * (i + 1)
            b[i, j + 1] += b[i, j]
        b[i] = b[i] - a[i]
    return a, b


def stored_in_lists(x):
    x = x.copy()
    rows = [x[0].copy(), x[1].copy()]
    rows[1] = rows[0] * 2
    d = {"a": x.copy(), "b": x[0]}
    d["b"] = d["b"] + 1
    d["a"][0] = d["b"]
    return rows, d


def swapped(v):
    a = v.copy()
    for i in range(len(a)):
        for j in range(len(a) - 1 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a


def mapped(x):
    return np.array([np.sum(row**2) * row[0] for row in x])


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    *((f, (A,)) for f in (accumulations, joins, orders, numbers, parts, stored, stored_by_turn, mapped)),
    *((f, (X,)) for f in (shapes, reductions)),
    (products, (X, Y)),
    (matrices, (B, A)),
    (algebra, (B, V)),
    (rows, (S, V)),
    (elements, (V,)),
    (stored_in_lists, (A,)),
    (swapped, (S[::-1].copy(),)),
]


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays and numbers of a result, in order."""
    if isinstance(value, dict):
        return [x for v in value.values() for x in leaves(v)]
    if isinstance(value, tuple | list):
        return [x for v in value for x in leaves(v)]
    return [np.asarray(value)]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(("function", "arguments"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_value(function: Callable[..., Any], arguments: tuple[Any, ...], backend: str) -> None:
    """Values, shapes and kinds of numbers are NumPy's; arguments stay as they are."""
    wanted = leaves(function(*[np.copy(a) for a in arguments]))
    given = [np.copy(a) for a in arguments]
    found = leaves(glow.jit(function, backend=backend)(*given))
    assert [f.shape for f in found] == [w.shape for w in wanted]
    assert [f.dtype.kind for f in found] == [w.dtype.kind for w in wanted]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=1e-9, atol=1e-9)
    assert all(np.array_equal(a, b) for a, b in zip(given, arguments, strict=True))


def weighted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of all floats of a result, each with its own weight."""

    def total(x):
        s = 0.0
        for k, part in enumerate(function(x)):
            s = s + (k + 1.0) * np.sum(np.cos(part))
        return s

    return total


def by_accumulations(x):
    made = np.cumsum(x, axis=1), np.cumprod(x, axis=0), np.diff(x)
    return *made, np.sort(x, axis=1), np.flip(x), np.roll(x, 1, 1)


def by_products(x):
    made = np.tensordot(x, x, axes=([0], [0])), np.kron(x, x), np.einsum("ij,kj->ik", x, x), np.diag(x)
    return (
        *made,
        np.tril(x),
        np.outer(x[0], x[1]),
        np.linalg.norm(x, axis=1),
        np.var(x, axis=0),
        np.convolve(x[0], x[1]),
    )


def by_algebra(x):
    square = x @ x.T + 2.0 * np.eye(3)
    made = np.linalg.solve(square, x), np.linalg.inv(square)
    return *made, np.linalg.det(square), np.linalg.cholesky(square)


def by_stores(x):
    a = np.zeros((3, 4))
    for i in range(3):
        for j in range(3):
            a[i, j] = x[i, j + 1] * x[j, i]
        a[i] += x[i]
    a[1:, 0] = x[0, 2] * a[1:, 1]
    a[a > 1.0] = 0.5
    return a, a[np.array([0, 0, 2])], np.array([np.sum(r) * r[1] for r in a])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("function", [by_accumulations, by_products, by_algebra, by_stores])
def test_gradient(function: Callable[..., Any], backend: str) -> None:
    """Gradients are those of finite differences."""
    f = weighted(function)
    found = glow.grad(glow.jit(f, backend=backend))(A)
    wanted = np.zeros_like(A)
    for index in np.ndindex(A.shape):
        step = np.zeros_like(A)
        step[index] = 1e-6
        wanted[index] = (f(A + step) - f(A - step)) / 2e-6
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
