"""ONNX files: reading, order of nodes, names."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from glow_dialects.core.errors import GlowError, ImportProblems
from glow_dialects.core.files import unreadable


def load(path: str | Path) -> ModelProto:
    """Read an ONNX file without its external data; a GlowError where it is no ONNX model."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    return parse(data, str(path))


def parse(data: bytes, source: str) -> ModelProto:
    """The model in serialised bytes; a GlowError where they hold none."""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError):
        raise GlowError(f"{source}: not an ONNX model, or truncated") from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise GlowError(f"{source}: not an ONNX model (no graph)")
    if not all(isinstance(name, str) for name in _names(model.graph)):
        raise GlowError(f"{source}: not an ONNX model (names that are not text)")
    return model


def _names(graph: GraphProto) -> Iterator[object]:
    """Every name in a graph; protobuf leaves those that are no UTF-8 as bytes."""
    for values in (graph.input, graph.output, graph.initializer):
        yield from (v.name for v in values)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (a.name for a in node.attribute)
        for inner in subgraphs(node):
            yield from _names(inner)


def domain_of(name: str) -> str:
    """A domain's canonical name: the default domain is ''."""
    return "" if name == "ai.onnx" else name


def opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Version of each imported domain."""
    return {domain_of(o.domain): int(o.version) for o in imports}


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def captured(graph: GraphProto) -> set[str]:
    """Names that a subgraph takes from the graphs around it."""
    own = {i.name for i in graph.input} | {i.name for i in graph.initializer}
    own |= {i.values.name for i in graph.sparse_initializer}
    own |= {o for n in graph.node for o in n.output}
    used = {o.name for o in graph.output} | {name for n in graph.node for name in uses(n)}
    return used - own


def uses(node: NodeProto) -> set[str]:
    """Names that a node reads, those that its subgraphs capture included."""
    names = {name for name in node.input if name}
    for graph in subgraphs(node):
        names |= captured(graph)
    return names


def sort_nodes(nodes: Sequence[NodeProto], source: str) -> list[NodeProto]:
    """The nodes so that each value is made before it is used, otherwise in the order of the file.

    Raises ImportProblems for cycles and for names given to two values.
    """
    producer: dict[str, int] = {}
    problems: list[str] = []
    for index, node in enumerate(nodes):
        for name in node.output:
            if name and producer.setdefault(name, index) != index:
                problems.append(f"two nodes make the value '{name}'")
    needs = [{producer[n] for n in uses(node) if n in producer} for node in nodes]
    if not problems and all(all(p < i for p in ps) for i, ps in enumerate(needs)):
        return list(nodes)
    followers: list[list[int]] = [[] for _ in nodes]
    for index, before in enumerate(needs):
        for other in before:
            followers[other].append(index)
    missing = [len(before) for before in needs]
    ready = deque(i for i, count in enumerate(missing) if not count)
    order: list[int] = []
    while ready:
        index = ready.popleft()
        order.append(index)
        for follower in followers[index]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    if len(order) < len(nodes):
        stuck = [label(n) for i, n in enumerate(nodes) if missing[i]]
        problems.append(f"a cycle among the nodes {', '.join(stuck[:8])}")
    if problems:
        raise ImportProblems(source, problems)
    return [nodes[i] for i in order]


def label(node: NodeProto) -> str:
    """What to call a node in messages: its name, or its first output."""
    return node.name or next((o for o in node.output if o), node.op_type)


def runtime_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """Graph inputs that a caller must bind: those without an initializer."""
    weights = initialized(model)
    return [i for i in model.graph.input if i.name not in weights]


def default_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """Graph inputs with an initializer, the value that they have unless a caller binds another.

    Files of IR version 3 list all weights so.
    """
    weights = initialized(model)
    return [i for i in model.graph.input if i.name in weights]


def initialized(model: ModelProto) -> set[str]:
    """Names of the main graph's initializers."""
    weights = {i.name for i in model.graph.initializer}
    return weights | {i.values.name for i in model.graph.sparse_initializer}


def opened(model: ModelProto, names: Container[str]) -> ModelProto:
    """The model whose graph inputs of these names have no default value any more."""
    wanted = {i.name for i in default_inputs(model) if i.name in names}
    if not wanted:
        return model
    rest = copied(model, model.graph.node, [i for i in model.graph.initializer if i.name not in wanted])
    kept = [i for i in model.graph.sparse_initializer if i.values.name not in wanted]
    del rest.graph.sparse_initializer[:]
    rest.graph.sparse_initializer.extend(kept)
    return rest


def copied(model: ModelProto, nodes: Iterable[NodeProto], initializers: Iterable[TensorProto]) -> ModelProto:
    """The model with other nodes and initializers; only what stays is copied."""
    copy = ModelProto()
    for message, target in ((model, copy), (model.graph, copy.graph)):
        for field, value in message.ListFields():
            if field.name in ("graph", "node", "initializer"):
                continue
            if hasattr(value, "extend"):
                getattr(target, field.name).extend(value)
            elif field.message_type is not None:
                getattr(target, field.name).CopyFrom(value)
            else:
                setattr(target, field.name, value)
    copy.graph.node.extend(nodes)
    copy.graph.initializer.extend(initializers)
    return copy
