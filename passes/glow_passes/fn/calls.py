"""Calls, for passes on functions: the known callee, the functions that reach themselves, copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.fn.dialect import CallOp, FuncOp, PartialOp, RefOp, ReturnOp

Table = dict[str, FuncOp]
#: Adds a function of a name and body to a program.
AddFunction = Callable[[str, Block], FuncOp]


def table_of(module: ModuleOp) -> Table:
    """The functions of a module by name."""
    return {f.sym_name.data: f for f in module.body.block.ops if isinstance(f, FuncOp)}


def targets(function: FuncOp) -> list[str]:
    """The functions that one refers to, its declared gradient too."""
    referred = [op.target for op in function.block.ops if isinstance(op, RefOp)]
    declared = [a.root_reference.data for a in function.attributes.values() if isinstance(a, SymbolRefAttr)]
    return [*referred, *declared]


def reached(names: Sequence[str], table: Table) -> set[str]:
    """Functions that some refer to, directly or through others, with those themselves."""
    seen = set(names)
    pending = list(names)
    while pending:
        for name in targets(table[pending.pop()]):
            if name in table and name not in seen:
                seen.add(name)
                pending.append(name)
    return seen


def recursive(table: Table) -> set[str]:
    """The functions that reach themselves."""
    return {n for n, f in table.items() if n in reached([t for t in targets(f) if t in table], table)}


def roots_of(table: Table) -> list[str]:
    """Functions that no other refers to, and those that no such function reaches."""
    others = {t for n, f in table.items() for t in targets(f) if t != n}
    roots = [n for n in table if n not in others]
    covered = reached(roots, table)
    return [*roots, *(n for n in table if n not in covered)]


def known_callee(op: Operation) -> tuple[RefOp, list[SSAValue]] | None:
    """The function that a call or partial application names, with all arguments that it has."""
    if not isinstance(op, CallOp | PartialOp):
        return None
    values: list[SSAValue] = list(op.arguments)
    callee = op.callee.owner
    while isinstance(callee, PartialOp):
        values = [*callee.arguments, *values]
        callee = callee.callee.owner
    return (callee, values) if isinstance(callee, RefOp) else None


def inline(op: CallOp, source: FuncOp, values: Sequence[SSAValue]) -> SSAValue | None:
    """The body of `source` for `values` in front of a call; its value, None where the numbers differ."""
    if len(values) != len(source.block.args):
        return None
    assert op.parent is not None
    mapping: dict[SSAValue, SSAValue] = dict(zip(source.block.args, values, strict=True))
    for inner in list(source.block.ops):
        if isinstance(inner, ReturnOp):
            return mapping[inner.value]
        op.parent.insert_op_before(inner.clone(mapping), op)
    return None


def replace(op: Operation, value: SSAValue) -> None:
    """Put a value in the place of an operation's result, and remove the operation."""
    if value.name_hint is None:
        value.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(value)
    op.detach()
    op.erase()


def remove_dead(function: FuncOp) -> None:
    """Remove operations that nothing uses; calls stay, since they may not return."""
    for op in reversed(list(function.block.ops)):
        if op.results and not isinstance(op, CallOp) and not op.results[0].uses:
            op.detach()
            op.erase()


def remove_unreached(module: ModuleOp, roots: Sequence[str]) -> None:
    """Remove functions that the roots do not reach."""
    table = table_of(module)
    kept = reached([r for r in roots if r in table], table)
    for name, function in table.items():
        if name not in kept:
            function.detach()
            function.erase()
