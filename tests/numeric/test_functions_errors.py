"""Functions that cannot be compiled or run: one clear message with place, construct and advice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow


def branches(x):
    if x > 0:
        return x
    return np.zeros(3)


def no_base(x):
    return no_base(x - 1)


def guarded(x):
    try:
        return x
    finally:
        pass


def wrong_shape(x):
    g = lambda a: a @ np.ones((4, 2))  # noqa: E731
    return np.sum(g(np.ones((2, 3)) * x))


def sometimes(x):
    if x > 0:
        y = 1.0
    return y


def unknown(x):
    return missing(x)  # noqa: F821


def dictionary(x):
    return {"a": x}["a"]


def growing(x):
    a = np.ones(2)
    for _i in range(int(x) + 3):
        a = np.concatenate((a, a))
    return np.sum(a) * x


def no_return(x):
    if x > 0:
        return x


def too_few(x):
    return (lambda a, b: a + b)(x)


def foreign(x):
    return sorted(x)


def text(x):
    return x + "a"


def function_out(x):
    return lambda y: x


def looping_import(x):
    import math

    return math.sin(x)


CASES = [
    (branches, "an array of shape (3,) (float64) and a float"),
    (no_base, "add a base case"),
    (guarded, "Try statements cannot be compiled; test the condition with if"),
    (wrong_shape, "matrix product of 2x3 and 4x2"),
    (sometimes, "'y' may have no value here; assign it on every path"),
    (unknown, "the name 'missing' is not defined"),
    (dictionary, "Dict expressions cannot be compiled; use a tuple"),
    (growing, "keep one type and shape"),
    (no_return, "None (a path without return)"),
    (too_few, "no value for parameter b"),
    (foreign, "sorted cannot be compiled"),
    (text, "add of a text"),
    (function_out, "returns a function"),
    (looping_import, "import at the top of the file"),
]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(("function", "message"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_message(function: Callable[..., Any], message: str, backend: str) -> None:
    """The message names what is wrong; compile errors name file and line."""
    with pytest.raises(glow.GlowError) as error:
        glow.jit(function, backend=backend)(1.0)
    assert message in str(error.value)
    if function is not function_out:
        assert "test_functions_errors.py:" in str(error.value)


def endless(n):
    if n < 0:
        return n
    return endless(n + 1) + 1


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_infinite_recursion(backend: str) -> None:
    """A limit error, and the process goes on."""
    with pytest.raises(glow.GlowError, match="is a base case missing"):
        glow.jit(endless, backend=backend)(1)
    assert glow.jit(endless, backend=backend)(-1) == -1


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_gradient_messages(backend: str) -> None:
    """What cannot be differentiated, and by what."""
    cases = (
        (lambda x: int(x), 1.0, "returns an int"),
        (lambda x: (x, x), 1.0, "returns a tuple"),
        (lambda x: x * x, 3, "an int"),
        (lambda x: x > 1.0, 1.0, "returns a bool"),
    )
    for function, argument, message in cases:
        with pytest.raises(glow.GlowError, match=message):
            glow.grad(glow.jit(function, backend=backend))(argument)
    with pytest.raises(glow.GlowError, match="argument 3 of a function of 1 parameter"):
        glow.grad(glow.jit(no_return, backend=backend), argnums=3)(1.0)


def test_arguments() -> None:
    """Wrong calls and unknown backends."""
    with pytest.raises(glow.GlowError, match="missing a required argument"):
        glow.jit(text)()
    with pytest.raises(glow.GlowError, match="there is no backend"):
        glow.jit(text, backend="gpu")
    with pytest.raises(glow.GlowError, match="argument 0 is a dict"):
        glow.jit(text)({})
