"""Loops that are not unrolled: state, and values of each iteration written into memory of a known size.

What the turns stack is written row by row. A turn makes a new tensor of what it writes into, so that long
loops write into a small block, and after some turns the block into the whole: the work grows with the
number of turns times its root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any, Protocol, TypeAlias

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.extent import is_open, size
from glow_dialects.core.types import Tensor, dtype_of, element_of, shape_of, tensor, typed
from glow_dialects.ops.arithmetic import AddOp, MinOp, MulOp, SubOp
from glow_dialects.ops.control import LoopOp, counts_only, yielded
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_dialects.ops.splat import SplatOp
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.errors import NeedsHost, NeedsValue, RuleError
from glow_frontends.graph.movement import cut
from glow_frontends.graph.sizes import sizes_of
from glow_frontends.graph.values import BoundedValue, Value, rank, shape

#: (number of the turn, state) -> whether to go on, the new state, what this turn adds to each stack.
Turn: TypeAlias = Callable[[Value, Sequence[Value]], "tuple[Value, Sequence[Value], Sequence[Value]]"]
#: Loops that make more nodes are not written out where they can stay loops, and above MAX_NODES never.
FEW_NODES = 512
MAX_NODES = 4096
#: Bytes of stacks that are written at once, without blocks.
SMALL_STACK = 1 << 15
#: Elements that a stack has room for at most; other loops run on the host, which knows when they end.
MAX_STACK = 1 << 24


class Problems(Protocol):
    """Where what is wrong with a body is noted."""

    @property
    def problems(self) -> list[Any]:
        """Of which those of a body that is given up are taken back."""
        ...


class Looping(Protocol):
    """The node that a loop stands for."""

    @property
    def op(self) -> str:
        """The operator's name."""
        ...

    @property
    def scope(self) -> Problems:
        """The graph around it."""
        ...


def is_open_count(limit: Value) -> bool:
    """Whether the number of turns is a size that only the run tells."""
    sizes = sizes_of(limit) if isinstance(limit, SSAValue) else None
    return sizes is not None and is_open(list(sizes.reshape(-1)))


def body_of(
    g: Emitter,
    n: Looping,
    kinds: Sequence[Attribute],
    make: Callable[[Sequence[SSAValue]], Sequence[Value]],
    cause: SSAValue | None = None,
) -> Block:
    """The body of an operation, emitted by `make`; NeedsValue (of `cause`) where it is not static."""
    problems = n.scope.problems
    before = len(problems)
    try:
        with g.within(turning=g.scope.turning or bool(kinds)):
            return g.body(kinds, make)
    except (RuleError, VerifyException) as error:
        del problems[before:]
        raise NeedsValue(cause, f"a body of {n.op} ({error}), which") from None


@dataclass
class Loop:
    """At most `limit` iterations (None: no limit); the first one runs only if `going` is true."""

    g: Emitter
    n: Looping
    limit: Value | None
    going: Value
    state: Sequence[SSAValue]
    turn: Turn
    #: Whether all turns are done; found when the body is made.
    always: bool = False

    def run(self) -> list[Value | BoundedValue]:
        """The state after the last turn, and the stacks along a new first axis.

        Raises NeedsHost where a turn changes a type, or the number of rows has no bound.
        """
        counts = self.limit is not None and is_open_count(self.limit)
        with self.g.within(counting=self.g.scope.counting or counts):
            return self._run(counts)

    def _run(self, counts: bool) -> list[Value | BoundedValue]:
        kinds = [v.type for v in self.state]
        body = self._body(kinds)
        types = [v.type for v in yielded(body).values[1:]]
        if types[: len(kinds)] != kinds:
            raise NeedsHost(self.n.op)
        rows = [typed(v) for v in yielded(body).values[1 + len(kinds) :]]
        if not rows:
            return list(self._loop(self.limit, self.going, self.state, body))
        self.always &= _is_true(self.going)
        if counts and not self.always:
            raise NeedsValue(None, "how many rows it stacks")
        most = _count(self.limit)
        if most < 1 or (not counts and most * max(prod(shape_of(r)) for r in rows) > MAX_STACK):
            raise NeedsHost(self.n.op)
        if counts or (self.always and counts_only(body)):
            state, stacks, _ = self._rows(self.limit, None, self.state, [], rows, most)
            return [*state, *stacks]
        state, stacks, ended = self._stacked(most, rows)
        return [*state, *(s if self.always else self.g.bounded(s, 0, ended[0]) for s in stacks)]

    def _body(self, kinds: Sequence[Attribute], first: Value | None = None, rows: int = 0) -> Block:
        """A turn. For `rows` > 0 the state of the loop is ours, stacks of so many rows, how it ended;
        else what a turn adds follows the state that it yields."""
        g, width = self.g, len(self.state)

        def make(values: Sequence[SSAValue]) -> list[Value]:
            number = g.value(values[0] if first is None else g(AddOp, values[0], first))
            if isinstance(self.limit, np.ndarray):
                g.turns[number] = int(self.limit.reshape(-1)[0])
            going, state, added = self.turn(number, values[1 : 1 + width])
            going = g.reshape(going, ())
            if not rows:
                self.always = _is_true(going)
                return [going, *state, *added]
            stacks = [_written(g, s, values[0], v) for s, v in zip(values[1 + width :], added, strict=False)]
            count = [] if self.always else [g(AddOp, values[-2], np.array(1, np.int64)), going]
            return [going, *state, *stacks, *count]

        return body_of(g, self.n, [tensor((), i64), *kinds], make)

    def _loop(
        self, limit: Value | None, going: Value, state: Sequence[SSAValue], body: Block
    ) -> Sequence[SSAValue]:
        bound = None if limit is None else self.g.value(self.g.reshape(limit, ()))
        start = None if _is_true(going) else self.g.value(self.g.reshape(going, ()))
        return self.g.builder.insert(LoopOp.of(bound, start, state, body)).outputs

    # --- stacks: state, stacks, and unless all turns are done their number and whether to go on ------
    def _stacked(
        self, most: int, rows: Sequence[Tensor]
    ) -> tuple[Sequence[SSAValue], list[Value], list[SSAValue]]:
        g = self.g
        begin: list[Value] = [] if self.always else [np.zeros((), np.int64), g.reshape(self.going, ())]
        ended = [g.value(v) for v in begin]
        total = most * sum(prod(shape_of(r)) * dtype_of(r).itemsize for r in rows)
        if total <= SMALL_STACK:
            return self._rows(np.array(most, np.int64), None, self.state, ended, rows, most)
        return self._blocks(most, isqrt(most - 1) + 1, ended, rows)

    def _rows(
        self,
        limit: Value | None,
        first: Value | None,
        state: Sequence[SSAValue],
        ended: Sequence[SSAValue],
        rows: Sequence[Tensor],
        each: int,
    ) -> tuple[Sequence[SSAValue], list[Value], list[SSAValue]]:
        """A loop that writes `each` rows at most, of turns from `first` on."""
        carried = [*state, *(self._room(each, r) for r in rows), *ended]
        body = self._body([v.type for v in carried], first, each)
        return self._parts(
            self._loop(limit, np.array(True) if not ended else ended[1], carried, body), len(rows)
        )

    def _blocks(
        self, most: int, each: int, ended: Sequence[SSAValue], rows: Sequence[Tensor]
    ) -> tuple[Sequence[SSAValue], list[Value], list[SSAValue]]:
        """A loop over blocks of `each` rows around the loop over rows."""
        g = self.g
        blocks = -(-most // each)
        carried = [
            *self.state,
            *(self._room(blocks, tensor((each, *shape_of(r)), element_of(r))) for r in rows),
            *ended,
        ]

        def make(values: Sequence[SSAValue]) -> list[Value]:
            first = g(MulOp, values[0], np.array(each, np.int64))
            rest = g(MinOp, g(SubOp, np.array(most, np.int64), first), np.array(each, np.int64))
            state, whole, last = self._parts(values[1:], len(rows))
            state, blocks_of_rows, last = self._rows(rest, first, state, last, rows, each)
            stacks = [
                _written(g, w, values[0], g.value(v)) for w, v in zip(whole, blocks_of_rows, strict=True)
            ]
            return [last[1] if last else np.array(True), *state, *stacks, *last]

        body = body_of(g, self.n, [tensor((), i64), *(v.type for v in carried)], make)
        going = np.array(True) if not ended else ended[1]
        results = self._loop(np.array(blocks, np.int64), going, carried, body)
        state, whole, last = self._parts(results, len(rows))
        flat = [g.reshape(v, (blocks * each, *shape(v)[2:])) for v in whole]
        return state, [cut(g, v, [0] * rank(v), [most, *shape(v)[1:]]) for v in flat], last

    def _parts(
        self, values: Sequence[SSAValue], stacks: int
    ) -> tuple[Sequence[SSAValue], list[Value], list[SSAValue]]:
        width = len(self.state)
        return values[:width], list(values[width : width + stacks]), list(values[width + stacks :])

    def _room(self, count: int, row: Tensor) -> SSAValue:
        kind = tensor((count, *shape_of(row)), element_of(row))
        if is_open(shape_of(kind)):
            return self.g.value(self.g(SplatOp, results=kind, value=0.0))
        return self.g.value(np.zeros(shape_of(kind), dtype_of(row)))


def _count(limit: Value | None) -> int:
    """The number that limits the turns, known or a size that only the run tells; 0 where there is none."""
    sizes = None if limit is None else sizes_of(limit)
    return 0 if sizes is None else size(sizes.reshape(-1)[0])


def _is_true(value: Value) -> bool:
    return isinstance(value, np.ndarray) and bool(value.all())


def _written(g: Emitter, whole: Value, number: SSAValue, row: Value) -> Value:
    """`whole` with a row."""
    return g(ScatterNdOp, whole, g.reshape(number, (1, 1)), g.reshape(row, (1, *shape(row))))
