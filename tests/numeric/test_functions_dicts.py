"""Dicts whose keys types tell: walked over, made by comprehensions, changed, and differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")
TABLE = {"u": 2.0, "v": 3.0}


def walked(prm, x):
    r = 0.0
    for _, v in prm.items():
        r = r + np.sum(v**2) * x
    for v in prm.values():
        r = r + np.sum(v)
    for k in prm:
        r += np.mean(prm[k] ** 3)
    return r


def comprehension(prm, x):
    e = {k: np.sum(v * v) * x for k, v in prm.items()}
    return sum(e.values()) + e["w"] * len(e)


def keys_asked(prm, x):
    r = np.sum(prm["w"]) * 2 if "w" in prm else 0.0
    return r * x + (prm["z"] if "z" in prm else 1.0 + x) + np.sum(prm.get("b", 3.0)) + prm.get("q", 3.0)


def columns(prm, x):
    sums, squares = zip(*[(np.sum(v), np.sum(v * v)) for v in prm.values()], strict=True)
    return sum(sums) * sum(squares) + sums[0] * x


def literal(prm, x):
    d = {"a": np.sum(prm["w"]), "b": x * x}
    s = 0.0
    for k in d:
        s += d[k] * 2
    for _, v in d.items():
        s += v * v
    d["c"] = s
    return sum(d.values()) * len(d)


def constant(prm, x):
    s = np.sum(prm["b"])
    for k, v in TABLE.items():
        s = s * v * x + TABLE[k]
    return s * len(TABLE)


def helper(prm, x):
    def norm(t):
        return sum(np.sum(v * v) for v in t.values())

    return norm(prm) * x


PROGRAMS = [walked, comprehension, keys_asked, columns, literal, constant, helper]
PRM = {"w": np.arange(6.0).reshape(2, 3) / 5, "b": np.array([0.3, -0.4])}


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_value_and_gradients(program: Callable[..., Any], backend: str) -> None:
    """Python's value; gradients by the dict and by the number beside it against differences."""
    compiled = glow.jit(program, backend=backend)
    assert np.isclose(compiled(PRM, 1.5), program(PRM, 1.5))
    by_dict, by_x = glow.grad(compiled, argnums=(0, 1))(PRM, 1.5)
    assert np.isclose(by_x, (program(PRM, 1.5 + 1e-6) - program(PRM, 1.5 - 1e-6)) / 2e-6, rtol=1e-5)
    for name, array in PRM.items():
        for at in np.ndindex(*array.shape):
            values: list[float] = []
            for step in (1e-6, -1e-6):
                moved = array.copy()
                moved[at] += step
                values.append(float(program({**PRM, name: moved}, 1.5)))
            assert np.isclose(by_dict[name][at], (values[0] - values[1]) / 2e-6, rtol=1e-5, atol=1e-7)
    assert compiled.report()["instances"][0]["runs on"] == backend


@pytest.mark.parametrize("program", PROGRAMS)
def test_second_derivatives(program: Callable[..., Any]) -> None:
    """Derivatives of gradients, natively, against differences of them."""
    first = glow.grad(glow.jit(program), argnums=1)
    second = glow.grad(first, argnums=1)
    wanted = (first(PRM, 1.5 + 1e-5) - first(PRM, 1.5 - 1e-5)) / 2e-5
    assert np.isclose(second(PRM, 1.5), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_training(backend: str) -> None:
    """Steps of descent whose parameters are a dict, updated by a comprehension and by assignment."""

    def loss(prm, x):
        return np.sum(np.tanh(prm["w"] @ x + prm["b"]) ** 2)

    def train(prm, x):
        for _ in range(3):
            value, slope = glow.value_and_grad(loss)(prm, x)
            prm = {k: prm[k] - 0.1 * slope[k] for k in prm}
        made = {}
        for k in prm:
            made[k] = prm[k] * 2
        return value, made

    x, prm = np.array([0.2, -0.5, 1.0]), dict(PRM)
    for _ in range(3):
        h = np.tanh(prm["w"] @ x + prm["b"])
        wanted, d = np.sum(h**2), 2 * h * (1 - h * h)
        prm = {"w": prm["w"] - 0.1 * np.outer(d, x), "b": prm["b"] - 0.1 * d}
    value, made = glow.jit(train, backend=backend)(PRM, x)
    assert np.isclose(value, wanted)
    assert list(made) == ["w", "b"]
    np.testing.assert_allclose(made["w"], prm["w"] * 2)
    np.testing.assert_allclose(made["b"], prm["b"] * 2)


def keywords(x, t):
    options = {"scale": x[0], "shift": 1.0}

    def f(v, scale=1.0, shift=0.0):
        return v * scale + shift

    return f(x[1], **options) + f(x[2], **SHIFT) * t[0]


def extended(x, t):
    made = [x[0]]
    made.extend([x[1], x[2]])
    for i in range(3):
        made.extend((x[i] * 2, 1.0))
    made.extend(t)
    return sum(made) + made[-1] * len(made) * x[0]


def stacked(x, t):
    s, made = t[0], []
    for v in x:
        s = 0.5 * s + v
        made.append(s)
    return np.stack(made).sum() * made[-1]


def zipped(x, t):
    rows = x[:4].reshape(2, 2)
    return sum(a * b for a, b in zip(t, x[:2], strict=True)) + sum(
        [np.sum(r) * a for r, a in zip(rows, t, strict=True)]
    )


SHIFT = {"shift": 3.0}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [keywords, extended, stacked, zipped])
def test_lists_and_keywords(f: Callable[..., Any], backend: str) -> None:
    """`**d`, `extend` and a list of unknown length as an array: values and gradients."""
    x, t = np.arange(1.0, 6.0) / 3, (1.5, 2.5)
    compiled = glow.jit(f, backend=backend)
    assert np.isclose(compiled(x, t), f(x, t))
    found = glow.grad(compiled)(x, t)
    for i in range(x.size):
        step = np.eye(x.size)[i] * 1e-6
        assert np.isclose(found[i], (f(x + step, t) - f(x - step, t)) / 2e-6, rtol=1e-5, atol=1e-8)


def test_bad_input() -> None:
    """What is no dict, and keys that are no texts."""
    with pytest.raises(glow.GlowError, match="keys of an array"):
        glow.jit(lambda x: len(x.keys()))(np.ones(3))
    with pytest.raises(glow.GlowError, match="the keys of a dict must be strings"):
        glow.jit(lambda t: sum({i: v for i, v in t}.values()))(((1, 2.0), (2, 3.0)))
