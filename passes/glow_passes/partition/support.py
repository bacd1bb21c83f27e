"""Nodes to unlike devices: each to the first that runs it, in partitions that only hand values forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation

from glow_dialects.core.errors import PartitionError
from glow_passes.partition.nodes import NodeGraph

#: Whether a device runs an operation.
Supports = Callable[[Operation], bool]


def by_support(graph: NodeGraph, devices: Sequence[Supports]) -> list[tuple[int, int]]:
    """(part, device) of each node; PartitionError names the nodes that no device runs."""
    chosen: list[int] = []
    for node in graph.nodes:
        able = [i for i, supports in enumerate(devices) if supports(node.op)]
        if not able:
            raise PartitionError(f"no device supports node {node.label}")
        chosen.append(able[0])
    before: list[list[int]] = [[] for _ in graph.nodes]
    for writer, reader, _ in graph.edges():
        before[reader].append(writer)
    parts: list[int] = []
    of_part: list[int] = []
    for index, device in enumerate(chosen):
        if not graph.nodes[index].op.results and before[index]:
            parts.append(max(parts[w] for w in before[index]))  # a save is where its value is
            continue
        least = max((parts[w] + (of_part[parts[w]] != device) for w in before[index]), default=0)
        part = next((p for p in range(least, len(of_part)) if of_part[p] == device), len(of_part))
        if part == len(of_part):
            of_part.append(device)
        parts.append(part)
    return [(part, of_part[part]) for part in parts]
