"""Derivatives of stores at equal indices, of which the last wins, and of products at zeros."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

TWICE = np.array([0, 1, 1, 0, -1])


def _array(x: Any) -> Any:
    y = x * x
    y[TWICE] = x[1:] * 2
    return y


def _added(x: Any) -> Any:
    y = x * x
    y[TWICE] += x[:5]
    return y


def _one_number(x: Any) -> Any:
    y = x * x
    y[TWICE] = x[3]
    y[-1] += x[2]
    return y


def _rows(x: Any) -> Any:
    y = x.reshape(2, 3) * 1.0
    y[np.array([1, 0, 1])] = np.stack([x[:3], x[3:], x[1:4]]) * 2
    return y


def _pairs(x: Any) -> Any:
    y = x.reshape(2, 3) * 1.0
    y[np.array([1, 0, 1]), np.array([2, 0, 2])] = x[:3] * 2
    return y


def _mask(x: Any) -> Any:
    y = x * x
    y[np.array([True, False, True, True, False, False])] = x[3] * x[1]
    return y


def _loop(x: Any) -> Any:
    y = x * 1.0
    for k in range(6):
        y[k * k % 4] = x[k] * x[0]
    y[::2] = y[3:]
    return y


def _differences(f: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    steps = 1e-6 * np.eye(len(x))
    return np.stack([(f(x + s) - f(x - s)) / 2e-6 for s in steps], axis=-1)


@pytest.mark.parametrize("f", [_array, _added, _one_number, _rows, _pairs, _mask, _loop])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_the_last_store_wins_in_all_modes(f: Callable[[Any], Any], backend: str) -> None:
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(2, 6))
    want, compiled = _differences(f, x), glow.jit(f, backend=backend)
    np.testing.assert_allclose(compiled(x), f(x))
    np.testing.assert_allclose(glow.jacobian(compiled)(x), want, atol=1e-7)
    np.testing.assert_allclose(glow.jvp(compiled, (x,), (t,))[1], want @ t, atol=1e-7)
    d = rng.normal(size=f(x).shape)
    np.testing.assert_allclose(glow.vjp(compiled, x)[1](d)[0], np.tensordot(d, want, d.ndim), atol=1e-7)


ZEROS = ([1, 2, 0, 3, -1, 2], [0, 2, 3, 0, -2, 1], [0.0] * 6, [-1, 2, -3, 1, 0.5, 0])


def _running(x: Any, w: Any) -> Any:
    c = np.cumprod(x)
    return np.sum(c * w) + np.sum(c * c)


def _products(x: Any, w: Any) -> Any:
    r = x.reshape(2, 3)
    return np.prod(x) * x[1] + np.sum(np.prod(r, axis=1) * w[:2]) + np.sum(np.prod(r, axis=0) * w[:3])


def _by_hand(f: Any, x: Any, w: Any, torch: Any) -> Any:
    """The same in PyTorch, of products alone: all orders of derivatives are right."""

    def product(v: Any) -> Any:
        p = torch.ones(())
        for e in v:
            p = p * e
        return p

    if f is _running:
        c = torch.stack([product(x[: i + 1]) for i in range(6)])
        return (c * w).sum() + (c * c).sum()
    r = x.reshape(2, 3)
    rows, columns = ([product(v) for v in part] for part in (r, r.T))
    return product(x) * x[1] + (torch.stack(rows) * w[:2]).sum() + (torch.stack(columns) * w[:3]).sum()


@pytest.mark.slow
@pytest.mark.parametrize("f", [_running, _products])
def test_products_at_zeros_to_the_second_order(f: Any) -> None:
    torch = pytest.importorskip("torch")
    w = np.array([1.0, -2.0, 0.5, 3.0, 1.5, -1.0])
    value, second = glow.grad(f), glow.hessian(f)
    for numbers in ZEROS:
        x = np.array(numbers, float)
        at, weights = torch.tensor(x), torch.tensor(w)
        with torch.enable_grad():
            theirs = partial(_by_hand, f, w=weights, torch=torch)
            g = torch.autograd.functional.jacobian(theirs, at)
            h = torch.autograd.functional.hessian(theirs, at)
        np.testing.assert_allclose(value(x, w), g.numpy(), atol=1e-12)
        np.testing.assert_allclose(second(x, w), h.numpy(), atol=1e-12)
        t = np.arange(6.0)
        slope = glow.jvp(f, (x, w), (t, None))[1]
        np.testing.assert_allclose(slope, g.numpy() @ t, atol=1e-12)
