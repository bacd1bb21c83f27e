"""Rules of control flow: branches with known conditions, loops with known trip counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from onnx import GraphProto, TypeProto
from xdsl.ir import SSAValue

from glow_dialects.core.errors import OpenSizes
from glow_dialects.core.extent import is_open
from glow_dialects.ops.control import IfOp, yielded
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, NeedsHost, NeedsValue, RuleError, counts, loops
from glow_frontends.graph.axes import axis_of
from glow_frontends.graph.loops import FEW_NODES, MAX_NODES
from glow_frontends.graph.movement import element, join
from glow_frontends.graph.values import BoundedValue, Value, dtype_of_value, rank, shape
from glow_frontends.onnx.model import label, uses
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.forecast import forecast
from glow_frontends.onnx.rules.rule import Versions, per_axis
from glow_frontends.onnx.tensors import numpy_type
from glow_frontends.onnx.values import AnyValue, NoneValue, SequenceValue, StackedValue

#: Nodes in two branches that may both run where the condition is not known.
MAX_BRANCHES = 200
#: Bytes by which a loop over known values may grow them while it is unrolled.
MAX_GROWTH = 1 << 27
#: A loop over known values that has not ended after this many iterations never does.
MAX_ITERATIONS = 1 << 20


def if_(g: Emitter, n: Node) -> list[AnyValue]:
    """If: the chosen branch in place; with an unknown condition both, where their shapes agree."""
    condition = n[0]
    if isinstance(condition, SSAValue):
        return _both(g, n, condition)
    taken = bool(condition.reshape(-1)[0])
    return n.scope.subgraph(n.graph("then_branch" if taken else "else_branch"))


def _both(g: Emitter, n: Node, condition: SSAValue) -> list[AnyValue]:
    """A selection between two short branches' results, else a branch at run time; in the bodies of loops and
    branches the other way round, but for loops of as many turns as a size that only the run tells."""
    graphs = [n.graph(name) for name in ("then_branch", "else_branch")]
    stay = stays(g, n) and not g.scope.counting
    ways = [_selected, _branch][:: -1 if g.scope.inner else 1] if stay else [_selected]
    for way in ways[:-1]:
        try:
            return way(g, n, condition, *graphs)
        except NeedsValue:
            pass
    return ways[-1](g, n, condition, *graphs)


def stays(g: Emitter, n: Node) -> bool:
    """Whether control flow may stay: not in a branch that is computed whether or not it is taken."""
    return n.scope.control and not g.scope.guessing


def _selected(g: Emitter, n: Node, condition: SSAValue, *graphs: GraphProto) -> list[AnyValue]:
    """Both branches, and a selection of each output: right as all operators are free of effects."""
    if sum(len(graph.node) for graph in graphs) > MAX_BRANCHES:
        raise NeedsValue(condition, "which of two long branches runs")
    problems = n.scope.problems
    before = len(problems)
    try:
        with g.within(guessing=True):
            sides = [n.scope.subgraph(graph) for graph in graphs]
    except RuleError:
        del problems[before:]  # of a branch that may never run
        raise NeedsValue(condition, "which branch runs") from None
    chosen = g.reshape(condition, ())
    out: list[AnyValue] = []
    for yes, no in zip(*sides, strict=True):
        if isinstance(yes, BoundedValue) or isinstance(no, BoundedValue):
            out.append(_longer(g, chosen, yes, no, condition))
            continue
        if not (isinstance(yes, np.ndarray | SSAValue) and isinstance(no, np.ndarray | SSAValue)):
            raise NeedsValue(condition, "a branch that yields a sequence")
        if shape(yes) != shape(no) or dtype_of_value(yes) == object:
            raise NeedsValue(condition, "the shape of a branch's result")
        out.append(g(SelectOp, chosen, yes, no))
    return out


def _longer(g: Emitter, test: Value, yes: AnyValue, no: AnyValue, condition: SSAValue) -> AnyValue:
    """A selection of results of which one has a length that only the run tells."""
    kinds = (np.ndarray, SSAValue, BoundedValue)
    longer = counts.chosen(g, test, yes, no) if isinstance(yes, kinds) and isinstance(no, kinds) else None
    if longer is None:
        raise NeedsValue(condition, "the shape of a branch's result")
    return longer


def _branch(g: Emitter, n: Node, condition: SSAValue, *graphs: GraphProto) -> list[AnyValue]:
    """A branch at run time; NeedsValue where the values of both are not tensors of the same types."""
    blocks = [
        loops.body_of(g, n, (), lambda _, graph=graph: _tensors(n.scope.subgraph(graph)), condition)
        for graph in graphs
    ]
    kinds = [[v.type for v in yielded(block).values] for block in blocks]
    if kinds[0] != kinds[1]:
        raise NeedsValue(condition, "the shape of a branch's result")
    return list(g.builder.insert(IfOp.of(g.value(g.reshape(condition, ())), *blocks)).outputs)


def _tensors(values: Sequence[AnyValue]) -> list[Value]:
    """The values of a body that stays one."""
    tensors = [_tensor(v) for v in values]
    if any(isinstance(v, np.ndarray) and v.dtype == object for v in tensors):
        raise RuleError("strings")
    return tensors


def loop(g: Emitter, n: Node) -> list[AnyValue]:
    """Loop, written out where it is short and every turn's condition is known, else a loop at run time."""
    body = n.graph("body")
    if n.get(0) is not None and loops.is_open_count(n[0]):
        return _of_open_length(n, lambda: _turns(g, n, body))
    return _shortest(g, n, lambda most: _unrolled(g, n, body, most), lambda: _turns(g, n, body))


def _of_open_length(n: Node, turns: Callable[[], list[AnyValue]]) -> list[AnyValue]:
    """A loop of as many turns as a size that only the run tells; OpenSizes says why it cannot be one."""
    try:
        return turns()
    except NeedsValue as error:
        raise OpenSizes(f"{n.op} '{label(n.proto)}': {error}") from None


def _shortest(
    g: Emitter, n: Node, unrolled: Callable[[int], list[AnyValue]], turns: Callable[[], list[AnyValue]]
) -> list[AnyValue]:
    """A short loop written out; a long one as a loop where that can be made, and else written out, too."""
    if not stays(g, n):
        return unrolled(FEW_NODES if n.scope.control else MAX_NODES)
    for way in (lambda: unrolled(FEW_NODES), turns):
        try:
            return way()
        except NeedsValue:
            pass
    return unrolled(MAX_NODES)


def _turns(g: Emitter, n: Node, body: GraphProto) -> list[AnyValue]:
    """A loop at run time, whose state keeps its types; sequences that it only appends to are stacks."""
    first = [_initial(n, i) for i in range(2, len(n.inputs))]
    grown = [k for k, value in enumerate(first) if isinstance(value, SequenceValue)]
    if not all(_appends(n, body, k) for k in grown):
        raise NeedsValue(None, "a sequence that a loop changes")
    tensors = [np.array(0) if k in grown else _tensor(value) for k, value in enumerate(first)]
    going = np.array(True) if n.get(1) is None else n[1]
    counters = forecast(n, body, n.get(0), going, tensors)
    known = {} if counters is None else counters.values
    kept = [k for k in range(len(first)) if k not in known and k not in grown]

    def turn(number: Value, now: Sequence[Value]) -> tuple[Value, list[Value], list[Value]]:
        state = iter(now)
        values = [
            first[k] if k in grown else known[k].at(g, number) if k in known else next(state)
            for k in range(len(first))
        ]
        # The condition that a body gets says that the loop goes on.
        again, *results = n.scope.subgraph(body, [number, np.array(True), *values])
        on = _tensor(again) if counters is None else np.array(True)
        added = [*results[len(first) :], *(_only(results[k]) for k in grown)]
        return on, _tensors([results[k] for k in kept]), _tensors(added)

    limit, start = n.get(0), going
    if counters is not None:
        limit, start = np.array(counters.turns, np.int64), np.array(True)
    results = loops.Loop(g, n, limit, start, [g.value(tensors[k]) for k in kept], turn).run()
    state: dict[int, AnyValue] = {k: counter.last for k, counter in known.items()}
    state |= dict(zip(kept, results, strict=False))
    stacks = results[len(kept) :]
    ordinary = len(stacks) - len(grown)
    for k, rows in zip(grown, map(_tensor, stacks[ordinary:]), strict=True):
        state[k] = StackedValue(rows, partial(element, g, rows, 0))
    return [*(state[k] for k in range(len(first))), *stacks[:ordinary]]


def _appends(n: Node, body: GraphProto, index: int) -> bool:
    """Whether a loop only puts one element a turn at the end of a sequence of its state, empty at first."""
    first = n.any_input(2 + index)
    before, after = body.input[2 + index].name, body.output[1 + index].name
    readers = [node for node in body.node if before in uses(node)]
    if not isinstance(first, SequenceValue) or isinstance(first, StackedValue) or first.items:
        return False
    if len(readers) != 1 or readers[0].op_type != "SequenceInsert" or any(readers[0].input[2:]):
        return False
    result = readers[0].output[0]
    return result == after and not any(result in uses(node) for node in body.node)


def _only(value: AnyValue) -> AnyValue:
    """The element that a turn put into a sequence that it found empty."""
    assert isinstance(value, SequenceValue)
    (item,) = value.items
    return item


def _unrolled(g: Emitter, n: Node, body: GraphProto, most_nodes: int) -> list[AnyValue]:
    limit = None if n.get(0) is None else g.integer(n[0], "the trip count of Loop")
    going = n.get(1) is None or bool(g.known(n[1], "the condition of Loop").reshape(-1)[0])
    state: list[AnyValue] = [_initial(n, i) for i in range(2, len(n.inputs))]
    scans: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    count, stacked, most = 0, 0, _bytes(state) + MAX_GROWTH
    outputs = state
    while going and (limit is None or count < limit):
        _check_length(n, count, body, outputs, most_nodes)
        if _bytes(state) + stacked > most:
            raise RuleError(f"a loop that makes constants of more than {MAX_GROWTH >> 20} MiB")
        inputs: list[AnyValue] = [np.array(count, np.int64), np.array(True), *state]
        outputs = n.scope.subgraph(body, inputs)
        going = bool(g.known(_tensor(outputs[0]), "the condition of Loop").reshape(-1)[0])
        state = outputs[1 : 1 + len(state)]
        for collected, value in zip(scans, outputs[1 + len(state) :], strict=True):
            collected.append(_tensor(value))
        stacked += _bytes(outputs[1 + len(state) :])
        count += 1
    kinds = [o.type.tensor_type for o in body.output[1 + len(state) :]]
    return [*state, *(_stack(g, parts, kind, 0) for parts, kind in zip(scans, kinds, strict=True))]


def _bytes(values: Sequence[AnyValue]) -> int:
    """The memory of values that are known."""
    return sum(v.nbytes for v in values if isinstance(v, np.ndarray))


def _check_length(n: Node, steps: int, body: GraphProto, values: Sequence[AnyValue], nodes: int) -> None:
    """Refuse to write out loops over run-time data that make more than `nodes`."""
    if steps >= MAX_ITERATIONS:
        raise RuleError(f"a loop that has not ended after {steps} iterations")
    computed = any(isinstance(v, SSAValue | BoundedValue) for v in values)
    if computed and steps * max(len(body.node), 1) > nodes:
        raise NeedsHost(n.op)


def _initial(n: Node, index: int) -> AnyValue:
    value = n.any_input(index)
    if value is None:
        raise RuleError(f"input {index} is missing")
    return value


def _tensor(value: AnyValue) -> Value:
    if isinstance(value, BoundedValue):
        raise NeedsValue(None, "the length of a tensor")
    if not isinstance(value, np.ndarray | SSAValue):
        raise RuleError("a sequence where a tensor is expected")
    return value


def _stack(g: Emitter, parts: list[Value], kind: TypeProto.Tensor | None, axis: int) -> Value:
    if not parts:
        if kind is None:
            raise RuleError("there is nothing to stack")
        dims = [d.dim_value for d in kind.shape.dim]
        return np.zeros((0, *dims), numpy_type(kind.elem_type))
    wide: list[Value] = []
    for part in parts:
        dims = list(shape(part))
        dims.insert(axis, 1)
        wide.append(g.reshape(part, dims))
    return join(g, wide, axis)


def scan(g: Emitter, n: Node) -> list[AnyValue]:
    """Scan, written out where it is short; version 8 has a batch axis and optional lengths."""
    if n.opset < 9:
        return _batched_scan(g, n)
    inputs = [n[i] for i in range(len(n.inputs))]
    first, sources = _scan_parts(g, n, inputs)
    if is_open(shape(sources[0])[:1]):
        return _of_open_length(n, lambda: _scanned(g, n, first, sources))
    return _shortest(
        g, n, lambda most: _scan(g, n, first, sources, most), lambda: _scanned(g, n, first, sources)
    )


def _scan_parts(g: Emitter, n: Node, inputs: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """The initial state, and what is scanned with its axis in front and in the order of the turns."""
    count = n.integer("num_scan_inputs")
    states = len(inputs) - count
    if count < 1 or states < 0:
        raise RuleError(f"num_scan_inputs is {count} of {len(inputs)} inputs")
    axes = per_axis(n, "scan_input_axes", (0,) * count)
    backwards = per_axis(n, "scan_input_directions", (0,) * count)
    sources: list[Value] = []
    for source, axis, back in zip(inputs[states:], axes, backwards, strict=True):
        source = _moved(g, source, axis_of(axis, rank(source)), 0)
        sources.append(g(FlipOp, source, axes=(0,)) if back else source)
    return list(inputs[:states]), sources


def _scan_results(g: Emitter, n: Node, stacks: Sequence[Value]) -> list[AnyValue]:
    """Stacks of the turns' values with their axes and directions."""
    axes = per_axis(n, "scan_output_axes", (0,) * len(stacks))
    backwards = per_axis(n, "scan_output_directions", (0,) * len(stacks))
    results: list[AnyValue] = []
    for stack, axis, back in zip(stacks, axes, backwards, strict=True):
        turned = g(FlipOp, stack, axes=(0,)) if back else stack
        results.append(_moved(g, turned, 0, axis_of(axis, rank(stack))))
    return results


def _moved(g: Emitter, x: Value, source: int, target: int) -> Value:
    """An axis at another place."""
    order = [i for i in range(rank(x)) if i != source]
    order.insert(target, source)
    return g.transpose(x, order)


def _scan(
    g: Emitter, n: Node, first: Sequence[Value], sources: Sequence[Value], most_nodes: int
) -> list[AnyValue]:
    """Scan, written out."""
    body = n.graph("body")
    state: list[AnyValue] = [*first]
    length = shape(sources[0])[0]
    _check_length(n, length, body, [*state, *sources], most_nodes)
    collected: list[list[Value]] = [[] for _ in range(len(body.output) - len(state))]
    for step in range(length):
        items = [element(g, s, 0, step) for s in sources]
        outputs = n.scope.subgraph(body, [*state, *items])
        state = outputs[: len(state)]
        for parts, value in zip(collected, outputs[len(state) :], strict=True):
            parts.append(_tensor(value))
    infos = [o.type.tensor_type for o in body.output[len(state) :]]
    stacks = [_stack(g, parts, info, 0) for parts, info in zip(collected, infos, strict=True)]
    return [*state, *_scan_results(g, n, stacks)]


def _scanned(g: Emitter, n: Node, first: Sequence[Value], sources: Sequence[Value]) -> list[AnyValue]:
    """Scan, as a loop."""
    body = n.graph("body")
    state = [g.value(v) for v in first]

    def turn(number: Value, now: Sequence[Value]) -> tuple[Value, list[Value], list[Value]]:
        items = [g(GatherOp, s, number, axis=0) for s in sources]
        results = _tensors(n.scope.subgraph(body, [*now, *items]))
        return np.array(True), results[: len(state)], results[len(state) :]

    length = g.size(shape(sources[0])[0], np.dtype(np.int64))
    results = loops.Loop(g, n, length, np.array(True), state, turn).run()
    return [*results[: len(state)], *_scan_results(g, n, [_tensor(v) for v in results[len(state) :]])]


def _batched_scan(g: Emitter, n: Node) -> list[AnyValue]:
    if n.get(0) is not None:
        raise RuleError("sequence lengths of Scan before opset 9")
    inputs = n.tensors(1)
    samples = [[element(g, x, 0, row) for x in inputs] for row in range(shape(inputs[0])[0])]
    rows = [_scan(g, n, *_scan_parts(g, n, sample), MAX_NODES) for sample in samples]
    return [_stack(g, [_tensor(v) for v in column], None, 0) for column in zip(*rows, strict=True)]


def optional(g: Emitter, n: Node) -> AnyValue:
    """Optional: the value, or nothing."""
    del g
    value = n.any_input(0)
    return NoneValue() if value is None else value


def has_element(g: Emitter, n: Node) -> Value:
    """OptionalHasElement: always known."""
    del g
    value = n.any_input(0)
    return np.array(value is not None and not isinstance(value, NoneValue))


def get_element(g: Emitter, n: Node) -> AnyValue:
    """OptionalGetElement."""
    del g
    value = n.any_input(0)
    if value is None or isinstance(value, NoneValue):
        raise RuleError("the optional is empty")
    return value


RULES: dict[str, Versions] = {
    "If": if_,
    "Loop": loop,
    "Scan": scan,
    "Optional": optional,
    "OptionalHasElement": has_element,
    "OptionalGetElement": get_element,
}
