"""glow-cpu-stack: runs of element-wise operators become one loop each (operator stacking)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import frexp

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from glow_backends.cpu.calls import dtype_name
from glow_backends.cpu.emit import values
from glow_backends.cpu.emit.pointwise import supports
from glow_backends.cpu.fused_body import BodyBuilder
from glow_backends.cpu.kernels.pointwise.stack_op import StackOp
from glow_backends.cpu.passes.uniform_values import known_number
from glow_backends.cpu.quantized_steps import is_quantized
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.location import stand_for
from glow_dialects.core.types import element_of, shape_of, typed
from glow_dialects.ops.module import FuncOp, GetOp, SaveOp, bodies
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.splat import SplatOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import is_dead
from glow_passes.graph.symbols import Symbols

MOST_STEPS = 32
MOST_INPUTS = 12


def stackable(op: Operation | Block) -> bool:
    """Whether an operation can be a step of a loop."""
    if not isinstance(op, GraphOp) or op.predicate is not None or not op.results:
        return False
    kinds = [dtype_name(v) for v in (*op.operands, *op.results)]
    known = is_quantized(op) or supports(op.name.removeprefix("glow."), kinds[-1])
    return known and all(values.has(k) for k in kinds) and 0 not in shape_of(op.results[0])


class _Order:
    """Places of operations and loops in an order in which they can run, kept while loops are merged.

    After Pearce and Kelly, A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs, 2006: only what
    stands between loops that are merged is looked at.
    """

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.place = {op: i for i, op in enumerate(ops)}
        self.parts: dict[int, Sequence[Operation]] = {i: [op] for i, op in enumerate(ops)}

    def _sources(self, place: int) -> set[int]:
        """Where the operands of what stands at a place are made."""
        owners = (v.owner for op in self.parts[place] for v in op.operands)
        return {self.place[o] for o in owners if isinstance(o, Operation) and o in self.place} - {place}

    def _readers(self, place: int) -> set[int]:
        """Where the results of what stands at a place are read."""
        users = (u.operation for op in self.parts[place] for r in op.results for u in r.uses)
        return {self.place[u] for u in users if u in self.place} - {place}

    def _between(self, ends: set[int], step: Callable[[int], set[int]]) -> set[int] | None:
        """What steps from some places lead to between them; None where they lead back to one of them."""
        low, high = min(ends), max(ends)
        # What the first end reads stands in front of all, and what reads the last one behind all.
        far = low if step == self._sources else high
        found: set[int] = set()
        work = [p for end in ends if end != far for p in step(end) if p not in ends]
        while work:
            place = work.pop()
            if place in ends:
                return None
            if low < place < high and place not in found:
                found.add(place)
                work += step(place)
        return found

    def merge(self, members: Sequence[Operation]) -> bool:
        """Let parts be one; False where a path leads from one out of them and back into them."""
        ends = {self.place[op] for op in members}
        before = self._between(ends, self._sources)
        if before is None:
            return False
        behind = before and self._between(ends, self._readers) or set[int]()
        free = sorted((*ends, *before, *behind))
        parts = {p: self.parts.pop(p) for p in free}
        self._put(free, [*(parts[p] for p in sorted(before)), members])
        self._put(free[len(free) - len(behind) :], [parts[p] for p in sorted(behind)])
        return True

    def _put(self, places: Sequence[int], parts: Iterable[Sequence[Operation]]) -> None:
        for place, part in zip(places, parts, strict=False):
            self.parts[place] = part
            self.place.update(dict.fromkeys(part, place))


class _Groups:
    """Which operations share a loop, and whether loops could be merged."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.index = {op: i for i, op in enumerate(ops)}
        self.group: dict[Operation | Block, list[Operation]] = {op: [op] for op in ops if stackable(op)}
        #: Loops, by their identity while they are kept here, and what they read from outside.
        self.read: dict[int, tuple[list[Operation], set[SSAValue]]] = {}
        self.order = _Order(ops)

    def grow(self, symbols: Symbols) -> None:
        """Join every operation with the loops of its operands where that is legal."""
        for op in [o for o in self.index if o in self.group]:
            for value in op.operands:
                mine, theirs = self.group[op], self.group.get(value.owner)
                if shape_of(value) != shape_of(op.results[0]):
                    theirs = self.apart(value, op)
                if theirs is None or mine is theirs:
                    continue
                if len(theirs) + len(mine) > MOST_STEPS:
                    continue
                inside = {*theirs, *mine}
                read = {v for g in (theirs, mine) for v in self._read(g, symbols) if v.owner not in inside}
                if len(read) > MOST_INPUTS:
                    continue
                merged = sorted(inside, key=lambda o: self.index[o])
                if self.order.merge(merged):
                    self.read[id(merged)] = merged, read
                    for member in merged:
                        self.group[member] = merged

    def _read(self, members: list[Operation], symbols: Symbols) -> set[SSAValue]:
        """The inputs of a loop."""
        if id(members) not in self.read:
            self.read[id(members)] = members, set(_inputs(members, symbols))
        return self.read[id(members)][1]

    def apart(self, value: SSAValue, reader: Operation) -> list[Operation] | None:
        """The loop of one element that makes `value` for a reader alone, with the reshapes on the way.

        Its steps are as well steps of the reader's loop, which takes them before its first turn.
        """
        if not _is_one(value):
            return None
        part: list[Operation] = []
        while isinstance(value.owner, ReshapeOp):
            part.append(value.owner)
            value = value.owner.input
        part = [*part, *self.group.get(value.owner, ())]
        inside, rank = {*part, reader}, len(shape_of(reader.results[0]))
        alone = all(u.operation in inside for m in part for r in m.results for u in r.uses)
        fits = all(len(shape_of(v)) <= rank for m in part for v in m.operands)
        return part if alone and fits and value.owner in inside else None

    def loops(self) -> list[list[Operation]]:
        """The groups, each once."""
        unique = {id(g): g for g in self.group.values()}
        return list(unique.values())


def _number(value: SSAValue, member: Operation, symbols: Symbols) -> float | int | bool | None:
    """The number that a member's operand is, where the body is to say it: as f64.

    What is computed of one element, such as the scale of each layer's activations, is often the same but for
    a number of the layer: that stays an input, so that one kernel serves them all. Round numbers (0, 255,
    exponents), for which there may be better code, do not.
    """
    number = known_number(value, symbols)
    if isinstance(number, float) and (frexp(number)[0] * 2048) % 1 and _is_one(member.results[0]):
        return None
    return None if isinstance(number, int) and int(float(number)) != number else number


def _is_one(value: SSAValue) -> bool:
    return all(n == 1 for n in shape_of(value))


def _in_memory(value: SSAValue, symbols: Symbols) -> SSAValue:
    """An input of a loop; a number that is written by the run, as a constant instead."""
    splat = value.owner
    if not isinstance(splat, SplatOp) or not _is_one(value):
        return value
    get = GetOp.of(symbols.add(splat.array(), typed(value), value.name_hint or "number"))
    block = splat.parent
    assert block is not None
    block.insert_op_before(get, splat)
    return get.result


def _inputs(members: Sequence[Operation], symbols: Symbols) -> list[SSAValue]:
    """The loop's inputs: operands from outside that are not known numbers."""
    inside = set(members)
    inputs: dict[SSAValue, None] = {}
    for op in members:
        for value in op.operands:
            if value.owner not in inside and _number(value, op, symbols) is None:
                inputs[value] = None
    return list(inputs)


def _stored(members: Sequence[Operation]) -> list[SSAValue]:
    """The results of a group that are read outside it."""
    inside = set(members)
    return [m.results[0] for m in members if any(u.operation not in inside for u in m.results[0].uses)]


def _stack(members: Sequence[Operation], symbols: Symbols) -> StackOp | None:
    """The loop of a group; None where there is nothing to gain."""
    inputs = _inputs(members, symbols)
    numbers = any(known_number(v, symbols) is not None for m in members for v in m.operands)
    stored = _stored(members)
    if (len(members) == 1 and not numbers) or not inputs or not stored:
        return None
    body = BodyBuilder(inputs)
    place: dict[SSAValue, SSAValue] = dict(zip(inputs, body.results, strict=True))
    constants: dict[tuple[str, Attribute], SSAValue] = {}

    def argument(value: SSAValue, member: Operation) -> SSAValue:
        if value in place:
            return place[value]
        number = _number(value, member, symbols)
        assert number is not None
        key = (repr(number), element_of(value))
        if key not in constants:
            constants[key] = body.number(number, value)
        return constants[key]

    for op in members:
        assert isinstance(op, GraphOp)
        if isinstance(op, ReshapeOp):
            place[op.result] = argument(op.input, op)
            continue
        place[op.results[0]] = body.apply(op, [argument(v, op) for v in op.operands])
    region = body.finish(*(place[v] for v in stored))
    stack = StackOp([_in_memory(v, symbols) for v in inputs], results=[v.type for v in stored], body=region)
    stand_for(stack, members)
    for old, new in zip(stored, stack.results, strict=True):
        new.name_hint = old.name_hint
    return stack


def _copy_for_readers(op: Operation) -> None:
    """Give each loop that reads what one step computes of one element its own step, which it takes in.

    Where somebody else reads it, or it is not alone, it is a loop of its own in any case.
    """
    if not stackable(op) or not _is_one(op.results[0]) or any(stackable(v.owner) for v in op.operands):
        return
    result, block = op.results[0], op.parent
    shape, readers = shape_of(result), [u.operation for u in result.uses]
    assert block is not None
    if all(isinstance(r, ReshapeOp) or (stackable(r) and shape_of(r.results[0]) != shape) for r in readers):
        for use in list(result.uses)[1:]:
            twin = op.clone()
            block.insert_op_before(twin, op)
            use.operation.operands[use.index] = twin.results[0]


def stack(function: FuncOp, symbols: Symbols) -> int:
    """Replace the groups of a function by loops; how many there are."""
    block = function.body.block
    for op in list(block.ops):
        _copy_for_readers(op)
    groups = _Groups(list(block.ops))
    groups.grow(symbols)
    count = 0
    for members in groups.loops():
        stack_op = _stack(members, symbols)
        if stack_op is None:
            continue
        count += 1
        stored = _stored(members)
        block.insert_op_after(stack_op, members[-1])
        for old, new in zip(stored, stack_op.results, strict=True):
            old.replace_all_uses_with(new)
        for op in reversed(members):
            op.detach()
            op.erase()
    if count:
        sort(function)
        for op in reversed(list(block.ops)):
            if is_dead(op):
                op.detach()
                op.erase()
    return count


def sort(function: FuncOp) -> None:
    """Definitions before uses, otherwise the order as it was; saves and a return stay behind all else."""
    block = function.body.block
    ops = list(block.ops)
    index = {op: i for i, op in enumerate(ops)}
    waiting = {op: len({v.owner for v in op.operands if v.owner in index}) for op in ops}
    behind = {op: isinstance(op, SaveOp) or op.has_trait(IsTerminator) for op in ops}
    ready = [(behind[op], i) for op, i in index.items() if not waiting[op]]
    heapq.heapify(ready)
    order: list[Operation] = []
    while ready:
        op = ops[heapq.heappop(ready)[1]]
        order.append(op)
        for user in {u.operation for r in op.results for u in r.uses if u.operation in index}:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (behind[user], index[user]))
    assert len(order) == len(ops), "a group of the loop was not convex"
    for op in ops:
        op.detach()
    block.add_ops(order)


@dataclass(frozen=True)
class CpuStackPass(GraphPass):
    """Connected element-wise operators of one shape become one glow_cpu.stack.

    %a = sub %x, %y; %b = exp %a  ->  %b = stack %x, %y {(%0, %1): %2 = sub %0, %1; %3 = exp %2; yield %3}

    What is computed of one element for such loops alone is a part of them, done once before the first turn.
    """

    name = "glow-cpu-stack"
    OPTIONAL = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        symbols = Symbols(op)
        if sum(stack(function, symbols) for function in bodies(op)):
            symbols.sweep()
