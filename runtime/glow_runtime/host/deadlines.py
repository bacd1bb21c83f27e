"""Deadlines: a thread that calls back those whose time is over."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from itertools import count

#: Calls that are not needed any more, from which on they are cleared away where they are most of all.
MANY = 256


class Deadlines:
    """Calls at times, by `time.perf_counter`. Its thread starts with the first of them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        #: (moment, number, call): a list that is empty where the call is not needed any more.
        self._heap: list[tuple[float, int, list[Callable[[], None]]]] = []
        self._dropped = 0
        self._numbers = count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def at(self, moment: float, call: Callable[[], None]) -> Callable[[], None]:
        """Have `call` called at a moment, soon after at least; what it returns has that forgotten."""
        entry = [call]
        with self._changed:
            heapq.heappush(self._heap, (moment, next(self._numbers), entry))
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="glow-deadlines", daemon=True)
                self._thread.start()
            if self._heap[0][2] is entry:
                self._changed.notify()
        return lambda: self._drop(entry)

    def _drop(self, entry: list[Callable[[], None]]) -> None:
        """Let go of what a call holds, and now and then of its place."""
        entry.clear()
        with self._changed:
            self._dropped += 1
            if self._dropped > max(MANY, len(self._heap) // 2):
                self._heap = [item for item in self._heap if item[2]]
                heapq.heapify(self._heap)
                self._dropped = 0

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (not self._heap or self._heap[0][0] > time.perf_counter()):
                    wait = self._heap[0][0] - time.perf_counter() if self._heap else None
                    self._changed.wait(wait)
                if self._closed:
                    return
                entry = heapq.heappop(self._heap)[2]
            for call in tuple(entry):
                call()
            del entry

    def close(self) -> None:
        """End the thread; no more calls come."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
