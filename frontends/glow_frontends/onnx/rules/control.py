"""Rules of control flow: branches with known conditions, loops with known trip counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, TypeProto
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.types import tensor
from glow_dialects.ops.control import IfOp, LoopOp, yielded
from glow_dialects.ops.select import SelectOp
from glow_frontends.onnx import counts
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import NeedsHost, NeedsValue, RuleError
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions, axis_of
from glow_frontends.onnx.rules.shape import cut, join
from glow_frontends.onnx.values import (
    AnyValue,
    BoundedValue,
    NoneValue,
    Value,
    dtype_of_value,
    rank,
    shape,
)

#: Loops of more iterations are never unrolled, nor those that would make more nodes than this.
MAX_UNROLL = 4096
MAX_NODES = 4096
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
    """Both branches, and a selection of each output: right as all operators are free of effects."""
    graphs = [n.graph(name) for name in ("then_branch", "else_branch")]
    if n.scope.session.control:
        return _branch(g, n, condition, *graphs)
    if sum(len(graph.node) for graph in graphs) > MAX_BRANCHES:
        raise NeedsValue(condition, "which of two long branches runs")
    problems = n.scope.session.problems
    before = len(problems)
    try:
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
    made = counts.chosen(g, test, yes, no) if isinstance(yes, kinds) and isinstance(no, kinds) else None
    if made is None:
        raise NeedsValue(condition, "the shape of a branch's result")
    return made


def _branch(g: Emitter, n: Node, condition: SSAValue, yes: GraphProto, no: GraphProto) -> list[AnyValue]:
    """A branch at run time; NeedsValue where the values of both are not tensors of the same types."""
    blocks = [_body(g, n, graph, condition) for graph in (yes, no)]
    kinds = [[v.type for v in yielded(block).values] for block in blocks]
    if kinds[0] != kinds[1]:
        raise NeedsValue(condition, "the shape of a branch's result")
    return list(g.builder.insert(IfOp.of(g.value(g.reshape(condition, ())), *blocks)).outputs)


def _body(
    g: Emitter, n: Node, graph: GraphProto, cause: SSAValue | None, kinds: Sequence[Attribute] = ()
) -> Block:
    """A subgraph as the body of an operation; NeedsValue where it is not static."""
    problems = n.scope.session.problems
    before = len(problems)

    def make(values: Sequence[SSAValue]) -> list[Value]:
        # The condition that a loop's body gets says that the loop goes on.
        given: list[AnyValue] = [values[0], np.array(True), *values[1:]] if values else []
        outputs = n.scope.subgraph(graph, given)
        found = [_tensor(v) for v in outputs]
        if any(isinstance(v, np.ndarray) and v.dtype == object for v in found):
            raise RuleError("strings")
        return [g.reshape(found[0], ()), *found[1:]] if values else found

    try:
        return g.body(kinds, make)
    except (RuleError, VerifyException) as error:
        del problems[before:]
        raise NeedsValue(cause, f"a body of {n.op} ({error}), which") from None


def _turns(g: Emitter, n: Node, body: GraphProto) -> list[AnyValue]:
    """A loop at run time, whose state keeps its types."""
    state = [g.value(_tensor(_given(n, i))) for i in range(2, len(n.inputs))]
    if len(body.output) != 1 + len(state):
        raise NeedsHost(n.op)  # stacked values, whose number only the run tells
    kinds = [v.type for v in state]
    block = _body(g, n, body, None, [tensor((), i64), *kinds])
    if [v.type for v in yielded(block).values[1:]] != kinds:
        raise NeedsHost(n.op)
    limit, going = (None if n.get(i) is None else g.value(g.reshape(n[i], ())) for i in (0, 1))
    return list(g.builder.insert(LoopOp.of(limit, going, state, block)).outputs)


def loop(g: Emitter, n: Node) -> list[AnyValue]:
    """Loop, unrolled: the trip count or every iteration's condition must be known."""
    body = n.graph("body")
    if n.scope.session.control:
        try:
            return _unrolled(g, n, body)
        except NeedsValue:
            return _turns(g, n, body)
    return _unrolled(g, n, body)


def _unrolled(g: Emitter, n: Node, body: GraphProto) -> list[AnyValue]:
    limit = None if n.get(0) is None else g.ints(n[0], "the trip count of Loop")[0]
    going = n.get(1) is None or bool(g.known(n[1], "the condition of Loop").reshape(-1)[0])
    state: list[AnyValue] = [_given(n, i) for i in range(2, len(n.inputs))]
    scans: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    count, stacked, most = 0, 0, _bytes(state) + MAX_GROWTH
    while going and (limit is None or count < limit):
        _check_length(n, count, body, state)
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


def _check_length(n: Node, steps: int, body: GraphProto, state: Sequence[AnyValue]) -> None:
    """Leave long loops over run-time data to the host, which runs a compiled body."""
    if steps >= MAX_ITERATIONS:
        raise RuleError(f"a loop that has not ended after {steps} iterations")
    computed = any(isinstance(v, SSAValue | BoundedValue) for v in state)
    if computed and (steps >= MAX_UNROLL or steps * len(body.node) > MAX_NODES):
        raise NeedsHost(n.op)


def _given(n: Node, index: int) -> AnyValue:
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
            raise RuleError("nothing to stack")
        from glow_frontends.onnx.tensors import numpy_type

        dims = [d.dim_value for d in kind.shape.dim]
        return np.zeros((0, *dims), numpy_type(kind.elem_type))
    wide: list[Value] = []
    for part in parts:
        dims = list(shape(part))
        dims.insert(axis, 1)
        wide.append(g.reshape(part, dims))
    return join(g, wide, axis)


def scan(g: Emitter, n: Node) -> list[AnyValue]:
    """Scan, unrolled; version 8 has a batch axis and optional lengths."""
    body, count = n.graph("body"), n.integer("num_scan_inputs")
    if n.opset < 9:
        return _batched_scan(g, n)
    inputs = [n[i] for i in range(len(n.inputs))]
    return list(_scan(g, n, inputs, body, count))


def _scan(g: Emitter, n: Node, inputs: list[Value], body: GraphProto, count: int) -> list[AnyValue]:
    states = len(inputs) - count
    state: list[AnyValue] = list(inputs[:states])
    sources = inputs[states:]
    axes = n.integers("scan_input_axes", (0,) * count)
    backwards = n.integers("scan_input_directions", (0,) * count)
    yields = len(body.output) - states
    out_axes = n.integers("scan_output_axes", (0,) * yields)
    out_backwards = n.integers("scan_output_directions", (0,) * yields)
    axes = tuple(axis_of(a, rank(s)) for a, s in zip(axes, sources, strict=True))
    length = shape(sources[0])[axes[0]]
    _check_length(n, length, body, [*state, *sources])
    collected: list[list[Value]] = [[] for _ in range(yields)]
    for step in range(length):
        items = [
            at(g, s, a, length - 1 - step if back else step)
            for s, a, back in zip(sources, axes, backwards, strict=True)
        ]
        outputs = n.scope.subgraph(body, [*state, *items])
        state = outputs[:states]
        for parts, value, back in zip(collected, outputs[states:], out_backwards, strict=True):
            parts.insert(0 if back else len(parts), _tensor(value))
    infos = [o.type.tensor_type for o in body.output[states:]]
    stacked = [
        _stack(g, parts, info, axis_of(axis, (rank(parts[0]) if parts else len(info.shape.dim)) + 1))
        for parts, info, axis in zip(collected, infos, out_axes, strict=True)
    ]
    return [*state, *stacked]


def at(g: Emitter, x: Value, axis: int, index: int) -> Value:
    """One element along an axis, the axis removed."""
    begin, end = [0] * rank(x), list(shape(x))
    begin[axis], end[axis] = index, index + 1
    dims = (*shape(x)[:axis], *shape(x)[axis + 1 :])
    return g.reshape(cut(g, x, begin, end), dims)


def _batched_scan(g: Emitter, n: Node) -> list[AnyValue]:
    if n.get(0) is not None:
        raise RuleError("sequence lengths of Scan before opset 9")
    inputs = n.tensors(1)
    rows = [
        _scan(g, n, [at(g, x, 0, row) for x in inputs], n.graph("body"), n.integer("num_scan_inputs"))
        for row in range(shape(inputs[0])[0])
    ]
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
