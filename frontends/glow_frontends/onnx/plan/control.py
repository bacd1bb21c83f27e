"""Control flow on the host: bodies are runs of their own graphs, compiled where they are static."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from onnx import NodeProto, ValueInfoProto, helper

from glow_dialects.core.types import Array
from glow_frontends.graph.errors import RuleError
from glow_frontends.onnx.tensors import numpy_type
from glow_frontends.onnx.values import AnyValue, SequenceValue

if TYPE_CHECKING:
    from glow_frontends.onnx.plan.graph import GraphPlan

Values = Mapping[str, AnyValue]
Control = Callable[["GraphPlan", NodeProto, Values], Sequence[AnyValue | None]]


def _array(value: AnyValue | None) -> Array:
    if not isinstance(value, np.ndarray):
        raise RuleError("a tensor is expected")
    return value


def _attributes(node: NodeProto) -> dict[str, object]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _turn(body: GraphPlan, inputs: Sequence[AnyValue], values: Values) -> list[AnyValue]:
    """A run of a body that captures the values around it."""
    return body.run({**values, **dict(zip(body.inputs, inputs, strict=True))})


def if_(plan: GraphPlan, node: NodeProto, values: Values) -> list[AnyValue]:
    """If: run the chosen branch."""
    taken = bool(_array(values[node.input[0]]).reshape(-1)[0])
    return plan.body(node, "then_branch" if taken else "else_branch").run(values)


def loop(plan: GraphPlan, node: NodeProto, values: Values) -> list[AnyValue]:
    """Loop: state and condition pass from iteration to iteration, scan outputs are stacked."""
    body = plan.body(node, "body")
    limit = int(_array(values[node.input[0]]).reshape(-1)[0]) if node.input[0] else None
    going = len(node.input) < 2 or not node.input[1] or bool(_array(values[node.input[1]]).reshape(-1)[0])
    state = [values[n] for n in node.input[2:]]
    scans: list[list[Array]] = [[] for _ in body.outputs[1 + len(state) :]]
    count = 0
    while going and (limit is None or count < limit):
        arguments = [np.array(count, np.int64), np.array(going), *state]
        out = _turn(body, arguments, values)
        going = bool(_array(out[0]).reshape(-1)[0])
        state = out[1 : 1 + len(state)]
        for parts, value in zip(scans, out[1 + len(state) :], strict=True):
            parts.append(_array(value))
        count += 1
    infos = body.graph_outputs[1 + len(state) :]
    return [*state, *(_stack(p, i, 0) for p, i in zip(scans, infos, strict=True))]


def _stack(parts: Sequence[Array], info: ValueInfoProto, axis: int) -> Array:
    if parts:
        return np.stack(parts, axis)
    kind = info.type.tensor_type
    return np.zeros((0, *(d.dim_value for d in kind.shape.dim)), numpy_type(kind.elem_type))


def scan(plan: GraphPlan, node: NodeProto, values: Values) -> list[AnyValue]:
    """Scan (opset 9 on): the body over slices of the scanned inputs."""
    body = plan.body(node, "body")
    attributes = _attributes(node)
    count = int(attributes["num_scan_inputs"])  # pyright: ignore[reportArgumentType]
    inputs = [_array(values[n]) for n in node.input]
    states: list[AnyValue] = [*inputs[: len(inputs) - count]]
    sources = inputs[len(inputs) - count :]
    yields = len(body.outputs) - len(states)

    def option(name: str, length: int) -> list[int]:
        return list(attributes.get(name, [0] * length))  # pyright: ignore

    sources = [np.moveaxis(s, a, 0) for s, a in zip(sources, option("scan_input_axes", count), strict=True)]
    backwards = option("scan_input_directions", count)
    sources = [s[::-1] if back else s for s, back in zip(sources, backwards, strict=True)]
    collected: list[list[Array]] = [[] for _ in range(yields)]
    for step in range(len(sources[0])):
        items = [*states, *(np.array(s[step]) for s in sources)]
        out = _turn(body, items, values)
        states = out[: len(states)]
        for parts, value in zip(collected, out[len(states) :], strict=True):
            parts.append(_array(value))
    out_axes, out_back = option("scan_output_axes", yields), option("scan_output_directions", yields)
    infos = body.graph_outputs[len(states) :]
    stacked = [
        _stack(parts[::-1] if back else parts, info, axis)
        for parts, info, axis, back in zip(collected, infos, out_axes, out_back, strict=True)
    ]
    return [*states, *stacked]


def sequence_map(plan: GraphPlan, node: NodeProto, values: Values) -> list[AnyValue]:
    """SequenceMap: the body on each element; tensors are passed to every call."""
    body = plan.body(node, "body")
    inputs = [values[n] for n in node.input]
    first = inputs[0]
    if not isinstance(first, SequenceValue):
        raise RuleError("input 0 is not a sequence")
    rows: list[list[AnyValue]] = []
    for index in range(len(first.items)):
        items = [v.items[index] if isinstance(v, SequenceValue) else v for v in inputs]
        rows.append(_turn(body, items, values))
    columns = [[row[i] for row in rows] for i in range(len(body.outputs))]
    kinds = [numpy_type(o.type.tensor_type.elem_type) for o in body.graph_outputs]
    return [SequenceValue(c, k) for c, k in zip(columns, kinds, strict=True)]


CONTROL: dict[str, Control] = {"If": if_, "Loop": loop, "Scan": scan, "SequenceMap": sequence_map}
