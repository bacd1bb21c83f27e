"""Which functions are put in place of their calls before a program is differentiated."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.parser import Parser

from glow_dialects.dialects import context
from glow_dialects.fn.dialect import ConstantOp, FuncOp, GetOp
from glow_passes.fn.optimize import optimize_functions, pipeline
from glow_passes.fn.simplify_functions import simplify_functions


def left(operations: int, calls: int, loop: bool = False) -> set[str]:
    """The functions of a program that are left where one of so many operations is called so often."""
    steps = [f"%v{i + 1} = glow_fn.prim sin(%v{i})" for i in range(operations - 1)]
    again = [f"%f = glow_fn.ref @part\n  %r = glow_fn.call %f(%v{operations - 3})"] if loop else []
    last = "%r" if loop else f"%v{operations - 1}"
    part = "\n  ".join([*steps[: operations - 3 if loop else None], *again, f"glow_fn.return {last}"])
    uses = [f"%g{i} = glow_fn.ref @part\n  %x{i + 1} = glow_fn.call %g{i}(%x{i})" for i in range(calls)]
    main = "\n  ".join([*uses, f"glow_fn.return %x{calls}"])
    text = f"glow_fn.func @part(%v0) {{\n  {part}\n}}\nglow_fn.func @main(%x0) {{\n  {main}\n}}"
    module = Parser(context(), text).parse_module()
    optimize_functions(module, "main", 0)
    return {op.sym_name.data for op in module.body.block.ops if isinstance(op, FuncOp)}


@pytest.mark.parametrize(
    ("operations", "calls", "loop", "kept"),
    [
        (16, 2, False, False),  # small
        (17, 2, False, True),  # large, with two uses
        (17, 1, False, False),  # large, with one use
        (400, 1, False, False),
        (4, 1, True, True),  # it calls itself
    ],
)
def test_what_is_put_in_place(operations: int, calls: int, loop: bool, kept: bool) -> None:
    """Small functions everywhere, large ones where there is one call, loops nowhere."""
    assert left(operations, calls, loop) == ({"main", "part"} if kept else {"main"})


def test_loops_are_written_out_where_that_is_asked_for() -> None:
    """Before the rest, which simplifies what was written out."""
    without, first = ([name for name, _ in pipeline("main", turns)] for turns in (0, 1))
    assert "unroll-functions" not in without
    assert first.index("unroll-functions") < first.index("simplify-functions")


def test_lines() -> None:
    """A value that is known stands where the operation stood that gives it, of which nothing else is kept."""
    text = """
    glow_fn.func @f() {
      %two = glow_fn.constant 2 : i64
      %r = glow_fn.prim mul(%two, %two) {line = "model.py:3", ufunc}
      glow_fn.return %r
    }"""
    module = Parser(context(), text).parse_module()
    simplify_functions(module)
    (known,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    assert known.attributes == {"line": StringAttr("model.py:3")}


@pytest.mark.parametrize(("index", "left"), [(0, 0), (1, 0), (2, 1), (-2, 0), (-3, 1)])
def test_items_that_there_are_none_of(index: int, left: int) -> None:
    """They stay where a call brings the tuple: specialisation tells the mistake."""
    text = f"""
    glow_fn.func @item(%t) {{
      %i = glow_fn.get %t[{index}]
      glow_fn.return %i
    }}
    glow_fn.func @main(%x, %y) {{
      %t = glow_fn.tuple %x, %y
      %f = glow_fn.ref @item
      %r = glow_fn.call %f(%t)
      glow_fn.return %r
    }}"""
    module = Parser(context(), text).parse_module()
    simplify_functions(module)
    (main,) = (f for f in module.ops if isinstance(f, FuncOp) and f.sym_name.data == "main")
    assert sum(isinstance(op, GetOp) for op in main.block.ops) == left
