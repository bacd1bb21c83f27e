"""Types of functions for the arguments that reach them: instances, merged types, messages."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from derivative_checks import BACKENDS

import glow_compiler as glow

ROWS = np.random.default_rng(0).normal(size=(100, 2))


def names(compiled: Any) -> Counter[str]:
    """How often each function is an instance of the one program that was made."""
    ((program),) = compiled.program.instances.values()
    return Counter(i.name for i in program.types.instances)


def halved(n, x):
    return x if n == 0 else halved(n - 1, x * 0.5)


def exchanged(n, x, y):
    return x - 2 * y if n == 0 else exchanged(n - 1, y, x + 0.5)


def counted_by_another(n, x):
    def down(m, f):
        return f(x) if m == 0 else down(m - 1, lambda v: f(v) * 0.5 + m)

    return down(n, lambda v: v + 1)


def either(n, x):
    f = (lambda v: v * n) if x > 1 else (lambda v: v + x)
    for i in range(n):
        if i % 2 == 1:
            f = lambda v, g=f: v - x  # noqa: E731
    return f(x) + f(2)


def of_two(n, x):
    def last(a, b):
        return a if n > 100 else b

    pair = (x, n) if n > 1 else (x * 2, n + 1)
    return last(*pair) + pair[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (halved, (3, 2)),  # an int that becomes a float
        (exchanged, (5, 1, 2)),  # two, one after the other
        (exchanged, (0, 1, 2)),
        (counted_by_another, (4, 1.5)),  # functions that hold functions of their own kind
        (either, (4, 2.0)),
        (either, (1, 0.5)),
        (of_two, (3, 0.5)),
        (of_two, (1, 7)),
    ],
)
def test_value(function: Callable[..., Any], arguments: tuple[Any, ...], backend: str) -> None:
    """Python's value, as a number of Python's kind of what the types say; native where that is asked for."""
    compiled = glow.jit(function, backend=backend)
    assert compiled(*arguments) == function(*arguments)
    assert compiled.report()["instances"][0]["runs on"] == backend


def calls_of_three_kinds(x, n):
    def count(v):
        return v if v > 100 else count(v + v)

    return count(x) + count(x + 1) + count(n) + count(n + 1) + np.sum(count(x) * ROWS)


def test_one_instance_for_each_types() -> None:
    """Calls with equal types share it."""
    compiled = glow.jit(calls_of_three_kinds)
    assert np.isclose(compiled(1.5, 2), calls_of_three_kinds(1.5, 2))
    assert names(compiled)["count"] == 2


def grows(x, n):
    s = x[0:1]
    for i in range(n):
        s = np.concatenate([s, x[i : i + 1] * 0.5])
    return s


def shrinks(x, n):
    for _ in range(n):
        x = x[1:] * 0.5
    return x


@pytest.mark.parametrize("function", [grows, shrinks])
def test_shapes_that_change_each_turn(function: Callable[..., Any]) -> None:
    """33 turns become instances of their own, whose gradients too; more are refused with what to do."""

    def of(turns: int) -> Callable[..., Any]:
        return lambda x: np.sum(function(x, turns) ** 2)

    for turns in (0, 1, 33):
        compiled = glow.jit(of(turns))
        assert np.isclose(compiled(ROWS), of(turns)(ROWS))
        assert compiled.report()["instances"] == [{"runs on": "cpu", "because": ""}]
    step = np.random.default_rng(1).normal(size=ROWS.shape)
    found = np.sum(glow.grad(of(5))(ROWS) * step)
    sides = [of(5)(ROWS + h * step) for h in (1e-6, -1e-6)]
    assert np.isclose(found, (sides[0] - sides[1]) / 2e-6, rtol=1e-6)
    with pytest.raises(glow.GlowError, match="in turn; keep one type and shape for a value that a loop"):
        glow.jit(of(34))(ROWS)


def chosen(x):
    s = x[0]
    for i in range(12):
        s = np.sin(s) + x[i] if np.sum(s) > 1 else s * 2 + x[i]
    return np.sum(s)


def test_loops_that_branch_stay_loops() -> None:
    """The body of a loop that branches on what the run tells is one instance; a straight one is a graph."""
    compiled = glow.jit(chosen)
    assert np.isclose(compiled(ROWS), chosen(ROWS))
    assert names(compiled)["chosen.loop"] == 1 and max(names(compiled).values()) <= 2


def few(x):
    def add(a, b):
        return a + b

    def pick(f):
        return f(x)

    return pick(add)


def too_many(x):
    def same(a):
        return a

    return functools.partial(same, x, x)()


def one_less(x):
    def none():
        return 1.0

    def pick(f):
        return f(x)

    return pick(none)


def few_in_gradient(x):
    def product(a, b):
        return a * b

    def pick(f, v):
        return f(v)

    return glow.grad(lambda v: pick(product, v))(x)


def few_in_second(x):
    def product(a, b):
        return a * b

    def pick(f, v):
        return f(v, v, v)

    return glow.grad(glow.grad(lambda v: pick(product, v)))(x)


def kinds(x):
    return 1.0 if x > 0 else (1.0, 2.0)


def paths(n):
    return (1.0, 2.0) if n == 0 else paths(n - 1)[0]


def arities(x):
    f = (lambda a: a * x) if x > 0 else (lambda a, b: a * b)
    return glow.grad(f)(x)


def of_a_number(x):
    return glow.grad(x)(x)


def beyond(x):
    return glow.grad(lambda a, b: a * b, argnums=2)(x, x)


def below(x):
    return glow.grad(lambda a: a * a, argnums=-2)(x)


def called_number(x):
    return (x * 2)(x)


def partial_number(x):
    return functools.partial(x, 1.0)()


def without_end(x):
    def around(y):
        return around(y + 1.0) * 2

    return around(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (few, "add is called with 1 argument, it has 2"),
        (too_many, "too many arguments for same"),
        (one_less, "none is called with 1 argument, it has 0"),
        (few_in_gradient, "product is called with 1 argument, it has 2"),
        (few_in_second, "product is called with 3 arguments, it has 2"),
        (kinds, "the branches give a tuple of 2 and a float; give both one type"),
        (paths, "the branches give a float and a tuple of 2; give both one type"),
        (arities, "grad of functions with different numbers of parameters"),
        (of_a_number, "grad of a float; give it a function"),
        (beyond, "argument 2 of a function of 2 parameters; argnums counts from 0"),
        (below, "argument -2 of a function of 1 parameter; argnums counts from 0"),
        (called_number, "a float is called; call a function"),
        (partial_number, "a float is called; call a function"),
        (without_end, "around never returns: every path calls it again; add a base case"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_message(function: Callable[..., Any], message: str, backend: str) -> None:
    """What is wrong, in the user's words and numbers, with the line of text."""
    with pytest.raises(glow.GlowError) as error:
        glow.jit(function, backend=backend)(1.0)
    first = str(error.value).partition("\n")[0]
    assert message in first and "test_specialize.py:" in first
