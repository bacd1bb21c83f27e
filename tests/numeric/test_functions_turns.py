"""Loops of arrays, several turns at a time: values against NumPy, gradients against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

torch = pytest.importorskip("torch")

UNITS = 6


def lstm(w: Any, u: Any, b: Any, xs: Any) -> Any:
    """The sum of the last state of an LSTM: a body of many operations."""
    h = np.zeros((2, UNITS))
    c = h
    for x in xs:
        gates = x @ w + h @ u + b
        i = glow.ops.sigmoid(gates[:, :UNITS])
        f = glow.ops.sigmoid(gates[:, UNITS : 2 * UNITS])
        g = np.tanh(gates[:, 2 * UNITS : 3 * UNITS])
        o = glow.ops.sigmoid(gates[:, 3 * UNITS :])
        c = f * c + i * g
        h = o * np.tanh(c)
    return np.sum(h * h)


def peer(w: Any, u: Any, b: Any, xs: Any) -> Any:
    """The same with PyTorch."""
    h = torch.zeros(2, UNITS, dtype=torch.float64)
    c = h
    for x in xs:
        i, f, g, o = (x @ w + h @ u + b).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return (h * h).sum()


def arrays(steps: int) -> list[np.ndarray]:
    """Weights and a sequence."""
    random = np.random.default_rng(steps)
    shapes = [(3, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,), (steps, 2, 3)]
    return [random.normal(size=s) * 0.5 for s in shapes]


@pytest.mark.parametrize("steps", [1, 9, 41])
def test_lstm(steps: int) -> None:
    """All gradients: of weights, which turns share, and of the sequence, whose rows they take."""
    given = arrays(steps)
    compiled = glow.value_and_grad(lstm, argnums=(0, 1, 2, 3))
    value, found = compiled(*given)
    held = [torch.tensor(a, requires_grad=True) for a in given]
    expected = peer(*held)
    expected.backward()
    assert abs(value - expected.item()) < 1e-9
    for mine, theirs in zip(found, held, strict=True):
        assert theirs.grad is not None
        np.testing.assert_allclose(mine, theirs.grad.numpy(), atol=1e-9)
    assert compiled.report()["instances"] == [{"runs on": "cpu", "because": ""}]


@pytest.mark.slow
def test_what_is_fixed() -> None:
    """Gradients by some arguments only, one after another, and by what another gradient had fixed."""
    given = arrays(9)
    one = glow.grad(lstm, argnums=1)

    def both(w: Any, u: Any, b: Any, xs: Any) -> Any:
        first = glow.grad(lstm, argnums=0)(w, u, b, xs)
        return first, glow.grad(lstm, argnums=3)(w, u, b, xs)

    held = [torch.tensor(a, requires_grad=True) for a in given]
    peer(*held).backward()
    expected = [t.grad.numpy() for t in held if t.grad is not None]
    np.testing.assert_allclose(one(*given), expected[1], atol=1e-9)
    first, last = glow.jit(both)(*given)
    np.testing.assert_allclose(first, expected[0], atol=1e-9)
    np.testing.assert_allclose(last, expected[3], atol=1e-9)


def test_gradient_inside_another() -> None:
    """What an inner gradient is not taken by, the outer one may be."""

    def inner(w: Any, x: Any) -> Any:
        s = np.zeros(3)
        for row in x:
            s = np.tanh(s * w + row)
        return np.sum(s)

    def outer(x: Any, w: Any) -> Any:
        return np.sum(glow.grad(inner)(w, x) ** 2)

    random = np.random.default_rng(0)
    x, w = random.normal(size=(6, 3)), random.normal(size=3)
    found = glow.grad(outer)(x, w)
    held = torch.tensor(x, requires_grad=True)
    weight = torch.tensor(w, requires_grad=True)
    s = torch.zeros(3, dtype=torch.float64)
    for row in held:
        s = torch.tanh(s * weight + row)
    (slope,) = torch.autograd.grad(s.sum(), weight, create_graph=True)
    (slope**2).sum().backward()
    assert held.grad is not None
    np.testing.assert_allclose(found, held.grad.numpy(), atol=1e-8)


def backwards(x: Any) -> Any:
    """Steps downwards."""
    s = np.zeros(3)
    for i in range(len(x) - 1, -1, -1):
        s = np.tanh(s * 0.5 + x[i]) * (i + 1.0)
    return s


def every_other(x: Any) -> Any:
    """Steps of two from a first that is not zero."""
    s = np.zeros(3)
    for i in range(1, len(x), 2):
        s = np.sin(s + x[i] * x[i - 1])
    return s


def from_below(x: Any) -> Any:
    """Positions counted from the end."""
    s = np.zeros(3)
    for i in range(-40, 0):
        s = np.cos(s + x[i])
    return s


def growing(x: Any) -> Any:
    """A shape that changes each turn."""
    s = x[0]
    for i in range(6):
        s = np.concatenate([s * 0.5 + x[i, 0], x[i]])
    return s


def carried_rows(x: Any) -> Any:
    """Rows of what changes each turn."""
    y = x
    for i in range(len(x)):
        y = np.sin(y * 0.9 + np.sum(y[i]) * 0.1)
    return y


def nested(x: Any) -> Any:
    """A loop in a loop."""
    s = np.zeros(3)
    for a in x:
        for b in x:
            s = np.tanh(s + a * b)
    return s


def while_loop(x: Any) -> Any:
    """A counter of one's own."""
    s, i = x[0], 0
    while i < 37:
        s = np.sin(s) + x[i] * 0.1
        i = i + 1
    return s


def scalars_of_rows(x: Any) -> Any:
    """Numbers from arrays."""
    t = 0.0
    for i in range(len(x)):
        t = t * 0.5 + float(np.sum(x[i])) * i
    return t


def never(x: Any) -> Any:
    """No turn."""
    s = x[0]
    for i in range(0):
        s = s + x[i]
    return s


PROGRAMS = (backwards, every_other, from_below, growing, carried_rows, nested, while_loop, scalars_of_rows,
            never)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_counters(program: Callable[..., Any], backend: str) -> None:
    """Counters of all kinds: the value is NumPy's, the gradient that of differences."""
    x = np.random.default_rng(3).normal(size=(40, 3))
    np.testing.assert_allclose(glow.jit(program, backend=backend)(x), program(x), atol=1e-10)

    def total(y: Any) -> Any:
        return np.sum(program(y) * 1.0)

    found = glow.grad(glow.jit(total, backend=backend))(x)
    step = np.random.default_rng(4).normal(size=x.shape)
    up, down = total(x + 1e-6 * step), total(x - 1e-6 * step)
    assert abs(np.sum(found * step) - (up - down) / 2e-6) < 1e-4 * max(1.0, abs(up - down) / 2e-6)
