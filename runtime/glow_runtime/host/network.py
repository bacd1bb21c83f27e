"""Network: a model that a host serves, with partitions, replicas and current requests."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glow_backends.base import Port, check_inputs, check_mapping
from glow_runtime.devices.manager import DeviceManager
from glow_runtime.host.partitions import Partition
from glow_runtime.program_source import Signature

#: Latencies from which percentiles are taken.
RECENT = 2048
#: Seconds of a run that asyncio does itself, and shapes of which it is known how long they take.
QUICK, MOST_SHAPES = 3e-4, 256
Shapes = tuple[tuple[int, ...], ...]


def shapes_of(inputs: Mapping[str, Any]) -> Shapes:
    """The shapes of the inputs of a request."""
    return tuple(getattr(value, "shape", ()) for value in inputs.values())


@dataclass
class Replica:
    """One copy of a network's partitions on devices."""

    managers: Sequence[DeviceManager]
    outstanding: int = 0
    last_used: int = 0


@dataclass
class NetworkStatistics:
    """Requests of a network so far; latencies in seconds, of the last ones."""

    requests: int = 0
    succeeded: int = 0
    failed: int = 0
    refused: int = 0
    cancelled: int = 0
    active: int = 0
    queued: int = 0
    batches: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    #: Of how many requests the latencies were taken, and their sum.
    timed: int = 0
    seconds: float = 0.0


@dataclass
class Counts:
    """What statistics are made of."""

    requests: int = 0
    succeeded: int = 0
    failed: int = 0
    refused: int = 0
    cancelled: int = 0
    batches: int = 0
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    timed: int = 0
    seconds: float = 0.0

    def took(self, *latencies: float) -> None:
        """Count the latencies of requests."""
        self.latencies.extend(latencies)
        self.timed += len(latencies)
        self.seconds += sum(latencies)


class Network:
    """A version of a model on devices: partitions in an order that runs, and replicas of them."""

    def __init__(
        self,
        name: str,
        version: int,
        partitions: Sequence[Partition],
        inputs: Sequence[Signature],
        outputs: Sequence[Signature],
        check: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        self.name, self.version = name, version
        #: What a request goes through.
        self.parts = list(partitions)
        self.inputs, self.outputs = list(inputs), list(outputs)
        #: Raises BindingError for inputs that do not fit, and gives them as arrays.
        self.check = check
        self.replicas: list[Replica] = []
        self.counts = Counts()
        #: Seconds that requests took, of late, by the shapes of their inputs.
        self._seconds: dict[Shapes, float] = {}
        #: Notified when a request ends.
        self.idle = threading.Condition()
        self.output_names = [s.name for s in self.outputs]
        self.readers, self.writers = _links(self.parts)
        self.single = len(self.parts) == 1
        #: Whether threads that ask may run it themselves.
        self.inline = False

    def is_quick(self, shapes: Shapes) -> bool:
        """Whether a request takes less than a change of threads. New shapes do not: they may be compiled."""
        return self.inline and self._seconds.get(shapes, math.inf) < QUICK

    def took(self, shapes: Shapes, seconds: float, waited: bool) -> None:
        """Remember how long a request took; one that waited for others took less itself."""
        if len(self._seconds) >= MOST_SHAPES:
            self._seconds.clear()
        self._seconds[shapes] = min(seconds, self._seconds.get(shapes, math.inf)) if waited else seconds

    @property
    def programs(self) -> Sequence[Network]:
        """What is on the devices: this network, or the programs that its plan has made so far."""
        return [self]

    @property
    def partitions(self) -> Sequence[Partition]:
        """Its partitions; those of the program that ran last, where there are several or none yet."""
        programs = self.programs
        return programs[-1].parts if programs else self.parts

    def placed(self) -> list[tuple[DeviceManager, Partition]]:
        """The partitions of all replicas, each with its device."""
        return [pair for r in self.replicas for pair in zip(r.managers, self.parts, strict=True)]

    def close(self) -> None:
        """End what runs here for it."""

    @property
    def outstanding(self) -> int:
        """Requests under way."""
        return sum(r.outstanding for r in self.replicas)

    def statistics(self) -> NetworkStatistics:
        """Counts so far, and percentiles of the latest latencies."""
        c = self.counts
        times = sorted(c.latencies)

        def percentile(part: float) -> float:
            return times[min(int(part * len(times)), len(times) - 1)] if times else 0.0

        return NetworkStatistics(
            c.requests, c.succeeded, c.failed, c.refused, c.cancelled, self.outstanding,
            0, c.batches,
            percentile(0.5), percentile(0.9), percentile(0.99), c.timed, c.seconds,
        )  # fmt: skip

    def resident(self, replica: Replica, number: int) -> frozenset[str]:
        """Outputs of a partition that only partitions on its device read."""
        here = replica.managers[number]
        return frozenset(
            name
            for name in self.parts[number].outputs
            if name not in self.output_names
            and all(replica.managers[r] is here for r in self.readers.get(name, ()))
        )

    def __repr__(self) -> str:
        parts = f"{len(self.partitions)} partitions, {len(self.replicas)} replicas"
        return f"Network({self.name!r}, version {self.version}: {parts})"


def _links(partitions: Sequence[Partition]) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Which partitions read each value, and which one writes it."""
    readers: dict[str, list[int]] = {}
    writers: dict[str, int] = {}
    for number, part in enumerate(partitions):
        for name in part.inputs:
            readers.setdefault(name, []).append(number)
        for name in part.outputs:
            writers[name] = number
    return readers, writers


def static_check(ports: Sequence[Port]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """The check of a network of fixed shapes."""
    expected = list(ports)
    return lambda inputs: check_inputs(expected, inputs)


def open_check(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The check of a network whose executable checks more."""
    check_mapping(inputs)
    return inputs
