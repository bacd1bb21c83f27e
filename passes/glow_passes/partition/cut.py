"""Cutting a sequence of nodes into parts, one a device: memory bounds each, the slowest counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, permutations

import numpy as np

from glow_dialects.core.errors import PartitionError
from glow_dialects.core.estimates import estimate
from glow_dialects.core.types import Array, bytes_of
from glow_passes.partition.nodes import NodeGraph

#: Places at which a longer function may be cut.
MOST_PLACES = 800
#: Orders of unlike devices that are tried.
MOST_ORDERS = 24


@dataclass(frozen=True)
class Place:
    """A device as the partitioner sees it: bytes for constants (None: no bound), and its rates a second."""

    name: str = ""
    memory: int | None = None
    #: Arithmetic operations, bytes of its memory, bytes between it and the host.
    flops: float = 3e10
    bandwidth: float = 1e10
    link: float = 5e9

    @property
    def bound(self) -> float:
        """The most bytes of constants."""
        return np.inf if self.memory is None else self.memory


class _Sequence:
    """A node graph in order, in blocks between places where it may be cut."""

    def __init__(self, graph: NodeGraph) -> None:
        self.graph = graph
        starts = self._places()
        starts = starts[:: -(-len(starts) // MOST_PLACES)]
        self.count = len(starts)
        block_of = np.searchsorted(starts, np.arange(len(graph.nodes)), side="right") - 1
        self.block_of = block_of.tolist()
        self.work = np.zeros(self.count)
        self.traffic = np.zeros(self.count)
        for node, block in zip(graph.nodes, self.block_of, strict=True):
            self.work[block] += node.work
            self.traffic[block] += node.traffic
        self.crossing = self._crossing()
        self.constants = self._constants()

    def _places(self) -> list[int]:
        """Nodes before which a cut leaves those together that share a written placeholder."""
        last = {name: index for index, node in enumerate(self.graph.nodes) for name in node.held}
        places: list[int] = []
        end = -1
        for index, node in enumerate(self.graph.nodes):
            if index > end:
                places.append(index)
            end = max([end, *(last[name] for name in node.held)])
        return places

    def _crossing(self) -> Array:
        """Bytes that cross a cut before each block, each value once."""
        # Readers come in order: the last one of each value stays.
        ends = {v: (self.block_of[writer], self.block_of[reader]) for writer, reader, v in self.graph.edges()}
        change = np.zeros(self.count + 1)
        for value, (start, end) in ends.items():
            change[start + 1] += estimate(bytes_of(value.type))
            change[end + 1] -= estimate(bytes_of(value.type))
        return np.cumsum(change)

    def _constants(self) -> Array:
        """[i, j]: bytes of the constants that blocks i < j to j - 1 read, each once."""
        before: dict[str, int] = {}
        single = np.zeros(self.count + 1)
        shared = np.zeros((self.count + 1, self.count + 1))
        for node, block in zip(self.graph.nodes, self.block_of, strict=True):
            for name in node.constants:
                size = self.graph.constant_bytes[name]
                if before.get(name) == block:
                    continue
                single[block + 1] += size
                if name in before:  # a part that has both blocks counts it once
                    shared[before[name], block + 1] += size
                before[name] = block
        sums = np.cumsum(single)
        pairs = np.cumsum(np.cumsum(shared[::-1], axis=0)[::-1], axis=1)
        return sums[None, :] - sums[:, None] - pairs

    def seconds(self, place: Place) -> Array:
        """Time of each block on a device: its arithmetic or its traffic, whichever takes longer."""
        return np.maximum(self.work / place.flops, self.traffic / place.bandwidth)

    def cut(self, places: Sequence[Place]) -> tuple[float, list[int]] | None:
        """(seconds of the slowest part, first block of each part); None where the memory does not do."""
        count = self.count
        best = np.full(count + 1, np.inf)
        best[0] = 0
        forward = np.triu(np.ones((count + 1, count + 1), np.bool_), 1)
        choices: list[Array] = []
        for place in places:
            sums = np.concatenate([[0], np.cumsum(self.seconds(place))])
            moved = self.crossing / place.link
            cost = (sums + moved)[None, :] + (moved - sums)[:, None]  # of blocks [row] to [column] - 1
            worst = np.where(
                forward & (self.constants <= place.bound), np.maximum(best[:, None], cost), np.inf
            )
            worst += 1e-16 * self.crossing[:, None]  # of equals, what moves less
            choices.append(np.argmin(worst, axis=0))
            best = np.min(worst, axis=0)
        if not np.isfinite(best[count]):
            return None
        starts = [count]
        for chosen in reversed(choices):
            starts.append(int(chosen[starts[-1]]))
        return float(best[count]), starts[:0:-1]


def cut(graph: NodeGraph, places: Sequence[Place], count: int = 0) -> list[tuple[int, int]]:
    """(part, place) of each node; `count` parts, or as few as the memory of the places allows.

    Parts are runs of nodes in order, so that values only go forward. With more parts than places, or where
    one run a place does not fit, places have several. PartitionError names the node that no place has room
    for, or the bytes that are missing.
    """
    if not graph.nodes:
        return []
    sequence = _Sequence(graph)
    if count > sequence.count:
        raise PartitionError(
            f"{count} partitions: the nodes of the network that can be parted are {sequence.count}"
        )
    counts = [count] if count else range(1, min(len(places), sequence.count) + 1)
    for parts in counts:
        tried = (_option(sequence, places, order) for order in _orders(places, parts))
        options = [option for option in tried if option is not None]
        if options:
            _, starts, order = min(options, key=lambda option: option[0])
            part_of = np.searchsorted(starts, np.array(sequence.block_of), side="right") - 1
            return _side_by_side(graph, [(int(part), order[int(part)]) for part in part_of])
    packed = None if count else _packed(sequence, places)
    if packed is None:
        raise PartitionError(_why_not(graph, places, count))
    return _side_by_side(graph, [packed[block] for block in sequence.block_of])


def _side_by_side(graph: NodeGraph, plan: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The plan, where joins alone keep a part from running beside those before it: with the joins later.

    select(here, lookup here, what the part before found)  ->  in the part that reads it
    """
    parts, at = [part for part, _ in plan], dict(plan)
    reads: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    for writer, reader, _ in graph.edges():
        reads.setdefault(reader, []).append(writer)
        readers.setdefault(writer, []).append(reader)
    for part in sorted(set(parts)):
        waiting: dict[int, None] = {}  # in order
        for index in (i for i, p in enumerate(parts) if p == part):
            if any(parts[w] < part or w in waiting for w in reads.get(index, ())):
                waiting[index] = None
        moved = dict(enumerate(parts))
        for index in reversed(waiting):
            node = graph.nodes[index]
            if node.constants or node.held or index not in readers:
                break
            moved[index] = min(moved[r] for r in readers[index])
        else:
            parts = list(moved.values())
    return [(part, at[part]) for part in parts]


#: Runs of nodes are as large as the largest memory, its half and so on, where one run a place does not do.
FRACTIONS = range(1, 17)


def _packed(sequence: _Sequence, places: Sequence[Place]) -> list[tuple[int, int]] | None:
    """(part, place) of each block where places have several parts: the largest first, where they fit best."""
    rooms = [p.bound for p in places]
    if np.inf in rooms:
        return None
    for fraction in FRACTIONS:
        cap = max(rooms) / fraction
        starts = [0]
        for block in range(1, sequence.count):
            if sequence.constants[starts[-1], block + 1] > cap:
                starts.append(block)
        ends = [*starts[1:], sequence.count]
        sizes = [float(sequence.constants[s, e]) for s, e in zip(starts, ends, strict=True)]
        free = rooms.copy()
        chosen: dict[int, int] = {}
        for part in sorted(range(len(starts)), key=lambda p: -sizes[p]):
            fits = [i for i, room in enumerate(free) if room >= sizes[part]]
            if not fits:
                break
            place = chosen[part] = min(fits, key=lambda i: free[i])
            free[place] -= sizes[part]
        if len(chosen) == len(starts):
            spans = zip(starts, ends, strict=True)
            return [(part, chosen[part]) for part, (s, e) in enumerate(spans) for _ in range(s, e)]
    return None


def _orders(places: Sequence[Place], parts: int) -> list[tuple[int, ...]]:
    """Which place each part may have: unlike places in every order, within reason."""
    if parts > len(places):
        return [tuple(i % len(places) for i in range(parts))]
    if len({(p.memory, p.flops, p.bandwidth, p.link) for p in places}) == 1:
        return [tuple(range(parts))]
    return list(islice(permutations(range(len(places)), parts), MOST_ORDERS))


def _option(
    sequence: _Sequence, places: Sequence[Place], order: tuple[int, ...]
) -> tuple[float, list[int], tuple[int, ...]] | None:
    """(seconds, first blocks, order) of the best parts for places in this order, if there is room."""
    answer = sequence.cut([places[i] for i in order])
    if answer is None:
        return None
    seconds, starts = answer
    used = dict.fromkeys(order, 0.0)
    for start, end, place in zip(starts, [*starts[1:], sequence.count], order, strict=True):
        used[place] += float(sequence.constants[start, end])
    return (seconds, starts, order) if all(used[i] <= places[i].bound for i in used) else None


def _why_not(graph: NodeGraph, places: Sequence[Place], count: int) -> str:
    """Which node is too large for any place, or how many bytes are missing."""
    most = max(p.bound for p in places)
    for node in graph.nodes:
        size = sum(graph.constant_bytes[n] for n in node.constants)
        if size > most:
            return f"node {node.label} has {size} bytes of constants, the largest device has {most}"
    have = ", ".join(f"{p.name or 'a device'} {p.bound}" for p in places)
    total = sum(graph.constant_bytes.values())
    parts = f" in {count} partitions" if count else ""
    return f"{total} bytes of constants do not fit{parts}: the devices have {have}; add devices or memory"
