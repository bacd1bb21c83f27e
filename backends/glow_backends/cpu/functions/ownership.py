"""Which stores write in place, and which arrays a store or a call copies: ownership and last use.

A store is a new value in `glow_fn`. Where nothing reads the old one afterwards, the new one has its memory.
A program is followed once more with abstract values in place of registers: `Held` says which buffers an array
may lie in, and which ones what waits would read. A function *consumes* a parameter that it stores into: calls
give it a buffer of which no other value is read later, or a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from xdsl.ir import Operation, SSAValue

from glow_backends.cpu.functions.blocks import block_of
from glow_backends.cpu.functions.buffers import (
    COPY,
    FIXED,
    FOREIGN,
    NOUGHT,
    NUMBER,
    ZEROS,
    Buffer,
    Held,
    coded,
    pending,
    registers_of,
    together,
)
from glow_backends.cpu.functions.layout import leaves, sizes
from glow_backends.cpu.functions.survey import is_tail
from glow_backends.cpu.functions.tensors import template_of, viewed
from glow_dialects.fn.dialect import CallOp, GetOp, PartialOp, PrimOp, ReturnOp
from glow_dialects.fn.domain import Bottom, FnType, NamedType, Scalar, TensorType, TupleType, Type
from glow_dialects.fn.meaning import failure
from glow_dialects.fn.primitive import Primitive, text
from glow_dialects.fn.primitives.assignment import SetField, SetItem
from glow_dialects.fn.primitives.items import Item, Rows
from glow_dialects.fn.primitives.records import Field
from glow_dialects.fn.primitives.tuples import Copy
from glow_dialects.fn.values import NoCode, V, captured, names_of, parts
from glow_passes.fn.calls import known_callee
from glow_passes.fn.specialize import Instance, Specializer


@dataclass
class Decisions:
    """What the code of an instance does, by operation."""

    #: Stores that write into their operand.
    in_place: set[Operation] = field(default_factory=set[Operation])
    #: Stores into what may be the program's zeros, which are copied then.
    guarded: set[Operation] = field(default_factory=set[Operation])
    #: Results that are copied at once: views of what is written while they are read.
    apart: set[Operation] = field(default_factory=set[Operation])
    #: Values that are computed before an operation writes what they would read.
    settled: dict[Operation, list[SSAValue]] = field(default_factory=dict[Operation, list[SSAValue]])
    #: Leaves of arguments that a call copies, by callee.
    copied: dict[tuple[Operation, Instance], set[int]] = field(
        default_factory=dict[tuple[Operation, Instance], set[int]]
    )
    #: (place, name) of copies that are no part of the program.
    told: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


class Ownership:
    """The decisions for the instances that a root reaches."""

    def __init__(self, inferred: Specializer, root: Instance, reached: Sequence[Instance]) -> None:
        self.sets = inferred.sets
        self.root = root
        self.program = inferred.aimed_at(_Buffers(self))
        #: Leaves of parameters that an instance consumes, and buffers of the leaves of its result.
        self.consumed: dict[Instance, set[int]] = {i: set() for i in reached}
        #: Leaves of parameters that may be the program's zeros.
        self.zeros: dict[Instance, set[int]] = {i: set() for i in reached}
        self.results: dict[Instance, list[frozenset[Buffer]]] = {}
        self.decisions = {i: Decisions() for i in reached}
        self._last: dict[Instance, dict[SSAValue, int]] = {}
        self.active = any(
            isinstance(op, PrimOp) and op.card.stores for i in reached for op in i.function.block.ops
        )
        if self.active:
            self._settle(reached)

    def _settle(self, reached: Sequence[Instance]) -> None:
        waiting = dict.fromkeys(reversed(reached))
        while waiting:
            instance = next(iter(waiting))
            del waiting[instance]
            before = self._state(instance)
            body = _Body(self, instance)
            body.follow()
            waiting.update(dict.fromkeys(body.again))
            if before != self._state(instance):
                waiting.update(dict.fromkeys([c for c in instance.callers if c in self.decisions]))
                waiting[instance] = None

    def _state(self, instance: Instance) -> Any:
        result = self.results.get(instance)
        apart = len(self.decisions[instance].apart)
        return len(self.consumed[instance]), apart, None if result is None else list(result)

    def last_uses(self, instance: Instance) -> dict[SSAValue, int]:
        """Where each value is used last, by the number of the operation; uses of types do not count."""
        if instance not in self._last:
            last: dict[SSAValue, int] = {}
            for number, op in enumerate(instance.function.block.ops):
                types = self._types_only(op)
                last.update({v: number for i, v in enumerate(op.operands) if i not in types})
            self._last[instance] = last
        return self._last[instance]

    def _types_only(self, op: Operation) -> set[int]:
        """The operands of which only the types are used."""
        if isinstance(op, PrimOp):
            return set(op.card.types_only)
        callee = known_callee(op) if isinstance(op, PartialOp) else None
        if callee is None:
            return set()
        before = len(callee[1]) - len(op.operands)  # the first operand is the function
        return {i - before for i in self.program.functions.only_types(callee[0].target) if i > before}

    # --- what the code asks -----------------------------------------------------------------------
    def of(self, instance: Instance) -> Decisions:
        """The decisions for an instance."""
        return self.decisions[instance]

    @property
    def told(self) -> list[str]:
        """The copies that the program does not ask for, each with its place."""
        return sorted(f"{place}: {name}" for d in self.decisions.values() for place, name in d.told)


class _Body:
    """One pass through an instance."""

    def __init__(self, owner: Ownership, instance: Instance) -> None:
        self.owner = owner
        self.instance = instance
        self.program = owner.program
        self.decisions = Decisions(apart=owner.decisions[instance].apart)
        owner.decisions[instance] = self.decisions
        self.last = owner.last_uses(instance)
        self.numbers = {op: i for i, op in enumerate(instance.function.block.ops)}
        self.values: dict[SSAValue, V] = {}
        #: Those that operations after this one read.
        self.live: dict[SSAValue, V] = {}
        #: Whether what keeps the last value from being written is a copy that the program asks for.
        self.asked = False
        #: Instances whose parameters may be more than was known.
        self.again: list[Instance] = []
        self.op: Any = None
        self.number = self.made = 0

    def follow(self) -> None:
        """Decide for each operation; note what the result lies in."""
        owner, instance = self.owner, self.instance
        self.program.t.body = self
        place = 0
        for argument, kind in zip(instance.function.block.args, instance.parameters, strict=True):
            resolved = owner.sets.resolve(kind)
            count = len(leaves(resolved))
            tokens = [self._parameter(place + i) for i in range(count)]
            bare = [t if s is not None else NUMBER for t, s in zip(tokens, sizes(resolved), strict=True)]
            self._made(argument, V(resolved, coded(resolved, bare)))
            place += count
        for number, op in enumerate(instance.function.block.ops):
            self.op, self.number, self.made = op, number, 0
            if isinstance(op, ReturnOp):
                self._returned(self.values[op.value])
                return
            if failure(op) is not None:
                return
            operands = [self.values[v] for v in op.operands]
            for v in op.operands:
                if self.last.get(v, -1) <= number:
                    self.live.pop(v, None)
            if isinstance(op, CallOp):
                value = self._call(op, operands)
                if value is None:
                    return
            else:
                value = self.program.step(op, operands, instance)
                if isinstance(op, PrimOp) and isinstance(op.card, Copy):
                    value = _asked_for(value)
            self._made(op.results[0], value)

    def _made(self, result: SSAValue, value: V) -> None:
        self.values[result] = value
        if result in self.last:
            self.live[result] = value

    def _parameter(self, leaf: int) -> Held:
        held = Held(frozenset({(("parameter", leaf), None)}))
        return held | NOUGHT if leaf in self.owner.zeros[self.instance] else held

    def _returned(self, value: V) -> None:
        held = registers_of(self.program.convert(value, self.owner.sets.resolve(self.instance.result)).code)
        self._result([h.places for h in held])

    def _result(self, places: Sequence[frozenset[Buffer]]) -> None:
        old = self.owner.results.get(self.instance)
        merged = [a | b for a, b in zip(old, places, strict=True)] if old is not None else list(places)
        self.owner.results[self.instance] = merged

    # --- calls ------------------------------------------------------------------------------------
    def _call(self, op: CallOp, x: list[V]) -> V | None:
        sets = self.owner.sets
        kind: Type = Bottom()
        targets = self.program.targets(x, self.instance, op.source)
        for target, _ in targets:
            kind = sets.join(kind, target.result)
        kind = sets.resolve(kind)
        total: list[Held] | None = None
        for (target, bound), codes in zip(targets, self._cases(x[0]), strict=True):
            given = [V(sets.resolve(t), c) for t, c in zip(bound, codes, strict=True)]
            pairs = zip([*given, *x[1:]], target.parameters, strict=True)
            passed = [h for v, t in pairs for h in registers_of(self.program.convert(v, t).code)]
            passed = self._passed(op, target, passed)
            result = self.owner.results.get(target)
            if result is None or isinstance(target.result, Bottom):
                continue
            held = self._result_of(op, target, passed, result)
            resolved = sets.resolve(target.result)
            converted = registers_of(self.program.convert(V(resolved, coded(resolved, held)), kind).code)
            total = converted if total is None else [a | b for a, b in zip(total, converted, strict=True)]
        if total is None:
            return None
        return V(kind, coded(kind, total))

    def _cases(self, function: V) -> list[list[Any]]:
        kind = self.owner.sets.resolve(function.type)
        if isinstance(kind, NamedType):
            members = self.owner.sets.members(kind)
            return [[coded(t, repeat(FIXED)) for t in c] for _, c in members]
        assert isinstance(kind, FnType)
        return [[v.code for v in captured(function, i)] for i in range(len(kind.entries))]

    def _passed(self, op: CallOp, target: Instance, passed: list[Held]) -> list[Held]:
        """The arguments of a call, of which some are copied."""
        consumed = sorted(self.owner.consumed[target])
        live = [] if is_tail(op) else self._live()
        for leaf in consumed:
            others = [(None, h) for i, h in enumerate(passed) if i != leaf]
            if self._given_up(passed[leaf], [*live, *others]):
                if ZEROS in passed[leaf].places and leaf not in self.owner.zeros[target]:
                    self.owner.zeros[target].add(leaf)
                    self.again.append(target)
            else:
                self._tell(op.source, target, leaf, passed[leaf])
                self.decisions.copied.setdefault((op, target), set()).add(leaf)
                passed[leaf] = Held(frozenset({((op, "copy", target, leaf), None)}))
        return passed

    def _result_of(
        self, op: CallOp, target: Instance, passed: list[Held], result: list[frozenset[Buffer]]
    ) -> list[Held]:
        """What the leaves of a call's result lie in."""
        first: dict[Buffer, int] = {}
        for leaf, buffers in enumerate(result):
            for buffer in buffers:
                first.setdefault(buffer, leaf)
        given = together(passed)
        held: list[Held] = []
        for buffers in result:
            found: set[tuple[Buffer, Any]] = set()
            for buffer in buffers:
                if buffer[0] == "parameter":
                    found |= {(b, None) for b in passed[buffer[1]].places}
                else:
                    found.add((buffer if buffer in (FOREIGN, ZEROS) else (op, target, first[buffer]), None))
            held.append(Held(frozenset(found), given.reads | given.places | {b for b, _ in found}))
        return held

    # --- writes -----------------------------------------------------------------------------------
    def _live(self) -> list[tuple[SSAValue | None, Held]]:
        """What is read after the operation."""
        return [
            (v, held)
            for v, value in self.live.items()
            for part in self._read(v, value)
            for held in registers_of(part.code)
        ]

    def _read(self, value: SSAValue, v: V) -> list[V]:
        """The parts of a value that later operations read: of a tuple, not the items that they replace."""
        if not isinstance(v.type, TupleType) or v.whole is not None:
            return [v]
        read: set[int] = set()
        for use in value.uses:
            if self.numbers[use.operation] > self.number:
                read |= self._items(use.operation, use.index, v)
        return [part for i, part in enumerate(parts(v)) if i in read]

    def _items(self, op: Operation, operand: int, v: V) -> set[int]:
        """The items that an operation reads of a tuple which is one of its operands."""
        assert isinstance(v.type, TupleType)
        every = set(range(len(v.type.items)))
        if isinstance(op, GetOp):
            return {op.index.value.data % max(len(every), 1)}
        if not isinstance(op, PrimOp) or operand > 1:
            return every
        if isinstance(op.card, Field | SetField):
            name = text(op, "field")
            names = names_of(v)[1:]
            at = {names.index(name)} if name in names else set[int]()
        elif isinstance(op.card, Item | SetItem) and not operand:
            index = self.values.get(op.operands[1])
            const = index.type.const if index is not None and isinstance(index.type, Scalar) else None
            at = set[int]() if const is None else {int(const) % max(len(every), 1)}
        else:
            return every
        if not at:
            return every
        return every - at if isinstance(op.card, SetField | SetItem) else at

    def _given_up(self, held: Held, others: Sequence[tuple[SSAValue | None, Held]]) -> bool:
        """Whether a value's buffers may be written now; what others would read of them is settled."""
        places, self.asked = held.places, False
        own = {view for _, view in held.buffers if view is not None and view != COPY}
        self.decisions.apart |= own  # a view is copied, not what it is a part of
        if FOREIGN in places or own:
            return False
        places -= {ZEROS}
        views: set[Operation] = set()
        for _, other in others:
            for place, view in other.buffers:
                if place in places:
                    if view is None or view == COPY:
                        self.asked = view == COPY
                        return False
                    views.add(view)
        if views:
            self.decisions.apart |= views
        waiting = [v for v, other in others if v is not None and other.reads & places]
        if waiting:
            settled = self.decisions.settled.setdefault(self.op, [])
            settled += [v for v in dict.fromkeys(waiting) if v not in settled]
        self.owner.consumed[self.instance] |= {p[1] for p in places if p[0] == "parameter"}
        return True

    def store(self, whole: Held) -> Held:
        """The value of a store into an array."""
        if self._given_up(whole, self._live()):
            self.decisions.in_place.add(self.op)
            if ZEROS not in whole.places:
                return Held(whole.buffers)
            self.decisions.guarded.add(self.op)
            return Held(frozenset(b for b in whole.buffers if b[0] != ZEROS) | {((self.op, "store"), None)})
        self._tell(self.op.source, self.instance, None, whole)
        return Held(frozenset({((self.op, "store"), None)}))

    def made_array(self, reads: frozenset[Buffer], views: frozenset[tuple[Buffer, Any]] | None) -> Held:
        """The value of an operator: new memory, or a view of an operand's."""
        self.made += 1
        if views is not None and self.op not in self.decisions.apart:
            return Held(views, reads)
        return Held(frozenset({((self.op, self.made), None)}), reads)

    def _tell(self, place: str, target: Instance, leaf: int | None, held: Held) -> None:
        """Note a copy, unless the program asks for it or the memory is the compiler's."""
        if self.asked or held.places <= {FOREIGN, ZEROS} or any(view is not None for _, view in held.buffers):
            return
        name = self.op.operands[0].name_hint if leaf is None else _name(target, leaf)
        self.decisions.told.add((place, f"'{name}' is copied" if name else "an array is copied"))


def _asked_for(value: V) -> V:
    """The value of `x.copy()`, which lies where x does until one of them is written."""
    codes = [Held(frozenset((b, v or COPY) for b, v in h.buffers), h.reads) for h in registers_of(value.code)]
    return V(value.type, coded(value.type, codes), value.whole)


def _name(instance: Instance, leaf: int) -> str | None:
    for argument, kind in zip(instance.function.block.args, instance.parameters, strict=True):
        leaf -= len(leaves(kind))
        if leaf < 0:
            return argument.name_hint
    return None


class _Buffers(NoCode):
    """The target whose registers are `Held`."""

    coding = True

    def __init__(self, owner: Ownership) -> None:
        self.owner = owner
        self.body: Any = None

    def constant(self, kind: str, value: Any) -> Held:
        """A number."""
        return NUMBER

    def cast(self, code: Held, have: str, want: str) -> Held:
        """A number."""
        return Held(reads=code.reads)

    def scalar(self, card: Any, kind: str, x: Sequence[Held]) -> Held:
        """A number, which may wait with what it is computed from."""
        return Held(reads=together(x).reads)

    def select(self, condition: Held, yes: Held, no: Held) -> Held:
        """One of two."""
        return yes | no

    def undefined(self, kind: Type) -> Any:
        """Nothing."""
        return coded(kind, repeat(NUMBER))

    def nothing(self) -> Held:
        """An array that is never read."""
        return NUMBER

    def box(self, named: NamedType, index: int, values: Sequence[V]) -> Held:
        """A record holds its values."""
        return Held(together([h for v in values for h in registers_of(v.code)]).buffers)

    def box_any(self, named: NamedType, value: V, convert: Any) -> Held:
        """A record of one of several functions."""
        return Held(together(registers_of(value.code)).buffers)

    def zeros(self, kind: TensorType) -> Held:
        """Memory of the program."""
        return NOUGHT

    def array(self, value: Any) -> Held:
        """Memory of the program."""
        return FIXED

    def as_tensor(self, value: V, kind: TensorType) -> Held:
        """A number as an array."""
        return self.body.made_array(pending([value]), None)

    def first(self, value: V) -> Held:
        """A number of an array."""
        return Held(reads=pending([value]))

    def graph(self, op: Any, values: Sequence[V]) -> list[Held]:
        """Parts of graphs may give back what they are given."""
        given = together([h for v in values for h in registers_of(v.code)])
        views = given.buffers | {(FOREIGN, None)}
        return [Held(frozenset(views), given.reads | given.places) for _ in op.yielded]

    def tensor(self, card: Primitive, attributes: Any, values: Sequence[V], result: Type, where: str) -> Held:
        """A primitive on arrays."""
        reads = pending(values)
        if not isinstance(result, TensorType):
            return Held(reads=reads)
        if block_of(card, attributes, values) is not None:
            return self.body.store(values[0].code)
        return self.body.made_array(reads, self._views(card, attributes, values, result, where))

    def _views(
        self, card: Primitive, attributes: Any, values: Sequence[V], result: TensorType, where: str
    ) -> frozenset[tuple[Buffer, Any]] | None:
        if isinstance(card, Item | Rows):
            if not result.shape:
                return None
            return frozenset((b, self.body.op) for b in values[0].code.places)
        at = viewed(template_of(card, attributes, values, where))
        return None if at is None else values[at].code.buffers
