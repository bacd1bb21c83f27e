"""Asynchronous instructions in flight: the buffers of a token, and the buffers that an operation uses."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.core.instr_op import Access, InstrOp
from glow_dialects.core.token import is_token
from glow_dialects.instr.loops import ForOp, loop_of
from glow_dialects.instr.memory import origin
from glow_dialects.instr.regions import overlap


@dataclass(frozen=True)
class Flight:
    """A buffer in use by an instruction that is under way; `moved`: maybe since an earlier turn."""

    op: InstrOp
    access: Access
    buffer: SSAValue
    moved: bool = False

    def hinders(self, access: Access, buffer: SSAValue) -> bool:
        """Whether the buffer may not be touched in a way, as it would be read or written in between."""
        return (access.writes or self.access.writes) and overlap(self.buffer, buffer, not self.moved)


def asynchronous(op: InstrOp) -> bool:
    """Whether an instruction starts something, or waits for it."""
    return bool(op.results) or Access.AFTER in op.ACCESS.values()


def sources_of(token: SSAValue) -> list[tuple[InstrOp, bool]]:
    """The instructions that a token may stand for, and whether it came through the turns of a loop."""
    found: dict[InstrOp, bool] = {}
    seen: set[SSAValue] = set()
    left = [(token, False)]
    while left:
        value, moved = left.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, InstrOp):
            found[owner] = found.get(owner, False) or moved
        elif isinstance(owner, Block | ForOp):
            loop = loop_of(value) if isinstance(owner, Block) else owner
            place = list(loop.carried if isinstance(owner, Block) else loop.last).index(value)
            left += [(loop.tokens[place], moved), (loop.yielded[place], True)]
    return list(found.items())


def flights_of(token: SSAValue) -> list[Flight]:
    """The buffers in use until a token is waited for."""
    return [
        Flight(op, access, buffer, moved)
        for op, moved in sources_of(token)
        for access, buffer in op.accesses()
        if access is not Access.AFTER
    ]


def touched(op: Operation) -> list[SSAValue]:
    """The allocs and weights that an operation works on: a loop's body, too, and what is waited for."""
    if not op.regions and not any(map(is_token, op.operands)):
        return [origin(v) for v in op.operands]
    found: dict[SSAValue, None] = {}
    for operand in op.operands:
        if is_token(operand):
            found |= dict.fromkeys(origin(f.buffer) for f in flights_of(operand))
        else:
            found[origin(operand)] = None
    if isinstance(op, ForOp):
        for inner in op.block.ops:
            found |= dict.fromkeys(touched(inner))
    return list(found)
