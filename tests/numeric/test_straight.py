"""Functions as one graph for any size: numbers and errors as Python has them, where a graph has others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.parser import Parser

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.fn.domain import (
    BOOL,
    FLOAT,
    INT,
    FnType,
    NoneType,
    NotNative,
    Scalar,
    TensorType,
    Text,
    TupleType,
    Type,
)
from glow_passes.fn import specialize
from glow_passes.fn.functions import Functions
from glow_passes.fn.straight import LEAVE, WRONG, leaves_of, straight
from glow_runtime.functions import type_of

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
    return np.sum(x), k < 9007199254740993.0, k == 9007199254740992.0, k == -9007199254740992.0


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


@pytest.mark.slow
def test_loops() -> None:
    """Loops of few turns are written out, with the functions they call; others have a program a shape."""
    for turns, written_out in ((1, True), (9, True), (60, False)):
        compiled = any_size(turned(turns))
        for size in (3, 5):
            x = np.linspace(-1, 1, size)
            np.testing.assert_allclose(compiled(x), turned(turns)(x), rtol=1e-9)
        (told,) = compiled.report()["sizes"]
        assert (told == "any n") == written_out
        assert told.endswith("a branch that the run decides") != written_out


# --- the graph itself -----------------------------------------------------------------------------
def numbers_of(value: Any) -> list[Any]:
    """The numbers and arrays of arguments, in order."""
    if isinstance(value, tuple):
        return [n for v in value for n in numbers_of(v)]
    return [] if value is None or isinstance(value, str) else [value]


def run(
    functions: Functions, name: str, types: list[Type], numbers: list[Any]
) -> tuple[Type, dict[str, Array]]:
    """The type of a function's value, and the outputs of its graph."""
    names = [f"in{i}" for i in range(len(numbers))]
    made = straight(functions, name, types, names)
    outputs = glow.compile(made.module, backend="interpreter").run(dict(zip(names, numbers, strict=True)))
    assert made.checks == any(n.startswith(WRONG) for n in outputs)
    return made.result, outputs


def of_python(function: Callable[..., Any], *given: Any) -> tuple[Type, dict[str, Array]]:
    """The same of a function of Python."""
    program = glow.jit(function, backend="interpreter").program
    return run(program.functions, program.name, [type_of(v) for v in given], numbers_of(given))


def of_text(text: str, types: list[Type], *numbers: Any) -> tuple[Type, dict[str, Array]]:
    """The same of a function of IR."""
    return run(Functions(Parser(context(), text).parse_module()), "f", types, list(numbers))


@pytest.mark.parametrize("yes", [True, False])
def test_select(yes: bool) -> None:
    """One of two numbers, arrays, or tuples of them; of the same value no choice is made."""
    text = """
    glow_fn.func @f(%c, %a, %b, %x) {
      %r = glow_fn.switch %c, %a, %b
      %s = glow_fn.switch %c, %x, %x
      %t = glow_fn.tuple %r, %s
      glow_fn.return %t
    }"""
    array = TensorType((3,), "float64")
    result, outputs = of_text(text, [BOOL, FLOAT, FLOAT, array], yes, 2.0, 3.0, X)
    assert result == TupleType((FLOAT, array))
    assert outputs["out0"] == (2.0 if yes else 3.0)
    np.testing.assert_array_equal(outputs["out1"], X)
    _, outputs = of_text(text, [BOOL, array, array, INT], yes, X, X + 1, 4)
    np.testing.assert_array_equal(outputs["out0"], X if yes else X + 1)
    assert outputs["out1"] == 4


HOLDING = """
glow_fn.func @f(%c, %x, %n) {
  %e = glow_fn.ref @first
  %h = glow_fn.ref @second
  %a = glow_fn.partial %h(%x)
  %m = glow_fn.switch %c, %e, %a
  %t = glow_fn.tuple %x, %n
  %g = glow_fn.ref @third
  %b = glow_fn.partial %g(%held, %t)
  %s = glow_fn.switch %c, %e, %b
  %r = glow_fn.tuple %s, %x
  %v = glow_fn.get %r[1]
  glow_fn.return %v
}
glow_fn.func @first(%y) {
  glow_fn.return %y
}
glow_fn.func @second(%x, %y) {
  glow_fn.return %y
}
glow_fn.func @third(%a, %t, %y) {
  glow_fn.return %y
}
"""


def test_functions_that_are_not_called() -> None:
    """One of two, of which one holds a function, arrays and numbers; none that is one of several."""
    types: list[Type] = [BOOL, TensorType((3,), "float64"), INT]
    _, outputs = of_text(HOLDING.replace("%held", "%a"), types, True, X, 2)
    np.testing.assert_array_equal(outputs["out0"], X)
    with pytest.raises(NotNative, match="functions of several kinds"):
        of_text(HOLDING.replace("%held", "%m"), types, True, X, 2)


def endless(x):
    endless(x)
    return x * 2


LARGE, SECOND = np.arange(5000.0), np.arange(5000.0) ** 2


def test_large_arrays() -> None:
    """They are constants of the module, each with a name."""
    _, outputs = of_python(lambda x: (x * LARGE[-3:], np.sum(LARGE) + np.sum(SECOND)), X)
    np.testing.assert_array_equal(outputs["out0"], X * LARGE[-3:])
    assert outputs["out1"] == LARGE.sum() + SECOND.sum()


def test_gradient_by_what_is_not_used() -> None:
    """Zeros."""
    _, outputs = of_python(glow.grad(lambda a, b: np.sum(a * 2), argnums=(0, 1)), X, X[:2])
    np.testing.assert_array_equal(outputs["out0"], [2, 2, 2])
    np.testing.assert_array_equal(outputs["out1"], [0, 0])


def test_ends_of_ints() -> None:
    """Products near 64 bits are for the interpreter; those far from that are not."""
    for k, leaves in ((2**30, 0), (-(2**30) + 1, 0), (2**32, 1), (-(2**32), 1), (2**62, 1)):
        _, outputs = of_python(lambda x, k: np.sum(x) * 0 + k * k, X, k)
        (name,) = (n for n in outputs if n.startswith(WRONG))
        assert name.split("\t")[1] == LEAVE and int(outputs[name]) == leaves
        assert leaves or outputs["out0"] == k * k


def many_loops(x):
    def step(x):
        for i in range(5):
            x = x * 0.5 + i
        return x

    for i in range(3):
        x = step(step(x) + i)
    return x


def test_many_short_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of several turns at a time are one graph where single turns would be too many."""
    monkeypatch.setattr(specialize, "LONG", 100)
    _, outputs = of_python(many_loops, X)
    np.testing.assert_allclose(outputs["out0"], many_loops(X), rtol=1e-12)


def branch(x):
    return x * 2 if np.sum(x) > 0 else x


def half(x, k):
    return np.sum(x), k // 2


def as_int(x, k):
    return np.sum(x), int(k * 1.0)


def a_function(x):
    return x, lambda y: y


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        (branch, (X,), r"test_straight.py:\d+: a branch that the run decides"),
        (half, (X, 3), r"test_straight.py:\d+: floor_div of numbers that are only known at run time"),
        (as_int, (X, 3), r"test_straight.py:\d+: int of numbers that are only known at run time"),
        (a_function, (X,), "^a function as the result"),
        (endless, (X,), r"test_straight.py:\d+: a loop or a recursion that stays one"),
    ],
)
def test_what_is_no_graph(function: Callable[..., Any], given: tuple[Any, ...], message: str) -> None:
    """The reason, with the line."""
    with pytest.raises(NotNative, match=message):
        of_python(function, *given)


def test_leaves() -> None:
    """The types of numbers and arrays, with or without their code."""
    array = TensorType((3,), "float64")
    kind = TupleType((FLOAT, TupleType((array, NoneType(), Text("a"))), Scalar("int", 3)))
    assert [t for t, _ in leaves_of(kind)] == [FLOAT, array, Scalar("int", 3)]
    assert [*leaves_of(kind, ["x", ["y", None, None], "z"])] == [
        (FLOAT, "x"), (array, "y"), (Scalar("int", 3), "z")
    ]  # fmt: skip
    with pytest.raises(NotNative, match="a function as the result"):
        [*leaves_of(TupleType((FLOAT, FnType((("f", ()),)))))]
