"""glow-partition: one graph function becomes several, which devices can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from glow_dialects.core.byte_counts import byte_count
from glow_dialects.ops.control import CONTROL
from glow_dialects.ops.module import FuncOp, functions
from glow_passes.contract import GraphPass
from glow_passes.lower.schedule import schedule
from glow_passes.partition.cut import Place, cut
from glow_passes.partition.nodes import Node, NodeGraph, node_graph
from glow_passes.partition.split import DEVICE, mark, partition_of, split
from glow_passes.partition.spread import spread


def partition(function: FuncOp, places: Sequence[Place], count: int = 0) -> list[FuncOp]:
    """Take a function apart for some places: by the plan in it, else by memory and time; see `cut`.

    A node that the program's plan does not name goes with those that it reads, or with its readers where it
    reads none. The functions have the names of their places.
    """
    graph = _scheduled(function)
    if all(partition_of(node.op) is None for node in graph.nodes):
        return partition_all([function], places, count)
    parts = _completed(graph.nodes, [partition_of(n.op) for n in graph.nodes], list(graph.edges()))
    return _made(function, parts, {part: part % len(places) for part in parts}, places)


def partition_all(functions: Sequence[FuncOp], places: Sequence[Place], count: int) -> list[FuncOp]:
    """Take functions that run one after another apart together, in `count` partitions: see `cut`."""
    graphs = [_scheduled(function) for function in functions]
    nodes = [node for graph in graphs for node in graph.nodes]
    sizes = {name: size for graph in graphs for name, size in graph.constant_bytes.items()}
    plan = cut(NodeGraph(functions[0], nodes, sizes), places, count)
    made: list[FuncOp] = []
    for function, graph in zip(functions, graphs, strict=True):
        own, plan = plan[: len(graph.nodes)], plan[len(graph.nodes) :]
        made += _made(function, [part for part, _ in own], dict(own), places)
    return made


def _scheduled(function: FuncOp) -> NodeGraph:
    """The nodes of a function in the order of cuts; bodies read values that are no operands."""
    if not any(isinstance(op, CONTROL) for op in function.body.block.ops):
        schedule(function)
    return node_graph(function)


def _made(
    function: FuncOp, parts: Sequence[int], at: Mapping[int, int], places: Sequence[Place]
) -> list[FuncOp]:
    """The functions of the parts, with the names of their places."""
    made = split(function, parts)
    for part, piece in zip(_ordered(made), made, strict=True):
        if places[at[part]].name:
            piece.attributes[DEVICE] = StringAttr(places[at[part]].name)
    return made


def _ordered(made: Sequence[FuncOp]) -> list[int]:
    return [part for f in made if (part := partition_of(f)) is not None]


def _completed(
    nodes: Sequence[Node], parts: list[int | None], edges: Sequence[tuple[int, int, object]]
) -> list[int]:
    """A partition for each node: that of what it reads last, of its readers, or the first of all."""
    before: dict[int, list[int]] = {}
    behind: dict[int, list[int]] = {}
    for writer, reader, _ in edges:
        before.setdefault(reader, []).append(writer)
        if (part := parts[reader]) is not None:
            behind.setdefault(writer, []).append(part)
    default = min(p for p in parts if p is not None)
    complete: list[int] = []
    for index in range(len(nodes)):
        part = parts[index]
        if part is None:
            first = min(behind.get(index, ()), default=default)
            part = max((complete[w] for w in before.get(index, ())), default=first)
        complete.append(part)
    return complete


@dataclass(frozen=True)
class PartitionPass(GraphPass):
    """Divide functions into `count` partitions, or into as few as have `memory` bytes of constants each.

    f(x) = relu(x w) v  ->  f_0(x) saves t = relu(x w), f_1 reads t and saves t v

    A program that has `partition` attributes at nodes is divided as they say. `devices` bounds the number
    of partitions by memory; `split=false` only writes the attributes. Tables of more than `memory` bytes, of
    which rows are looked up, are spread over partitions.
    """

    name = "glow-partition"
    BODIES = False
    count: int = 0
    memory: int | str = 0
    devices: int = 0
    split: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        memory = byte_count(str(self.memory)) if self.memory else None
        for function in list(functions(op)):
            if memory is not None:
                spread(function, memory)
            count = len(node_graph(function).nodes)
            places = [Place(memory=memory)] * (self.devices or self.count or min(count, 64))
            if self.split:
                partition(function, places, self.count)
                continue
            graph = _scheduled(function)
            mark(graph, [part for part, _ in cut(graph, places, self.count)])
