"""glow-specialize-known: functions that are given known functions become functions of the rest.

`fold(@add, t, 0)` becomes `fold.add(t, 0)`: a copy in which the parameter is `@add` itself, so that calls of
it are known, and the function that calls itself with it calls the copy.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import SSAValue

from glow_dialects.fn.dialect import CallOp, FuncOp, PartialOp, RefOp
from glow_dialects.fn.types import any_type
from glow_passes.contract import FunctionPass
from glow_passes.fn.calls import Table, reached, recursive, remove_dead, remove_unreached, roots_of, table_of
from glow_passes.fn.lift_closures import fresh, lift_closures

#: Copies that one program may have.
MOST = 100
#: For each parameter, the known function and how many values are bound to it.
Key = tuple[str, tuple[tuple[int, str, int], ...]]


@dataclass(frozen=True)
class SpecializeKnownPass(FunctionPass):
    """A copy of a recursive function for each set of known functions that it is given."""

    name = "glow-specialize-known"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lift_closures(op)
        specialize_known(op)


def specialize_known(module: ModuleOp) -> None:
    """Make the copies, and remove functions that only had uses that the copies have now."""
    table = table_of(module)
    roots = roots_of(table)
    loops = recursive(table)
    copies: dict[Key, str] = {}
    pending = list(table.values())
    while pending and len(copies) <= MOST:
        function = pending.pop(0)
        for op in list(function.block.ops):
            if isinstance(op, CallOp | PartialOp) and isinstance(op.callee.owner, RefOp):
                new = _specialized(op, table, loops, copies)
                if new is not None:
                    pending.append(new)
        remove_dead(function)
    remove_unreached(module, roots)


def _known(value: SSAValue) -> tuple[str, list[SSAValue]] | None:
    owner = value.owner
    if isinstance(owner, RefOp):
        return owner.target, []
    if isinstance(owner, PartialOp) and isinstance(owner.callee.owner, RefOp):
        return owner.callee.owner.target, list(owner.arguments)
    return None


def _specialized(
    op: CallOp | PartialOp, table: Table, loops: set[str], copies: dict[Key, str]
) -> FuncOp | None:
    """Redirect a call or partial application to the copy; the copy where it is new."""
    callee = op.callee.owner
    assert isinstance(callee, RefOp)
    source = table[callee.target]
    if "gradient" in source.attributes:
        return None
    constants = {i: k for i, v in enumerate(op.arguments) if (k := _known(v)) is not None}
    if not constants or max(constants) >= len(source.block.args):
        return None
    if callee.target not in loops and callee.target not in reached([n for n, _ in constants.values()], table):
        return None  # no loop: it is put in place of the call, or its types name the functions
    key = (callee.target, tuple((i, name, len(values)) for i, (name, values) in constants.items()))
    new = None
    if key not in copies:
        new = _copy(source, key, table)
        loops.add(new.sym_name.data)
        copies[key] = new.sym_name.data
    block = op.parent
    assert block is not None
    ref = RefOp.create(properties={"symbol": SymbolRefAttr(copies[key])}, result_types=[any_type])
    ref.attributes.update(callee.attributes)
    block.insert_op_before(ref, op)
    values = [v for i, a in enumerate(op.arguments) for v in (constants[i][1] if i in constants else [a])]
    op.operands = [ref.result, *values]
    return new


def _copy(source: FuncOp, key: Key, table: Table) -> FuncOp:
    name = fresh(f"{key[0]}.{'.'.join(n for _, n, _ in key[1])}", set(table))
    clone = source.clone()
    clone.properties["sym_name"] = type(source.sym_name)(name)
    block = clone.block
    for index, target, count in reversed(key[1]):
        old = block.args[index]
        values = [block.insert_arg(any_type, index + 1 + i) for i in range(count)]
        first = block.first_op
        assert first is not None
        value: SSAValue
        ref = RefOp.create(properties={"symbol": SymbolRefAttr(target)}, result_types=[any_type])
        block.insert_op_before(ref, first)
        value = ref.result
        if values:
            partial = PartialOp.create(operands=[value, *values], result_types=[any_type])
            block.insert_op_before(partial, first)
            value = partial.result
        old.replace_all_uses_with(value)
        block.erase_arg(old)
    parent = source.parent
    assert parent is not None
    parent.insert_op_after(clone, source)
    table[name] = clone
    return clone
