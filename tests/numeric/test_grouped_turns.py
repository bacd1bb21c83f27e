"""Loops that count, several turns at a time: which are found, how many turns, what the chunks compute."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.parser import Parser

from glow_backends.interpreter.functions import Machine
from glow_dialects.dialects import context
from glow_dialects.fn.domain import FLOAT, INT, Scalar, Type
from glow_passes.fn.functions import Functions
from glow_passes.fn.grouped_turns import chunk_of, stands_for

#: A loop of a counter, a value, and a limit that every turn hands on; its parts can be replaced.
LOOP = """
glow_fn.func @f(%i, %s, %n, %xs) {
  %one = glow_fn.constant STEP : i64
  %j = glow_fn.prim add(%i, %one)
  %row = glow_fn.prim item(%xs, %i)
  %k = glow_fn.prim mul(%s, %i)
  %u = glow_fn.prim add(%k, %row)
  %t = glow_fn.prim sin(%u)
  %c = glow_fn.prim TEST(%j, %n)
  %f = glow_fn.ref @f
  %again = glow_fn.partial %f(%j, %t, %n, %xs)
  %d = glow_fn.ref @done
  %leave = glow_fn.partial %d(%t)
  %r = glow_fn.switch %c, %again, %leave
  %v = glow_fn.call %r()
  glow_fn.return %v
}
glow_fn.func @done(%s) {
  glow_fn.return %s
}
"""


def functions(step: int = 1, test: str = "lt", **replaced: str) -> Functions:
    """The functions of the loop, where some text is replaced."""
    text = LOOP.replace("STEP", str(step)).replace("TEST", test)
    for old, new in (
        zip(replaced["old"].split("|"), replaced["new"].split("|"), strict=True) if replaced else ()
    ):
        assert old in text
        text = text.replace(old, new)
    return Functions(Parser(context(), text).parse_module())


def turns_of(first: int, limit: int, step: int) -> int:
    """The turns of a loop that tests after each."""
    count, i = 0, first
    while True:
        count, i = count + 1, i + step
        if not (i < limit if step > 0 else i > limit):
            return count


def int_of(value: int) -> Type:
    """The type of a number that is known."""
    return Scalar("int", value)


@pytest.mark.parametrize(("step", "test"), [(1, "lt"), (3, "lt"), (-1, "gt"), (-4, "gt")])
def test_number_of_turns(step: int, test: str) -> None:
    """As many as the loop has; the first is always done. With tangents, every other type counts."""
    loop = functions(step, test).loop("f")
    assert loop is not None and loop.step == step and loop.operations == 12
    for first in (-3, 0, 5):
        for limit in range(-9, 10):
            kinds = [int_of(first), FLOAT, int_of(limit), FLOAT]
            expected = first, turns_of(first, limit, step)
            assert loop.turns(kinds, 1) == expected
            assert loop.turns([k for kind in kinds for k in (kind, int_of(77))], 2) == expected
    assert loop.turns([int_of(0), FLOAT, INT, FLOAT], 1) is None
    assert loop.turns([INT, FLOAT, int_of(5), FLOAT], 1) is None
    assert loop.turns([FLOAT, FLOAT, int_of(5), FLOAT], 1) is None


def test_limits() -> None:
    """A limit may be a constant; limits that take each other's places have to be equal."""
    fixed = functions(old="glow_fn.prim lt(%j, %n)", new="glow_fn.prim lt(%j, %one)")
    loop = fixed.loop("f")
    assert loop is not None and loop.turns([int_of(-5), FLOAT, INT, FLOAT], 1) == (-5, 6)
    swapped = functions(old="%f(%j, %t, %n, %xs)", new="%f(%j, %t, %xs, %n)").loop("f")
    assert swapped is not None and sorted(swapped.limits) == [2, 3]
    assert swapped.turns([int_of(0), FLOAT, int_of(7), int_of(7)], 1) == (0, 7)
    assert swapped.turns([int_of(0), FLOAT, int_of(7), int_of(8)], 1) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%c, %again, %leave", "%c, %leave, %again"),  # goes on above the limit
        ("prim lt(", "prim le("),  # another test
        ("constant 1 :", "constant -1 :"),  # away from the limit
        ("constant 1 :", "constant 0 :"),
        ("add(%i, %one)", "add(%s, %one)"),  # no counter
        ("add(%i, %one)", "mul(%i, %one)"),
        ("add(%i, %one)", "add(%i, %s)"),  # a step that changes
        ("%f(%j, %t, %n, %xs)", "%f(%i, %t, %n, %xs)"),  # a counter that does not
        ("%f(%j, %t, %n, %xs)", "%f(%j, %t, %j, %xs)"),  # a limit that changes
        ("lt(%j, %n)", "lt(%j, %u)"),
        ("lt(%j, %n)", "lt(%n, %j)"),
        ("%f(%j, %t, %n, %xs)|%r()", "%f(%j, %t, %n)|%r(%xs)"),  # what is given only in the end
        ("%r()", "%r(%xs)"),  # one too many
        ("%f = glow_fn.ref @f", "%f = glow_fn.ref @done"),  # another function
        ("glow_fn.ref @done", "glow_fn.ref @f"),
        ("return %v", "return %t"),  # a value of its own
        ("%r = glow_fn.switch %c, %again, %leave|%r()", "%r = glow_fn.tuple %c|%leave()"),
    ],
)
def test_what_is_no_loop(old: str, new: str) -> None:
    """One thing that is different, and the function is taken as it is."""
    assert functions(old=old, new=new).loop("f") is None
    assert functions().loop("f") is not None


@pytest.mark.parametrize(
    ("step", "test", "first"), [(1, "lt", 0), (1, "lt", -40), (2, "lt", 1), (-1, "gt", 39)]
)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_values(step: int, test: str, first: int, order: int) -> None:
    """Chunks, the rest after them, rows at once: the value of the loop, in as many calls as chunks."""
    made, xs = functions(step, test), np.random.default_rng(0).normal(size=40)
    loop = made.loop("f")
    assert loop is not None
    for turns in (1, 2, 3, 4, 5, 7, 13, 19):
        arguments = [first, 0.3, first + step * turns, xs]
        expected = Machine(made.module, made).run("f", arguments)
        name = made.in_turns(loop, first, turns, order)
        assert made.in_turns(loop, first, turns, order) == name and stands_for(name) == "f"
        machine = Machine(made.module, made)
        machine.counts = {}
        np.testing.assert_allclose(machine.run(name, arguments), expected, rtol=1e-12)
        size = chunk_of(loop.operations, turns, order, False)
        chunks, rest = divmod(turns, size)
        split = chunks > 1
        assert machine.counts[name] == (chunks if split else 1) and "f" not in machine.counts
        assert machine.counts.get(f"{name}.rest", 0) == (split and rest > 0)
        assert stands_for(f"{name}.rest") == "f"


def test_rows_are_taken_at_once() -> None:
    """Of what stays the same, by a counter that counts up from 0 or more by ones; otherwise one by one."""
    for step, test, first, replaced, together in (
        (1, "lt", 0, "", True),
        (1, "lt", -20, "", False),
        (2, "lt", 0, "", False),
        (-1, "gt", 20, "", False),
        (1, "lt", 0, "item(%xs, %i)|item(%xs, %one)", False),
        (1, "lt", 0, "%n, %xs)\n  %d|%n, %row)\n  %d", False),
    ):
        old, _, new = replaced.partition("|")
        made = functions(step, test, old=old, new=new) if replaced else functions(step, test)
        loop = made.loop("f")
        assert loop is not None
        name = made.in_turns(loop, first, 20, 1)
        assert ("prim rows(" in str(made.table[name])) == together


@pytest.mark.parametrize(
    ("operations", "turns", "order", "size"),
    [
        (4, 16, 1, 16),  # 64 operations: all at once
        (4, 17, 1, 16),  # 8 leaves a turn too: the larger chunk
        (4, 18, 1, 9),  # 9 leaves nothing
        (4, 16, 0, 16),  # no derivative
        (5, 13, 1, 12),
        (30, 3, 1, 2),
        (40, 7, 1, 2),  # two turns at least
        (100, 5, 1, 2),
        (4, 4, 2, 4),  # a quarter for each order
        (4, 5, 2, 4),
        (40, 3, 2, 1),
        (1, 4, 3, 4),  # a quarter of a quarter
        (1, 5, 3, 4),
        (2, 4, 3, 2),
        (2, 5, 3, 1),
    ],
)
def test_size_of_chunks(operations: int, turns: int, order: int, size: int) -> None:
    """At most 64 operations, a quarter of that for each further order of derivatives, and a small rest."""
    assert chunk_of(operations, turns, order, False) == size


def test_turns_with_loops_in_them() -> None:
    """They are written out where they are few, else done one by one."""
    assert chunk_of(4, 16, 1, True) == 16
    assert chunk_of(4, 17, 1, True) == 1
    made = functions(old="glow_fn.prim sin(%u)", new="glow_fn.call %xs(%u)")
    loop = made.loop("f")
    assert (
        loop is not None and made.in_turns(loop, 0, 20, 1) == "f.rows_20_by_1"
    )  # a call of what is not known
