"""Telemetry: requests as spans of OpenTelemetry, within those of their clients; needs `opentelemetry-api`."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from glow_dialects.core.errors import UnsupportedError
from glow_runtime.host.request import Request
from glow_runtime.host.tracing import MOST_EVENTS, Tracer

#: (name, category, track, start, end, facts) of what was noted of a request.
Noted = tuple[str, str, str, float, float, dict[str, Any]]


class Telemetry(Tracer):
    """A Tracer that also sends OpenTelemetry a span for each request, with waiting, runs and kernels below
    it.

    A request is a child of the caller's span. For a caller in another process, the server uses its
    `traceparent`.

    Args:
        provider: The tracer provider; None: the process's own.
        levels: As for `Tracer`.
        limit: As for `Tracer`.
        kernels: As for `Tracer`.

    Examples:
        >>> host = glow.HostManager(tracer=glow.Telemetry())  # doctest: +SKIP
    """

    def __init__(
        self,
        provider: Any = None,
        levels: frozenset[str] = frozenset(),
        limit: int = MOST_EVENTS,
        kernels: bool = False,
    ) -> None:
        super().__init__(levels, limit, kernels)
        try:
            from opentelemetry import context, propagate, trace
        except ImportError:
            raise UnsupportedError(
                "telemetry needs OpenTelemetry: pip install 'glow-compiler[telemetry]'"
            ) from None
        self._api: Any = trace
        self._context: Any = context
        self._propagate: Any = propagate
        self._tracer = trace.get_tracer("glow", tracer_provider=provider)
        #: Nanoseconds since 1970 when `time.perf_counter` was 0.
        self._zero = time.time_ns() - time.perf_counter_ns()
        self._lock = threading.Lock()
        #: What was noted of requests under way.
        self._noted: dict[int, list[Noted]] = {}
        #: The requests of batches under way, by the first of each.
        self._batches: dict[int, Sequence[int]] = {}

    @contextmanager
    def caller(self, headers: Mapping[str, str]) -> Generator[None]:
        token = self._context.attach(self._propagate.extract(headers))
        try:
            yield
        finally:
            self._context.detach(token)

    def arrived(self, request: Request) -> None:
        caller = self._context.get_current()
        with self._lock:
            self._noted[request.number] = []
        request.future.add_done_callback(lambda future: self._answered(request, caller))

    def together(self, numbers: Sequence[int]) -> None:
        with self._lock:
            self._batches[numbers[0]] = numbers

    def span(self, name: str, category: str, track: str, start: float, end: float, **facts: Any) -> None:
        super().span(name, category, track, start, end, **facts)
        if category == "request" or (self.levels and category not in self.levels):
            return
        number = facts.get("request", -1)
        with self._lock:
            for each in self._batches.get(number, (number,)) if category != "queue" else (number,):
                if each in self._noted:
                    told = facts | ({"batch": number} if each != number else {}) | {"request": each}
                    self._noted[each].append((name, category, track, start, end, told))

    def _answered(self, request: Request, caller: Any) -> None:
        with self._lock:
            below = self._noted.pop(request.number)
            self._batches.pop(request.number, None)
        facts: dict[str, Any] = {"request": request.number}
        future = request.future
        if future.cancelled():
            facts["error"] = "cancelled"
        elif (error := future.exception()) is not None:
            facts["error"] = str(error)
        span = request.arrived, time.perf_counter()
        self._tell((request.network.name, "request", "requests", *span, facts), below, caller)

    def _tell(self, request: Noted, below: list[Noted], caller: Any) -> None:
        """Give out a request and what is below it: kernels in their partitions, the rest in the request."""
        outer = self._begun(request, caller)
        inside = self._api.set_span_in_context(outer, caller)
        partitions = [n for n in below if n[1] == "partition"]
        spans = [self._begun(n, inside) for n in partitions]
        for noted in below:
            if noted[1] == "partition":
                continue
            place = inside
            for (_, _, track, start, end, _), span in zip(partitions, spans, strict=True):
                if noted[1] == "kernel" and noted[2] == track and start <= noted[3] <= end:
                    place = self._api.set_span_in_context(span, caller)
            self._end(self._begun(noted, place), noted)
        for span, noted in zip(spans, partitions, strict=True):
            self._end(span, noted)
        self._end(outer, request)

    def _begun(self, noted: Noted, context: Any) -> Any:
        name, category, track, start, _, facts = noted
        attributes = {"glow.category": category, "glow.track": track}
        attributes |= {f"glow.{n}": v for n, v in facts.items() if n != "error"}
        title = name if name != "wait" else category
        return self._tracer.start_span(title, context, start_time=self._moment(start), attributes=attributes)

    def _end(self, span: Any, noted: Noted) -> None:
        error = noted[5].get("error")
        if error is not None:
            span.set_status(self._api.Status(self._api.StatusCode.ERROR, error))
        span.end(self._moment(noted[4]))

    def _moment(self, seconds: float) -> int:
        return self._zero + round(seconds * 1e9)
