"""What is known of the functions of a program: parameters of derived ones, orders of gradients, places."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.dialects import context
from glow_dialects.fn.dialect import GradOp, PrimOp
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
glow_fn.func @of_itself(%x) {
  %f = glow_fn.ref @of_itself
  %d = glow_fn.grad %f by 0
  %r = glow_fn.call %d(%x)
  glow_fn.return %r
}
glow_fn.func @fwd(%x) {
  %f = glow_fn.ref @jvp
  %r = glow_fn.call %f(%x, %x) {line = "model.py:9"}
  glow_fn.return %r
}
glow_fn.func @jvp(%x, %y) {
  glow_fn.return %y
}
glow_fn.func @endless(%x) {
  %f = glow_fn.ref @endless
  %r = glow_fn.call %f(%x)
  glow_fn.return %r
}
"""


def program() -> Functions:
    return Functions(Parser(context(), PROGRAM).parse_module())


LOOP = """
glow_fn.func @loop(%i, %n, %x, %g) {
  %one = glow_fn.constant 1 : i64
  %j = glow_fn.prim add(%i, %one)
  BODY
  %c = glow_fn.prim lt(%j, %n)
  %f = glow_fn.ref @loop
  %again = glow_fn.partial %f(%j, %n, %y, %g)
  %h = glow_fn.ref @handed
  %leave = glow_fn.partial %h(%y)
  %s = glow_fn.switch %c, %again, %leave
  %r = glow_fn.call %s()
  glow_fn.return %r
}
"""


def grad_of(functions: Functions, name: str) -> GradOp:
    return next(op for op in functions.table[name].block.ops if isinstance(op, GradOp))


def test_parameters_of_derived_functions() -> None:
    """One more of f.fwd, two for each of f.jvp; the same before and after they are made."""
    wanted = {"sum": 2, "sum.fwd": 3, "sum.jvp": 4, "sum.fwd.jvp": 6, "sum.jvp.fwd": 5, "handed.fwd": 2}
    wanted |= {"fwd": 1, "fwd.fwd": 2, "fwd.jvp": 2, "jvp": 2, "jvp.fwd": 3}  # a user may call one so
    functions = program()
    assert {n: functions.arity(n) for n in wanted} == wanted
    assert not any("." in n for n in functions.table)
    assert all(len(functions.table[n].block.args) == count for n, count in wanted.items())
    assert {n: functions.arity(n) for n in wanted} == wanted
    assert [functions.plain_count(n, count) for n, count in wanted.items()] == [
        2,
        2,
        2,
        2,
        2,
        1,
        1,
        1,
        1,
        2,
        2,
    ]


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
    orders = {"sum": 0, "first": 1, "second": 2, "of_any": 1, "of_itself": 1}
    assert {n: functions.order(n) for n in orders} == orders
    assert [functions.differentiates(n) for n in orders] == [False, True, True, True, True]
    assert functions.differentiates(functions.gradient_of(grad_of(functions, "first"), 2)) is True


def test_parameters_of_which_the_type_matters() -> None:
    """Not the value; what is not used has neither."""
    assert [program().only_types(n) for n in ("like", "sum")] == [{1}, set()]


def test_places() -> None:
    """The first line of the user's that a function has; none where it has none."""
    functions = program()
    assert [functions.place(n) for n in ("sum", "handed", "fwd")] == ["model.py:3", "", "model.py:9"]
    assert set(functions.reached("second")) == {"second", "first", "sum"}


def test_what_a_gradient_alone_fixes() -> None:
    """The function and what it is not differentiated by; the result is for all that comes after."""
    functions = program()
    name = functions.gradient_of(grad_of(functions, "first"), 2, alone=True)
    assert name == "grad.2.0.alone" and set(functions.gradients) == {"grad.2.0"}
    forms = {n: functions.table[n].block for n in ("grad.2.0.alone", "grad.2.0")}
    marks = {
        n: [
            (op.card.short, op.operands[0])
            for op in block.ops
            if isinstance(op, PrimOp) and op.card.short in ("active", "inactive")
        ]
        for n, block in forms.items()
    }
    f, x, y = forms[name].args
    assert marks[name][:3] == [("inactive", f), ("active", x), ("inactive", y)]
    returned = forms[name].last_op
    assert returned is not None and next(iter(marks[name][3][1].uses)).operation is returned.operands[0].owner
    assert [kind for kind, _ in marks[name]] == ["inactive", "active", "inactive", "active"]
    assert marks["grad.2.0"] == []


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ("%y = glow_fn.prim sin(%x)", 6),
        ("%w = glow_fn.ref @handed\n  %y = glow_fn.call %w(%x)", 6),
        ("%w = glow_fn.ref @fwd\n  %y = glow_fn.call %w(%x)", 6),
        ("%w = glow_fn.ref @endless\n  %y = glow_fn.call %w(%x)", 1),
        ("%y = glow_fn.call %g(%x)", 1),
    ],
)
def test_functions_of_several_turns(body: str, size: int) -> None:
    """Of loops that count; one turn at a time where one calls what loops, or what is not known."""
    text = PROGRAM + LOOP.replace("BODY", body)
    functions = Functions(Parser(context(), text).parse_module())
    loop = functions.loop("loop")
    assert loop is not None and functions.loop("sum") is functions.loop("missing") is None
    assert functions.in_turns(loop, 0, 48, 0) == f"loop.rows_48_by_{size}"


def test_positions_of_gradients() -> None:
    """From either end, of as many parameters as there are."""
    functions = program()
    assert functions.gradient_of(grad_of(functions, "of_any"), 1) == "grad.1.-1.tuple"
    with pytest.raises(UnsupportedError, match="grad: argument 0 of a function of 0 parameters; argnums"):
        functions.gradient_of(grad_of(functions, "first"), 0)


@pytest.mark.parametrize(
    ("kind", "count", "calls"),
    [
        ("map", 2, [1, 1]),
        ("map", 0, []),
        ("apply", 3, [3]),
        ("fold", 0, []),
        ("fold", 2, [2, 2]),
        ("reduce", 1, []),
        ("reduce", 3, [2, 2]),
        ("reduce", 0, None),
    ],
)
def test_over(kind: str, count: int, calls: list[int] | None) -> None:
    """A function of the items; a reduction of none has no value."""
    functions = program()
    text = f"glow_fn.func @f(%t) {{\n  %o = glow_fn.over {kind} %t\n  glow_fn.return %o\n}}"
    (op, _) = Parser(context(), text).parse_module().body.block.first_op.regions[0].block.ops  # pyright: ignore
    assert isinstance(op, OverOp)
    assert functions.over(op, count) == f"over.{kind}.{count}"
    assert functions.over(op, MOST_ITEMS) == f"over.{kind}.{MOST_ITEMS}"
    with pytest.raises(UnsupportedError, match="over 1025 items; use array operators"):
        functions.over(op, MOST_ITEMS + 1)
    if calls is None:
        with pytest.raises(UnsupportedError, match="reduce of an empty tuple; give a first value"):
            _ = functions.table[f"over.{kind}.{count}"]
    else:
        block = functions.table[f"over.{kind}.{count}"].block
        assert [len(o.operands) - 1 for o in block.ops if o.name == "glow_fn.call"] == calls
