"""Cuts of graphs into partitions, beside every cut there is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.test import TestOp as Item
from xdsl.ir import SSAValue

from glow_dialects.core.errors import PartitionError
from glow_dialects.core.types import bytes_of, tensor
from glow_dialects.ops.module import FuncOp
from glow_passes.partition import cut as module_of_cuts
from glow_passes.partition.cut import Place, cut
from glow_passes.partition.nodes import Node, NodeGraph


def graph_of(random: np.random.Generator, count: int, held: bool = False) -> NodeGraph:
    """Nodes that read values of earlier ones, each with constants, which several may share."""
    function = FuncOp.of("main")
    sizes = {f"c{i}": int(random.integers(1, 40)) for i in range(count)}
    together = set(map(int, random.integers(0, count, 2))) if held else set[int]()
    values: list[SSAValue] = []
    nodes: list[Node] = []
    for number in range(count):
        chosen = random.permutation(len(values))[:2]
        kinds = [tensor((int(random.integers(1, 30)),), "float32")]
        op = Item(operands=[values[int(i)] for i in chosen], result_types=kinds)
        function.body.block.add_op(op)
        values += op.results
        constants = {f"c{number}", f"c{random.integers(0, count)}"}
        own = frozenset({"state"} if number in together else set[str]())
        work, traffic = (int(n) for n in random.integers(1, 100, 2))
        nodes.append(Node(op, frozenset(constants), own, work, traffic))
    return NodeGraph(function, nodes, sizes)


def memory_of(graph: NodeGraph, part: Sequence[int]) -> int:
    """Bytes of the constants that some nodes read."""
    return sum(graph.constant_bytes[n] for n in {n for i in part for n in graph.nodes[i].constants})


def seconds_of(graph: NodeGraph, part: Sequence[int], place: Place, blocks: Sequence[Sequence[int]]) -> float:
    """What a part takes: each block computes or reads, then what comes in and goes out."""
    total = 0.0
    for block in (b for b in blocks if b[0] in part):
        work, traffic = (sum(getattr(graph.nodes[i], what) for i in block) for what in ("work", "traffic"))
        total += max(work / place.flops, traffic / place.bandwidth)
    # A value that passes by a part is held there, too: parts hand on to the next.
    first, last = part[0], part[-1]
    into: set[SSAValue] = set()
    out: set[SSAValue] = set()
    for writer, reader, value in graph.edges():
        if writer < first <= reader:
            into.add(value)
        if writer <= last < reader:
            out.add(value)
    return total + sum(bytes_of(v.type) for v in (*into, *out)) / place.link


def blocks_of(graph: NodeGraph) -> list[list[int]]:
    """The nodes, those between two that hold the same together."""
    holding = [i for i, node in enumerate(graph.nodes) if node.held]
    inside = set(range(holding[0] + 1, holding[-1] + 1)) if holding else set[int]()
    blocks: list[list[int]] = []
    for i in range(len(graph.nodes)):
        blocks += [] if i in inside else [[]]
        blocks[-1].append(i)
    return blocks


def best_of(graph: NodeGraph, places: Sequence[Place], parts: int) -> float | None:
    """The least seconds of the slowest of so many parts, each on a place of its own; None without room."""
    blocks = blocks_of(graph)
    found: list[float] = []
    for ends in itertools.combinations(range(1, len(blocks)), parts - 1):
        spans = itertools.pairwise((0, *ends, len(blocks)))
        runs = [[i for block in blocks[a:b] for i in block] for a, b in spans]
        for chosen in itertools.permutations(places, parts):
            pairs = list(zip(runs, chosen, strict=True))
            if all(p.memory is None or memory_of(graph, run) <= p.memory for run, p in pairs):
                found.append(max(seconds_of(graph, run, p, blocks) for run, p in pairs))
    return min(found, default=None)


UNLIKE = (
    Place("a", 90, flops=3.0, bandwidth=2.0, link=5.0),
    Place("b", 160, flops=1.0, bandwidth=4.0, link=3.0),
    Place("c", None, flops=2.0, bandwidth=1.0, link=9.0),
)
ALIKE = (Place(memory=120, flops=2.0, bandwidth=3.0, link=4.0),) * 3


def checked(graph: NodeGraph, places: Sequence[Place], plan: Sequence[tuple[int, int]]) -> tuple[int, float]:
    """How many parts a plan has, which are runs of nodes in order, and the seconds of the slowest."""
    parts = [part for part, _ in plan]
    assert parts == sorted(parts) and set(parts) == set(range(parts[-1] + 1))
    runs = [[i for i, p in enumerate(parts) if p == part] for part in range(parts[-1] + 1)]
    blocks = blocks_of(graph)
    assert all(len({parts[i] for i in block}) == 1 for block in blocks)
    used = dict.fromkeys(range(len(places)), 0)
    slowest = 0.0
    for run in runs:
        (at,) = {plan[i][1] for i in run}
        used[at] += memory_of(graph, run)
        slowest = max(slowest, seconds_of(graph, run, places[at], blocks))
    for at, bytes_used in used.items():
        memory = places[at].memory
        assert memory is None or bytes_used <= memory
    return len(runs), slowest


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("places", [UNLIKE, ALIKE, UNLIKE[:2]], ids=["unlike", "alike", "two"])
@pytest.mark.parametrize("seed", range(5))
def test_best_cut(seed: int, places: Sequence[Place], held: bool) -> None:
    """As few parts as memory allows, or as many as asked for; the slowest as fast as can be."""
    graph = graph_of(np.random.default_rng(seed), 7, held)
    best = {parts: best_of(graph, places, parts) for parts in range(1, len(places) + 1)}
    least = next((parts for parts, seconds in best.items() if seconds is not None), None)
    if least is not None:
        parts, seconds = checked(graph, places, cut(graph, places))
        assert parts == least and np.isclose(seconds, best[least] or 0, rtol=1e-9)
    for asked, expected in best.items():
        if expected is not None:
            parts, seconds = checked(graph, places, cut(graph, places, asked))
            assert parts == asked and np.isclose(seconds, expected, rtol=1e-9)
        elif asked <= len(blocks_of(graph)):
            with pytest.raises(PartitionError, match="bytes of constants"):
                cut(graph, places, asked)


def graph_of_sizes(*sizes: int) -> NodeGraph:
    """Nodes with a constant each, of so many bytes."""
    function = FuncOp.of("main")
    nodes: list[Node] = []
    for number in range(len(sizes)):
        op = Item(result_types=[tensor((1,), "float32")])
        function.body.block.add_op(op)
        nodes.append(Node(op, frozenset({f"c{number}"}), frozenset(), 1, 1))
    return NodeGraph(function, nodes, {f"c{i}": size for i, size in enumerate(sizes)})


@pytest.mark.parametrize(
    ("sizes", "memories", "least"),
    [
        ((60, 60, 40, 40), (100, 100), 3),
        ((70, 50, 30, 50), (100, 100), 4),  # runs of half a place
        ((60, 60, 60, 10, 10), (70, 130), 5),  # of an eighth
        ((26, 26, 26, 26, 26, 26), (52, 26, 26, 26, 26), 5),
        ((10, 90, 30, 30, 30), (70, 120), 4),
    ],
)
def test_several_parts_a_place(sizes: Sequence[int], memories: Sequence[int], least: int) -> None:
    """Where one run a place does not fit, runs of as much as a place has, or of parts of that."""
    graph, places = graph_of_sizes(*sizes), [Place(memory=m) for m in memories]
    count, _ = checked(graph, places, cut(graph, places))
    assert count == least
    assert all(best_of(graph, places, parts) is None for parts in range(1, min(least, len(places))))


def test_more_parts_than_places() -> None:
    """Places take turns."""
    graph = graph_of_sizes(1, 1, 1, 1, 1)
    assert cut(graph, [Place(), Place()], 5) == [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]
    assert cut(NodeGraph(graph.function, [], {}), [Place()]) == []
    with pytest.raises(
        PartitionError, match="6 partitions: the nodes of the network that can be parted are 5"
    ):
        cut(graph, [Place()] * 6, 6)


@pytest.mark.parametrize(
    ("sizes", "memories", "message"),
    [
        ((10, 90, 30), (70, 80), "has 90 bytes of constants, the largest device has 80"),
        (
            (80, 80, 80),
            (80, 80),
            "240 bytes of constants do not fit: the devices have a device 80, a device 80",
        ),
        ((80, 80, 80), (80, None), "240 bytes .* fit in 3 partitions: the devices have b 80, a device inf"),
    ],
)
def test_no_room(sizes: Sequence[int], memories: Sequence[int | None], message: str) -> None:
    """What is too large, or how much is missing; a device without a bound has room for one part at least."""
    places = [Place("b" if None in memories else "", memory=m) for m in memories]
    places[-1] = Place(memory=memories[-1])
    with pytest.raises(PartitionError, match=message):
        cut(graph_of_sizes(*sizes), places, 3 if None in memories else 0)


@pytest.mark.parametrize("keeps", ["", "constants", "held", "unread", "first"])
def test_joins_go_where_they_are_read(keeps: str) -> None:
    """A part then waits for nobody; not so where a join stays for its own sake, or its part waits anyway."""
    function = FuncOp.of("main")
    large, small = tensor((100,), "float32"), tensor((1,), "float32")
    first = Item(result_types=[large])
    beside = Item(operands=first.results if keeps == "first" else [], result_types=[large])
    own = Item(operands=beside.results, result_types=[large])
    join = Item(operands=[*first.results, *own.results], result_types=[large])
    joined = Item(operands=join.results, result_types=[small])
    last = Item(operands=(own if keeps == "unread" else joined).results, result_types=[small])
    nodes: list[Node] = []
    for name, op in (("a", first), ("b", beside), ("", own), ("", join), ("", joined), ("c", last)):
        function.body.block.add_op(op)
        constants = frozenset(
            {name} if name else {"none"} if (keeps, op) == ("constants", join) else set[str]()
        )
        held = frozenset({"j"} if (keeps, op) == ("held", join) else set[str]())
        nodes.append(Node(op, constants, held, 1, 1))
    graph = NodeGraph(function, nodes, {"a": 50, "b": 50, "c": 50, "none": 0})
    places = [Place(memory=50, link=1.0)] * 3
    expected = [0, 1, 1, 1, 1, 2] if keeps else [0, 1, 1, 2, 2, 2]
    assert [part for part, _ in cut(graph, places)] == expected


def test_long_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are cut at fewer places, evenly."""
    graph = graph_of_sizes(*[1] * 10)
    monkeypatch.setattr(module_of_cuts, "MOST_PLACES", 4)
    assert [part for part, _ in cut(graph, [Place()] * 4, 4)] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    with pytest.raises(PartitionError, match="6 partitions: .* can be parted are 4"):
        cut(graph, [Place()] * 6, 6)
