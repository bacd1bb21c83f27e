"""glow-cpu-place-parts: parts of a buffer are computed in it, or read from it, instead of being copied."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_backends.cpu.memory import ALIGN
from glow_dialects.core.extent import are_equal
from glow_dialects.core.instr_op import InstrOp, is_instr_of
from glow_dialects.core.types import bytes_of, shape_of
from glow_dialects.instr.memory import (
    AllocOp,
    CopyOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    instr_functions,
    origin,
    uses_of,
    view_offset,
)
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.slice import SliceOp
from glow_passes.contract import InstructionPass
from glow_passes.instr.shrink_lives import shrink


def _writers(buffer: SSAValue) -> list[Operation]:
    """The instructions that write a buffer or a view of it."""
    return [
        op
        for op, index in uses_of([buffer])
        if isinstance(op, InstrOp)
        and not isinstance(op, DeallocOp)
        and any(op.operands[index] is v for v in op.written())
    ]


def _written_between(op: SliceOp, base: SSAValue, result: SSAValue) -> bool:
    """Whether a buffer is written after a slice of it, while the slice is still read."""
    pending = {user for user, _ in uses_of([result]) if user is not op and not isinstance(user, DeallocOp)}
    writers = set(_writers(base))
    following = op.next_op
    while following is not None and pending:
        if following in writers:
            return True
        pending.discard(following)
        following = following.next_op
    return False


def _replace(old: SSAValue, new: SSAValue) -> None:
    """Let `new` stand for the alloc `old`, whose life ends with that of what `new` lies in."""
    for use in list(old.uses):
        if isinstance(use.operation, DeallocOp):
            use.operation.detach()
            use.operation.erase()
    new.name_hint = new.name_hint or old.name_hint
    alloc = old.owner
    assert isinstance(alloc, AllocOp)
    old.replace_all_uses_with(new)
    alloc.detach()
    alloc.erase()


def _block_offset(op: SliceOp) -> int | None:
    """The element at which a slice starts, if its elements are neighbours; else None."""
    size, part = shape_of(op.input), shape_of(op.result)
    starts, steps = op.starts, op.steps
    if any(step != 1 for step, n in zip(steps, part, strict=True) if not are_equal(n, 1)):
        return None
    whole = True  # all axes so far are taken entirely
    offset, stride = 0, 1
    for start, have, wanted in zip(starts[::-1], size[::-1], part[::-1], strict=True):
        if not whole and not are_equal(wanted, 1):
            return None
        whole = whole and are_equal(wanted, have)
        offset += start * stride
        stride *= have
    return offset


def view_slice(function: InstrFuncOp, op: SliceOp) -> bool:
    """slice @out b, @in a -> b = tensorview a offset n."""
    offset, result, source = _block_offset(op), op.result, op.input
    if offset is None or not isinstance(result.owner, AllocOp) or len(_writers(result)) != 1:
        return False
    base = origin(source)
    if isinstance(base.owner, WeightOp) and _writers(base):
        return False  # its contents may change while the slice is still read
    if _written_between(op, base, result):
        return False
    view = ViewOp.of(source, result.type, offset)  # pyright: ignore[reportArgumentType]
    if not are_equal(view_offset(view.result) % ALIGN, 0):
        view.erase()
        return False
    view.location = op.location
    function.block.insert_op_before(view, op)
    op.detach()
    op.erase()
    _replace(result, view.result)
    return True


def place_concat(function: InstrFuncOp, op: ConcatOp) -> bool:
    """Parts of a concatenation along the outermost axis are computed where they belong."""
    result, parts = op.result, op.inputs
    axis: int = op.axis
    if prod(shape_of(result)[:axis]) != 1 or not isinstance(result.owner, AllocOp):
        return False
    if any(not are_equal(bytes_of(p.type) % ALIGN, 0) for p in parts[:-1]) or len(_writers(result)) != 1:
        return False
    block = function.block
    positions = {item: i for i, item in enumerate(block.ops)}
    placed = [
        isinstance(p.owner, AllocOp)
        and parts.count(p) == 1
        and all(positions[w] < positions[op] for w in _writers(p))  # later, it is used for something else
        for p in parts
    ]
    if not any(placed):
        return False
    owners = [p.owner for p, movable in zip(parts, placed, strict=True) if movable]
    first = min((o for o in owners if isinstance(o, AllocOp)), key=lambda o: positions[o])
    if positions[first] < positions[result.owner]:
        result.owner.detach()
        block.insert_op_before(result.owner, first)
    start = 0
    for part, movable in zip(parts, placed, strict=True):
        view = ViewOp.of(result, part.type, start)  # pyright: ignore[reportArgumentType]
        start += prod(shape_of(part))
        view.location = op.location
        if movable:
            assert isinstance(part.owner, AllocOp)
            block.insert_op_before(view, part.owner)
            _replace(part, view.result)
        else:
            block.insert_op_before(view, op)
            copy = CopyOp(view.result, part)
            copy.location = op.location
            block.insert_op_before(copy, op)
    op.detach()
    op.erase()
    return True


def place(function: InstrFuncOp) -> int:
    """Place what can be placed; how many instructions that saved."""
    saved = 0
    for op in list(function.block.ops):
        if is_instr_of(op, SliceOp):
            saved += view_slice(function, op)
        elif is_instr_of(op, ConcatOp):
            saved += place_concat(function, op)
    if saved:
        shrink(function.block)
    return saved


@dataclass(frozen=True)
class CpuPlacePartsPass(InstructionPass):
    """Slices and concatenations of whole blocks of memory become views.

    a @out %a; b @out %b; concat @out %c, @in %a, @in %b -> a @out %c[0..]; b @out %c[n..]

    Only where every part starts on an aligned address, as kernels demand.
    """

    name = "glow-cpu-place-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in instr_functions(op):
            place(function)
