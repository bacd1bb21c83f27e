"""glow-partition: one graph function becomes several, which devices can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from glow_dialects.core.byte_counts import byte_count
from glow_dialects.ops.module import FuncOp, functions
from glow_passes.contract import GraphPass
from glow_passes.lower.schedule import schedule
from glow_passes.partition.cut import Place, cut
from glow_passes.partition.nodes import Node, node_graph
from glow_passes.partition.split import DEVICE, mark, partition_of, split
from glow_passes.partition.spread import spread


def partition(function: FuncOp, places: Sequence[Place], count: int = 0) -> list[FuncOp]:
    """Take a function apart for some places: by the plan in it, else by memory and time; see `cut`.

    A node that the program's plan does not name goes with those that it reads, or with its readers where it
    reads none. The functions have the names of their places.
    """
    schedule(function)
    graph = node_graph(function)
    if any(partition_of(node.op) is not None for node in graph.nodes):
        parts = _completed(graph.nodes, [partition_of(n.op) for n in graph.nodes], list(graph.edges()))
        at = {part: part % len(places) for part in parts}
    else:
        plan = cut(graph, places, count)
        parts, at = [part for part, _ in plan], dict(plan)
    made = split(function, parts)
    for part, function in zip(_ordered(made), made, strict=True):
        if places[at[part]].name:
            function.attributes[DEVICE] = StringAttr(places[at[part]].name)
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
            part = max((complete[w] for w in before.get(index, ()) if w < index), default=first)
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
            places = [Place(memory=memory)] * (self.devices or self.count or min(count, 64) or 1)
            if self.split:
                partition(function, places, self.count)
                continue
            schedule(function)
            graph = node_graph(function)
            mark(graph, [part for part, _ in cut(graph, places, self.count)])
