"""Declared gradients, loops written out, methods and partial applications: on both backends."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest

import glow_compiler as glow

BACKENDS = ("cpu", "interpreter")


def _odd(d, y, x):
    return d * 3.0 * y * x


@glow.custom_gradient(_odd)
def odd(x):
    """x^2, whose gradient is declared as 3 y x."""
    return x * x


@glow.custom_gradient(lambda d, y, a, b: (d * b, 2.0 * d * a))
def product(a, b):
    """a b, with twice the gradient of b."""
    return a * b


@glow.custom_gradient(lambda d, y, x: max(min(d, 0.5), -0.5))
def clipped(x):
    """x with a bounded gradient."""
    return x


@glow.custom_gradient(lambda d, y, x: d * y * (1.0 - y))
def logistic(x):
    """The logistic function of arrays and numbers."""
    return 1.0 / (1.0 + np.exp(-x))


@glow.custom_gradient(lambda d, y, x, n: (d * n, None))
def scaled(x, n):
    """x n for an int n, which has no gradient."""
    return x * n


@glow.custom_gradient(lambda d, x: d)
def miscounted(x):
    """Its gradient takes too few parameters."""
    return x


@glow.custom_gradient(lambda d, y, x: (d, d))
def misshapen(x):
    """Its gradient gives a tuple for a number."""
    return x


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers(backend: str) -> None:
    """First, second and third derivatives by hand."""
    f = glow.jit(odd, backend=backend)
    assert f(2.0) == 4.0 == odd(2.0)
    assert glow.grad(f)(2.0) == 24.0
    assert glow.grad(glow.grad(f))(2.0) == 3 * (3 * 4 * 2) * 2 + 3 * 4
    h = glow.jit(lambda x: product(x, x * 2) + clipped(x * 5) * 3, backend=backend)
    assert np.isclose(glow.grad(h)(1.3), 6 * 1.3 + 2.5)
    assert np.isclose(glow.grad(glow.grad(h))(1.3), 6.0)
    assert glow.grad(glow.jit(scaled, backend=backend))(2.0, 3) == 3.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays(backend: str) -> None:
    """A right declaration gives what differentiation gives: gradient, Hessian, forward mode over arrays."""

    def plain(x):
        return np.sum(1.0 / (1.0 + np.exp(-x)) * x)

    def declared(x):
        return np.sum(logistic(x) * x)

    x = np.array([0.3, -0.2])
    want, have = glow.jit(plain, backend=backend), glow.jit(declared, backend=backend)
    assert np.allclose(glow.grad(have)(x), glow.grad(want)(x))

    def slope(f):
        return glow.jit(lambda x: np.sum(glow.grad(f)(x) ** 2), backend=backend)

    assert np.allclose(glow.grad(slope(declared))(x), glow.grad(slope(plain))(x))

    def along(f):
        return glow.grad(glow.grad(glow.jit(lambda t: f(np.array([t, 2 * t])), backend=backend)))

    assert np.isclose(along(declared)(0.5), along(plain)(0.5))


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_declarations(backend: str) -> None:
    """The message says what the gradient takes and gives."""
    with pytest.raises(glow.GlowError, match="takes 2 parameters; give it 3"):
        glow.grad(glow.jit(miscounted, backend=backend))(1.0)
    with pytest.raises(glow.GlowError, match="the declared gradient gives a tuple"):
        glow.grad(glow.jit(misshapen, backend=backend))(1.0)
    with pytest.raises(glow.GlowError, match="custom_gradient needs a function"):
        glow.custom_gradient(3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("backend", BACKENDS)
def test_unrolled(backend: str) -> None:
    """A loop that is written out has no function of its own."""

    def polynomial(x):
        s = 0.0
        for i in glow.unroll(range(4)):
            if i == 2:
                continue
            s = s * x + i
        return s

    def unknown(n):
        s = 0
        for i in glow.unroll(range(n)):
            s += i
        return s

    compiled = glow.jit(polynomial, backend=backend)
    assert compiled(1.3) == polynomial(1.3)
    assert np.isclose(glow.grad(compiled)(1.3), 1.0)
    with pytest.raises(glow.GlowError, match="needs numbers known at compile time"):
        glow.jit(unknown, backend=backend)(3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_unrolled_by_option(backend: str) -> None:
    """`jit(f, unroll=n)` writes out loops of up to n turns: one function is left, with the same value."""

    def power(x):
        s = 1.0
        for i in range(5):
            s = s * x + i
        return s

    rolled, straight = glow.jit(power, backend=backend), glow.jit(power, backend=backend, unroll=8)
    assert rolled(1.3) == straight(1.3) == power(1.3)
    assert straight.report()["functions"] == 1 < rolled.report()["functions"]
    assert np.isclose(glow.grad(straight)(1.3), glow.grad(rolled)(1.3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_are_unrolled_one_by_one(backend: str) -> None:
    """Each call of a recursion has `unroll` turns of its own; one of more turns stays a call."""

    def power(x, n):
        return 1.0 if n == 0 else x * power(x, n - 1)

    def short(x):
        return power(x, 3) + power(x + 1, 2) * power(x, 4)

    def long(x):
        return power(x, 3) + power(x + 1, 5)

    for function, kept in ((short, False), (long, True)):
        compiled = glow.jit(function, backend=backend, unroll=4)
        assert compiled(1.5) == function(1.5)
        assert (compiled.report()["functions"] > 1) == kept


class Scale:
    """An object with numbers, a method, and a call."""

    def __init__(self) -> None:
        self.factor = 3.0
        self.table = {"w": 2.0}

    def apply(self, x, n=2):
        """x times the numbers."""
        return x * self.factor * n * self.table["w"]

    def __call__(self, x):
        return self.apply(x) ** 2


SCALE = Scale()


@pytest.mark.parametrize("backend", BACKENDS)
def test_methods_and_objects(backend: str) -> None:
    """Methods and objects that can be called, alone and inside; what they hold is known when compiling."""
    method, whole = glow.jit(SCALE.apply, backend=backend), glow.jit(SCALE, backend=backend)
    assert method(2.0) == SCALE.apply(2.0) and method(2.0, 3) == SCALE.apply(2.0, 3)
    assert glow.grad(method)(2.0) == 12.0 and glow.value_and_grad(method)(2.0, 3) == (36.0, 18.0)
    assert whole(2.0) == SCALE(2.0) and glow.grad(glow.grad(whole))(2.0) == 288.0
    inside = glow.jit(lambda x: SCALE.apply(x) + SCALE(x), backend=backend)
    assert inside(1.5) == SCALE.apply(1.5) + SCALE(1.5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_partial_applications(backend: str) -> None:
    """functools.partial at the top, with defaults, keywords and gradients."""

    def base(a, b=2.0, *, c=1.0):
        return a * b + c

    part = functools.partial(base, 3.0, c=5.0)
    compiled = glow.jit(part, backend=backend)
    assert (compiled(4.0), compiled(), compiled(b=1.0), compiled(2.0, c=0.0)) == (17.0, 11.0, 8.0, 6.0)
    assert glow.grad(compiled)(4.0) == 3.0 == glow.grad(part)(4.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numpy_and_operator(backend: str) -> None:
    """Functions of NumPy written with others, those of known arrays, and the operators as functions."""

    def f(x):
        y = np.clip(x, 0.0, 1.5) @ np.eye(3) + np.linspace(0.0, 1.0, 3)
        z = np.linalg.norm(y) + np.var(x) * np.std(x) + np.sum(np.outer(x, y))
        return functools.reduce(operator.mul, (z, operator.add(z, 1.0)))

    x = np.array([0.3, 1.2, 2.0])
    compiled = glow.jit(f, backend=backend)
    assert np.isclose(compiled(x), f(x))
    step = 1e-6 * np.eye(3)
    expected = [(f(x + h) - f(x - h)) / 2e-6 for h in step]
    assert np.allclose(glow.grad(compiled)(x), expected, rtol=1e-5)


def _wrapped(f):
    @functools.wraps(f)
    def inner(*values):
        return f(*values) + 1.0

    return inner


@_wrapped
def _decorated(x, y):
    return x * y


def test_gradient_by_one_of_several_arguments() -> None:
    """What is compiled takes one tuple, whatever the decorated function takes."""
    for f in (lambda *values: values[0] * values[1], _decorated):
        with pytest.raises(glow.GlowError, match=r"argnums counts \*values as one argument"):
            glow.grad(f, 1)
    assert glow.grad(_decorated)(3.0, 2.0) == (2.0, 3.0)
