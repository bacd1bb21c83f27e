"""Loops of arrays whose turns the types tell: which become an instance a turn, and which stay loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.fn.domain import EnvType, FnType, NoneType, Scalar, TensorType, Text, TupleType, Type
from glow_passes.fn.unrolling import TooLong, Unrolling, has_tensors, has_texts, same_step

W = np.random.default_rng(0).normal(size=(3, 3)) * 0.5
ROWS = np.random.default_rng(0).normal(size=(100, 2))


def halving(turns: int, inner: int = 1) -> Callable[..., Any]:
    """A loop whose counter is halved, so that it is not taken several turns at a time."""

    def total(w):
        n, s = 2**turns, w[0]
        while n > 1:
            for _ in range(inner):
                s = np.tanh(w @ s + n * 1e-3)
            n = n // 2
        return np.sum(s)

    return total


def branching(turns: int) -> Callable[..., Any]:
    """A loop that branches on what the run tells."""

    def total(w):
        n, s = 2**turns, w[0]
        while n > 1:
            s = np.tanh(w @ s) if np.sum(s) > 0 else w[1] * s + n * 1e-3
            n = n // 2
        return np.sum(s)

    return total


def of_numbers(turns: int) -> Callable[..., Any]:
    """A loop without arrays."""

    def total(x):
        n = 2**turns
        while n > 1:
            x = x * 0.5 + n
            n = n // 2
        return x

    return total


def bodies(compiled: Any) -> int:
    """The instances of the body of the outer loop."""
    ((program),) = compiled.program.instances.values()
    assert program.reason == ""
    return Counter(i.name for i in program.types.instances)["total.body.total.loop"]


@pytest.mark.parametrize(
    ("program", "given", "count"),
    [
        (halving(1), W, 1),
        (halving(5), W, 5),
        (halving(33), W, 33),
        (halving(34), W, 1),  # too many turns
        (halving(10, 30), W, 10),
        (halving(30, 30), W, 1),  # not too many, but too much in all
        (branching(3), W, 1),
        (of_numbers(5), 1.5, 1),
    ],
)
def test_turns(program: Callable[..., Any], given: Any, count: int) -> None:
    """The value is Python's either way, and the gradient that of differences."""
    compiled = glow.jit(program)
    assert np.isclose(compiled(given), program(given), rtol=1e-12)
    assert bodies(compiled) == count
    step = np.random.default_rng(1).normal(size=np.shape(given))
    slope = (program(given + 1e-6 * step) - program(given - 1e-6 * step)) / 2e-6
    assert np.isclose(np.sum(glow.grad(program)(given) * step), slope, rtol=1e-5, atol=1e-8)


def grows(x, n):
    s = x[0:1]
    for i in range(n):
        s = np.concatenate([s, x[i : i + 1] * 0.5])
    return s


def shrinks(x, n):
    for _ in range(n):
        x = x[1:] * 0.5
    return x


@pytest.mark.parametrize("function", [grows, shrinks])
def test_shapes_that_change_each_turn(function: Callable[..., Any]) -> None:
    """33 turns become instances of their own, whose gradients too; more are refused with what to do."""

    def of(turns: int) -> Callable[..., Any]:
        return lambda x: np.sum(function(x, turns) ** 2)

    for turns in (0, 1, 33):
        compiled = glow.jit(of(turns))
        assert np.isclose(compiled(ROWS), of(turns)(ROWS))
        assert compiled.report()["instances"] == [{"runs on": "cpu", "because": ""}]
    step = np.random.default_rng(1).normal(size=ROWS.shape)
    found = np.sum(glow.grad(of(5))(ROWS) * step)
    sides = [of(5)(ROWS + h * step) for h in (1e-6, -1e-6)]
    assert np.isclose(found, (sides[0] - sides[1]) / 2e-6, rtol=1e-6)
    with pytest.raises(
        glow.GlowError,
        match="'[sx]' is alternately an array of .*; keep one type and shape for a value that a loop",
    ):
        glow.jit(of(34))(ROWS)


def by_name(w):
    parts = {"first": w[0], "second": w[1], "third": w[2]}
    s = w[0] * 0.5
    for name, part in parts.items():
        s = np.tanh(s) * part if name != "second" else s + part
    return np.sum(s)


def test_names_of_parts() -> None:
    """Turns over the names of a dict are known, so that each is compared when compiling."""
    compiled = glow.jit(by_name)
    assert np.isclose(compiled(W), by_name(W), rtol=1e-12)
    assert compiled.report()["instances"] == [{"runs on": "cpu", "because": ""}]


# --- what unrolling asks of types ---------------------------------------------------------------
ARRAY, FLOAT, UNKNOWN = TensorType((3,), "float64"), Scalar("float"), Scalar("int")


def int_of(value: int) -> Scalar:
    """The type of an int that is known."""
    return Scalar("int", value)


def closure(*bound: Type) -> FnType:
    """The type of a function that holds values."""
    return FnType((("f", bound),))


def over(*items: Type) -> TupleType:
    """The type of a tuple."""
    return TupleType(items)


@pytest.mark.parametrize(
    ("before", "now", "apart"),
    [
        ([int_of(3), ARRAY], [int_of(2), ARRAY], True),
        ([ARRAY, int_of(3), FLOAT], [ARRAY, int_of(4), FLOAT], True),
        ([int_of(3), over(FLOAT, ARRAY)], [int_of(2), over(FLOAT, ARRAY)], True),
        ([int_of(3), closure(FLOAT, ARRAY)], [int_of(2), closure(FLOAT, ARRAY)], True),
        ([int_of(3), over(Text("a"))], [int_of(2), over(Text("a"))], True),
        ([int_of(3), over(FLOAT, over(Text("a"), FLOAT))], [int_of(2), over(over(Text("a")))], True),
        ([int_of(3), ARRAY], [int_of(3), ARRAY], False),
        ([UNKNOWN, ARRAY], [int_of(3), ARRAY], False),
        ([int_of(3), ARRAY], [UNKNOWN, ARRAY], False),
        ([Scalar("bool", True), ARRAY], [Scalar("bool", False), ARRAY], False),
        ([int_of(1), ARRAY], [Scalar("bool", False), ARRAY], False),
        ([ARRAY], [int_of(3)], False),
        ([int_of(3), ARRAY], [ARRAY, ARRAY], False),
    ],
)
def test_turns_apart(before: list[Type], now: list[Type], apart: bool) -> None:
    """Turns of arrays or names are, whose known int differs."""
    unrolling = Unrolling()
    assert unrolling.unrolls("f", now, before, 1) == apart
    assert unrolling.met == any(has_tensors(k) or has_texts(k) for k in now)


@pytest.mark.parametrize(
    "now", [[int_of(2), FLOAT], [int_of(2), Text("a")], [int_of(2), over(FLOAT), closure()]]
)
def test_turns_without_arrays(now: list[Type]) -> None:
    """Loops of numbers stay, and are no loops of arrays that were met."""
    unrolling = Unrolling()
    assert not unrolling.unrolls("f", now, [int_of(3), *now[1:]], 1)
    assert not unrolling.met and unrolling.factor == 1


def test_which_turns() -> None:
    """Of no function that stays a loop, nor of what is derived from it; at most 32."""
    before, now = [int_of(3), ARRAY], [int_of(2), ARRAY]
    unrolling = Unrolling(rolled={"f"}, room=5)
    assert not any(unrolling.unrolls(name, now, before, 1) for name in ("f", "f.fwd", "f.bwd.jvp"))
    assert (unrolling.met, unrolling.factor) == (False, 1)
    assert unrolling.unrolls("g.fwd", now, before, 32) and (unrolling.met, unrolling.factor) == (True, 5)
    with pytest.raises(TooLong, match="^g$"):
        unrolling.unrolls("g", now, before, 33)
    assert not Unrolling(enabled=False).unrolls("g", now, before, 1)
    new = Unrolling()
    assert (new.turns, new.straight, new.turned, new.crowded, new.room) == (True, True, False, False, 2)


@pytest.mark.parametrize(
    ("before", "now", "fewer"),
    [
        ([closure(closure())], [closure()], True),
        ([closure()], [FLOAT], True),
        ([closure(FLOAT, closure(closure()))], [FLOAT, closure(closure(), closure())], True),
        ([over(FLOAT, over(closure()))], [over()], True),
        ([FnType((("f", ()), ("g", (closure(),))))], [closure(FLOAT)], True),
        ([closure()], [closure()], False),
        ([closure(), closure()], [closure(closure())], False),
        ([FLOAT], [closure()], False),
        ([over(closure(FLOAT))], [closure(ARRAY)], False),
    ],
)
def test_closures_that_nest_less(before: list[Type], now: list[Type], fewer: bool) -> None:
    """The deepest decides; in programs with loops of arrays alone."""
    assert Unrolling(met=True).shrinks(now, before) == fewer
    assert not Unrolling().shrinks(now, before)


ENV, OTHER = EnvType((("f", over(ARRAY)),)), EnvType((("g", over(ARRAY)),))


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        ([ENV, ARRAY], [OTHER, ARRAY], True),
        ([ENV, ARRAY], [ENV, ARRAY], True),
        ([ENV, over(closure(ARRAY))], [OTHER, over(closure(ARRAY))], True),
        ([ENV, FLOAT], [OTHER, FLOAT], False),
        ([ENV, ARRAY], [NoneType(), ARRAY], False),
        ([ENV, FLOAT, ARRAY], [OTHER, UNKNOWN, ARRAY], False),
    ],
)
def test_steps_that_follow_themselves(before: list[Type], now: list[Type], same: bool) -> None:
    """Those of arrays, but for where the cotangents come from."""
    assert same_step(now, before) == same
