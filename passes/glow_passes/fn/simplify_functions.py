"""glow-simplify-functions: inlining, known functions and choices, tuples, constants, equal values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.attributes import to_attribute, to_python
from glow_dialects.fn.dialect import (
    CallOp,
    ConstantOp,
    FuncOp,
    GetOp,
    LambdaOp,
    PartialOp,
    PrimOp,
    ReturnOp,
    SwitchOp,
    TupleOp,
)
from glow_dialects.fn.primitives.scalars import ScalarPrimitive
from glow_dialects.fn.syntax import LINE
from glow_passes.contract import FunctionPass
from glow_passes.fn.calls import (
    Table,
    inline,
    known_callee,
    recursive,
    remove_dead,
    replace,
    table_of,
    targets,
)
from glow_passes.fn.lift_closures import lift_closures


@dataclass(frozen=True)
class SimplifyFunctionsPass(FunctionPass):
    """Calls of known functions are replaced by their bodies, up to `limit` operations a function."""

    name = "glow-simplify-functions"
    limit: int = 2000

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lift_closures(op)
        simplify_functions(op, self.limit)


def simplify_functions(module: ModuleOp, limit: int = 2000, small: int | None = None) -> None:
    """Simplify every function of a closed module.

    `small`: only functions of at most so many operations, or with one use, are put in place of their calls.
    """
    table = table_of(module)
    rules = Rules(table, recursive(table), limit, small, _uses(table))
    for function in table.values():
        simplify(function, rules)


@dataclass
class Rules:
    """Which calls are replaced by bodies."""

    table: Table
    kept: set[str]
    limit: int
    small: int | None = None
    uses: dict[str, int] = field(default_factory=dict[str, int])

    def source(self, op: CallOp, size: int) -> tuple[FuncOp, list[SSAValue]] | None:
        """The function to put in place of a call, with its arguments."""
        callee = known_callee(op)
        if callee is None or size >= self.limit:
            return None
        name = callee[0].target
        source = self.table[name]
        if name in self.kept or "gradient" in source.attributes:
            return None
        if self.small is not None and self.uses[name] > 1 and len(source.block.ops) > self.small:
            return None
        return source, callee[1]


def _uses(table: Table) -> dict[str, int]:
    counts: dict[str, int] = {}
    for function in table.values():
        for name in targets(function):
            counts[name] = counts.get(name, 0) + 1
    return counts


def simplify(function: FuncOp, rules: Rules) -> None:
    """Simplify one function until nothing changes."""
    while _once(function, rules):
        pass
    remove_dead(function)


def _once(function: FuncOp, rules: Rules) -> bool:
    """One sweep; whether anything changed."""
    changed = False
    size = len(list(function.block.ops))
    known: dict[tuple[Any, ...], SSAValue] = {}
    for op in list(function.block.ops):
        if isinstance(op, ReturnOp | LambdaOp):
            continue
        value = _simpler(op)
        if isinstance(op, CallOp):
            callee = rules.source(op, size)
            if callee is not None:
                size += len(callee[0].block.ops)
                value = inline(op, *callee)
        if value is None and not op.regions:
            options = tuple(sorted((n, a) for n, a in op.attributes.items() if n != LINE))
            key = (type(op), tuple(op.operands), tuple(sorted(op.properties.items())), options)
            value = known.setdefault(key, op.results[0])
            value = None if value is op.results[0] else value
        if value is not None:
            replace(op, value)
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
            partial = PartialOp.create(
                operands=[*inner.operands, *op.arguments], result_types=[op.result.type]
            )
            return _before(op, partial)
        case PrimOp() if isinstance(op.card, ScalarPrimitive):
            values = [_constant(v) for v in op.operands]
            if None in values or op.card.as_arrays(op, [type(v).__name__ for v in values]):
                return None
            number = op.card.numbers(*values)
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                return None
            return _before(
                op,
                ConstantOp.create(properties={"value": to_attribute(number)}, result_types=[op.result.type]),
            )
        case _:
            return None


def _constant(value: SSAValue) -> bool | int | float | None:
    if not isinstance(value.owner, ConstantOp) or isinstance(value.owner.value, UnitAttr):  # None
        return None
    number = to_python(value.owner.value)
    return number if isinstance(number, bool | int | float) else None


def _before(op: Operation, new: Operation) -> SSAValue:
    block = op.parent
    assert block is not None
    new.attributes.update({n: a for n, a in op.attributes.items() if n == LINE})
    block.insert_op_before(new, op)
    return new.results[0]
