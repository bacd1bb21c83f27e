"""Closures read names as they are when they are called: Python's own results, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import glow_compiler as glow

# pyright: reportUnknownLambdaType=false
# ruff: noqa: E731, B023


def a_name_that_changes(x: float) -> float:
    y = x
    g = lambda v: v * y
    y = x * 3
    return g(2.0)


def a_name_that_a_loop_changes(x: float) -> float:
    y = 1.0

    def g(v: float, first: float = y) -> float:
        return v * y + first

    total = 0.0
    for _ in range(4):
        total = total + g(x)
        y = y * 2
    return total


def a_name_that_a_branch_changes(x: float) -> float:
    y = x

    def factorial(n: int) -> float:
        return 1.0 * y if n == 0 else n * factorial(n - 1)

    if x > 0:
        y = x * 2
    return factorial(3)


def a_list(x: float) -> float:
    a = [x, 2 * x]
    g = lambda: a[0] + a[1]
    a[0] = 5 * x
    a.append(x)
    return g() * len(a)


def a_closure_of_a_closure(x: float) -> float:
    y = 2.0
    h = lambda v: v * y
    g = lambda v: h(v) + y
    y = x
    return g(3.0)


def names_of_comprehensions(x: float) -> float:
    i = 10.0
    g = lambda v: v + i
    total = sum([g(x) + i for i in [1.0, 2.0, 3.0]])
    i = 20.0
    return total + sum(g(x) * i for i in [1.0, 2.0])


def one_that_is_passed_on(x: float) -> float:
    y = x
    g = lambda: y

    def run(f: Callable[[], float]) -> float:
        return f() * f()

    y = x * 7
    return run(g)


def one_in_a_function_with_such_a_name(x: float) -> float:
    y = x
    g = lambda: y

    def inner(y: float) -> float:
        return g() + y

    y = 4 * x
    return inner(1.0)


CASES = (
    a_name_that_changes,
    a_name_that_a_loop_changes,
    a_name_that_a_branch_changes,
    a_list,
    a_closure_of_a_closure,
    names_of_comprehensions,
    one_that_is_passed_on,
    one_in_a_function_with_such_a_name,
)


@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_names_that_change(case: Callable[[float], float], backend: str) -> None:
    """The value, and the gradient beside the difference quotient."""
    assert glow.jit(case, backend=backend)(1.5) == case(1.5)
    step = 1e-5
    slope = (case(1.5 + step) - case(1.5 - step)) / (2 * step)
    assert glow.grad(case, backend=backend)(1.5) == pytest.approx(slope, rel=1e-6)


def all_functions_of_a_generator(x: float) -> float:
    a, _, _ = (lambda: k * x for k in range(3))
    b = list(lambda: k * x for k in range(3))
    c = [*(lambda: k * x for k in range(3))]
    b.extend(lambda: k + x for k in range(5))
    return a() + b[0]() * 10 + c[1]() * 100 + b[3]() + sorted(k * x for k in range(3))[1]


def drawn_one_by_one(x: float) -> float:
    total = sum(k * x for k in range(3)) + max(k * x for k in range(3))
    for f in (lambda v, k=k: v + k for k in range(3)):
        total = total * 2 + f(x)
    return total + sum(f(x) for f in (lambda v, k=k: v * k for k in range(3)))


def functions_that_a_generator_makes(x: float) -> float:
    return sum(f() for f in (lambda: k * x for k in range(3)))


def a_loop_over_them(x: float) -> float:
    total = 0.0
    for f in (lambda: k * x for k in range(3)):
        total = total * 10 + f()
    return total


def a_generator_with_a_name(x: float) -> float:
    g = (x * v for v in range(3))
    x = 10.0
    return sum(g)


def one_that_a_function_keeps(x: float) -> float:
    def twice(values: Any) -> float:
        return sum(values) + sum(values)

    return twice(x * v for v in range(3))


@pytest.mark.parametrize("case", [all_functions_of_a_generator, drawn_one_by_one], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_generators(case: Callable[[float], float], backend: str) -> None:
    """Items that are asked for at once, and one by one."""
    assert glow.jit(case, backend=backend)(1.5) == case(1.5)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (functions_that_a_generator_makes, "functions of a generator that read its names"),
        (a_loop_over_them, "functions of a generator that read its names"),
        (a_generator_with_a_name, "a generator that a name or a function keeps"),
        (one_that_a_function_keeps, "a generator that a name or a function keeps"),
    ],
)
def test_generators_that_compute_later_are_refused(case: Callable[[float], float], message: str) -> None:
    """Items are computed where they stand: what Python computes later, or once, is no silent other value."""
    with pytest.raises(glow.GlowError, match=message):
        glow.jit(case)(1.5)
