"""Checks of an instruction function: lifetimes, initialisation, constant weights, tokens, in-place
conflicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.instr_op import Access, InstrOp
from glow_dialects.core.token import is_token
from glow_dialects.core.types import bytes_of
from glow_dialects.core.verify import blame
from glow_dialects.instr.flights import Flight, flights_of
from glow_dialects.instr.loops import ForOp, YieldOp
from glow_dialects.instr.memory import AllocOp, DeallocOp, ViewOp, WeightOp, origin
from glow_dialects.instr.regions import overlap, same_place
from glow_dialects.instr.spaces import MAIN, space_of
from glow_dialects.ops.module import PlaceholderOp, lookup

if TYPE_CHECKING:
    from glow_dialects.instr.memory import AllocOp, DeallocOp, InstrFuncOp, WeightOp


def check_function(function: InstrFuncOp) -> None:
    """Raise a VerifyException for the first rule of the instruction level that is broken.

    Buffers are used only between alloc and dealloc, which each has in one block; they are read only after a
    write, constant weights are never written, and one buffer is both read and written only where in-place is
    declared. Places lie inside their memories, and those of live buffers are apart. Each token is waited for
    once, and no buffer is touched while an instruction that is under way uses it.
    """
    _Check(function).block(function.block)


class _Check:
    """The state of a walk through a function in the order in which it runs."""

    def __init__(self, function: InstrFuncOp) -> None:
        self.live: set[SSAValue] = set()
        self.written: set[SSAValue] = set()
        self.ended: set[SSAValue] = set()
        self.defined: set[SSAValue] = set()
        self.flying: dict[SSAValue, list[Flight]] = {}
        self.places = _Places(function)
        self.in_program = False

    def block(self, block: Block) -> None:
        """Check the function's block, or a loop's body."""
        for op in block.ops:
            try:
                self.one(op, block)
            except VerifyException as error:
                blame(error, op)
                raise
        for buffer in self.live:
            owner = buffer.owner
            if isinstance(owner, Operation) and owner.parent is block and not self._is_weight(buffer):
                error = VerifyException(
                    f"glow_instr.alloc: a buffer {buffer.type} is never deallocated; add glow_instr.dealloc"
                )
                blame(error, owner)
                raise error

    def one(self, op: Operation, block: Block) -> None:
        """Check one operation, and the tokens that it makes."""
        if not self.defined.issuperset(op.operands):
            raise VerifyException(
                f"{op.name}: a buffer is used before its definition; move the definition up"
            )
        self.defined.update(op.results)
        self.step(op, block)
        for token in op.results:
            if is_token(token):
                _check_token(token, op.name, block)

    def step(self, op: Operation, block: Block) -> None:
        """Check one operation in the present state, and change the state."""
        match op:
            case WeightOp():
                if self.in_program:
                    raise VerifyException("glow_instr.weight: belongs in the declare section; move it there")
                self.live.add(op.result)
                self.written.add(op.result)
                return
            case AllocOp():
                self.live.add(op.result)
                self.places.begin(op)
            case ViewOp():
                pass
            case DeallocOp():
                self.end(op, block)
            case InstrOp():
                self.instruction(op)
                self.written.update(origin(v) for v in op.written())
            case ForOp():
                self.loop(op)
            case YieldOp() if isinstance(block.parent_op(), ForOp):
                for token in op.tokens:
                    self.flying.pop(token, None)
            case _:
                raise VerifyException(
                    f"{op.name} is not an instruction; lower it by glow-irgen, or move it out"
                )
        self.in_program = True

    def end(self, op: DeallocOp, block: Block) -> None:
        """A buffer ends."""
        buffer = op.buffer
        if not isinstance(buffer.owner, AllocOp):
            raise VerifyException("glow_instr.dealloc: only an alloc has an end of life; remove it")
        if buffer in self.ended:
            raise VerifyException(
                "glow_instr.dealloc: the buffer was deallocated before; remove one of the two"
            )
        if buffer.owner.parent is not block:
            raise VerifyException(
                "glow_instr.dealloc: the buffer was allocated outside of the loop"
                "; deallocate it after the loop"
            )
        self.check_flying(op)
        self.live.discard(buffer)
        self.ended.add(buffer)
        self.places.end(buffer.owner)

    def instruction(self, op: InstrOp) -> None:
        """Check lives, contents, tokens and conflicts of an instruction."""
        if op.results and op.predicate is not None:
            raise VerifyException(
                f"{op.name}: an instruction that is waited for cannot have a predicate; remove the predicate"
            )
        for access, buffer in op.accesses():
            if access is Access.AFTER:
                self.flying.pop(buffer, None)
                continue
            base = origin(buffer)
            if base not in self.live:
                raise VerifyException(
                    f"{op.name}: @{access.value} buffer is used outside its life; move its alloc or dealloc"
                )
            if access.reads and base not in self.written:
                raise VerifyException(
                    f"{op.name}: @{access.value} buffer is read before it is written; write it first"
                )
            if access.writes and isinstance(base.owner, WeightOp):
                check_written(op, base.owner)
        if self.flying:
            self.check_flying(op)
        _check_conflicts(op)
        for token in op.results:
            self.flying[token] = flights_of(token)

    def loop(self, op: ForOp) -> None:
        """Check a loop's body once, for any turn."""
        self.in_program = True
        for outer, inner in zip(op.tokens, op.carried, strict=True):
            self.flying.pop(outer, None)
            self.flying[inner] = flights_of(inner)
            _check_token(inner, "glow_instr.for", op.block)
        known, ended = set(self.defined), set(self.ended)
        self.defined.update(op.block.args)
        self.block(op.block)
        self.defined, self.ended = known | set(op.results), ended
        for token in op.last:
            self.flying[token] = flights_of(token)

    def check_flying(self, op: InstrOp) -> None:
        """Raise where a buffer of `op` is used by what is under way."""
        for access, buffer in op.accesses():
            if access is Access.AFTER:
                continue
            for flight in (f for flights in self.flying.values() for f in flights):
                if flight.hinders(access, buffer):
                    use = "writes" if flight.access.writes else "reads"
                    raise VerifyException(
                        f"{op.name}: @{access.value} buffer is one that {flight.op.name} still {use}; "
                        f"wait for its token first"
                    )

    def _is_weight(self, buffer: SSAValue) -> bool:
        return isinstance(buffer.owner, WeightOp)


def _check_token(token: SSAValue, name: str, block: Block) -> None:
    """Raise unless a token is waited for, or handed on, exactly once, in the block that it is of."""
    uses = list(token.uses)
    if not uses:
        raise VerifyException(f"{name}: nothing waits for the token; each token must be waited for once")
    if len(uses) > 1:
        raise VerifyException(
            f"{name}: the token is waited for {len(uses)} times; each token must be waited for once"
        )
    if uses[0].operation.parent is not block:
        raise VerifyException(
            f"{name}: the token is waited for in a loop, in each iteration; "
            "carry it into the loop, or wait before"
        )


class _Places:
    """The bytes that live buffers take in each memory, of those that have a place."""

    def __init__(self, function: InstrFuncOp) -> None:
        self.memories = function.spaces()
        self.sizes = {name: memory.size for name, memory in self.memories.items()}
        if function.arena is not None:
            self.sizes[MAIN] = function.arena.value.data
        self.live: dict[AllocOp, tuple[str, int, int]] = {}

    def begin(self, op: AllocOp) -> None:
        """Raise where a buffer's memory is unknown, or it leaves the memory or meets one that lives."""
        space = space_of(op.result)
        if space != MAIN and space not in self.memories:
            known = ", ".join(self.memories) or "none"
            raise VerifyException(f"glow_instr.alloc: there is no memory '{space}'; there are: {known}")
        if op.offset is None:
            return
        start = op.offset.value.data
        end = start + bytes_of(op.result.type)
        where = "the arena" if space == MAIN else f"memory '{space}'"
        size = self.sizes.get(space, end)
        if start < 0 or end > size:
            raise VerifyException(
                f"glow_instr.alloc: bytes {start} to {end} lie outside {where} of {size} bytes; plan again"
            )
        for other, (there, low, high) in self.live.items():
            if there == space and low < end and start < high:
                raise VerifyException(
                    f"glow_instr.alloc: bytes {start} to {end} overlap those of a live buffer "
                    f"{other.result.type}, {low} to {high}; plan again"
                )
        self.live[op] = (space, start, end)

    def end(self, op: AllocOp) -> None:
        """The buffer's place is free."""
        self.live.pop(op, None)


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
                    f"{op.name}: @out and @in buffers overlap, and in-place is not declared for them; "
                    "use another buffer"
                )
        for other in outs[position + 1 :]:
            if overlap(out, other):
                raise VerifyException(f"{op.name}: two written buffers overlap; use separate buffers")
    for name, access in op.ACCESS.items():
        if access is Access.IN and name not in op.INPLACE:
            for value in op.operand_group(name):
                if any(value is out for out in outs):
                    raise VerifyException(
                        f"{op.name}: @out and @in are one buffer, and in-place is not declared for it; "
                        "use another buffer"
                    )


def check_written(op: InstrOp, weight: WeightOp) -> None:
    """VerifyException where an instruction writes what the program only reads: constants and inputs."""
    if weight.constant:
        raise VerifyException(f"{op.name}: writes constant weight @{weight.target}; declare it mutable")
    target = lookup(weight, weight.target)
    if isinstance(target, PlaceholderOp) and target.kind.data == "input":
        raise VerifyException(
            f"{op.name}: writes @{weight.target}, an input, which a program only reads; use a state"
        )
