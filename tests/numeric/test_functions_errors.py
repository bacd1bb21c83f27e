"""Functions that cannot be compiled or run: one clear message with place, construct and advice."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce, wraps
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
    return {1: x}[1]


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


def called_again(x):
    f = called_again
    return f(x)


def foreign(x):
    return sorted(x)


def text(x):
    return x + "a"


def function_out(x):
    return lambda y: x


def looping_import(x):
    import math

    return math.sin(x)


def in_context(x):
    with x:
        return x


def formatted(x):
    return f"{x}"


def rebinding(x):
    def g():
        nonlocal x
        x = 2.0

    g()
    return x


def raising(x):
    raise ValueError(x)


def generating(x):
    yield x


def own_class(x):
    class A:
        pass

    return x


def attribute(x):
    return x.foo


def singular_values(x):
    return np.linalg.svd(x)


def keywords(x):
    return (lambda **k: x)()


def unknown_parameter(x):
    return (lambda a: a)(b=x)


def item_of_float(x):
    return x[0]


def beyond(x):
    return (x, x)[2]


def three_for_two(x):
    a, b = (x, x, x)
    return a + b


def unpacked_float(x):
    a, b = x
    return a + b


def called_float(x):
    return x(1)


def length_of_float(x):
    return len(x)


def float_iterated(x):
    s = x
    for i in x:
        s += i
    return s


def changing(x):
    s = 0.0
    for _i in range(3):
        s = (s, x)
    return s


def unbroadcast(x):
    return np.ones((2, 3)) + np.ones((4,)) * x


def without_axis(x):
    return glow.ops.rms_norm(np.ones(3) * x)


def unknown_property(x):
    return glow.ops.rms_norm(np.ones(3) * x, axis=0, wrong=3)


def reshaped(x):
    return np.reshape(np.ones(6), (4, 2)) * x


def array_condition(x):
    if np.ones(3) > x:
        return x
    return -x


def product_of_floats(x):
    return x @ x


def shifted_float(x):
    return x << 1


def endless_loop(x):
    while True:
        x = x + 1


def asserting(x):
    assert x > 5
    return x


def deleting(x):
    y = x
    del y
    return x


def range_value(x):
    return [i for i in range(int(x))]


def matched(x):
    match x:
        case {"a": y}:
            return y
    return x


def grad_of_tuple(x):
    return glow.grad(lambda a: (a, a))(x)


def grad_by_second(x):
    return glow.grad(lambda a: a * 2, argnums=1)(x)


def large_int(x):
    return 2**100 + x


def stored_twin(x):
    a = np.zeros(3)
    b = a
    b[0:2] = x
    return np.sum(a)


def stored_elsewhere(x):
    def store(a):
        a[0] = x

    a = np.zeros(3)
    store(a)
    return np.sum(a)


def empty_reduce(x):
    return reduce(lambda a, b: a + b, ()) + x


def far_axis(x):
    return np.sum(np.ones((2, 3)), axis=5) * x


def nested_array(x):
    return np.array([x, (x, x)])


def identity_test(x):
    return x if x is 1.0 else -x  # noqa: F632


def skipped_walrus(x):
    return x > 0 and (y := x * 2) > 1 and y


def complex_number(x):
    return x + 1j


def none_added(x):
    return None + x


def other_order(x):
    return np.reshape(x * np.ones((2, 3)), (3, 2), order="F")[0, 1]


def two_lengths(x):
    return len((x, x), x)


def unequal(x):
    return sum(a * b for a, b in tuple(zip((x, x), (x,), strict=True)))


CASES = [
    (other_order, "the argument 'order' cannot be compiled; leave it out"),
    (two_lengths, "2 arguments by position, expected 1"),
    (unequal, "zip of 2 and 1 items with strict=True"),
    (in_context, "With statements cannot be compiled; call the functions of the context yourself"),
    (formatted, "JoinedStr expressions cannot be compiled; build texts outside"),
    (rebinding, "closures only read names"),
    (raising, "ValueError"),
    (generating, "Yield expressions cannot be compiled; return a tuple"),
    (own_class, "define classes outside"),
    (attribute, "attribute 'foo' of a float cannot be compiled"),
    (singular_values, "the matrix must have two axes; take one of a stack at a time"),
    (keywords, "**keywords cannot be compiled; name the parameters"),
    (unknown_parameter, "there is no parameter 'b'"),
    (item_of_float, "an item of a float; use a tuple or an array"),
    (beyond, "index 2 of a tuple of 2"),
    (three_for_two, "3 values for 2 names"),
    (unpacked_float, "a float cannot be unpacked"),
    (called_float, "a float is called, but is not a function"),
    (length_of_float, "a float has no length"),
    (float_iterated, "a float has no length"),
    (changing, "'s' is alternately a float and a tuple of 2; keep one type"),
    (unbroadcast, "shapes 2x3 and 4 do not broadcast"),
    (without_axis, "glow.rms_norm needs axis"),
    (unknown_property, "glow.rms_norm has no property wrong"),
    (reshaped, "reshape of 6 (6 elements) to (4, 2)"),
    (array_condition, "is not a condition; compare or reduce it to a bool"),
    (product_of_floats, "matrix product of a number; multiply with *"),
    (shifted_float, "shl of a float; use ints"),
    (endless_loop, "never returns"),
    (asserting, "AssertionError"),
    (deleting, "Delete statements cannot be compiled; leave the name unused"),
    (range_value, "range as a value needs numbers known at compile time"),
    (matched, "Match statements cannot be compiled; write values, tuples, classes"),
    (grad_of_tuple, "grad of a function that returns a tuple of 2; return a float"),
    (grad_by_second, "argument 1 of a function of 1 parameter"),
    (large_int, "an int of more than 64 bits cannot be compiled; write it as a float"),
    (stored_twin, "'a' and 'b' are the same array, which cannot be changed; write b = a.copy()"),
    (stored_elsewhere, "'a' belongs to the caller, and would not change there; write a = a.copy() first"),
    (empty_reduce, "reduce of an empty tuple; give a first value"),
    (far_axis, "axis 5 of an array of 2 axes"),
    (nested_array, "np.array of a tuple of 2; use numbers or arrays"),
    (identity_test, "'is' compares identities of Python objects; use =="),
    (skipped_walrus, "assign in a statement before"),
    (complex_number, "complex numbers are not compiled; use real ones"),
    (none_added, "add of None"),
    (branches, "an array of shape (3,) (float64) and a float"),
    (no_base, "add a base case"),
    (guarded, "Try statements cannot be compiled; test the condition with if"),
    (wrong_shape, "matrix product of 2x3 and 4x2"),
    (sometimes, "'y' may have no value here; assign it on every path"),
    (unknown, "the name 'missing' is not defined"),
    (dictionary, "the keys of a dict must be strings"),
    (growing, "keep one type and shape"),
    (no_return, "None (a path without return)"),
    (too_few, "no value for parameter b"),
    (called_again, "add a base case"),
    (foreign, "sorted needs a sequence of known length"),
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


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_infinite_recursion(backend: str) -> None:
    """A limit error, and the process goes on."""
    with pytest.raises(glow.GlowError, match=r"errors\.py:\d+: endless: .*is a base case missing"):
        glow.jit(endless, backend=backend)(1)
    assert glow.jit(endless, backend=backend)(-1) == -1


def endless_tail(n):
    return n if n == -5 else endless_tail(n + 1)


def endless_first(n):
    if n == -5:
        return n
    return endless_second(n + 1)


def endless_second(n):
    return endless_first(n - 1)


def endless_tree(n):
    if n < 0:
        return 1
    return endless_tree(n + 1) + endless_tree(n + 2)


@pytest.mark.slow
@pytest.mark.parametrize("function", [endless_tail, endless_first, endless_tree], ids=lambda f: f.__name__)
def test_infinite_recursion_is_native(function: Callable[..., Any]) -> None:
    """Calls in tail position, functions that call each other, and calls of two: machine code stops them."""
    compiled = glow.jit(function)
    with pytest.raises(glow.GlowError, match="is a base case missing"):
        compiled(1)
    assert compiled(-5) == function(-5)
    assert compiled.report()["instances"] == [{"runs on": "cpu", "because": ""}]


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
    with pytest.raises(glow.GlowError, match="there is no backend .gpu. for functions"):
        glow.jit(text, backend="gpu")
    with pytest.raises(glow.GlowError, match="argument 0 is a set"):
        glow.jit(text)(set())


def masked(x):
    return np.sort(x[x > 0])


def of_many(*values):
    return values[0] * values[1]


def test_indices_and_packed_arguments() -> None:
    """The elements that masks pick are refused; so are gradients by one of `*values`."""
    for backend in ("cpu", "interpreter"):
        with pytest.raises(glow.GlowError, match="use np.where"):
            glow.jit(masked, backend=backend)(np.arange(6.0))
    with pytest.raises(glow.GlowError, match="one argument, a tuple"):
        glow.grad(of_many, argnums=1)
    assert glow.grad(of_many)(2.0, 3.0) == (3.0, 2.0)


def doubled(function):
    """A decorator."""

    @wraps(function)
    def double(*values):
        return function(*values) * 2.0

    return double


@doubled
def decorated(x):
    return x + 1.0


def test_decorated() -> None:
    """What the decorator made is compiled, not what it wraps."""
    assert glow.jit(decorated)(2.0) == 6.0
