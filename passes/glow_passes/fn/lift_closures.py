"""glow-lift-closures: anonymous functions become functions of the module, their captures arguments."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.fn.dialect import ConstantOp, FuncOp, LambdaOp, PartialOp, RefOp
from glow_dialects.fn.types import any_type
from glow_passes.contract import FunctionPass


@dataclass(frozen=True)
class LiftClosuresPass(FunctionPass):
    """A lambda becomes `@f` with its captured values as first parameters, and `partial @f(captured)`."""

    name = "glow-lift-closures"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lift_closures(op)


def lift_closures(module: ModuleOp) -> None:
    """Close the program: afterwards functions refer to each other by symbol only."""
    taken = {f.sym_name.data for f in module.body.block.ops if isinstance(f, FuncOp)}
    for function in list(module.body.block.ops):
        if isinstance(function, FuncOp):
            _lift_block(function.block, module, taken)


def _lift_block(block: Block, module: ModuleOp, taken: set[str]) -> None:
    for op in list(block.ops):
        if isinstance(op, LambdaOp):
            _lift_block(op.block, module, taken)
            _lift(op, module, taken)


def _captured(block: Block) -> list[SSAValue]:
    """Values of enclosing functions, in order of use; constants and references are made anew instead."""
    values: dict[SSAValue, None] = {}
    copies: dict[SSAValue, SSAValue] = {}
    for op in list(block.ops):
        for index, value in enumerate(op.operands):
            owner = value.owner
            if owner is block or (isinstance(owner, Operation) and owner.parent is block):
                continue
            if isinstance(owner, ConstantOp | RefOp):
                if value not in copies:
                    twin = owner.clone()
                    first = block.first_op
                    assert first is not None
                    block.insert_op_before(twin, first)
                    copies[value] = twin.results[0]
                op.operands[index] = copies[value]
            else:
                values[value] = None
    return list(values)


def fresh(name: str, taken: set[str]) -> str:
    """A symbol that is not taken yet."""
    unused, count = name, 0
    while unused in taken:
        count += 1
        unused = f"{name}_{count}"
    taken.add(unused)
    return unused


def _lift(op: LambdaOp, module: ModuleOp, taken: set[str]) -> None:
    block = op.block
    name = fresh(op.sym_hint.data if op.sym_hint is not None else "lambda", taken)
    captured = _captured(block)
    own = set(block.ops)
    inside: list[SSAValue] = []
    for index, value in enumerate(captured):
        argument = block.insert_arg(value.type, index)
        argument.name_hint = value.name_hint
        inside.append(argument)
        value.replace_uses_with_if(argument, lambda use: use.operation in own)
    if op.rec is not None:
        itself = block.args[len(captured)]
        if itself.uses:
            first = block.first_op
            assert first is not None
            itself.replace_all_uses_with(_closure(name, inside, first, op))
        block.erase_arg(itself)
    region = op.regions[0]
    op.result.replace_all_uses_with(_closure(name, captured, op, op))
    op.detach_region(region)
    function = FuncOp.create(properties={"sym_name": StringAttr(name)}, regions=[region])
    function.attributes.update(op.attributes)
    op.detach()
    op.erase()
    module.body.block.add_op(function)


def _closure(name: str, captured: list[SSAValue], before: Operation, like: Operation) -> SSAValue:
    block = before.parent
    assert block is not None
    closure: Operation = RefOp.create(properties={"symbol": SymbolRefAttr(name)}, result_types=[any_type])
    closure.attributes.update(like.attributes)
    block.insert_op_before(closure, before)
    if captured:
        closure = PartialOp.create(
            operands=[closure.results[0], *captured], result_types=[like.results[0].type]
        )
        closure.attributes.update(like.attributes)
        block.insert_op_before(closure, before)
    return closure.results[0]
