"""glow-share-buffers: write a result over an operand that is no longer needed, where this is allowed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import bytes_of
from glow_dialects.instr.flights import touched
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import (
    AllocOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    instr_functions,
    origin,
    view_offset,
)
from glow_passes.contract import InstructionPass


def _lives(function: InstrFuncOp) -> tuple[dict[SSAValue, Operation], dict[SSAValue, Operation]]:
    """First and last instruction or loop that touches each alloc (views and deallocs do not count)."""
    first: dict[SSAValue, Operation] = {}
    last: dict[SSAValue, Operation] = {}
    for op in function.block.ops:
        if isinstance(op, InstrOp | ForOp) and not isinstance(op, DeallocOp):
            for base in touched(op):
                first.setdefault(base, op)
                last[base] = op
    return first, last


def share(function: InstrFuncOp) -> int:
    """Merge buffers in place; returns how many allocs were saved.

    alloc b; relu @out b, @in a; dealloc a   ->   relu @out a, @in a
    """
    saved = 0
    for op in reversed(list(function.block.ops)):  # a view that nothing uses may stand behind what is merged
        if isinstance(op, ViewOp) and not op.result.uses:
            op.detach()
            op.erase()
    first, last = _lives(function)
    views: defaultdict[SSAValue, list[ViewOp]] = defaultdict(list)
    deallocs = {op.buffer: op for op in function.block.ops if isinstance(op, DeallocOp)}
    for op in list(function.block.ops):
        if isinstance(op, ViewOp):
            views[origin(op.result)].append(op)
        if not isinstance(op, InstrOp) or not op.INPLACE or op.results:
            continue
        out = op.written()[0]
        if not isinstance(out.owner, AllocOp) or first.get(out) is not op:
            continue
        for operand in (v for n in op.INPLACE for v in op.operand_group(n)):
            base = origin(operand)
            if not isinstance(base.owner, AllocOp) or last.get(base) is not op:
                continue
            if out.type != operand.type or not _whole(operand, base):
                continue
            if sum(origin(v) is base for v in op.operands) != 1:
                continue
            for view in views.pop(out, ()):  # of what nothing has touched before: `operand` may begin later
                view.detach()
                function.block.insert_op_before(view, op)
            _merge(deallocs, base, operand, out)
            last[base] = last.pop(out, op)
            first.pop(out, None)
            saved += 1
            break
    return saved


def _whole(view: SSAValue, base: SSAValue) -> bool:
    """Whether a view of a buffer, or the buffer, is all of it."""
    return view_offset(view) == 0 and bytes_of(view.type) == bytes_of(base.type)


def _merge(deallocs: dict[SSAValue, DeallocOp], kept: SSAValue, operand: SSAValue, gone: SSAValue) -> None:
    """Let `operand` (a view of all of `kept`, or `kept`) stand for `gone`, whose life ends that of `kept`."""
    ended = deallocs.pop(kept, None)
    if ended is not None:
        ended.detach()
        ended.erase()
    if gone in deallocs:
        deallocs[kept] = deallocs.pop(gone)
        deallocs[kept].operands[0] = kept
    owner = gone.owner
    gone.replace_all_uses_with(operand)
    assert isinstance(owner, AllocOp)
    owner.detach()
    owner.erase()


@dataclass(frozen=True)
class ShareBuffersPass(InstructionPass):
    """In-place results for every instruction function."""

    name = "glow-share-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            share(function)


__all__ = ["ShareBuffersPass", "share"]
