"""Tracer: what happened when, on one timeline, as Chrome and Perfetto show it."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glow_dialects.core.files import whole

#: Events that a tracer keeps: the latest.
MOST_EVENTS = 1_000_000


class Tracer:
    """Spans of time on tracks, from any thread: requests, queues, transfers, partitions by device.

    `levels` are the categories that it notes; none: all.
    """

    def __init__(self, levels: frozenset[str] = frozenset(), limit: int = MOST_EVENTS) -> None:
        self.levels = levels
        self._events: deque[tuple[str, str, str, float, float, dict[str, Any]]] = deque(maxlen=limit)
        self._start = time.perf_counter()

    def span(self, name: str, category: str, track: str, start: float, end: float, **facts: Any) -> None:
        """Note what went on from `start` to `end`, by `time.perf_counter`."""
        if not self.levels or category in self.levels:
            self._events.append((name, category, track, start, end, facts))

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

    def write(self, path: Path) -> None:
        """Write a file for chrome://tracing or ui.perfetto.dev."""
        with whole(path) as temporary:
            temporary.write_text(json.dumps({"traceEvents": self.events()}), encoding="utf-8")
