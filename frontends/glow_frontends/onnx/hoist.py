"""Weights of branches and loops as weights of the model, so that training finds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from glow_frontends.onnx.model import subgraphs


def is_weight(tensor: TensorProto) -> bool:
    """Floating-point numbers, more than one: single ones in nodes are constants of a formula."""
    floats = (TensorProto.FLOAT, TensorProto.DOUBLE)
    return tensor.data_type in floats and any(d > 1 for d in tensor.dims)


def with_weights_outside(model: ModelProto) -> ModelProto:
    """The model with the floating-point initializers of its subgraphs as initializers of its graph.

    Where no graph has any, Constant nodes with floating-point tensors are taken instead. Names that
    several graphs use get a number.
    """
    nodes = not any(is_weight(i) for graph in _graphs(model.graph) for i in graph.initializer)
    if not nodes and not any(is_weight(i) for g in _inner(model.graph) for i in g.initializer):
        return model
    if nodes and not any(_constant(n) is not None for g in _graphs(model.graph) for n in g.node):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    _Hoist(copy.graph, nodes).run()
    return copy


def _inner(graph: GraphProto) -> Iterator[GraphProto]:
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    yield from _inner(graph)


def _constant(node: NodeProto) -> TensorProto | None:
    """The floating-point tensor that a Constant node holds."""
    if node.op_type != "Constant":
        return None
    return next((a.t for a in node.attribute if a.name == "value" and is_weight(a.t)), None)


class _Hoist:
    """One model: its outermost graph, whether Constant nodes are weights, names that are taken."""

    def __init__(self, graph: GraphProto, nodes: bool) -> None:
        self.graph, self.nodes = graph, nodes
        self.taken = {name for g in _graphs(graph) for name in _defined(g)}
        self.used: set[str] = {i.name for i in graph.initializer}

    def run(self) -> None:
        self._visit(self.graph, {})

    def _visit(self, graph: GraphProto, names: Mapping[str, str]) -> None:
        """Take the weights of a graph; `names` are those that graphs around renamed."""
        own = set(_defined(graph))
        names = {old: new for old, new in names.items() if old not in own}
        if graph is not self.graph:
            weights = [i for i in graph.initializer if is_weight(i)]
            names |= self._take(weights, [i.name for i in weights])
            _keep(graph.initializer, [i for i in graph.initializer if not is_weight(i)])
        if self.nodes:
            constants = [(n, tensor) for n in graph.node if (tensor := _constant(n)) is not None]
            names |= self._take([t for _, t in constants], [n.output[0] for n, _ in constants])
            _keep(graph.node, [n for n in graph.node if _constant(n) is None])
        for node in graph.node:
            for place, name in enumerate(node.input):
                node.input[place] = names.get(name, name)
            for inner in subgraphs(node):
                self._visit(inner, names)
        for output in graph.output:
            output.name = names.get(output.name, output.name)

    def _take(self, weights: Iterable[TensorProto], names: Iterable[str]) -> dict[str, str]:
        renamed: dict[str, str] = {}
        for tensor, old in zip(weights, names, strict=True):
            new, number = old, 0
            while new in self.used or (new != old and new in self.taken):
                number += 1
                new = f"{old}.{number}"
            self.used.add(new)
            copy = self.graph.initializer.add()
            copy.CopyFrom(tensor)
            copy.name = new
            if new != old:
                renamed[old] = new
        return renamed


def _defined(graph: GraphProto) -> Iterator[str]:
    yield from (i.name for i in graph.input)
    yield from (i.name for i in graph.initializer)
    for node in graph.node:
        yield from node.output


def _keep(field: object, kept: list[TensorProto] | list[NodeProto]) -> None:
    """A repeated field with only some of its messages."""
    copies = [type(m)() for m in kept]
    for copy, message in zip(copies, kept, strict=True):
        copy.CopyFrom(message)  # pyright: ignore
    del field[:]  # pyright: ignore
    field.extend(copies)  # pyright: ignore
