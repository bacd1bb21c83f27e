"""The `process` device: a process of its own, which may crash alone, and is started again then."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from weakref import finalize

from glow_dialects.core.errors import DeviceError
from glow_runtime.devices.channel import Channel, copied
from glow_runtime.devices.device import Device
from glow_runtime.devices.function import DeviceFunction, Recipe
from glow_runtime.devices.manager import DeviceManager, Run
from glow_runtime.devices.nursery import NURSERY
from glow_runtime.devices.worker import Evict, Failed, Fetch, Finished, Load, Release

#: Crashes in a row, without a run between them that ended, after which the device is given up.
MOST_CRASHES = 5


@dataclass(frozen=True)
class Resident:
    """A tensor that a run left on a device, until it is released or the device crashes."""

    owner: ProcessManager
    key: int
    generation: int
    shape: tuple[int, ...]
    dtype: Any


@dataclass
class _Task:
    """Something to ask the worker for, by the thread that talks to it; `finished` tells who waits."""

    message: Any
    finished: threading.Event
    error: BaseException | None = None
    arrays: Mapping[str, Any] | None = None


class ProcessManager(DeviceManager):
    """A worker process, and the thread that talks to it, one request after another.

    Constants are in files that the worker maps; tensors travel through memory that both map. When the worker
    is gone it is started again and its functions are loaded; the run that it had fails, or is repeated.
    """

    def __init__(self, device: Device) -> None:
        if not hasattr(os, "fork"):
            raise DeviceError(f"device {device.kind}: {sys.platform} cannot fork processes; use kind 'cpu'")
        super().__init__(device)
        self._folder = Path(tempfile.mkdtemp(prefix="glow-device-", dir=_memory_folder()))
        self._cleanup = finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._recipes: dict[str, tuple[Recipe, Path]] = {}
        self._numbers = count()
        self._generation = 0
        self._crashes = 0
        self._released: list[int] = []
        self._queue: SimpleQueue[Run | _Task | None] = SimpleQueue()
        #: Held by the thread that talks to the worker.
        self._talking = threading.Lock()
        self.pid = 0
        self._start()
        self._thread = threading.Thread(target=self._serve, name=f"glow-{self.name}", daemon=True)
        self._thread.start()

    def renew(self) -> None:
        super().renew()
        self._cleanup.detach()
        self._channel.close()

    # --- the process -------------------------------------------------------------------------
    def _start(self) -> None:
        """Start a worker; DeviceError where it does not come up."""
        cores = self.device.cores if isinstance(self.device.cores, tuple) else ()
        self.pid, connection = NURSERY.worker(cores)
        self._channel = Channel(connection)

    def _end(self) -> None:
        """End the worker, whatever it does."""
        self._channel.close()
        with suppress(OSError):  # it has ended
            os.kill(self.pid, signal.SIGKILL)

    def _restart(self) -> None:
        """Another worker with the same functions."""
        self.state = "restarting"
        self._end()
        self._generation += 1
        self._crashes += 1
        self.counts.restarts += 1
        if self._crashes > MOST_CRASHES:
            self.state = "failed"
            return
        try:
            self._start()
            for name, (recipe, _) in list(self._recipes.items()):
                self._ask(Load(name, recipe))
        except (DeviceError, EOFError, OSError):
            self._restart()
        else:
            self.state = "ready"

    def _ask(self, message: Any, arrays: Mapping[str, Any] | None = None) -> tuple[Finished, dict[str, Any]]:
        """The worker's answer; EOFError or OSError where it is gone, its error where it has one."""
        self._channel.send(message, arrays)
        answer, outputs = self._channel.receive()
        if isinstance(answer, Failed):
            raise answer.error
        return answer, outputs

    # --- loading -----------------------------------------------------------------------------
    def _load(self, function: DeviceFunction) -> None:
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        try:
            recipe = function.recipe(folder)
            pickle.dumps(recipe)
            self._wait(Load(function.name, recipe))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._recipes[function.name] = recipe, folder

    def _evict(self, name: str) -> None:
        _, folder = self._recipes.pop(name)
        with suppress(DeviceError):
            self._wait(Evict(name))
        shutil.rmtree(folder, ignore_errors=True)

    def _wait(self, message: Any) -> Mapping[str, Any]:
        """Have the thread ask the worker for something, and wait for it."""
        self.check_open()
        task = _Task(message, threading.Event())
        self._queue.put(task)
        while not task.finished.wait(0.5):
            if not self._thread.is_alive():
                raise DeviceError(f"device {self.name} is closed")
        if task.error is not None:
            raise task.error
        return task.arrays or {}

    # --- running -----------------------------------------------------------------------------
    def submit(self, run: Run) -> None:
        run.queued = time.perf_counter()
        if self.state in ("closed", "failed"):
            run.done(None, DeviceError(f"device {self.name} is {self.state}"))
        else:
            self._queue.put(run)

    def run_here(self, function: str, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
        if self.state != "ready" or not self._queue.empty() or not self._talking.acquire(blocking=False):
            return None
        answer: list[tuple[Any, BaseException | None]] = []
        try:
            self._run(Run(function, inputs, lambda outputs, error: answer.append((outputs, error))))
        finally:
            self._talking.release()
        outputs, error = answer[0]
        if error is not None:
            raise error
        return outputs

    def fetch(self, value: Any) -> Any:
        if not isinstance(value, Resident) or value.owner is not self:
            return value
        if value.generation != self._generation:
            raise DeviceError(f"device {self.name}: a tensor on it was lost when its process ended")
        return self._wait(Fetch(value.key))["tensor"]

    def release(self, value: Any) -> None:
        if isinstance(value, Resident) and value.owner is self and value.generation == self._generation:
            self._released.append(value.key)

    @property
    def queued(self) -> int:
        return self._queue.qsize()

    def _serve(self) -> None:
        """The life of the thread."""
        while (item := self._queue.get()) is not None:
            with self._talking:
                if isinstance(item, Run):
                    self._run(item)
                else:
                    self._do(item)
            del item  # holds arrays
        while not self._queue.empty():
            item = self._queue.get()
            error = DeviceError(f"device {self.name} is closed")
            if isinstance(item, Run):
                item.done(None, error)
            elif item is not None:
                item.error = error
                item.finished.set()

    def _do(self, task: _Task) -> None:
        """Loading, evicting, fetching: once more where the worker was gone."""
        for attempt in range(2):
            try:
                _, arrays = self._ask(task.message)
                task.arrays = copied(arrays)
            except (EOFError, OSError):
                self._restart()
                task.error = DeviceError(f"device {self.name}: its process ended")
                if attempt or self.state != "ready":
                    break
                if isinstance(task.message, Evict):  # the new one never had it
                    task.error = None
                    break
                continue
            except BaseException as error:
                task.error = error
            else:
                task.error = None
            break
        task.finished.set()

    def _run(self, run: Run) -> None:
        if not self.begins(run):
            return
        outputs: dict[str, Any] | None = None
        failure: BaseException | None = None
        try:
            if self.state in ("closed", "failed"):
                raise DeviceError(f"device {self.name} is {self.state}")
            if run.function not in self._loaded:
                raise DeviceError(f"device {self.name} has no function '{run.function}'")
            outputs = self._executed(run)
            self._crashes = 0
        except (EOFError, OSError):
            self._restart()
            if self.device.retry and not run.repeated and self.state == "ready":
                run.repeated = True
                self._run(run)
                return
            failure = DeviceError(f"device {self.name}: its process ended in the middle of '{run.function}'")
        except BaseException as error:
            failure = error
        self.count(run, failure)
        run.done(outputs, failure)

    def _executed(self, run: Run) -> dict[str, Any]:
        """Outputs of a run by the worker: arrays of this process, and tensors that stay there."""
        kept: dict[str, int] = {}
        inputs: dict[str, Any] = {}
        for name, value in run.inputs.items():
            if not isinstance(value, Resident):
                inputs[name] = value
            elif value.owner is not self:
                inputs[name] = value.owner.fetch(value)
            elif value.generation == self._generation:
                kept[name] = value.key
            else:
                raise DeviceError(f"device {self.name}: a tensor on it was lost when its process ended")
        keep = {name: next(self._numbers) for name in run.resident}
        if self._released:
            released, self._released = tuple(self._released), []
            self._ask(Release(released))
        answer, outputs = self._ask((run.function, kept, keep), inputs)
        arrays = copied(outputs)
        for name, (shape, dtype) in answer.items():
            arrays[name] = Resident(self, keep[name], self._generation, shape, dtype)
        return arrays

    def close(self) -> None:
        with self._changes:
            if self.state == "closed":
                return
            self.state = "closed"
        self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()
        with self._talking:
            self._end()
        shutil.rmtree(self._folder, ignore_errors=True)


def _memory_folder() -> str | None:
    """Where files are in memory, if this system has such a place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
