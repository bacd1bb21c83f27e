"""Dicts, named tuples and dataclasses; isinstance, round to digits, einsum, indices beside slices."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")


class Point(NamedTuple):
    """A point."""

    x: float
    y: float = 2.0


@dataclasses.dataclass
class Line:
    """Slope and offset."""

    slope: float
    offset: float


def walk(x):
    p = Point(x)
    for _ in range(5):
        p = Point(p.x * 0.5, p.y) if p.x > 3 else Point(p.x * 2, p.y + 1)
    return p.x * p.y


def descend(params, rate):
    slope = glow.grad(lambda d: d["w"] ** 2 + d["inner"]["b"] * d["w"])(params)
    w = params["w"] - rate * slope["w"]
    return {"w": w, "inner": {"b": params["inner"]["b"] - rate * slope["inner"]["b"]}}


def kinds(x):
    if isinstance(x, float):
        return x + 0.5
    if isinstance(x, (tuple, list)):
        return sum(x) * 1.0
    return float(np.sum(x))


def maybe(x, n=None):
    return x * 2 if n is None else x * n


@pytest.mark.parametrize("backend", BACKENDS)
def test_records(backend: str) -> None:
    """Fields survive branches and loops, come in as arguments and go out as results and gradients."""
    assert glow.jit(walk, backend=backend)(1.3) == pytest.approx(walk(1.3))
    assert glow.grad(glow.jit(walk, backend=backend))(1.3) == pytest.approx(10.0)
    found = glow.jit(descend, backend=backend)({"w": 1.0, "inner": {"b": 3.0}}, 0.5)
    assert found == {"w": -1.5, "inner": {"b": 2.5}}
    line = glow.jit(lambda p, x: Line(p.slope * x, p.offset + p.slope), backend=backend)(Line(2.0, 1.0), 3.0)
    assert line == Line(6.0, 3.0)
    slope = glow.grad(glow.jit(lambda p, x: p.slope * x + p.offset, backend=backend))(Line(2.0, 1.0), 3.0)
    assert slope == Line(3.0, 1.0)
    square = glow.jit(lambda d: d["a"] ** 3 * d["b"], backend=backend)
    second = glow.grad(lambda a: glow.grad(square)({"a": a, "b": 2.0})["a"])(1.5)
    assert second == pytest.approx(18.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_kinds(backend: str) -> None:
    """isinstance and None are decided by the types of the arguments."""
    compiled = glow.jit(kinds, backend=backend)
    for value in (1.0, (1.0, 2.0), [1, 2], np.ones(3)):
        assert compiled(value) == kinds(value)
    assert [glow.jit(maybe, backend=backend)(*a) for a in ((3.0,), (3.0, 4.0), (3.0, None))] == [6, 12, 6]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("digits", [0, 1, 2, 3, -2])
def test_round(digits: int, backend: str) -> None:
    """As Python rounds, halfway cases as well."""
    compiled = glow.jit(lambda v: round(v, digits), backend=backend)
    values = [*(np.random.default_rng(0).normal(size=50) * 10), *(k / 2000 for k in range(1, 400, 2))]
    for v in (2.675, 1.115, 1.005, 0.15, -2.5, 1e300, 12345.678, *map(float, values)):
        assert compiled(v) == round(v, digits)
    assert compiled(1250) == round(1250, digits)


@pytest.mark.parametrize("backend", BACKENDS)
def test_einsum(backend: str) -> None:
    """Products, sums, transpositions and batches of any number of arrays."""
    r = np.random.default_rng(1)
    a, b, c = r.normal(size=(3, 4)), r.normal(size=(4, 5)), r.normal(size=(2, 3, 4))
    cases: list[tuple[Any, tuple[Any, ...]]] = [
        (lambda x, y: np.einsum("ij,jk->ik", x, y), (a, b)),
        (lambda x: np.einsum("ij->ji", x), (a,)),
        (lambda x, y: np.einsum("bij, jk", x, y), (c, b)),
        (lambda x, y: np.einsum("bij,bij->b", x, y), (c, c)),
        (lambda x, y: np.einsum("i,j->ij", x, y), (a[0], b[0])),
        (lambda x, y, z: np.einsum("bij,ij,jk->bk", x, y, z), (c, a, b)),
        (lambda x, y: np.einsum("ij,ij->", x, y), (a, a)),
    ]
    for function, given in cases:
        np.testing.assert_allclose(glow.jit(function, backend=backend)(*given), function(*given), atol=1e-12)
    found = glow.grad(glow.jit(lambda x, y: np.sum(np.einsum("ij,jk->ik", x, y)), backend=backend))(a, b)
    np.testing.assert_allclose(found, np.ones((3, 5)) @ b.T)
    with pytest.raises(glow.GlowError, match="axis 'i' has 3 and 4 elements"):
        glow.jit(lambda x: np.einsum("ii->i", x), backend=backend)(a)


def columns(x):
    s = x[:, 0]
    for k in range(len(x)):
        s = s + x[:, k] * x[k, 0] + x[1:, k][0]
    return np.sum(s * s)


@pytest.mark.parametrize("backend", BACKENDS)
def test_columns(backend: str) -> None:
    """A column by a number of the loop."""
    x = np.random.default_rng(2).normal(size=(4, 4))
    assert glow.jit(columns, backend=backend)(x) == pytest.approx(columns(x))
    step = np.random.default_rng(3).normal(size=x.shape)
    found = np.sum(glow.grad(glow.jit(columns, backend=backend))(x) * step)
    assert found == pytest.approx((columns(x + 1e-6 * step) - columns(x - 1e-6 * step)) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_messages(backend: str) -> None:
    """Fields that are not there, keys that are not known."""
    with pytest.raises(glow.GlowError, match="attribute 'foo' of a float"):
        glow.jit(lambda x: x.foo, backend=backend)(1.0)
    with pytest.raises(glow.GlowError, match="dict.*has no 'q'|attribute 'q' of a dict"):
        glow.jit(lambda d: d["q"], backend=backend)({"a": 1.0})
    with pytest.raises(glow.GlowError, match="keys of a dict must be strings"):
        glow.jit(lambda x: {1: x}[1], backend=backend)(1.0)
