"""glow-simplify-functions: inlining, known functions and choices, tuples, constants, equal values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from glow_dialects.core.attributes import to_attribute, to_python
from glow_dialects.fn.dialect import (
    CallOp,
    ConstantOp,
    FuncOp,
    GetOp,
    GradOp,
    LambdaOp,
    PartialOp,
    PrimOp,
    RefOp,
    ReturnOp,
    SwitchOp,
    TupleOp,
    ValueAndGradOp,
)
from glow_dialects.fn.primitives import SCALAR
from glow_dialects.fn.syntax import LINE
from glow_passes.fn.lift_closures import lift_closures


@dataclass(frozen=True)
class SimplifyFunctionsPass(ModulePass):
    """Calls of known functions are replaced by their bodies, up to `limit` operations a function."""

    name = "glow-simplify-functions"
    limit: int = 2000

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lift_closures(op)
        table = {f.sym_name.data: f for f in op.body.block.ops if isinstance(f, FuncOp)}
        recursive = {n for n in table if _reaches(n, table)}
        for function in table.values():
            while _once(function, table, recursive, self.limit):
                pass
            _remove_dead(function)


def _reaches(name: str, table: dict[str, FuncOp]) -> bool:
    seen: set[str] = set()
    pending = [name]
    while pending:
        for op in table[pending.pop()].block.ops:
            if isinstance(op, RefOp) and op.target not in seen:
                seen.add(op.target)
                pending.append(op.target)
    return name in seen


def _once(function: FuncOp, table: dict[str, FuncOp], recursive: set[str], limit: int) -> bool:
    """One sweep; whether anything changed."""
    changed = False
    size = len(list(function.block.ops))
    known: dict[tuple[Any, ...], SSAValue] = {}
    for op in list(function.block.ops):
        if isinstance(op, ReturnOp | LambdaOp):
            continue
        value = _simpler(op)
        if value is None and isinstance(op, CallOp) and size < limit:
            value = _inlined(op, table, recursive)
            size += 20
        if value is None and not isinstance(op, CallOp | GradOp | ValueAndGradOp):
            options = tuple(sorted((n, a) for n, a in op.attributes.items() if n != LINE))
            key = (type(op), tuple(op.operands), tuple(sorted(op.properties.items())), options)
            value = known.setdefault(key, op.results[0])
            value = None if value is op.results[0] else value
        if value is not None:
            if value.name_hint is None:
                value.name_hint = op.results[0].name_hint
            op.results[0].replace_all_uses_with(value)
            op.detach()
            op.erase()
            changed = True
    return changed


def _simpler(op: Operation) -> SSAValue | None:
    """The value of an operation whose operands are known."""
    match op:
        case GetOp() if isinstance(op.source_tuple.owner, TupleOp):
            values = op.source_tuple.owner.values
            index = op.index.value.data
            return values[index] if -len(values) <= index < len(values) else None
        case SwitchOp():
            if op.on_true is op.on_false:
                return op.on_true
            condition = _constant(op.condition)
            return None if condition is None else op.on_true if condition else op.on_false
        case PartialOp() if not op.arguments:
            return op.callee
        case PartialOp() if isinstance(op.callee.owner, PartialOp):
            inner = op.callee.owner
            made = PartialOp.create(operands=[*inner.operands, *op.arguments], result_types=[op.result.type])
            return _before(op, made)
        case PrimOp() if op.prim.data in SCALAR and op.operands:
            values = [_constant(v) for v in op.operands]
            if None in values:
                return None
            found = SCALAR[op.prim.data][1](*values)
            return _before(
                op,
                ConstantOp.create(properties={"value": to_attribute(found)}, result_types=[op.result.type]),
            )
        case _:
            return None


def _constant(value: SSAValue) -> bool | int | float | None:
    if not isinstance(value.owner, ConstantOp):
        return None
    found = to_python(value.owner.value)
    return found if isinstance(found, bool | int | float) else None


def _before(op: Operation, made: Operation) -> SSAValue:
    block = op.parent
    assert block is not None
    made.attributes.update({n: a for n, a in op.attributes.items() if n == LINE})
    block.insert_op_before(made, op)
    return made.results[0]


def _inlined(op: CallOp, table: dict[str, FuncOp], recursive: set[str]) -> SSAValue | None:
    """The body of the called function in place of the call."""
    callee, values = op.callee.owner, list(op.arguments)
    if isinstance(callee, PartialOp):
        values = [*callee.arguments, *values]
        callee = callee.callee.owner
    if not isinstance(callee, RefOp) or callee.target in recursive or callee.target not in table:
        return None
    source = table[callee.target]
    if len(values) != len(source.block.args):
        return None
    block = op.parent
    assert block is not None
    mapping: dict[SSAValue, SSAValue] = dict(zip(source.block.args, values, strict=True))
    for inner in source.block.ops:
        if isinstance(inner, ReturnOp):
            return mapping[inner.value]
        block.insert_op_before(inner.clone(mapping), op)
    return None


def _remove_dead(function: FuncOp) -> None:
    for op in reversed(list(function.block.ops)):
        if op.results and not isinstance(op, CallOp) and not any(r.uses for r in op.results):
            op.detach()
            op.erase()
