"""Tensors in native functions: loops, branches, recursion, closures and networks, without the interpreter."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

RANDOM = np.random.default_rng(1)
BACKENDS = ("cpu", "interpreter")


def normal(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(dtype)


def native(function: Any) -> bool:
    """Whether every instance that ran is machine code."""
    return all(i["runs on"] == "cpu" for i in function.report()["instances"])


def differences(f: Callable[..., Any], arguments: list[Any], i: int) -> np.ndarray:
    """Central differences of f along every element of argument i."""
    found = np.zeros_like(arguments[i])
    for place in np.ndindex(found.shape):
        sides: list[float] = []
        for h in (1e-6, -1e-6):
            moved = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
            moved[i][place] += h
            sides.append(float(f(*moved)))
        found[place] = (sides[0] - sides[1]) / 2e-6
    return found


def until_small(w, x, n):
    k = 0
    while np.sum(x * x) > 0.01:
        x = np.tanh(w @ x) * 0.5
        k += 1
    return np.sum(x) * 100.0 + k + np.sum(w) * n


def branches(w, x, n):
    y = w @ x
    if np.sum(y) > 0:
        y = np.tanh(y)
        if np.max(y) > 0.5:
            return np.sum(y * y)
    else:
        y = y * 2.0
    return np.mean(y) + n


def power(w, x, n):
    def step(m, v):
        return v if m <= 0 else np.tanh(w @ step(m - 1, v)) + v

    return np.sum(step(n, x) ** 2)


def tree(w, x, n):
    def grow(m, v):
        if m <= 1:
            return v
        return np.tanh(w @ grow(m - 1, v)) * 0.5 + grow(m - 2, v * 0.3)

    return np.sum(grow(n, x))


def chosen(w, x, n):
    first = lambda v: np.tanh(w @ v)  # noqa: E731
    second = lambda v: v * 0.5 + w[0]  # noqa: E731
    y = x
    for i in range(n):
        f = first if np.sum(y) > i * 0.1 else second
        y = f(y)
    return np.sum(y * y)


def carried_pair(w, x, n):
    pair = (x, w)
    i = 0
    while i < n:
        h, m = pair
        pair = (np.tanh(m @ h), m * 0.9 + w * 0.1)
        if np.max(pair[0]) > 0.9:
            break
        i += 1
    return np.sum(pair[0]) + np.sum(pair[1] ** 2)


def swapped(w, x, n):
    a, b = x, x * 2.0
    for _ in range(n):
        a, b = b, np.tanh(a + w[0])
    return np.sum(a * b)


def rows(w, x, n):
    total = np.zeros(3)
    for row in w:
        total = total + row * np.sum(row * x)
    return np.sum(total * total) + n


def grown(w, x, n):
    parts = x
    for i in range(4):
        parts = np.concatenate((parts, w[i % 3] * 0.5))
    return np.sum(parts * parts) * n


PROGRAMS = [until_small, branches, power, tree, chosen, carried_pair, swapped, rows, grown]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program(program: Callable[..., Any], backend: str) -> None:
    """Value and gradients against NumPy and finite differences."""
    arguments = [normal(3, 3) * 0.7, normal(3), 6]
    compiled = glow.jit(program, backend=backend)
    gradient = glow.value_and_grad(compiled, argnums=(0, 1))
    for _ in range(2):
        value, found = gradient(*arguments)
        assert np.isclose(value, program(*arguments), rtol=1e-10)
        assert np.isclose(compiled(*arguments), program(*arguments), rtol=1e-10)
    for i in range(2):
        np.testing.assert_allclose(found[i], differences(program, arguments, i), rtol=1e-5, atol=1e-6)
    if backend == "cpu":
        assert native(gradient) and native(compiled)


def recurrent(w, u, xs):
    h = np.zeros(8, np.float32)
    for x in xs:
        h = np.tanh(w @ h + u @ x)
    return np.sum(h * h)


@pytest.mark.parametrize("steps", [5, 60])
def test_recurrent_network_against_pytorch(steps: int) -> None:
    """A loop that is unrolled, and one that stays a loop with its tape."""
    torch = pytest.importorskip("torch")
    w, u = normal(8, 8, dtype=np.float32) * 0.3, normal(8, 4, dtype=np.float32) * 0.3
    xs = normal(steps, 4, dtype=np.float32)
    compiled = glow.value_and_grad(recurrent, argnums=(0, 1, 2))
    value, found = compiled(w, u, xs)
    assert native(compiled)
    given = [torch.tensor(a, requires_grad=True) for a in (w, u, xs)]
    h = torch.zeros(8)
    for x in given[2]:
        h = torch.tanh(given[0] @ h + given[1] @ x)
    loss = (h * h).sum()
    loss.backward()
    assert np.isclose(value, loss.item(), rtol=1e-4)
    for mine, theirs in zip(found, given, strict=True):
        np.testing.assert_allclose(mine, theirs.grad.numpy(), rtol=1e-3, atol=1e-6)


def convolutional(w, b, v, c, x, targets):
    y = np.maximum(glow.ops.conv(x, w, b, strides=(1, 1), pads=(1, 1, 1, 1)), 0.0)
    y = glow.ops.max_pool(y, kernel=(2, 2), strides=(2, 2))
    y = np.reshape(y, (x.shape[0], -1)) @ v + c
    return -np.sum(glow.ops.log_softmax(y, axis=1) * targets) / x.shape[0]


def test_network_against_pytorch() -> None:
    """A convolutional network as a plain function: loss and the gradient of every weight."""
    torch = pytest.importorskip("torch")
    arguments = [
        normal(4, 3, 3, 3, dtype=np.float32), normal(4, dtype=np.float32),
        normal(64, 5, dtype=np.float32) * 0.2, normal(5, dtype=np.float32),
        normal(2, 3, 8, 8, dtype=np.float32),
    ]  # fmt: skip
    labels = np.array([1, 4])
    compiled = glow.value_and_grad(convolutional, argnums=(0, 1, 2, 3))
    value, found = compiled(*arguments, np.eye(5, dtype=np.float32)[labels])
    assert native(compiled)
    w, b, v, c = (torch.tensor(a, requires_grad=True) for a in arguments[:4])
    y = torch.relu(torch.nn.functional.conv2d(torch.tensor(arguments[4]), w, b, padding=1))
    y = torch.nn.functional.max_pool2d(y, 2).reshape(2, -1) @ v + c
    loss = torch.nn.functional.cross_entropy(y, torch.tensor(labels))
    loss.backward()
    assert np.isclose(value, loss.item(), rtol=1e-4)
    for mine, theirs in zip(found, (w, b, v, c), strict=True):
        np.testing.assert_allclose(mine, theirs.grad.numpy(), rtol=1e-3, atol=1e-5)


def test_network_matches_differentiate() -> None:
    """A step written with value_and_grad gives the weights that the graph's training program gives."""

    def loss(w, v, x, targets):
        scores = np.tanh(x @ w) @ v
        return -np.sum(glow.ops.log_softmax(scores, axis=1) * targets) / x.shape[0]

    def step(w, v, x, targets):
        dw, dv = glow.grad(loss, argnums=(0, 1))(w, v, x, targets)
        return w - 0.5 * dw, v - 0.5 * dv

    w, v = normal(6, 10, dtype=np.float32), normal(10, 4, dtype=np.float32)
    x, labels = normal(7, 6, dtype=np.float32), RANDOM.integers(0, 4, 7)
    graph = glow.GraphBuilder()
    given = graph.placeholder("x", x.shape)
    hidden = graph.tanh(graph.matmul(given, graph.constant(w, "w")))
    graph.save(graph.matmul(hidden, graph.constant(v, "v")), "y")
    trainer = glow.Trainer(graph, "cross_entropy", glow.optim.SGD(lr=0.5))
    compiled = glow.jit(step)
    for _ in range(3):
        w, v = compiled(w, v, x, np.eye(4, dtype=np.float32)[labels])
        trainer.step({"x": x}, labels)
    found = trainer.parameters()
    np.testing.assert_allclose(w, found["w"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(v, found["v"], rtol=1e-4, atol=1e-5)


def test_long_loops_reclaim_memory() -> None:
    """A loop of a hundred thousand turns of large tensors runs in little memory."""
    x = normal(100, 100, dtype=np.float32)

    def turn(x, n):
        y = x
        for i in range(n):
            y = y * 0.5 + x
            if i % 7 == 3:
                for _ in range(2):
                    y = y - 1.0
        return y

    compiled = glow.jit(turn)  # beyond the limit of 4 GB if nothing were reclaimed
    np.testing.assert_allclose(compiled(x, 70_000 * 2 - 1), compiled(x, 70 * 2 - 1), rtol=1e-5)
    assert native(compiled)


def test_results_are_the_callers() -> None:
    """Results of a call do not change with the next one; arguments are not changed."""

    def both(x):
        y = x * 2.0
        return y, (np.sum(y), y[0]), x

    compiled = glow.jit(both)
    for shape in ((3, 4), (200, 70)):
        x = normal(*shape, dtype=np.float32)
        kept = x.copy()
        first = compiled(x)
        second = compiled(np.asfortranarray(x + 1))
        np.testing.assert_array_equal(first[0], kept * 2)
        np.testing.assert_array_equal(first[1][1], kept[0] * 2)
        np.testing.assert_allclose(second[0], (kept + 1) * 2)
        np.testing.assert_array_equal(first[2], kept)
        first[2][...] = 0
        np.testing.assert_array_equal(x, kept)


def test_a_call_costs_little() -> None:
    """What a call of a small function does in Python, which is nearly all of its time, is counted."""

    def small(x, w):
        return np.tanh(x @ w)

    x, w = normal(4, 8, dtype=np.float32), normal(8, 8, dtype=np.float32)
    compiled = glow.jit(small)
    compiled(x, w)
    calls: list[str] = []
    sys.setprofile(lambda frame, event, _: calls.append(f"{event} {frame.f_code.co_name}"))
    try:
        compiled(x, w)
    finally:
        sys.setprofile(None)
    assert sum(c.split()[0] in ("call", "c_call") for c in calls) < 35, calls


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((33, 40), (40, 17)), ((3, 5, 7), (3, 7, 4)), ((5, 7), (2, 3, 7, 4)), ((2, 3, 5, 7), (7, 4)),
        ((7,), (7, 4)), ((5, 7), (7,)), ((2, 1, 5, 7), (3, 7, 4)),
    ],
)  # fmt: skip
def test_products_in_double_precision(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Products of matrices and stacks of them in float64 against NumPy."""

    def product(a, b):
        return a @ b

    a, b = normal(*left), normal(*right)
    np.testing.assert_allclose(glow.jit(product)(a, b), a @ b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", [3, 16])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_subscripts_beyond_an_axis(width: int, backend: str) -> None:
    """What lies beside an array is never read: a subscript outside it is an error, natively too."""

    def f(x: Any, i: Any) -> Any:
        return np.sum(np.tanh(x[i]))

    x = np.random.default_rng(3).normal(size=(40, width))
    found = glow.jit(f, backend=backend)
    for i in (39, -40, 0):
        assert np.isclose(found(x, i), np.sum(np.tanh(x[i])))
    for i in (40, 10**12, -41, -(10**12)):
        with pytest.raises(IndexError, match="a subscript lies outside its axis of 40"):
            found(x, i)
