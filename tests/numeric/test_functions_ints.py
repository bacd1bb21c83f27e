"""Ints beyond 64 bits: machine code stops there and the interpreter gives what Python gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import glow_compiler as glow


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


def power(n):
    return 2**n


def sums(n):
    return n + n + n


def negative(n):
    return -n


def size(n):
    return abs(n)


def quotient(a, b):
    return a // b


def rest(a, b):
    return a % b


def left(n):
    return 1 << n


def right(n):
    return (5 >> n) + (-5 >> n)


def whole(x):
    return int(x)


def rounded(x):
    return math.floor(x) + math.ceil(x) + round(x)


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def counted(n):
    total = 0
    for i in range(n, n + 2):
        total += i % 10
    return total


def tuples(n):
    return sum((n, n, n, n))


LEAST = -(2**63)
CASES: list[tuple[Callable[..., Any], tuple[Any, ...], bool]] = [
    (factorial, (20,), True),
    (factorial, (30,), False),
    (power, (62,), True),
    (power, (100,), False),
    (power, (-3,), False),
    (sums, (2**61,), True),
    (sums, (2**62,), False),
    (negative, (2**62,), True),
    (negative, (LEAST,), False),
    (size, (LEAST + 1,), True),
    (size, (LEAST,), False),
    (quotient, (LEAST, 2), True),
    (quotient, (LEAST, -1), False),
    (rest, (LEAST, 3), True),
    (rest, (LEAST, -1), False),
    (left, (62,), True),
    (left, (63,), False),
    (left, (200,), False),
    (right, (2,), True),
    (right, (200,), True),
    (whole, (1e18,), True),
    (whole, (-1e30,), False),
    (rounded, (2.5e18,), True),
    (rounded, (1e30,), False),
    (fibonacci, (91,), True),
    (fibonacci, (150,), False),
    (counted, (2**63 - 3,), True),
    (tuples, (2**61,), False),
]


@pytest.mark.parametrize("program, arguments, native", CASES)
def test_ints_are_those_of_python(program, arguments, native) -> None:
    """The exact int, on both backends; natively where 64 bits are enough."""
    expected = program(*arguments)
    compiled = glow.jit(program)
    for _ in range(2):
        found = compiled(*arguments)
        assert found == expected and type(found) is type(expected)
    runs = [i["runs on"] for i in compiled.report()["instances"]]
    assert runs == ["cpu" if native else "interpreter"]
    assert glow.jit(program, backend="interpreter")(*arguments) == expected


def test_small_ints_stay_native() -> None:
    """A large int in one call leaves the next one to machine code."""
    compiled = glow.jit(factorial)
    assert [compiled(n) for n in (5, 25, 6)] == [math.factorial(n) for n in (5, 25, 6)]
