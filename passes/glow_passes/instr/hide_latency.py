"""Instructions in the order that keeps a device's units busy: starts rise, waits sink, memories suffice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.core.arena import Request, max_live, plan_offsets
from glow_dialects.core.instr_op import Access, InstrOp
from glow_dialects.core.token import is_token
from glow_dialects.core.types import bytes_of
from glow_dialects.instr.flights import flights_of, touched
from glow_dialects.instr.loops import ForOp, YieldOp
from glow_dialects.instr.memory import AllocOp, DeallocOp, InstrFuncOp, ViewOp, WeightOp, origin
from glow_dialects.instr.regions import Region, meet, region_of
from glow_dialects.instr.spaces import Memory, space_of
from glow_passes.instr.double_buffer import double_buffer, loads_of
from glow_passes.instr.machine import Machine
from glow_passes.instr.plan_memory import lives_of
from glow_passes.instr.shrink_lives import shrink
from glow_passes.instr.simulate import Clock

_WINDOW = 128
"""How many of the next instructions, as written, are looked at for one to issue."""
_FILLED = (1.0, 0.85, 0.7, 0.5)
"""Parts of a memory that are tried, as buffers leave gaps where they are placed."""


def hide_latency(function: InstrFuncOp, machine: Machine) -> None:
    """start a; wait a; I a; start b; wait b; I b   ->   start a; start b; wait a; I a; wait b; I b.

    List scheduling of each block by the device's cost of instructions. Buffers that live at once fit in
    each memory, as they do as written; they are to be given places afterwards.
    """
    for op in function.walk():
        if isinstance(op, AllocOp):
            op.properties.pop("offset", None)
    _double_buffer(function)
    blocks = [function.block, *(op.block for op in function.walk() if isinstance(op, ForOp))]
    written = {block: list(block.ops) for block in blocks}
    memories = function.spaces()
    for part in _FILLED:
        scheduler = _Scheduler(machine, memories, part)
        for block in reversed(blocks):
            scheduler.block(block, written[block])
        if _fits(function):
            return
    for block in blocks:
        _arrange(block, written[block])


def _double_buffer(function: InstrFuncOp) -> None:
    """Let those innermost loops load ahead for which memories have room for two buffers of each load."""
    for part in _FILLED:
        before = function.clone()
        for loop in _with_room(function, part):
            double_buffer(loop)
        if _fits(function):
            return
        function.detach_region(function.body)
        function.add_region(before.detach_region(before.body))


def _with_room(function: InstrFuncOp, part: float) -> list[ForOp]:
    """The innermost loops whose loads, twice, fit in a part of each memory beside what lives there."""
    memories, lives = function.spaces(), lives_of(function)
    steps = {op: step for step, op in enumerate(function.walk())}
    found: list[ForOp] = []
    for loop in [op for op in steps if isinstance(op, ForOp)]:
        if any(isinstance(op, ForOp) for op in loop.block.ops):
            continue
        low, high = steps[loop], steps[list(loop.block.ops)[-1]] + 1
        own = {load.dest for load in loads_of(loop)}
        for name, memory in memories.items():
            there: dict[SSAValue, Request] = {
                a.result: life for a, life in lives.items() if space_of(a.result) == name
            }
            inside = [(max(a, low), min(b, high), n) for v, (a, b, n) in there.items() if v not in own]
            kept = max_live([life for life in inside if life[0] < life[1]], memory.alignment)
            ahead = 2 * sum(-(-there[v][2] // memory.alignment) * memory.alignment for v in own if v in there)
            if kept + ahead > memory.size * part:
                break
        else:
            found.append(loop)
    return found


def _fits(function: InstrFuncOp) -> bool:
    """Whether every memory beside the main one can be planned."""
    memories = function.spaces()
    lives = lives_of(function)
    for name, memory in memories.items():
        there = [life for alloc, life in lives.items() if space_of(alloc.result) == name]
        offsets = plan_offsets(there, memory.alignment)
        if any(at + size > memory.size for at, (_, _, size) in zip(offsets, there, strict=True)):
            return False
    return True


@dataclass
class _Step:
    """An instruction or loop to be placed: what it needs to come first, and the allocs that it touches."""

    op: Operation
    after: set[int]
    allocs: list[SSAValue]


class _Scheduler:
    def __init__(self, machine: Machine, memories: Mapping[str, Memory], part: float) -> None:
        self.machine = machine
        self.memories = memories
        self.part = part
        self.peaks: dict[Operation, Counter[str]] = {}

    def block(self, block: Block, written: Sequence[Operation]) -> None:
        """Order a block; the loops in it have been."""
        steps = _steps(written)
        memory = _Live(steps, self.memories, self._room(block), self.peaks)
        clock = Clock(self.machine)
        left = list(range(len(steps)))
        order: list[int] = []
        placed: set[int] = set()
        while left:
            ready = [
                (self._issue_at(clock, steps[i].op), not _starts(steps[i].op), i, place)
                for place, i in enumerate(left[:_WINDOW])
                if steps[i].after <= placed
            ]
            best = next(i for _, _, i, place in sorted(ready) if place == 0 or memory.allows(i, left[:place]))
            self._issue(clock, steps[best].op)
            memory.take(best)
            left.remove(best)
            placed.add(best)
            order.append(best)
        parent = block.parent_op()
        if isinstance(parent, ForOp):
            self.peaks[parent] = memory.peak
        _arrange(block, [steps[i].op for i in order])

    def _room(self, block: Block) -> dict[str, int]:
        """The bytes of each memory that a block may fill: a part of what is free around its loop."""
        room = {space: memory.size for space, memory in self.memories.items()}
        loop = block.parent_op()
        while isinstance(loop, ForOp):
            outer = loop.parent
            assert outer is not None
            around = list(outer.ops)
            at = around.index(loop)
            ended = {op.buffer for op in around[:at] if isinstance(op, DeallocOp)}
            for op in around[:at]:
                if isinstance(op, AllocOp) and op.result not in ended:
                    space = space_of(op.result)
                    room[space] = room.get(space, 0) - _taken(op.result, self.memories)
            loop = outer.parent_op()
        return {space: int(size * self.part) for space, size in room.items()}

    def _issue_at(self, clock: Clock, op: Operation) -> int:
        return clock.issue_at(op) if isinstance(op, InstrOp) else clock.now

    def _issue(self, clock: Clock, op: Operation) -> None:
        if isinstance(op, InstrOp):
            clock.issue(op)


def _starts(op: Operation) -> bool:
    return isinstance(op, InstrOp) and bool(op.results)


def _steps(written: Sequence[Operation]) -> list[_Step]:
    """The instructions and loops of a block in order, each with those that it may not pass."""
    steps: list[_Step] = []
    known: defaultdict[SSAValue, list[tuple[int, Access, Region]]] = defaultdict(list)
    makers: dict[SSAValue, int] = {}
    for op in written:
        if isinstance(op, AllocOp | ViewOp | DeallocOp | YieldOp) or not isinstance(op, InstrOp | ForOp):
            continue
        number = len(steps)
        after = {makers[token] for token in op.operands if token in makers}
        mine = [(access, region_of(buffer)) for access, buffer in _accesses(op)]
        for access, region in mine:
            for other, theirs, there in known[region.base]:
                if (access.writes or theirs.writes) and other not in after and meet(region, there):
                    after.add(other)
        for access, region in mine:
            known[region.base].append((number, access, region))
        makers |= dict.fromkeys(op.results, number)
        steps.append(_Step(op, after, [b for b in touched(op) if isinstance(b.owner, AllocOp)]))
    return steps


def _accesses(op: Operation) -> list[tuple[Access, SSAValue]]:
    """The buffers that an operation uses: those of what it waits for, and of a loop's body as a whole."""
    if isinstance(op, ForOp):
        return [(Access.INOUT, b) for b in touched(op) if isinstance(b.owner, AllocOp | WeightOp)]
    assert isinstance(op, InstrOp)
    own = [(a, v) for a, v in op.accesses() if a is not Access.AFTER]
    flights = [f for v in op.operands if is_token(v) for f in flights_of(v)]
    return own + [(f.access, origin(f.buffer) if f.moved else f.buffer) for f in flights]


def _taken(buffer: SSAValue, memories: Mapping[str, Memory]) -> int:
    """The bytes of its memory that a buffer takes, up to where the next one may begin."""
    memory, size = memories.get(space_of(buffer)), bytes_of(buffer.type)
    return size if memory is None else -(-size // memory.alignment) * memory.alignment


class _Live:
    """The bytes of each memory that are live, as instructions are placed."""

    def __init__(
        self,
        steps: Sequence[_Step],
        memories: Mapping[str, Memory],
        room: Mapping[str, int],
        peaks: Mapping[Operation, Counter[str]],
    ) -> None:
        self.steps = steps
        self.room = room
        self.peaks = peaks
        self.users = Counter(alloc for step in steps for alloc in step.allocs)
        own = {step.op.parent for step in steps}
        self.sizes = {a: (space_of(a), _taken(a, memories)) for a in self.users if a.owner.parent in own}
        self.live: set[SSAValue] = set()
        self.used: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self.full: set[int] = set()

    def take(self, number: int) -> None:
        """Place an instruction."""
        _advance(self.steps[number], self.sizes, self.live, self.users, self.used)
        for space, count in self._needs(number, self.used).items():
            self.peak[space] = max(self.peak[space], count)
        if _release(self.steps[number], self.sizes, self.live, self.users, self.used):
            self.full.clear()

    def allows(self, number: int, before: Sequence[int]) -> bool:
        """Whether an instruction may be placed ahead of those before it, and they still fit afterwards."""
        new = [a for a in self.steps[number].allocs if a in self.sizes and a not in self.live]
        if not new or all(self.sizes[a][0] not in self.room for a in new):
            return True
        if number in self.full:  # and nothing has ended since
            return False
        self.full.add(number)
        live, users, used = set(self.live), Counter(self.users), Counter(self.used)
        for other in (number, *before):
            _advance(self.steps[other], self.sizes, live, users, used)
            if any(count > self.room.get(s, count) for s, count in self._needs(other, used).items()):
                return False
            _release(self.steps[other], self.sizes, live, users, used)
        self.full.discard(number)
        return True

    def _needs(self, number: int, used: Counter[str]) -> Counter[str]:
        inner = self.peaks.get(self.steps[number].op)
        return used if inner is None else used + inner


def _advance(
    step: _Step,
    sizes: Mapping[SSAValue, tuple[str, int]],
    live: set[SSAValue],
    users: Counter[SSAValue],
    used: Counter[str],
) -> None:
    """Let what an instruction touches begin."""
    for alloc in step.allocs:
        if alloc in sizes and alloc not in live:
            live.add(alloc)
            used[sizes[alloc][0]] += sizes[alloc][1]
        users[alloc] -= 1


def _release(
    step: _Step,
    sizes: Mapping[SSAValue, tuple[str, int]],
    live: set[SSAValue],
    users: Counter[SSAValue],
    used: Counter[str],
) -> bool:
    """Let what has no users left end; returns whether something has."""
    ended = [alloc for alloc in step.allocs if users[alloc] == 0 and alloc in live]
    for alloc in ended:
        live.discard(alloc)
        used[sizes[alloc][0]] -= sizes[alloc][1]
    return bool(ended)


def _arrange(block: Block, order: Sequence[Operation]) -> None:
    """Bring a block's operations into an order; allocs and views stand before their first use."""
    order = [op for op in order if not isinstance(op, YieldOp)]
    wanted = set(order)
    last = [op for op in block.ops if isinstance(op, YieldOp)]
    rest = [op for op in block.ops if op not in wanted and op not in last]
    for op in (*rest, *order, *last):
        op.detach()
    placed: set[Operation] = set()
    movable = {op for op in rest if isinstance(op, AllocOp | ViewOp)}
    fixed = [op for op in rest if op not in movable and not isinstance(op, DeallocOp)]

    def put(op: Operation) -> None:
        if op in placed:
            return
        placed.add(op)
        for needed in _needed(op):
            if needed in movable:
                put(needed)
        block.add_op(op)

    for op in (*fixed, *order, *(op for op in rest if op in movable)):
        put(op)
    for op in (*(op for op in rest if isinstance(op, DeallocOp)), *last):
        block.add_op(op)
    shrink(block)


def _needed(op: Operation) -> list[Operation]:
    """The operations whose results an operation, or what is inside it, uses."""
    return [v.owner for inner in op.walk() for v in inner.operands if isinstance(v.owner, Operation)]


__all__ = ["hide_latency"]
