"""Threads that share the kernels of a program."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[int], None]


class Workers:
    """`count - 1` threads beside the caller; `run(job)` calls `job(worker)` once on each of them."""

    def __init__(self, count: int) -> None:
        self._queues: list[SimpleQueue[Job | None]] = [SimpleQueue() for _ in range(count - 1)]
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        for number, queue in enumerate(self._queues, 1):
            threading.Thread(
                target=_serve, args=(number, queue, self._done), name=f"glow-{number}", daemon=True
            ).start()
        weakref.finalize(self, _stop, self._queues)

    def run(self, job: Job) -> None:
        """Run the job on every worker, 0 in the calling thread; returns when all are done."""
        for queue in self._queues:
            queue.put(job)
        try:
            job(0)
        finally:
            failures = [self._done.get() for _ in self._queues]
        for failure in failures:
            if failure is not None:
                raise failure


def _serve(number: int, queue: SimpleQueue[Job | None], done: SimpleQueue[BaseException | None]) -> None:
    while (job := queue.get()) is not None:
        try:
            job(number)
        except BaseException as error:  # the caller raises it
            done.put(error)
        else:
            done.put(None)


def _stop(queues: list[SimpleQueue[Job | None]]) -> None:
    for queue in queues:
        queue.put(None)
