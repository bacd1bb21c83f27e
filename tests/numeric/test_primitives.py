"""The cards of primitives: every row is there, values and derivatives are those of Python's functions."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.fn import primitives
from glow_dialects.fn.primitive import Constant, Pointwise, Primitive
from glow_dialects.fn.primitives import PRIMITIVES
from glow_dialects.fn.primitives.arithmetic import Add
from glow_dialects.fn.primitives.scalars import Mathematical, Predicate, Rounding, ScalarPrimitive


def own(card: type[Primitive], row: str) -> bool:
    """Whether a card, or its family, says something of its own."""
    return getattr(card, row) is not getattr(Primitive, row)


def missing_rows(card: type[Primitive]) -> list[str]:
    """The rows that a card needs and lacks."""
    rows: list[str] = []
    scalar = issubclass(card, ScalarPrimitive)
    if scalar and card.numbers is ScalarPrimitive.numbers and not (card.graph or card.exact):
        rows.append("numbers")
    if not own(card, "infer") and not own(card, "build") or scalar and not (card.graph or own_build(card)):
        rows.append("infer or build")
    if issubclass(card, Pointwise) and card.partial is Pointwise.partial:
        rows.append("partial")
    if scalar and not (
        card.graph or issubclass(card, Constant) or card.partial is not ScalarPrimitive.partial
    ):
        rows.append("partial")
    if not issubclass(card, Constant | Pointwise):
        rows += [] if own(card, "vjp") or card.linear and own(card, "transpose") else ["transpose"]
        rows += [] if own(card, "jvp") or len(card.linear) == 1 else ["jvp"]
    return rows


def own_build(card: type[ScalarPrimitive]) -> bool:
    """Whether a primitive on numbers is made of several operators on arrays."""
    return card.build is not ScalarPrimitive.build


def families() -> set[type[Primitive]]:
    """The classes of the modules of families that have a name in the text of programs."""
    found: set[type[Primitive]] = set()
    pending: list[type[Primitive]] = [Primitive]
    while pending:
        pending += (subclasses := pending.pop().__subclasses__())
        found |= {c for c in subclasses if "name" in vars(c) and c.__module__.startswith(primitives.__name__)}
    return found


@pytest.mark.parametrize("card", PRIMITIVES, ids=lambda c: c.__name__)
def test_rows(card: type[Primitive]) -> None:
    """Types, code, meaning and derivative are there, or the hole is named."""
    assert missing_rows(card) == []
    assert inspect.getdoc(card) != inspect.getdoc(card.__mro__[1])


def test_holes_are_named() -> None:
    """What a card lacks is found."""

    class Half(Mathematical):
        """x / 2."""

    class Twin(Primitive):
        """x, x."""

    assert missing_rows(Half) == ["numbers", "infer or build", "partial"]
    assert missing_rows(Twin) == ["infer or build", "transpose", "jvp"]


def test_every_class_is_listed() -> None:
    """The tuple holds every primitive; names are theirs alone."""
    assert families() <= set(PRIMITIVES)
    names = [c.name for c in PRIMITIVES if c.name]
    assert len(names) == len(set(names))


# --- values and derivatives ---------------------------------------------------------------------------------
SCALARS = [c for c in PRIMITIVES if issubclass(c, ScalarPrimitive) and c.called]
#: Arguments inside the domain of a function, away from jumps; the default is (0.6, 1.7).
POINTS = {"acosh": (1.6,), "to_int": (2.6,), "to_bool": (2.6,)}
WHOLE = {"bitand", "bitor", "bitxor", "shl", "shr", "invert"}


def arguments(card: type[ScalarPrimitive]) -> tuple[float | int, ...]:
    """Where a primitive is looked at."""
    found = (6, 3) if card.name in WHOLE else POINTS.get(card.name, (0.6, 1.7))
    return found[: card.arity]


def program(card: type[ScalarPrimitive], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Python that calls one that is a primitive."""
    if card.arity == 1:
        return lambda a: function(a)
    return lambda a, b: function(a, b)


def plain(value: Any) -> Any:
    """A number of NumPy as Python's."""
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("card", SCALARS, ids=lambda c: c.name)
def test_values(card: type[ScalarPrimitive], backend: str) -> None:
    """Each function of Python and NumPy that is the primitive, on numbers and on arrays."""
    x = arguments(card)
    for function in card.called:
        made = glow.jit(program(card, function), backend=backend)
        assert made(*x) == pytest.approx(plain(function(*x)), rel=1e-14), function
        if isinstance(function, np.ufunc):
            arrays = [np.array([v, v + v / 4 if isinstance(v, float) else v + 1]) for v in x]
            assert made(*arrays) == pytest.approx(function(*arrays), rel=1e-12), function


SMOOTH = [c for c in SCALARS if not issubclass(c, Rounding | Predicate) and c.name not in WHOLE]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("card", SMOOTH, ids=lambda c: c.name)
def test_derivatives(card: type[ScalarPrimitive], mode: str) -> None:
    """By each operand, in both directions, and once more: against differences of Python's values."""
    x, function, h = arguments(card), card.called[0], 1e-4
    made = glow.jit(program(card, function), backend="interpreter")
    for i in range(len(x)):
        first = glow.grad(made, argnums=i)
        if mode == "forward":  # a gradient of a gradient by a number is a tangent
            second = glow.grad(first, argnums=i)(*x)
            up, mid, down = (function(*x[:i], x[i] + s, *x[i + 1 :]) for s in (h, 0, -h))
            assert second == pytest.approx((up - 2 * mid + down) / h**2, rel=1e-4, abs=1e-5), i
        else:
            up, down = (function(*x[:i], x[i] + s, *x[i + 1 :]) for s in (h, -h))
            assert first(*x) == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-8), i


def test_results_outside_of_domains() -> None:
    """IEEE results where Python raises."""
    named = {c.name: c() for c in PRIMITIVES if issubclass(c, ScalarPrimitive)}
    assert math.isnan(named["sqrt"].numbers(-1.0)) and math.isnan(named["acosh"].numbers(0.5))
    assert named["exp"].numbers(1e4) == math.inf and named["log"].numbers(0.0) == -math.inf
    assert named["log1p"].numbers(-1.0) == -math.inf and named["div"].numbers(-1.0, 0.0) == -math.inf


def test_equality() -> None:
    """Primitives are known by class and name."""
    assert Add() == Add() and hash(Add()) == hash(Add())
    assert primitives.primitive_named("op:relu") == primitives.primitive_named("op:relu")
    assert primitives.primitive_named("op:relu") != primitives.primitive_named("op:tanh")
