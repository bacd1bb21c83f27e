"""Devices that are threads of this process: `cpu` and `interpreter`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from glow_dialects.core.errors import DeviceError
from glow_dialects.core.object_pool import Pool
from glow_runtime.devices.device import Device
from glow_runtime.devices.function import DeviceFunction, Runner
from glow_runtime.devices.manager import DeviceManager, Run


class LocalManager(DeviceManager):
    """As many threads as the device has cores, which take runs in the order in which they came.

    A run that may be done by the caller's thread takes the place of one of them meanwhile.
    """

    local = True

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._runners: dict[str, Runner] = {}
        self._queue: SimpleQueue[Run | None] = SimpleQueue()
        self._lanes: Pool[int] = Pool(lambda: 0, device.lanes)
        for lane in [self._lanes.take() for _ in range(device.lanes)]:
            self._lanes.give(lane)
        pinned = device.cores if isinstance(device.cores, tuple) else None
        self._pinned = pinned is not None
        self._threads = [
            threading.Thread(
                target=self._serve,
                args=(None if pinned is None else pinned[lane],),
                name=f"glow-{self.name}-{lane}",
                daemon=True,
            )
            for lane in range(device.lanes)
        ]
        for thread in self._threads:
            thread.start()

    def _load(self, function: DeviceFunction) -> None:
        self._runners[function.name] = function.runner()

    def _evict(self, name: str) -> None:
        del self._runners[name]

    def submit(self, run: Run) -> None:
        run.queued = time.perf_counter()
        if self.state == "closed":
            run.done(None, DeviceError(f"device {self.name} is closed"))
        else:
            self._queue.put(run)

    def run_here(self, function: str, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
        if self._pinned or self.state != "ready" or not self._queue.empty():
            return None
        lane = self._lanes.try_take()
        if lane is None:
            return None
        began = time.perf_counter()
        counts = self.counts
        try:
            return self._runners[function].run(inputs)
        except BaseException:
            counts.errors += 1
            raise
        finally:
            self._lanes.give(lane)
            counts.runs += 1
            counts.busy += time.perf_counter() - began

    def _serve(self, core: int | None) -> None:
        """The life of one thread."""
        if core is not None and hasattr(os, "sched_setaffinity"):
            with suppress(OSError):  # a core that is not there
                os.sched_setaffinity(0, {core})
        while (run := self._queue.get()) is not None:
            self._run(run)
            del run  # holds arrays

    def _run(self, run: Run) -> None:
        outputs: dict[str, Any] | None = None
        failure: BaseException | None = None
        lane = self._lanes.take()
        try:
            if not self.begins(run):
                return
            if self.state == "closed":
                raise DeviceError(f"device {self.name} is closed")
            runner = self._runners.get(run.function)
            if runner is None:
                raise DeviceError(f"device {self.name} has no function '{run.function}'")
            outputs = runner.run(run.inputs)
        except BaseException as error:
            failure = error
        finally:
            self._lanes.give(lane)
        self.count(run, failure)
        run.done(outputs, failure)

    @property
    def queued(self) -> int:
        return self._queue.qsize()

    def close(self) -> None:
        with self._changes:
            if self.state == "closed":
                return
            self.state = "closed"
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        while not self._queue.empty():  # put there by those who had looked before it was closed
            run = self._queue.get()
            if run is not None:
                run.done(None, DeviceError(f"device {self.name} is closed"))
        self._runners.clear()
