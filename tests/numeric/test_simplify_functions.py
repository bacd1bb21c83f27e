"""Which functions are put in place of their calls before a program is differentiated."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from glow_dialects.dialects import context
from glow_dialects.fn.dialect import FuncOp
from glow_passes.fn.optimize import optimize_functions, pipeline


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
