"""Functions as one graph for any size: numbers and errors as Python has them, where a graph has others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow

X = np.array([1.5, -2.5, 0.5])


def any_size(function: Callable[..., Any]) -> Any:
    """The function as a program for arrays of any length."""
    return glow.jit(function, shapes={"x": ("n",)}, specialize="never")


def twice(x, k):
    return np.sum(x), k + k


def squared(x, k):
    return np.sum(x), k * k


def below(x, k):
    return np.sum(x), k - 3


def negative(x, k):
    return np.sum(x), -k


def compared(x, k):
    return np.sum(x), k < 9007199254740993.0, k == 9007199254740992.0


@pytest.mark.parametrize("function", [twice, squared, below, negative, compared])
def test_ints_of_any_size(function: Callable[..., Any]) -> None:
    """The int is Python's where 64 bits, or the digits of a float, are not enough too."""
    compiled = any_size(function)
    for bits in (0, 3, 30, 31, 32, 53, 61, 62, 63):
        for k in (2**bits - 1, 2**bits, 2**bits + 1):
            for number in (k, -k):
                if -(2**63) <= number < 2**63:
                    assert compiled(X, number) == function(X, number)
    assert compiled.report()["sizes"] == ["any n"]


def item(x, k):
    return x[k] * 2


def item_of_item(x, k):
    return x[k] + x[k + 1]


@pytest.mark.parametrize("function", [item, item_of_item])
@pytest.mark.parametrize("size", [2, 5])
def test_subscripts(function: Callable[..., Any], size: int) -> None:
    """From either end; outside it is Python's error, at the line."""
    compiled, x = any_size(function), np.arange(size) + 0.5
    for k in range(-size - 2, size + 2):
        try:
            expected = function(x, k)
        except IndexError:
            with pytest.raises(IndexError):
                compiled(x, k)
        else:
            assert compiled(x, k) == expected
    assert compiled.report()["sizes"] == ["any n"]


def logarithm(x, v):
    return np.sum(x) + math.log(v)


def root(x, v):
    return np.sum(x) * math.sqrt(v)


def exponential(x, v):
    return np.sum(x) + math.exp(v)


@pytest.mark.parametrize("function", [logarithm, root, exponential])
def test_functions_of_numbers(function: Callable[..., Any]) -> None:
    """Where they have no value they raise what Python raises."""
    compiled = any_size(function)
    for v in (2.5, 1.0, 0.0, -1.0, 800.0):
        try:
            expected = function(X, v)
        except (ValueError, OverflowError) as error:
            with pytest.raises(type(error)):
                compiled(X, v)
        else:
            assert math.isclose(compiled(X, v), expected, rel_tol=1e-12)
    assert compiled.report()["sizes"] == ["any n"]


def parts(x, pair, flag):
    first, second = pair
    return (x * first, (second + len(x), flag and first > 0)), None, "text", float(flag) + int(flag)


def test_tuples_and_numbers() -> None:
    """Arguments and values in tuples, None and texts among them, bools as numbers."""
    compiled = any_size(parts)
    for size, pair, flag in ((3, (2.0, 5), True), (1, (-1.5, 0), True), (4, (0.5, -7), False)):
        x = np.arange(size) * 1.5
        (scaled, (count, positive)), nothing, text, number = compiled(x, pair, flag)
        expected = parts(x, pair, flag)
        np.testing.assert_array_equal(scaled, expected[0][0])
        assert (count, positive) == expected[0][1] and type(positive) is bool and type(count) is int
        assert nothing is None and text == "text" and number == expected[3]


def turned(turns: int) -> Callable[..., Any]:
    """A loop of arrays, in which a function is called twice a turn."""

    def step(x, i):
        y = np.sin(x) + i
        y = np.cos(y) * 0.5 + np.sin(x * 2)
        y = np.cos(y) * 0.5 + np.sin(x * 3)
        y = np.cos(y) * 0.5 + np.sin(x * 4)
        return np.cos(y) * 0.5 + x

    def total(x):
        for i in range(turns):
            x = step(step(x, i), i + 1)
        return x

    return total


def test_loops() -> None:
    """Loops of few turns are written out, with the functions they call; others have a program a shape."""
    for turns, straight in ((1, True), (9, True), (60, False)):
        compiled = any_size(turned(turns))
        for size in (3, 5):
            x = np.linspace(-1, 1, size)
            np.testing.assert_allclose(compiled(x), turned(turns)(x), rtol=1e-9)
        (told,) = compiled.report()["sizes"]
        assert (told == "any n") == straight and told.endswith("a branch that the run decides") != straight
