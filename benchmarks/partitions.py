"""Estimated times of partitions beside measured ones: `python -m benchmarks.partitions resnet50 densenet121`.

Each light model is cut twice: into parts of equal estimated time, and into parts of as many nodes each, which
are uneven. Times are those of the processor, the least of several runs, in milliseconds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import glow_compiler as glow
from benchmarks.models import light
from glow_backends.base import get_backend
from glow_backends.phases import common_phases, target_phases
from glow_dialects.dialects import context
from glow_dialects.ops.module import functions
from glow_passes.partition.nodes import NodeGraph, node_graph
from glow_passes.partition.partition import partition
from glow_passes.partition.split import extract, mark
from glow_passes.pipeline import PassRunner
from glow_runtime.devices.device import Device
from glow_runtime.devices.rates import Rates, rates_of
from glow_runtime.host.partitions import Partition, Room, divide

PARTS, RUNS = 8, 9


def estimate(graph: NodeGraph, rates: Rates) -> float:
    """Milliseconds of the nodes of a function, as the partitioner has them."""
    return 1e3 * sum(max(n.work / rates.flops, n.traffic / rates.bandwidth) for n in graph.nodes)


def measured(partitions: list[Partition], inputs: Mapping[str, Any]) -> list[float]:
    """Milliseconds of each partition."""
    values = dict(inputs)
    times: list[float] = []
    for part in partitions:
        run, given = part.function.runner().run, {n: values[n] for n in part.inputs}
        values.update(run(given))
        best = float("inf")
        for _ in range(RUNS):
            start = time.thread_time()
            run(given)
            best = min(best, time.thread_time() - start)
        times.append(1e3 * best)
    return times


def show(name: str, folder: Path, even: bool) -> None:
    """Print the parts of one model."""
    module, backend, rates = glow.load(light(name, 1, folder)), get_backend("cpu"), rates_of(Device())
    lowered = module.clone()
    for _, passes in (*common_phases(backend), *target_phases(backend)):
        PassRunner(context()).run(lowered, passes)
    function = next(functions(lowered))
    if not even:
        graph = node_graph(function)
        mark(graph, [PARTS * i // len(graph.nodes) for i in range(len(graph.nodes))])
    rooms = [Room(Device(), f"d{i}", None) for i in range(PARTS)]
    made = partition(function, [room.place for room in rooms], PARTS)
    estimated = [estimate(node_graph(f), rates) for f in made]
    pieces = [divide("part", extract(f), rooms[:1], 1) for f in made]
    rng = np.random.default_rng(0)
    feed = {p.name: rng.standard_normal(p.shape).astype(p.dtype) for p in glow.compile(module).program.inputs}
    times = measured([p for division in pieces for p in division.partitions], feed)
    off = 100 * float(np.exp(np.median(np.abs(np.log(np.array(estimated) / times)))) - 1)
    alike, slowest = np.corrcoef(estimated, times)[0, 1], max(times) / np.mean(times)
    print(f"{name}, {'even' if even else 'uneven'} parts: correlation {alike:.2f}, median {off:.0f} % off")
    print(f"  the slowest is {slowest:.2f} of the mean")
    print("  estimated", *(f"{t:.2f}" for t in estimated))
    print("  measured ", *(f"{t:.2f}" for t in times), flush=True)


if __name__ == "__main__":
    print(f"rates: {rates_of(Device())}")
    with tempfile.TemporaryDirectory() as place:
        for model in sys.argv[1:] or ["squeezenet", "resnet50"]:
            for evenly in (True, False):
                show(model, Path(place), evenly)
