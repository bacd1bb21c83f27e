"""glow-tail-calls: functions that call each other last become one function that calls itself: a loop."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr

from glow_dialects.fn.dialect import CallOp, FuncOp, ReturnOp
from glow_passes.contract import FunctionPass
from glow_passes.fn.calls import (
    Table,
    inline,
    known_callee,
    reached,
    remove_dead,
    remove_unreached,
    replace,
    roots_of,
    table_of,
    targets,
)
from glow_passes.fn.lift_closures import lift_closures


@dataclass(frozen=True)
class TailCallsPass(FunctionPass):
    """A function of a cycle that others of the cycle call last, of at most `small` operations, joins them.

    Of the functions of a loop, its header joins the body, which then tests and calls itself; of two functions
    that call each other, one stays.
    """

    name = "glow-tail-calls"
    small: int = 40

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lift_closures(op)
        join_tail_calls(op, self.small)


def join_tail_calls(module: ModuleOp, small: int = 40) -> None:
    """Join the functions of each cycle of a closed module as far as calls in tail position allow."""
    table = table_of(module)
    roots = roots_of(table)
    for name in list(table):
        if _joins(table[name], table, small):
            for caller in reached([name], table):
                call = _tail(table[caller], name)
                if call is not None:
                    callee = known_callee(call)
                    assert callee is not None
                    value = inline(call, table[name], callee[1])
                    if value is not None:
                        replace(call, value)
                        remove_dead(table[caller])
                        if "counted" in table[name].attributes:
                            table[caller].attributes["counted"] = UnitAttr()
    remove_unreached(module, roots)


def _joins(function: FuncOp, table: Table, small: int) -> bool:
    """Whether a function may join its callers: small, no loop itself, called last by some of its cycle."""
    name = function.sym_name.data
    if name in targets(function) or len(function.block.ops) > small or "gradient" in function.attributes:
        return False
    return any(_tail(table[n], name) is not None for n in reached([name], table))


def _tail(function: FuncOp, name: str) -> CallOp | None:
    """The call of a function by name in tail position of another."""
    last = function.block.last_op
    call = last.value.owner if isinstance(last, ReturnOp) else None
    if not isinstance(call, CallOp) or len(list(call.result.uses)) > 1:
        return None
    callee = known_callee(call)
    return call if callee is not None and callee[0].target == name else None
