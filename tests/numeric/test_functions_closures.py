"""Closures read names as they are when they are called: Python's own results, on both backends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import glow_compiler as glow

# pyright: reportUnknownLambdaType=false
# ruff: noqa: E731


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
