"""What a graph implies about its inputs: numbers that it compares one with, sizes of what one meets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from glow_dialects.core.types import Array
from glow_frontends.onnx.model import runtime_inputs, subgraphs, uses
from glow_frontends.onnx.tensors import to_array

#: Operators that compare numbers; with the constant of one a branch is chosen.
_COMPARISONS = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
#: Operators whose result is their first operand in another form.
_FORMS = frozenset({"Cast", "Flatten", "Gather", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
#: How many nodes lie between an input and a size that it implies, at most.
_DEPTH = 8
#: Elements of a constant that lists sizes, such as the target of a Reshape.
_LISTED = 8
_EXTERNAL = TensorProto.EXTERNAL


def compared_numbers(model: ModelProto) -> dict[str, list[float]]:
    """The constants that an input, or another form of it, is compared with, by the name of the input."""
    origin = {i.name: i.name for i in runtime_inputs(model)}
    small = _small_constants(model)
    found: dict[str, list[float]] = {}
    for node in model.graph.node:
        if node.op_type in _FORMS and node.input and node.input[0] in origin:
            origin[node.output[0]] = origin[node.input[0]]
        elif node.op_type in _COMPARISONS:
            for mine, other in (node.input, reversed(node.input)):
                if mine in origin and other in small and small[other].size == 1:
                    found.setdefault(origin[mine], []).append(small[other].item())
    return found


def implied_sizes(model: ModelProto) -> dict[str, list[int]]:
    """Sizes in the weights and in the lists of sizes that an input meets first, by the name of the input."""
    dims = dict(_weights(model.graph))
    small = _small_constants(model)
    readers: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        for name in uses(node):
            readers.setdefault(name, []).append(node)
    return {i.name: list(_met(i.name, readers, dims, small)) for i in runtime_inputs(model)}


def _met(
    start: str,
    readers: Mapping[str, list[NodeProto]],
    dims: Mapping[str, list[int]],
    small: Mapping[str, Array],
) -> Iterator[int]:
    """The sizes that lie nearest to a value, nearest first."""
    given: set[int] = set()
    names, seen = [start], {start}
    for _ in range(_DEPTH):
        nodes = [node for name in names for node in readers.get(name, ())]
        for node in nodes:
            inner = (name for graph in subgraphs(node) for name, _ in _weights(graph))
            for operand in (*node.input, *sorted(uses(node) - {*node.input}), *inner):
                sizes = [int(d) for d in dims.get(operand, ())]
                if operand in small and small[operand].dtype.kind in "iu":
                    sizes += [int(d) for d in small[operand].reshape(-1)]
                for size in sizes:
                    if 1 < size < 1 << 16 and size not in given:
                        given.add(size)
                        yield size
        names = [o for node in nodes for o in node.output if o and o not in seen]
        seen.update(names)


def _weights(graph: GraphProto) -> Iterator[tuple[str, list[int]]]:
    """The shapes of the constants of a graph and of those in it, by their names."""
    yield from ((t.name, [*t.dims]) for t in graph.initializer)
    for node in graph.node:
        if node.op_type == "Constant":
            yield from ((node.output[0], [*a.t.dims]) for a in node.attribute if a.name == "value")
        for inner in subgraphs(node):
            yield from _weights(inner)


def _small_constants(model: ModelProto) -> dict[str, Array]:
    """The values of constants of few elements."""
    tensors = {t.name: t for t in model.graph.initializer}
    known: dict[str, Array] = {}
    for node in model.graph.node:
        if node.op_type != "Constant":
            continue
        for a in node.attribute:
            if a.name == "value":
                tensors[node.output[0]] = a.t
            elif a.name in ("value_int", "value_float"):
                known[node.output[0]] = np.array(a.i if a.name == "value_int" else a.f)
    return known | {
        name: to_array(t)
        for name, t in tensors.items()
        if np.prod(t.dims, dtype=np.int64) <= _LISTED and t.data_location != _EXTERNAL and name
    }
