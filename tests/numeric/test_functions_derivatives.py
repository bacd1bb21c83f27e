"""More functions: values, first and second derivatives on both backends."""

from __future__ import annotations

from collections.abc import Callable

import function_programs_control
import function_programs_numbers
import pytest
from derivative_checks import BACKENDS, X, Y, close, difference

import glow_compiler as glow

PROGRAMS = [*function_programs_control.PROGRAMS, *function_programs_numbers.PROGRAMS]
#: Programs that call glow.grad: plain Python cannot run them.
WITH_GRAD = {"gradient_descent", "newton_by_grad", "hessian_inside", "grad_of_closure_choice"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_value_and_gradient(program: Callable[..., float], backend: str) -> None:
    """The value is Python's, and the derivatives agree with differences."""
    compiled = glow.jit(program, backend=backend)
    if program.__name__ not in WITH_GRAD:
        assert close(compiled(X, Y), program(X, Y), 1e-12)
    plain = compiled if program.__name__ in WITH_GRAD else program
    value, found = glow.value_and_grad(compiled, argnums=(0, 1))(X, Y)
    assert close(value, compiled(X, Y), 1e-12)
    assert all(close(d, difference(plain, i)) for i, d in enumerate(found))
    assert compiled.report()["instances"][0]["runs on"] == backend


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_second_order(program: Callable[..., float]) -> None:
    """Second derivatives are native and agree with differences of the first."""
    first = glow.grad(glow.jit(program))
    second = glow.grad(first)
    assert close(second(X, Y), difference(first, 0), 1e-4)
    assert second.report()["instances"] == [{"runs on": "cpu", "because": ""}]
