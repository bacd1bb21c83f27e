"""Checks of an instruction function: lives, initialisation, constant weights, in-place conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.instr_op import Access, InstrOp
from glow_dialects.core.types import bytes_of

if TYPE_CHECKING:
    from glow_dialects.instr.memory import AllocOp, InstrFuncOp


def check_function(function: InstrFuncOp) -> None:
    """Raise a VerifyException for the first rule of the instruction level that is broken.

    Buffers are used only between alloc and dealloc, which each has; they are read only after a write,
    constant weights are never written, and one buffer is both read and written only where in-place is
    declared. Places in the arena lie inside it, and live buffers' places are apart.
    """
    from glow_dialects.instr.memory import AllocOp, DeallocOp, ViewOp, WeightOp, origin

    live: set[SSAValue] = set()
    written: set[SSAValue] = set()
    ended: set[SSAValue] = set()
    defined: set[SSAValue] = set()
    in_program = False
    places = _Places(None if function.arena is None else function.arena.value.data)
    for op in function.block.ops:
        for operand in op.operands:
            if operand not in defined:
                raise VerifyException(f"{op.name}: a buffer is used before its definition")
        defined.update(op.results)
        match op:
            case WeightOp():
                if in_program:
                    raise VerifyException("glow_instr.weight: belongs in the declare section")
                live.add(op.result)
                written.add(op.result)
            case AllocOp():
                in_program = True
                live.add(op.result)
                places.begin(op)
            case ViewOp():
                in_program = True
            case DeallocOp():
                in_program = True
                buffer = op.buffer
                if not isinstance(buffer.owner, AllocOp):
                    raise VerifyException("glow_instr.dealloc: only an alloc has an end of life")
                if buffer in ended:
                    raise VerifyException("glow_instr.dealloc: the buffer was deallocated before")
                live.discard(buffer)
                ended.add(buffer)
                places.end(buffer.owner)
            case InstrOp():
                in_program = True
                _check_instruction(op, live, written)
                written.update(origin(v) for v in op.written())
            case _:
                raise VerifyException(f"{op.name} is not an instruction")
    for buffer in live:
        if isinstance(buffer.owner, AllocOp):
            raise VerifyException(f"glow_instr.alloc: a buffer {buffer.type} is never deallocated")


class _Places:
    """The bytes of the arena that live buffers take, of those that have a place."""

    def __init__(self, arena: int | None) -> None:
        self.arena = arena
        self.live: dict[AllocOp, tuple[int, int]] = {}

    def begin(self, op: AllocOp) -> None:
        """Raise where a buffer leaves the arena or meets one that lives."""
        if op.offset is None:
            return
        start = op.offset.value.data
        end = start + bytes_of(op.result.type)
        if start < 0 or (self.arena is not None and end > self.arena):
            raise VerifyException(
                f"glow_instr.alloc: bytes {start} to {end} lie outside the arena of {self.arena} bytes"
            )
        for other, (low, high) in self.live.items():
            if low < end and start < high:
                raise VerifyException(
                    f"glow_instr.alloc: bytes {start} to {end} overlap those of a live buffer "
                    f"{other.result.type}, {low} to {high}"
                )
        self.live[op] = (start, end)

    def end(self, op: AllocOp) -> None:
        """The buffer's place is free."""
        self.live.pop(op, None)


def _check_instruction(op: InstrOp, live: set[SSAValue], written: set[SSAValue]) -> None:
    from glow_dialects.instr.memory import WeightOp, origin

    for access, buffer in op.accesses():
        base = origin(buffer)
        if base not in live:
            raise VerifyException(f"{op.name}: @{access.value} buffer is used outside its life")
        if access.reads and base not in written:
            raise VerifyException(f"{op.name}: @{access.value} buffer is read before it is written")
        if access.writes and isinstance(base.owner, WeightOp) and base.owner.constant:
            raise VerifyException(f"{op.name}: writes constant weight @{base.owner.target}")
    _check_conflicts(op)


def _check_conflicts(op: InstrOp) -> None:
    allowed = {v for n in op.INPLACE for v in op.operand_group(n)}
    outs = op.written()
    for position, out in enumerate(outs):
        for access, other in op.accesses():
            if other is out or access is not Access.IN or not overlap(out, other):
                continue
            may = position == 0 or op.EACH_INPLACE
            if not (may and other in allowed and same_place(out, other)):
                raise VerifyException(
                    f"{op.name}: @out and @in buffers overlap, and in-place is not declared for them"
                )
        for other in outs[position + 1 :]:
            if overlap(out, other):
                raise VerifyException(f"{op.name}: two written buffers overlap")
    for name, access in op.ACCESS.items():
        if access is Access.IN and name not in op.INPLACE:
            for value in op.operand_group(name):
                if any(value is out for out in outs):
                    raise VerifyException(
                        f"{op.name}: @out and @in are one buffer, and in-place is not declared for it"
                    )


def overlap(first: SSAValue, second: SSAValue) -> bool:
    """Whether two buffers share bytes, as far as views tell."""
    from glow_dialects.instr.memory import origin, view_offset

    if origin(first) is not origin(second):
        return False
    a, b = view_offset(first), view_offset(second)
    return a < b + bytes_of(second.type) and b < a + bytes_of(first.type)


def same_place(first: SSAValue, second: SSAValue) -> bool:
    """Whether two buffers are the same bytes."""
    from glow_dialects.instr.memory import origin, view_offset

    return (
        origin(first) is origin(second)
        and view_offset(first) == view_offset(second)
        and bytes_of(first.type) == bytes_of(second.type)
    )
