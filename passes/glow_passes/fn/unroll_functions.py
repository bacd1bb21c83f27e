"""glow-unroll-functions: calls of functions that call themselves a known number of times are written out."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.fn.dialect import CallOp, FuncOp, RefOp
from glow_passes.contract import FunctionPass
from glow_passes.fn.calls import (
    Table,
    inline,
    known_callee,
    reached,
    recursive,
    remove_unreached,
    replace,
    roots_of,
    table_of,
)
from glow_passes.fn.lift_closures import lift_closures
from glow_passes.fn.simplify_functions import Rules, simplify


@dataclass(frozen=True)
class UnrollFunctionsPass(FunctionPass):
    """Loops and recursions of at most `count` turns that constants decide about become straight code.

    A function grows to at most `limit` operations; loops whose turns the program decides stay as they are.
    """

    name = "glow-unroll-functions"
    count: int = 8
    limit: int = 4000

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lift_closures(op)
        unroll_functions(op, self.count, self.limit)


def unroll_functions(module: ModuleOp, count: int, limit: int = 4000) -> None:
    """Write out the calls of recursive functions that end within `count` turns."""
    table = table_of(module)
    roots = roots_of(table)
    loops = recursive(table)
    for name in list(table):
        if name not in loops:
            _unroll(name, table, loops, count, limit)
    remove_unreached(module, roots)


def _unroll(name: str, table: Table, loops: set[str], count: int, limit: int) -> None:
    """Write out the calls of one function, one after another, as far as that ends."""
    rules = Rules(table, loops, limit)
    failed = 0
    while True:
        function = table[name]
        attempt = function.clone()
        calls = list(_recursive_calls(attempt, loops))
        if failed >= len(calls):
            return
        before = _mentions(attempt, loops)
        ended = _written_out(attempt, calls[failed], table, loops, rules, count)
        if not ended or _mentions(attempt, loops) >= before:
            failed += 1
            continue
        block = function.parent
        assert block is not None
        block.insert_op_after(attempt, function)
        function.detach()
        function.erase()
        table[name] = attempt


def _recursive_calls(function: FuncOp, loops: set[str]) -> dict[CallOp, str]:
    """The calls of recursive functions, with what they call."""
    calls = {op: known_callee(op) for op in function.block.ops if isinstance(op, CallOp)}
    named = {op: callee[0].target for op, callee in calls.items() if callee is not None}
    return {op: name for op, name in named.items() if name in loops}


def _mentions(function: FuncOp, loops: set[str]) -> int:
    """Uses of recursive functions: of references, equal ones become one."""
    refs = [op for op in function.block.ops if isinstance(op, RefOp) and op.target in loops]
    return sum(len(list(ref.result.uses)) for ref in refs)


def _written_out(
    attempt: FuncOp, first: CallOp, table: Table, loops: set[str], rules: Rules, count: int
) -> bool:
    """Replace a call of a recursive function, and those that its body makes, by bodies; whether that ended.

    Each function is written out `count` times; the other calls of the function at hand stay.
    """
    others = set(attempt.block.ops)
    turns: dict[str, int] = {}
    call: CallOp | None = first
    while call is not None:
        callee = known_callee(call)
        assert callee is not None
        name = callee[0].target
        turns[name] = turns.get(name, 0) + 1
        if turns[name] > count + 1 or len(attempt.block.ops) > rules.limit:
            return False
        value = inline(call, table[name], callee[1])
        if value is None:
            return False
        replace(call, value)
        simplify(attempt, rules)
        calls = {op: n for op, n in _recursive_calls(attempt, loops).items() if op not in others}
        call = next((op for op, n in calls.items() if reached([n], table) & turns.keys()), None)
    return True
