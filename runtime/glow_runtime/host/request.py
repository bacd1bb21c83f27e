"""Request: one call of a network, from its arrival to its answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from glow_runtime.host.network import Network, Replica

if TYPE_CHECKING:
    from glow_runtime.devices.manager import Abandonable


class Request:
    """A call under way: smaller priorities come first, equal ones as they arrived."""

    __slots__ = (
        "arrived", "batch", "deadline", "execution", "form", "future", "inputs", "network", "number",
        "priority", "replica", "rows", "started",
    )  # fmt: skip

    def __init__(
        self,
        network: Network,
        inputs: Mapping[str, Any],
        priority: int = 0,
        deadline: float | None = None,
        number: int = 0,
    ) -> None:
        self.network, self.inputs = network, inputs
        self.priority, self.deadline, self.number = priority, deadline, number
        self.future: Future[dict[str, Any]] = Future()
        self.arrived = time.perf_counter()
        self.started = 0.0
        self.replica: Replica | None = None
        self.execution: Abandonable | None = None
        #: Whether it is a batch of other requests, which are counted instead of it.
        self.batch = False
        #: What batchers know of it: its samples, and what must be equal within a batch.
        self.rows, self.form = 0, ()

    def __lt__(self, other: Request) -> bool:
        return (self.priority, self.number) < (other.priority, other.number)
