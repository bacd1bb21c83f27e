"""The number of iterations of a loop, where it is known, and the counters in its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import GraphProto
from xdsl.ir import SSAValue

from glow_dialects.core.types import Array
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to
from glow_frontends.onnx.model import uses
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.values import AnyValue

#: Loops of more turns are not foreseen.
MAX_TURNS = 1 << 16
ENDLESS = 1 << 31
#: Turns after which state that grew evenly is taken for a counter, if only these operators make it.
SURE = 4
CONVEX = {
    *("Add", "And", "Cast", "Constant", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual"),
    *("Reshape", "Squeeze", "Sub", "Unsqueeze"),
}


@dataclass
class Counter:
    """State that grows by the same number every turn, and what it is after the last one."""

    first: Array
    step: int
    last: Array

    def after(self, turns: int) -> Array:
        """The state after so many turns."""
        return np.asarray(self.first + np.array(self.step * turns).astype(self.first.dtype))

    def at(self, g: Emitter, number: Value) -> Value:
        """The state in an iteration."""
        moved = g(MulOp, number, np.array(self.step, np.int64))
        wide = g(AddOp, moved, np.array(int(self.first.reshape(-1)[0]), np.int64))
        return g.reshape(cast_to(g, wide, self.first.dtype), self.first.shape)


@dataclass
class Forecast:
    """The number of turns, and the counters among the state by their places."""

    turns: int
    values: dict[int, Counter]


def forecast(
    n: Node, body: GraphProto, limit: Value | None, going: Value, state: Sequence[Value]
) -> Forecast | None:
    """The forecast of a loop whose condition depends on known state only; None for others.

    Only the nodes that the condition needs are evaluated, turn by turn. Where these only compare counters,
    the turns that go on are an interval, whose end is found by bisection.
    """
    most = int(limit.reshape(-1)[0]) if isinstance(limit, np.ndarray) else ENDLESS
    if isinstance(limit, SSAValue) or not isinstance(going, np.ndarray):
        return None
    part, places = _what_decides(body)
    first = [state[k] for k in places]
    if not all(isinstance(v, np.ndarray) for v in first):
        return None
    watch = _Watch(n, part, places, len(state))
    history: list[list[Array]] = [[v] for v in first if isinstance(v, np.ndarray)]
    on, turns = bool(going.reshape(-1)[0]), 0
    while on and turns < most:
        if turns == SURE and all(x.op_type in CONVEX for x in part.node):
            counters = [_counter(h) for h in history]
            if all(counters):
                return _bisected(watch, [c for c in counters if c], most)
        result = watch.turn(turns, [h[-1] for h in history])
        if result is None or turns >= MAX_TURNS:
            return None
        on = result[0]
        for values, value in zip(history, result[1], strict=True):
            values.append(value)
        turns += 1
    return Forecast(turns, {k: c for k, h in zip(places, history, strict=True) if (c := _counter(h))})


@dataclass
class _Watch:
    """Turns of the part of a body that decides."""

    n: Node
    part: GraphProto
    places: list[int]
    width: int

    def turn(self, number: int, state: Sequence[Array]) -> tuple[bool, list[Array]] | None:
        """Whether the loop goes on after a turn, and the state then; None where that is not known."""
        inputs: dict[int, AnyValue] = dict(zip(self.places, state, strict=True))
        values = [np.array(number, np.int64), np.array(True), *(inputs.get(k) for k in range(self.width))]
        try:
            results = self.n.scope.subgraph(self.part, values)  # pyright: ignore[reportArgumentType]
        except RuleError:
            return None
        known = [v for v in results if isinstance(v, np.ndarray)]
        return (bool(known[0].reshape(-1)[0]), known[1:]) if len(known) == len(results) else None


def _bisected(watch: _Watch, counters: Sequence[Counter], most: int) -> Forecast | None:
    """The first turn after which the loop ends, among turns of which the first SURE go on."""

    def ends(turn: int) -> bool:
        outcome = watch.turn(turn, [c.after(turn) for c in counters])
        return outcome is None or not outcome[0]

    low, high = SURE - 1, SURE  # the loop goes on after `low`
    while high < most and not ends(high):
        low, high = high, 2 * high
    high = min(high, most - 1)
    if high == ENDLESS - 1:
        return None
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if ends(middle) else (middle, high)
    turns = high + 1
    counters_after = {k: replace(c, last=c.after(turns)) for k, c in zip(watch.places, counters, strict=True)}
    return Forecast(turns, counters_after)


def _what_decides(body: GraphProto) -> tuple[GraphProto, list[int]]:
    """The part of a body that its condition needs, and which state that reads."""
    inputs, outputs = [i.name for i in body.input], [o.name for o in body.output]
    needed, before = {outputs[0]}, 0
    nodes = list(body.node)
    while len(needed) > before:
        before = len(needed)
        for node in reversed(nodes):
            if any(o in needed for o in node.output):
                needed |= uses(node)
        needed |= {o for i, o in zip(inputs[2:], outputs[1:], strict=False) if i in needed}
    places = [k for k, name in enumerate(inputs[2:]) if name in needed]
    part = GraphProto(name=body.name)
    part.node.extend(node for node in nodes if any(o in needed for o in node.output))
    part.initializer.extend(i for i in body.initializer if i.name in needed)
    part.input.extend(body.input)
    part.output.extend([body.output[0], *(body.output[1 + k] for k in places)])
    return part, places


def _counter(history: Sequence[Array]) -> Counter | None:
    """A counter with these values, if it is one."""
    first, last = history[0], history[-1]
    if first.dtype.kind not in "iu" or any(v.size != 1 or v.shape != first.shape for v in history):
        return None
    steps = {
        int(b.reshape(-1)[0]) - int(a.reshape(-1)[0]) for a, b in zip(history, history[1:], strict=False)
    }
    return Counter(first, steps.pop() if steps else 0, last) if len(steps) <= 1 else None
