"""Functions: values against Python, gradients against finite differences, on both backends."""

from __future__ import annotations

import math
from collections.abc import Callable

import function_programs as programs
import pytest
from derivative_checks import BACKENDS, X, Y, close, difference

import glow_compiler as glow

#: Programs whose Python form calls glow.grad, which Python alone cannot differentiate.
WITH_GRAD = {
    "grad_inside",
    "confusion",
    "grad_of_grad_inside",
    "grad_of_loop_inside",
    "value_and_grad_inside",
}
EXPECTED = {
    "grad_inside": 2 * X * Y * X,
    "confusion": 4 * X * X,
    "grad_of_grad_inside": 6 * X * Y,
    "grad_of_loop_inside": 4 * X**3 + Y * (2 * X + 1),
    "value_and_grad_inside": X / Y / Y - X / Y**2,
}


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.__name__)
def test_value(program: Callable[..., float], backend: str) -> None:
    """The value is Python's."""
    expected = EXPECTED[program.__name__] if program.__name__ in WITH_GRAD else program(X, Y)
    assert close(glow.jit(program, backend=backend)(X, Y), expected, 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.__name__)
def test_gradient(program: Callable[..., float], backend: str) -> None:
    """Both partial derivatives agree with differences of Python's values."""
    compiled = glow.jit(program, backend=backend)
    plain = compiled if program.__name__ in WITH_GRAD else program
    value, found = glow.value_and_grad(compiled, argnums=(0, 1))(X, Y)
    assert close(value, compiled(X, Y), 1e-12)
    for i in (0, 1):
        assert close(found[i], difference(plain, i))


@pytest.mark.slow
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.__name__)
def test_second_order(program: Callable[..., float]) -> None:
    """The second derivatives are native; they agree with the interpreter's and with differences."""
    interpreted, native = glow.jit(program, backend="interpreter"), glow.jit(program)
    for i in (0, 1):
        first = glow.grad(interpreted, argnums=i)
        found = glow.grad(first, argnums=0)(X, Y)
        assert close(found, difference(first, 0))
        second = glow.grad(glow.grad(native, argnums=i), argnums=0)
        assert close(second(X, Y), found, 1e-9)
        assert second.report()["instances"] == [{"runs on": "cpu", "because": ""}]


THIRD = ("seed_test_f", "seed_closure", "several_captured", "choice_of_closures", "church", "with_continue",
         "return_in_loop", "recursion_with_capture", "tree", "wrapped_in_loop", "confusion")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", THIRD)
def test_third_order(name: str, backend: str) -> None:
    """The third derivative agrees with differences of the second, and is native."""
    second = glow.grad(glow.grad(glow.jit(getattr(programs, name), backend=backend)))
    third = glow.grad(second)
    assert close(third(X, Y), difference(second, 0), 1e-4)
    assert third.report()["instances"][0]["runs on"] == backend


@pytest.mark.parametrize("backend", BACKENDS)
def test_fibonacci(backend: str) -> None:
    """The seed's recursion on ints."""
    compiled = glow.jit(programs.fibonacci, backend=backend)
    assert [compiled(n) for n in range(15)] == [programs.fibonacci(n) for n in range(15)]


def test_fibonacci_is_native() -> None:
    """It runs as machine code."""
    compiled = glow.jit(programs.fibonacci)
    assert compiled(30) == 832040
    assert compiled.report()["instances"] == [{"runs on": "cpu", "because": ""}]


def even(n: int) -> bool:
    """Mutual recursion in tail position."""
    return True if n == 0 else odd(n - 1)


def odd(n: int) -> bool:
    """The other one."""
    return False if n == 0 else even(n - 1)


def depth(n: int) -> int:
    """Recursion that is not in tail position."""
    return 0 if n == 0 else 1 + depth(n - 1)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_deep_recursion(backend: str) -> None:
    """100,000 levels."""
    assert glow.jit(even, backend=backend)(100_000) is True
    assert glow.jit(depth, backend=backend)(100_000) == 100_000


def long_loop(x: float) -> float:
    """Many steps."""
    s = x
    for _i in range(100_000):
        s = s * 0.9999 + math.sin(x) * 0.001
    return s


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_long_loop_backwards(backend: str) -> None:
    """The gradient of many steps needs no stack."""
    compiled = glow.jit(long_loop, backend=backend)
    expected = (long_loop(X + 1e-5) - long_loop(X - 1e-5)) / 2e-5
    assert close(glow.grad(compiled)(X), expected, 1e-6)


def test_sizes_do_not_explode() -> None:
    """Operations grow by a small factor with each order, not exponentially in the program."""
    sizes: list[int] = []
    compiled = glow.jit(programs.while_nested, backend="interpreter")
    for _ in range(4):
        compiled(X, Y)
        sizes.append(compiled.report()["operations"])
        compiled = glow.grad(compiled)
    assert all(after <= 9 * before for before, after in zip(sizes, sizes[1:], strict=False)), sizes


def test_compiled_functions_call_each_other() -> None:
    """jit, gradients and plain functions mix."""
    inner = glow.jit(lambda v: v * v * 3.0)
    slope = glow.grad(inner)

    def total(x: float) -> float:
        return inner(x) + slope(x)

    assert close(glow.jit(total)(X), 3 * X * X + 6 * X)
    assert close(glow.grad(total)(X), 6 * X + 6)
