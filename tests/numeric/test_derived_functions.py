"""What is known of the functions of a program: parameters of derived ones, orders of gradients, places."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.dialects import context
from glow_dialects.fn.dialect import GradOp
from glow_dialects.fn.over import OverOp
from glow_passes.fn.functions import MOST_ITEMS, Functions

PROGRAM = """
glow_fn.func @sum(%x, %y) {
  %s = glow_fn.prim add(%x, %y) {line = "model.py:3"}
  %t = glow_fn.prim sin(%s) {line = "model.py:4"}
  glow_fn.return %t
}
glow_fn.func @first(%x, %y) {
  %f = glow_fn.ref @sum
  %d = glow_fn.grad %f by 0
  %r = glow_fn.call %d(%x, %y)
  glow_fn.return %r
}
glow_fn.func @second(%x, %y) {
  %f = glow_fn.ref @first
  %p = glow_fn.partial %f(%x)
  %d = glow_fn.grad %p by 0
  %r = glow_fn.call %d(%y)
  glow_fn.return %r
}
glow_fn.func @of_any(%f, %x) {
  %d = glow_fn.grad %f by [-1]
  %r = glow_fn.call %d(%x)
  glow_fn.return %r
}
glow_fn.func @like(%x, %y, %unused) {
  %z = glow_fn.prim ones_like(%y)
  %t = glow_fn.tuple %x, %z
  glow_fn.return %t
}
glow_fn.func @handed(%x) {
  glow_fn.return %x
}
"""


def program() -> Functions:
    return Functions(Parser(context(), PROGRAM).parse_module())


def grad_of(functions: Functions, name: str) -> GradOp:
    return next(op for op in functions.table[name].block.ops if isinstance(op, GradOp))


def test_parameters_of_derived_functions() -> None:
    """One more of f.fwd, two for each of f.jvp; the same before and after they are made."""
    wanted = {"sum": 2, "sum.fwd": 3, "sum.jvp": 4, "sum.fwd.jvp": 6, "sum.jvp.fwd": 5, "handed.fwd": 2}
    functions = program()
    assert {n: functions.arity(n) for n in wanted} == wanted
    assert not any("." in n for n in functions.table)
    assert all(len(functions.table[n].block.args) == count for n, count in wanted.items())
    assert {n: functions.arity(n) for n in wanted} == wanted
    assert [functions.plain_count(n, count) for n, count in wanted.items()] == [2, 2, 2, 2, 2, 1]


def test_a_gradient_in_reverse_mode_holds_its_function_twice() -> None:
    """For its backward step as f.fwd.jvp; by numbers, alone or ahead it holds one."""
    functions = program()
    name = functions.gradient_of(grad_of(functions, "first"), 2)
    assert functions.arity(name) == 3 and functions.arity(f"{name}.fwd") == 5
    assert functions.second(name, "") == f"{name}.fwd"
    for modes, alone in (("j", False), ("r", True)):
        other = functions.gradient_of(grad_of(functions, "first"), 2, modes, alone)
        assert other not in functions.gradients and functions.arity(f"{other}.fwd") == 4


def test_orders_of_gradients() -> None:
    """How often a function differentiates, as far as what it differentiates is known."""
    functions = program()
    orders = {"sum": 0, "first": 1, "second": 2, "of_any": 1}
    assert {n: functions.order(n) for n in orders} == orders
    assert [functions.differentiates(n) for n in orders] == [False, True, True, True]
    assert functions.differentiates(functions.gradient_of(grad_of(functions, "first"), 2)) is True


def test_parameters_of_which_the_type_matters() -> None:
    """Not the value; what is not used has neither."""
    assert program().only_types("like") == {1}


def test_places() -> None:
    """The first line of the user's that a function has; none where it has none."""
    functions = program()
    assert [functions.place(n) for n in ("sum", "handed")] == ["model.py:3", ""]
    assert set(functions.reached("second")) == {"second", "first", "sum"}


def test_positions_of_gradients() -> None:
    """From either end, of as many parameters as there are."""
    functions = program()
    assert functions.gradient_of(grad_of(functions, "of_any"), 1) == "grad.1.-1.tuple"
    with pytest.raises(UnsupportedError, match="grad: argument 0 of a function of 0 parameters; argnums"):
        functions.gradient_of(grad_of(functions, "first"), 0)


@pytest.mark.parametrize(("kind", "count"), [("map", 2), ("apply", 3), ("reduce", 0)])
def test_over(kind: str, count: int) -> None:
    """A function of the items; a reduction of none gives its first value, and without one is an error."""
    functions = program()
    text = f"glow_fn.func @f(%t) {{\n  %o = glow_fn.over {kind} %t\n  glow_fn.return %o\n}}"
    (op, _) = Parser(context(), text).parse_module().body.block.first_op.regions[0].block.ops  # pyright: ignore
    assert isinstance(op, OverOp)
    if count:
        assert functions.over(op, count) == f"over.{kind}.{count}"
        assert functions.over(op, MOST_ITEMS) == f"over.{kind}.{MOST_ITEMS}"
        with pytest.raises(UnsupportedError, match="over 1025 items; use array operators"):
            functions.over(op, MOST_ITEMS + 1)
        calls = [o for o in functions.table[f"over.{kind}.{count}"].block.ops if o.name == "glow_fn.call"]
        assert [len(c.operands) - 1 for c in calls] == ([1, 1] if kind == "map" else [count])
    else:
        with pytest.raises(UnsupportedError, match="reduce of an empty tuple; give a first value"):
            _ = functions.table[functions.over(op, 0)]
