"""glow-drop-parameters: parameters that a function does not use, or has twice, go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import SSAValue

from glow_dialects.fn.dialect import CallOp, PartialOp, RefOp
from glow_passes.contract import FunctionPass
from glow_passes.fn.calls import Table, remove_dead, roots_of, table_of
from glow_passes.fn.lift_closures import lift_closures


@dataclass(frozen=True)
class DropParametersPass(FunctionPass):
    """`partial @f(%a, %b)` of a function that ignores its first parameter becomes `partial @f(%b)`.

    Parameters that a function only hands on to itself, or to others that drop them, are not used. Functions
    that are used otherwise than with these arguments at hand (roots, values that others call) keep all.
    """

    name = "glow-drop-parameters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lift_closures(op)
        drop_parameters(op)


def drop_parameters(module: ModuleOp, called: Sequence[str] = ()) -> None:
    """Drop the unused parameters of the functions of a closed module.

    Roots, and functions `called` from outside, keep all.
    """
    table = table_of(module)
    declared = (a for f in table.values() for a in f.attributes.values() if isinstance(a, SymbolRefAttr))
    kept = {*roots_of(table), *called, *(a.root_reference.data for a in declared)}
    _share_equal(table, kept)
    uses, bound = _sites(table)
    dead = {
        (name, i)
        for name in uses
        if name not in kept and "gradient" not in table[name].attributes
        for i in range(min(bound[name], len(table[name].block.args)))
    }
    while True:
        alive = {(n, i) for n, i in dead if _used(table, n, i, dead)}
        if not alive:
            break
        dead -= alive
    for name, sites in uses.items():
        gone = {i for n, i in dead if n == name}
        for site in sites if gone else ():
            kept = [v for i, v in enumerate(site.arguments) if i not in gone]
            site.operands = [site.callee, *kept]
    for name, index in sorted(dead, reverse=True):
        block = table[name].block
        block.erase_arg(block.args[index])
    for function in table.values():
        remove_dead(function)


def _sites(table: Table) -> tuple[dict[str, list[CallOp | PartialOp]], dict[str, int]]:
    """Where each function gets its first arguments, and how many it gets everywhere."""
    uses: dict[str, list[CallOp | PartialOp]] = {}
    bound: dict[str, int] = {}
    for function in table.values():
        for op in function.block.ops:
            if isinstance(op, RefOp) and op.result.uses:
                _note(op, len(table[op.target].block.args), uses, bound)
    return uses, bound


def _share_equal(table: Table, kept: set[str]) -> None:
    """A parameter that has the value of an earlier one in all calls gives its uses to that one.

    All are taken for equal at first; calls tell those apart that differ, until nothing changes.
    """
    uses, bound = _sites(table)
    known = [n for n in uses if n not in kept and "gradient" not in table[n].attributes]
    leader: dict[SSAValue, SSAValue] = {}
    for name in known:
        for argument in table[name].block.args[: bound[name]]:
            leader[argument] = table[name].block.args[0]
    changed = True
    while changed:
        changed = False
        for name in known:
            first: dict[tuple[SSAValue, ...], SSAValue] = {}
            for index, argument in enumerate(table[name].block.args[: bound[name]]):
                arguments = [site.arguments[index] for site in uses[name]]
                key = (leader[argument], *[leader.get(v, v) for v in arguments])
                equal = first.setdefault(key, argument)
                if leader[argument] is not equal:
                    leader[argument] = equal
                    changed = True
    for argument, other in leader.items():
        if argument is not other:
            argument.replace_all_uses_with(other)


def _note(
    op: RefOp, parameters: int, uses: dict[str, list[CallOp | PartialOp]], bound: dict[str, int]
) -> None:
    sites = uses.setdefault(op.target, [])
    for use in op.result.uses:
        site = use.operation
        if use.index == 0 and isinstance(site, CallOp | PartialOp):
            sites.append(site)
            count = len(site.arguments)
            if count > parameters or (isinstance(site, CallOp) and count < parameters):
                count = 0  # a mistake, to be told with the numbers that the user wrote
        else:
            count = 0
        bound[op.target] = min(bound.get(op.target, count), count)


def _used(table: Table, name: str, index: int, dead: set[tuple[str, int]]) -> bool:
    """Whether a parameter is used otherwise than as an argument that is dropped."""
    for use in table[name].block.args[index].uses:
        callee = use.operation.operands[0].owner
        if not isinstance(callee, RefOp) or (callee.target, use.index - 1) not in dead:
            return True
    return False
