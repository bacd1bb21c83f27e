"""Deadlines: a thread that calls back those whose time is over."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from itertools import count


class Deadlines:
    """Calls at times, by `time.perf_counter`. Its thread starts with the first of them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def at(self, moment: float, call: Callable[[], None]) -> None:
        """Have `call` called at a moment, soon after at least."""
        with self._changed:
            heapq.heappush(self._heap, (moment, next(self._numbers), call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="glow-deadlines", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (not self._heap or self._heap[0][0] > time.perf_counter()):
                    wait = self._heap[0][0] - time.perf_counter() if self._heap else None
                    self._changed.wait(wait)
                if self._closed:
                    return
                call = heapq.heappop(self._heap)[2]
            call()

    def close(self) -> None:
        """End the thread; no more calls come."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
