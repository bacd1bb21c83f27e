"""while: loops written out, loops at run time, and the rows that they stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Operation, SSAValue

from glow_dialects.core.types import shape_of, tensor
from glow_dialects.ops.arithmetic import AddOp, MulOp, SubOp
from glow_dialects.ops.control import LoopOp, yielded
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.literal import LiteralOp
from glow_frontends.graph import Emitter, NeedsHost, NeedsValue, RuleError, Value, loops, type_of
from glow_frontends.graph.loops import FEW_NODES
from glow_frontends.stablehlo.node import Blocked, Node, Rule, op_name
from glow_frontends.stablehlo.values import cast


@dataclass
class _Counter:
    """A value of the state that grows by `step` in each of so many turns."""

    index: int
    step: int
    turns: int

    def at(self, g: Emitter, number: Value, start: Value) -> Value:
        """Its value in a turn, in its own type."""
        steps = number if self.step == 1 else g(MulOp, number, np.array(self.step, np.int64))
        own = cast(g, steps, type_of(start).element_type)
        return own if isinstance(start, np.ndarray) and not start.any() else g(AddOp, own, start)


def while_(g: Emitter, n: Node) -> Sequence[Value]:
    """while: written out where it is short and its turns are known, else a loop at run time."""
    inits = list(n.operands)
    kept = _unchanged(n)
    counter = _counter(n, inits)
    if counter is not None and counter.turns * n.program.size_of(n.block(1)) <= FEW_NODES:
        state = inits
        for _ in range(counter.turns):
            state = n.region(1, state)
        return state
    if counter is None:
        return _Loop(g, n, inits, [i for i in range(len(inits)) if i not in kept]).run()
    moving = [i for i in range(len(inits)) if i not in kept and i != counter.index]
    return _Counted(g, n, inits, moving, counter).run()


@dataclass
class _Loop:
    """A loop whose state is what moves."""

    g: Emitter
    n: Node
    inits: list[Value]
    moving: Sequence[int]

    def values(self, now: Sequence[Value]) -> list[Value]:
        """The whole state, of the part that moves."""
        every = list(self.inits)
        for i, value in zip(self.moving, now, strict=True):
            every[i] = value
        return every

    def run(self) -> Sequence[Value]:
        """The state after the loop."""
        begins = self.n.region(0, self.inits)[0]
        if isinstance(begins, np.ndarray) and not begins.any():
            return self.inits
        going = None if isinstance(begins, np.ndarray) else self.g.value(begins)

        def turn(arguments: Sequence[SSAValue]) -> list[Value]:
            new = self.n.region(1, self.values(arguments[1:]))
            results = [new[i] for i in self.moving]
            return [self.n.region(0, self.values(results))[0], *results]

        state = [self.g.value(self.inits[i]) for i in self.moving]
        body = self.g.body([tensor((), i64), *(v.type for v in state)], turn)
        if [v.type for v in yielded(body).values[1:]] != [v.type for v in state]:
            raise RuleError("a loop that changes the types of its state")
        return self.values(self.g.builder.insert(LoopOp.of(None, going, state, body)).outputs)


@dataclass
class _Counted(_Loop):
    """A loop of a known number of turns; what it counts is made of the number of the turn."""

    counter: _Counter

    def run(self) -> Sequence[Value]:
        g, counter = self.g, self.counter
        stacks = self._stacks()
        state = [i for i in self.moving if i not in stacks]
        blocked: list[Blocked] = []

        def turn(number: Value, now: Sequence[Value]) -> tuple[Value, Sequence[Value], Sequence[Value]]:
            try:
                new = self._turn(number, dict(zip(state, now, strict=True)))[1]
            except Blocked as error:
                blocked.append(error)
                raise
            rows = [self.n.program.written[g.value(new[i])].row for i in stacks]
            return np.array(True), [new[i] for i in state], rows

        limit = np.array(counter.turns, np.int64)
        first = [g.value(self.inits[i]) for i in state]
        try:
            results = loops.Loop(g, _Stands(), limit, np.array(True), first, turn).run()
        except NeedsHost:
            raise RuleError("a loop that changes the types of its state, or stacks too much") from None
        except NeedsValue as error:
            raise (blocked[0] if blocked else error) from None
        every = list(self.inits)
        for i, value in zip([*state, *stacks], results, strict=True):
            assert isinstance(value, np.ndarray | SSAValue)
            every[i] = g(FlipOp, value, axes=(0,)) if stacks.get(i) else value
        every[counter.index] = counter.at(g, limit, self.inits[counter.index])
        return every

    def _turn(self, number: Value, now: dict[int, Value]) -> tuple[Value, list[Value]]:
        """What is counted in a turn, and the state after it."""
        every = [now.get(i, value) for i, value in enumerate(self.inits)]
        count = every[self.counter.index] = self.counter.at(self.g, number, self.inits[self.counter.index])
        return count, self.n.region(1, every)

    def _stacks(self) -> dict[int, bool]:
        """The values of which every turn writes a row of its own and reads nothing; and whether from the end.

        Found in a body that is made for that alone.
        """
        found: dict[int, bool] = {}

        def probe(arguments: Sequence[SSAValue]) -> list[Value]:
            count, new = self._turn(arguments[0], dict(zip(self.moving, arguments[1:], strict=True)))
            for i, argument in zip(self.moving, arguments[1:], strict=True):
                result = new[i]
                written = self.n.program.written.get(result) if isinstance(result, SSAValue) else None
                if written is None or written.tensor is not argument or not argument.has_one_use():
                    continue
                places = _line(written.place, count)
                last = self.counter.turns - 1
                if shape_of(argument)[0] == last + 1 and places in ((1, 0), (-1, last)):
                    found[i] = places[0] < 0
            return [np.array(True)]

        state = [self.g.value(self.inits[i]) for i in self.moving]
        self.g.body([tensor((), i64), *(v.type for v in state)], probe)
        return found


@dataclass
class _Stands:
    """What the loops of ONNX ask of their node."""

    op: str = "while"
    problems: list[object] = field(default_factory=list[object])

    @property
    def scope(self) -> _Stands:
        """Where problems would be noted."""
        return self


def _line(value: Value, count: Value) -> tuple[int, int] | None:
    """(factor, offset) where a value is the count times a factor and an offset."""
    if value is count:
        return 1, 0
    if isinstance(value, np.ndarray):
        return (0, int(value)) if value.ndim == 0 else None
    owner = value.owner
    if isinstance(owner, LiteralOp):
        return _line(owner.array(), count)
    if isinstance(owner, AddOp | SubOp):
        x, y = _line(owner.lhs, count), _line(owner.rhs, count)
        sign = 1 if isinstance(owner, AddOp) else -1
        return None if x is None or y is None else (x[0] + sign * y[0], x[1] + sign * y[1])
    return None


def _returned(block: Block) -> Sequence[SSAValue]:
    last = block.last_op
    return () if last is None else last.operands


def _unchanged(n: Node) -> set[int]:
    """The values of the state that every turn hands on as they are."""
    block = n.block(1)
    return {i for i, v in enumerate(_returned(block)) if v is block.args[i]}


def _counter(n: Node, inits: Sequence[Value]) -> _Counter | None:
    """That of a loop `while i < limit: ...; i += step`, all known."""
    test, body = n.block(0), n.block(1)
    (condition,) = _returned(test)
    op = condition.owner
    if not isinstance(op, Operation) or op_name(op) != "stablehlo.compare":
        return None
    if Node(op, [], n.program).word("comparison_direction") != "LT" or op.operands[0] not in test.args:
        return None
    place = [a is op.operands[0] for a in test.args].index(True)
    limit, step = _known(n, op.operands[1], inits), _step(n, body, place, inits)
    start = inits[place]
    if limit is None or step is None or step < 1 or not isinstance(start, np.ndarray):
        return None
    return _Counter(place, step, max(-(-(limit - int(start)) // step), 0))


def _step(n: Node, body: Block, place: int, inits: Sequence[Value]) -> int | None:
    """What a turn adds to a value of the state."""
    op = _returned(body)[place].owner
    if not isinstance(op, Operation) or op_name(op) != "stablehlo.add":
        return None
    for value, other in (op.operands, tuple(op.operands)[::-1]):
        if value is body.args[place]:
            return _known(n, other, inits)
    return None


def _known(n: Node, value: SSAValue, inits: Sequence[Value]) -> int | None:
    """A number that stays the same in all turns and is known."""
    owner = value.owner
    if isinstance(owner, Block):
        inside = owner is n.block(0) or owner is n.block(1)
        place = [a is value for a in owner.args].index(True)
        number = n.program.find(value) if not inside else inits[place] if place in _unchanged(n) else None
    elif op_name(owner) == "stablehlo.constant":
        number = Node(owner, [], n.program).array("value")
    else:
        number = n.program.find(value)
    if not isinstance(number, np.ndarray) or number.size != 1 or number.dtype.kind not in "iu":
        return None
    return int(number.reshape(-1)[0])


RULES: dict[str, Rule] = {"while": while_}
