"""`raise`, `assert` and `match` in compiled functions: errors of a run, and choices by patterns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import glow_compiler as glow


class Point(NamedTuple):
    x: float
    y: float


def checked(x):
    assert x > 0, "x must be positive"
    if x > 100:
        raise ValueError("too large")
    return math.log(x)


def in_loop(x, n):
    s = 0.0
    for i in range(n):
        s += x
        if s > 5:
            raise OverflowError(f"{s} after too many turns")
        assert i < 50
    return s * x


def refused(v):
    if v < 0:
        raise KeyError("below")
    else:
        raise ZeroDivisionError


def through_a_call(x):
    y = x * 2
    if x < 1:
        y = refused(x)
    return y * 3


def of_arrays(x):
    assert x.shape[0] == 3, "three"
    assert np.all(x > 0), "positive"
    return np.sum(np.log(x))


def of_floats(x, n):
    return math.factorial(x) if n == 0 else math.gcd(x, n) if n == 1 else math.lcm(n, x) if n == 2 else n


def of_halves(x):
    return math.comb(x, 2)


def root(n):
    return math.isqrt(n)


def roots(n):
    return sum(map(math.isqrt, (4, n)))


def distance(p, q):
    return math.dist(p, q)


def chosen(x):
    return np.select([x > 0], [x, x])


def between(x, y):
    return np.interp(0.5, x, y)


def solved(a):
    return np.linalg.solve(a, np.ones(2))


def inverse(a):
    return np.linalg.inv(a)


def determinant(a):
    return np.linalg.det(a)


def triangle(a):
    return np.linalg.cholesky(a)


#: What functions of ours, written for those of `math` and NumPy, raise where those do.
AS_WRITTEN: list[tuple[Callable[..., Any], tuple[Any, ...], type[Exception], str]] = [
    (of_floats, (4.5, 0), TypeError, "cannot be interpreted as an integer"),
    (of_floats, (4.0, 1), TypeError, "cannot be interpreted as an integer"),
    (of_floats, (4.0, 2), TypeError, "cannot be interpreted as an integer"),
    (of_halves, (5.0,), TypeError, "cannot be interpreted as an integer"),
    (root, (-1,), ValueError, "nonnegative"),
    (roots, (-3,), ValueError, "nonnegative"),
    (root, (4.0,), TypeError, "cannot be interpreted as an integer"),
    (distance, ((1.0, 2.0), (1.0, 2.0, 3.0)), ValueError, "same number of dimensions"),
    (chosen, (np.ones(3),), ValueError, "same length"),
    (between, (np.arange(2.0), np.ones(3)), ValueError, "not of the same length"),
    *((f, (np.ones((2, 3)),), ValueError, "square") for f in (solved, inverse, determinant, triangle)),
]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(("function", "arguments", "kind", "message"), AS_WRITTEN)
def test_written_functions_raise_at_the_call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    kind: type[Exception],
    message: str,
    backend: str,
) -> None:
    """They raise what Python raises, and name the line that calls them, not one of ours."""
    with pytest.raises(kind):
        function(*arguments)
    line = function.__code__.co_firstlineno + 1
    with pytest.raises(glow.GlowError, match=message) as error:
        glow.jit(function, backend=backend)(*arguments)
    assert isinstance(error.value, kind)
    assert str(error.value).startswith(f"{__file__}:{line}: ")
    assert "_written" not in str(error.value)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 9, 2**62, 2**63 - 1, 10**40, 10**60 - 1, 10**400])
def test_integer_roots(n: int) -> None:
    """Of ints of any size, which end."""
    assert glow.jit(root)(n) == math.isqrt(n)


def equal(x, y):
    return np.array_equal(x, y)


@pytest.mark.parametrize("x", [np.ones(1), np.ones(3), np.array([1.0, 2.0, 1.0]), np.ones((1, 3))])
def test_arrays_of_other_shapes_differ(x: Any) -> None:
    """Where NumPy would broadcast them, too."""
    assert bool(glow.jit(equal)(x, np.ones(3))) == np.array_equal(x, np.ones(3))


RAISED: list[tuple[Callable[..., Any], tuple[Any, ...], type[Exception], str]] = [
    (checked, (-1.0,), AssertionError, "x must be positive"),
    (checked, (200.0,), ValueError, "too large"),
    (in_loop, (3.0, 10), OverflowError, "s after too many turns"),
    (in_loop, (0.0, 60), AssertionError, "AssertionError"),
    (through_a_call, (-1.0,), KeyError, "below"),
    (through_a_call, (0.5,), ZeroDivisionError, "ZeroDivisionError"),
    (of_arrays, (-np.ones(3),), AssertionError, "positive"),
    (of_arrays, (np.ones(4),), AssertionError, "three"),
]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_raised(backend: str) -> None:
    """The error has its class, message and line, is a GlowError, and later calls run as ever."""
    compiled = {f: glow.jit(f, backend=backend) for f in (checked, in_loop, through_a_call, of_arrays)}
    for function, arguments, kind, message in RAISED:
        with pytest.raises(kind) as error:
            compiled[function](*arguments)
        assert isinstance(error.value, glow.GlowError)
        assert message in str(error.value) and "test_functions_raised.py:" in str(error.value)
    assert compiled[checked](2.0) == pytest.approx(math.log(2.0))
    assert glow.grad(compiled[checked])(2.0) == pytest.approx(0.5)
    assert glow.grad(compiled[in_loop])(0.5, 4) == pytest.approx(4.0)
    assert glow.grad(glow.grad(compiled[in_loop]))(0.5, 4) == pytest.approx(8.0)
    assert glow.grad(compiled[through_a_call])(2.0) == pytest.approx(6.0)
    np.testing.assert_allclose(glow.grad(compiled[of_arrays])(np.ones(3)), np.ones(3))


def by_number(n):
    match n:
        case 1:
            return 10
        case 2 | 3:
            return 20
        case k if k > 100:
            return k
        case _:
            return 30


def by_tuple(t):
    match t:
        case (x, y) if x > y:
            return x
        case (x, y):
            return y
        case (x, *rest):
            return x + sum(rest)


def by_text(kind, x):
    match kind:
        case "relu":
            return max(x, 0.0)
        case None:
            return 0.0
        case _:
            return x


def by_class(p):
    match p:
        case Point(x=0.0, y=y):
            return y
        case Point(x, y):
            return x * y
        case float(v):
            return v
        case _:
            return 0.0


MATCHED: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    *((by_number, (n,)) for n in (1, 2, 3, 7, 200)),
    *((by_tuple, (t,)) for t in ((1.0, 2.0), (3.0, 2.0), (3.0, 2.0, 1.0))),
    *((by_text, (k, -1.5)) for k in ("relu", "other", None)),
    *((by_class, (p,)) for p in (Point(1.0, 2.0), Point(0.0, 2.0), 3.0, 1)),
]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(("function", "arguments"), MATCHED)
def test_matched(function: Callable[..., Any], arguments: tuple[Any, ...], backend: str) -> None:
    """Patterns choose as in Python."""
    assert glow.jit(function, backend=backend)(*arguments) == function(*arguments)
