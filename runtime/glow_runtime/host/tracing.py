"""Tracer: what happened when, on one timeline, as Chrome and Perfetto show it."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glow_backends.base import STEP_TIMES
from glow_dialects.core.files import whole
from glow_runtime.host.picture import schedule_svg
from glow_runtime.host.request import Request

if TYPE_CHECKING:
    from glow_runtime.devices.function import DeviceFunction
    from glow_runtime.devices.manager import Run

#: Events that a tracer keeps: the latest.
MOST_EVENTS = 1_000_000


class Tracer:
    """Records when requests, queues, transfers and partitions ran, by device. Can be used from any thread.

    Args:
        levels: The categories to record; empty means all.
        limit: The largest number of events.
        kernels: Also record each step of a program. A program then runs one request at a time.

    Examples:
        >>> tracer = glow.Tracer()
        >>> with tracer.scope("preprocessing"):
        ...     pass
        >>> tracer.write("trace.json")
    """

    def __init__(
        self, levels: frozenset[str] = frozenset(), limit: int = MOST_EVENTS, kernels: bool = False
    ) -> None:
        self.levels, self.kernels = levels, kernels
        self._events: deque[tuple[str, str, str, float, float, dict[str, Any]]] = deque(maxlen=limit)
        self._start = time.perf_counter()

    def span(self, name: str, category: str, track: str, start: float, end: float, **facts: Any) -> None:
        """Note what went on from `start` to `end`, by `time.perf_counter`."""
        if not self.levels or category in self.levels:
            self._events.append((name, category, track, start, end, facts))

    def arrived(self, request: Request) -> None:
        """A request has come, on this thread."""

    def together(self, numbers: Sequence[int]) -> None:
        """Requests run as one batch, which has the number of the first."""

    def ended(self, request: Request, error: BaseException | None) -> None:
        """Note a request that has ended; what was noted of it before has its number."""
        facts: dict[str, Any] = {"request": request.number}
        if error is not None:
            facts["error"] = str(error)
        category = "batch" if request.batch else "request"
        span = request.arrived, time.perf_counter()
        self.span(request.network.name, category, "requests", *span, **facts)

    def caller(self, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        """A block in which requests are those of a client that sent such headers."""
        del headers
        return nullcontext()

    def ran(
        self,
        device: str,
        function: DeviceFunction,
        run: Run,
        outputs: Mapping[str, Any] | None,
        number: int,
    ) -> Mapping[str, Any] | None:
        """Note a run of request `number` that has just ended; its outputs without the times of steps."""
        now = time.perf_counter()
        began = run.began or now
        if run.queued and run.began:
            self.span("wait", "device queue", device, run.queued, began, request=number)
        self.span(run.function, "partition", device, began, now, request=number)
        if outputs is None or STEP_TIMES not in outputs:
            return outputs
        times = outputs[STEP_TIMES]
        # The clock of another machine is another one: there only the distances count.
        late = 0.0 if not len(times) or began <= times[0, 0] <= now else began - times[0, 0]
        for step, (start, end) in zip(function.steps, (times + late).tolist(), strict=True):
            facts = {"operation": step.operation, "kernel": step.kernel, "nodes": list(step.nodes)}
            self.span(step.label, "kernel", device, start, end, request=number, **facts)
        return {n: v for n, v in outputs.items() if n != STEP_TIMES}

    @contextmanager
    def scope(self, name: str, category: str = "user", track: str = "user") -> Generator[None]:
        """Note a block of code; blocks may nest."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.span(name, category, track, start, time.perf_counter())

    def instant(self, name: str, category: str = "user", track: str = "user") -> None:
        """Note a moment."""
        now = time.perf_counter()
        self.span(name, category, track, now, now)

    def events(self) -> list[dict[str, Any]]:
        """The events in the form of Chrome's trace files; times in microseconds since the tracer began."""
        tracks: dict[str, int] = {}
        process = os.getpid()
        timed: list[dict[str, Any]] = []
        for name, category, track, start, end, facts in sorted(self._events, key=lambda e: e[3]):
            number = tracks.setdefault(track, len(tracks) + 1)
            event: dict[str, Any] = {"name": name, "cat": category, "pid": process, "tid": number}
            event |= {"ph": "X", "ts": (start - self._start) * 1e6, "dur": (end - start) * 1e6}
            timed.append(event | ({"args": facts} if facts else {}))
        named = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": n, "args": {"name": track}}
            for track, n in tracks.items()
        ]
        return named + timed

    def merge(self, other: Tracer) -> None:
        """Take another tracer's events in."""
        self._events.extend(other._events)

    def write(self, path: str | Path) -> None:
        """Write a file for chrome://tracing or ui.perfetto.dev, or a picture of the partitions (.svg)."""
        path, events = Path(path), self.events()
        text = schedule_svg(events) if path.suffix == ".svg" else json.dumps({"traceEvents": events})
        with whole(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
