"""glow-eliminate-copies: results are computed where they are wanted instead of being copied there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import shape_of
from glow_dialects.instr.memory import (
    AllocOp,
    CopyOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    instr_functions,
    origin,
    view_offset,
)
from glow_dialects.instr.spaces import space_of
from glow_dialects.instr.strides import strides_of
from glow_passes.contract import InstructionPass


def eliminate(function: InstrFuncOp) -> int:
    """Remove copies of whole buffers; returns how many went.

    relu @out a, @in x; copy @out y, @in a; dealloc a   ->   relu @out y, @in x
    """
    gone = 0
    order = {op: place for place, op in enumerate(function.block.ops)}
    for copy in [op for op in order if isinstance(op, CopyOp)]:
        base = origin(copy.src)
        if copy.dest is copy.src:
            copy.detach()
            copy.erase()
            gone += 1
        elif _movable(copy, base, order):
            _redirect(function, copy, base, order)
            gone += 1
    return gone


def _touching(buffers: Sequence[SSAValue], order: Mapping[Operation, int]) -> list[Operation]:
    """The operations on buffers or views of them, in the order of the function; those in loops come first."""
    ops: set[Operation] = set()
    left = list(buffers)
    while left:
        for use in left.pop().uses:
            ops.add(use.operation)
            if isinstance(use.operation, ViewOp):
                left.append(use.operation.result)
    return sorted(ops, key=lambda op: order.get(op, -1))


def _movable(copy: CopyOp, base: SSAValue, order: Mapping[Operation, int]) -> bool:
    """Whether the alloc behind the source may live in the destination from its first write on."""
    dest = copy.dest
    if not isinstance(base.owner, AllocOp) or not isinstance(dest.owner, WeightOp | AllocOp):
        return False
    if space_of(dest) != space_of(base) or strides_of(copy.src.type) is not None:
        return False
    if view_offset(copy.src) != 0 or _count(copy.src) != _count(base):
        return False
    # From the first use of the source up to the copy nothing else may touch the destination.
    seen, users = False, _touching((base, dest), order)
    if any(op not in order or isinstance(op, InstrOp) and op.results for op in users):
        return False  # in a loop, or beside other instructions
    for op in users:
        touches = [origin(v) for v in op.operands]
        if op is copy:
            break
        first = base in touches and not seen
        seen = seen or first
        if isinstance(op, InstrOp) and dest in touches and (seen or isinstance(dest.owner, AllocOp)):
            if first and copy.src is base and _in_place(op, base, dest):
                continue
            return False
    # After the copy both have the same contents; a later write to either would tell them apart.
    for op in users[users.index(copy) + 1 :]:
        if isinstance(op, InstrOp) and not isinstance(op, DeallocOp):
            written = {origin(v) for v in op.written()}
            if base in written or dest in written:
                return False
    return True


def _in_place(op: InstrOp, result: SSAValue, operand: SSAValue) -> bool:
    """Whether `op` may write `result` over `operand`: sgd's w - lr g, where w is what is saved to."""
    allowed = [v for n in op.INPLACE for v in op.operand_group(n)]
    once = sum(v is operand for v in op.operands) == 1 and sum(v is result for v in op.operands) == 1
    may = op.EACH_INPLACE or op.written()[0] is result
    return once and may and operand in allowed


def _count(value: SSAValue) -> int:
    from math import prod

    return prod(shape_of(value))


def _redirect(function: InstrFuncOp, copy: CopyOp, base: SSAValue, order: dict[Operation, int]) -> None:
    dest = copy.dest
    copy.detach()
    copy.erase()
    ends = [
        use.operation for value in (base, dest) for use in value.uses if isinstance(use.operation, DeallocOp)
    ]
    ends.sort(key=lambda op: order[op])
    owner = base.owner
    assert isinstance(owner, AllocOp)
    if isinstance(dest.owner, AllocOp):
        _hoist(dest.owner, owner)
        ends.pop().operands[0] = dest  # it lives until both have ended
    for end in ends:
        end.detach()
        end.erase()
    if base.type != dest.type:
        view = ViewOp.of(dest, base.type)  # pyright: ignore[reportArgumentType]
        view.location = owner.location
        function.block.insert_op_before(view, owner)
        order[view] = order[owner]
        base.replace_all_uses_with(view.result)
    else:
        base.replace_all_uses_with(dest)
    owner.detach()
    owner.erase()


def _hoist(alloc: AllocOp, before: Operation) -> None:
    block = before.parent
    assert block is not None
    if block.get_operation_index(alloc) > block.get_operation_index(before):
        alloc.detach()
        block.insert_op_before(alloc, before)


@dataclass(frozen=True)
class EliminateCopiesPass(InstructionPass):
    """Compute results in place of copying them."""

    name = "glow-eliminate-copies"
    OPTIONAL = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            eliminate(function)
