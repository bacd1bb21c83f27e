"""The names on cards: every door knows an element-wise operator by them, and means the same by it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.sample import special_pairs
from glow_dialects.fn.primitives import PRIMITIVES
from glow_dialects.ops import CARDS, ELEMENTWISE, OPERATORS, named, numpy_operators, pointwise_operators
from glow_dialects.ops.elementwise import BinaryOp, UnaryOp
from glow_frontends.onnx.export.rules import RULES as EXPORTED
from glow_frontends.onnx.rules.elementwise import RULES as ONNX_RULES
from glow_frontends.stablehlo.rules import RULES as STABLEHLO_RULES
from glow_frontends.torch.rules import rules as torch_rules

NUMBERS = np.array([np.nan, -np.inf, -3.0, -0.5, -0.0, 0.0, 0.5, 3.0, np.inf, 343.0, 1000.0])


def test_cards_with_names_are_in_the_table() -> None:
    """A card outside of ELEMENTWISE has no names, and no operator of the families of element-wise ones."""
    for module in CARDS:
        card = module.__name__.rpartition(".")[2]
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, GraphOp) and kind.__module__ == module.__name__:
                family = issubclass(kind, UnaryOp | BinaryOp) and "name" in vars(kind)
                if family or kind.ONNX or kind.TORCH or kind.STABLEHLO:
                    assert card in ELEMENTWISE, kind
    assert ELEMENTWISE.keys() <= OPERATORS.keys()


def test_names_are_unique() -> None:
    """No two cards have one name at a door."""
    for door in ("ONNX", "TORCH", "STABLEHLO"):
        names = [n for kind in pointwise_operators() for n in vars(kind).get(door, "").split()]
        assert len(names) == len(set(names)), door
    functions = [f for kind in pointwise_operators() for f in kind.functions(np)]
    assert len(numpy_operators()) == len(functions)


@pytest.mark.parametrize("door", ["ONNX", "TORCH", "STABLEHLO"])
def test_doors_know_the_names(door: str) -> None:
    """A name on a card is a rule of the door."""
    known = {
        "ONNX": {*ONNX_RULES, "PRelu", "Cast", "Identity"},
        "TORCH": torch_rules(),
        "STABLEHLO": {n.removeprefix("stablehlo.") for n in STABLEHLO_RULES},
    }
    assert named(door).keys() <= set(known[door])


def test_what_onnx_names_is_exported() -> None:
    """The exporter writes what the importer reads; an operator without a name there has a decomposition."""
    for kind in pointwise_operators():
        assert kind in EXPORTED or kind.can_decompose() or kind.__name__ in ("ReplaceNanOp", "LogitOp"), kind


#: Arrays inside the domains of all functions, away from jumps and ties.
PLACES: dict[str, tuple[Any, ...]] = {"acosh": (np.array([1.3, 2.5]),)}
FIRST, SECOND = np.array([0.3, 0.8]), np.array([1.7, 0.45])
#: Functions of ints and booleans only.
WHOLE = ("bitwise_", "shift_")


def program(function: Any, count: int) -> Any:
    """A function of Python that calls one of NumPy."""
    return (lambda x: function(x)) if count == 1 else lambda x, y: function(x, y)


NAMED = [(f, kind) for f, kind in numpy_operators().items() if isinstance(f, np.ufunc)]


@pytest.mark.parametrize("function, kind", NAMED, ids=[f.__name__ for f, _ in NAMED])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_know_the_cards(function: Any, kind: Any) -> None:
    """A card with a NUMPY name is a function of arrays and of numbers, on both backends, by that alone."""
    ints, bools = (
        (np.array([3, -2], np.int32), np.array([1, 2], np.int32)),
        (np.array([True]), np.array([False])),
    )
    operands: list[Any] = [ints, (6, 3), bools, (True, False)]
    if not kind.name.removeprefix("glow.").startswith(WHOLE):
        operands += [(FIRST, SECOND), (FIRST.astype(np.float32), SECOND.astype(np.float32)), (0.3, 1.7)]
    made = program(function, function.nin)
    for backend in ("cpu", "interpreter"):
        compiled = glow.jit(made, backend=backend)
        for values in operands:
            try:
                want = np.asarray(made(*values[: function.nin]))
            except TypeError:  # NumPy has none for the type
                continue
            if want.dtype == np.float16 and function is np.nextafter:
                continue
            got = np.asarray(compiled(*values[: function.nin]))
            assert got.dtype == want.dtype
            rtol = 4e-3 if want.dtype == np.float16 else 1e-6 if want.dtype == np.float32 else 1e-13
            np.testing.assert_allclose(got, want, rtol)


SMOOTH = [(f, kind) for f, kind in NAMED if kind.has_gradient()]


@pytest.mark.parametrize("function, kind", SMOOTH, ids=[f.__name__ for f, _ in SMOOTH])
def test_gradients_of_the_cards(function: Any, kind: Any) -> None:
    """In reverse and in forward mode, by each operand, of arrays and of numbers, beside differences."""
    count, h = function.nin, 1e-6
    values = PLACES.get(kind.name.removeprefix("glow."), (FIRST, SECOND))[:count]
    plain = program(function, count)
    total = (lambda x: np.sum(function(x))) if count == 1 else lambda x, y: np.sum(function(x, y))
    for i in range(count):
        steps = [[v + s * h * (i == j) for j, v in enumerate(values)] for s in (1, -1)]
        up, down = (function(*x) for x in steps)
        want = (up - down) / (2 * h)
        np.testing.assert_allclose(glow.grad(total, argnums=i)(*values), want, rtol=1e-5, atol=1e-7)
        tangents = tuple(np.ones(2) if j == i else np.zeros(2) for j in range(count))
        tangent = glow.jvp(plain, values, tangents)[1]
        np.testing.assert_allclose(tangent, want, rtol=1e-5, atol=1e-7)
        first = glow.grad(plain, argnums=i)(*[float(v[0]) for v in values])
        np.testing.assert_allclose(first, want[0], rtol=1e-5, atol=1e-7)


def test_functions_of_cards_without_a_name_in_numpy() -> None:
    """Functions of `math`, and aliases."""
    called = {f for card in PRIMITIVES for f in card.called}
    assert {math.erfc, math.degrees, math.radians, math.exp2, np.degrees, np.logaddexp2} <= called
    x = np.array([np.nan, np.inf, -np.inf, -2.5])

    def two(x: Any) -> Any:
        return np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-3.0), np.fix(x), np.nan_to_num(x)  # pyright: ignore[reportDeprecated]

    for value, want in zip(glow.jit(two)(x), two(x), strict=True):
        np.testing.assert_array_equal(value, want)


def same(got: Any, want: Any, ulps: float = 4) -> None:
    """Equal but for rounding, signs of zeros and types included."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=ulps * np.finfo(want.dtype).eps, atol=0)
    there = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[there], np.signbit(want)[there])


def one(x: Any) -> Any:
    """Functions of one number."""
    return np.sinc(x), np.deg2rad(x), np.rad2deg(x), np.exp2(x), np.log2(x), np.log10(x), np.cbrt(x)


def two(x: Any, y: Any) -> Any:
    """Functions of two numbers."""
    return (
        np.arctan2(x, y), np.hypot(x, y), np.copysign(x, y), np.logaddexp(x, y), np.logaddexp2(x, y),
        np.heaviside(x, y), np.nextafter(x, y),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values_of_functions(dtype: str) -> None:
    """Arrays: zeros of both signs, infinities, NaN, in every pair."""
    numbers, pair = NUMBERS.astype(dtype), special_pairs(dtype)
    for got, want in zip(glow.jit(one)(numbers), one(numbers), strict=True):
        same(got, want)
    for got, want in zip(glow.jit(two)(*pair), two(*pair), strict=True):
        same(got, want)


def of_numbers(x: float, y: float) -> Any:
    """Functions of Python's numbers."""
    return (
        math.erfc(x), math.exp2(x), math.degrees(x), math.radians(x), math.atan2(x, y), math.hypot(x, y),
        np.sinc(x), np.logaddexp(x, y), np.heaviside(x, y), np.deg2rad(x),
    )  # fmt: skip


@pytest.mark.parametrize("x, y", [(4.5, -2.0), (0.0, -0.0), (-0.5, 3.0)])
def test_numbers_of_python(x: float, y: float) -> None:
    """The same code for numbers; where the C library has no such function, the card's formula."""
    for got, want in zip(glow.jit(of_numbers)(x, y), of_numbers(x, y), strict=True):
        same(np.float64(got), np.float64(want))


def composed(x: Any) -> Any:
    """Functions whose derivatives stand on cards alone."""
    whole = np.sinc(x) + np.logaddexp(x, 2 * x) + np.hypot(x, 3.0) + np.arctan2(x, 2.0)
    return np.sum(whole + np.copysign(x, -1.0) + np.exp2(x) + np.cbrt(x) + np.log2(x * x) + np.deg2rad(x))


def test_derivatives() -> None:
    """Gradients of what cards say, beside differences."""
    x, h = np.array([0.3, 1.2, -0.7]), 1e-6
    want = [(composed(x + h * v) - composed(x - h * v)) / (2 * h) for v in np.eye(3)]
    np.testing.assert_allclose(glow.grad(composed)(x), want, rtol=1e-6)
