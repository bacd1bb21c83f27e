"""DeviceManager: one physical device, whatever its kind: loading, memory, runs, state, statistics."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from glow_dialects.core.errors import DeviceError, DeviceMemoryError
from glow_dialects.core.forks import renew_after_fork
from glow_runtime.devices.device import Device
from glow_runtime.devices.function import DeviceFunction

State = Literal["ready", "restarting", "failed", "closed"]
#: (outputs, None) or (None, error).
Done = Callable[[Mapping[str, Any] | None, BaseException | None], None]


class Abandonable(Protocol):
    """Something under way that can be told to go no further."""

    def abandon(self, error: BaseException) -> None:
        """Begin nothing more, and end with this error."""
        ...


@dataclass
class Run:
    """One run of a loaded function. `done` is called once, from a thread of the device.

    Outputs that `resident` names may stay on the device, for another function that it runs. `number` is that
    of the request which it is for.
    """

    function: str
    inputs: Mapping[str, Any]
    done: Done
    resident: frozenset[str] = frozenset()
    #: Whether a crash of the device has ended it before.
    repeated: bool = False
    #: When it was queued and when it began, by `time.perf_counter`.
    queued: float = 0.0
    began: float = 0.0
    number: int = -1
    #: Why it is no longer wanted, if so.
    error: BaseException | None = None
    #: What its function has begun on other devices.
    below: Abandonable | None = None

    def abandon(self, error: BaseException) -> None:
        """Do not begin, or begin nothing more."""
        self.error = self.error or error
        if self.below is not None:
            self.below.abandon(error)

    def follow(self, below: Abandonable) -> None:
        """Abandon that, too, when this is."""
        self.below = below
        if self.error is not None:
            below.abandon(self.error)


_CURRENT = threading.local()


def current_run() -> Run | None:
    """The run that this thread of a device is busy with."""
    return getattr(_CURRENT, "run", None)


def ended(outputs: Mapping[str, Any] | None, error: BaseException | None) -> None:
    """What `done` of a run is before it is known, and after it was called: it keeps nothing alive."""


@dataclass
class DeviceStatistics:
    """What a device has done since it was made. Times in seconds, sizes in bytes."""

    runs: int = 0
    errors: int = 0
    restarts: int = 0
    busy: float = 0.0
    queued: int = 0
    memory: int = 0
    used: int = 0
    functions: list[str] = field(default_factory=list[str])


class DeviceManager(ABC):
    """A device that loads functions and runs them. All methods are for any thread.

    It is the process's that made it: a fork of that has it closed, and leaves the original alone.
    """

    #: Whether functions run in this process.
    local: ClassVar[bool] = False

    def __init__(self, device: Device) -> None:
        self.device = device
        self.name = device.name or device.kind
        self.memory = machine_memory() if device.memory is None else device.memory
        self.state: State = "ready"
        self.counts = DeviceStatistics(memory=self.memory)
        self._loaded: dict[str, DeviceFunction] = {}
        self._uses: Counter[str] = Counter()
        self._changes = threading.RLock()
        renew_after_fork(self)

    def renew(self) -> None:
        """Be closed: called in a fork, whose threads and connections are the original's."""
        self._changes = threading.RLock()
        self.state = "closed"

    # --- loading -----------------------------------------------------------------------------
    def load(self, function: DeviceFunction) -> None:
        """Have the device keep a function; one that is there is counted, and keeps its place.

        DeviceMemoryError where its constants do not fit.
        """
        with self._changes:
            self.check_open()
            if function.name in self._loaded:
                self._uses[function.name] += 1
                return
            if function.constant_bytes > self.available:
                raise DeviceMemoryError(
                    f"device {self.name}: '{function.name}' has {function.constant_bytes} bytes of "
                    f"constants, {self.available} of {self.memory} are free"
                )
            self._loaded[function.name] = function
            self._uses[function.name] = 1
            try:
                self._load(function)
            except BaseException:
                self._forget(function.name)
                raise

    def evict(self, name: str) -> None:
        """Let a function go, when as many evict it as have loaded it; DeviceError where it is not there."""
        with self._changes:
            if name not in self._loaded:
                raise DeviceError(f"device {self.name} has no function '{name}'")
            self._uses[name] -= 1
            if self._uses[name]:
                return
            self._forget(name)
            if self.state != "closed":
                self._evict(name)

    def _forget(self, name: str) -> None:
        del self._loaded[name], self._uses[name]

    def has(self, name: str) -> bool:
        """Whether a function is loaded."""
        return name in self._loaded

    @property
    def used(self) -> int:
        """Bytes of the constants of all functions that are loaded."""
        return sum(f.constant_bytes for f in self._loaded.values())

    @property
    def available(self) -> int:
        """Bytes for the constants of further functions."""
        return self.memory - self.used

    @abstractmethod
    def _load(self, function: DeviceFunction) -> None:
        """Load a function that fits."""

    @abstractmethod
    def _evict(self, name: str) -> None:
        """Free a function."""

    # --- running -----------------------------------------------------------------------------
    @abstractmethod
    def submit(self, run: Run) -> None:
        """Queue a run; whatever happens, its `done` is called."""

    def run_here(self, function: str, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
        """Outputs of a run by this thread, if the device can do that at once; None if it cannot."""
        del function, inputs

    def fetch(self, value: Any) -> Any:
        """A value that a run left on the device, as an array of this process."""
        return value

    def release(self, value: Any) -> None:  # noqa: B027 - most devices keep nothing
        """Forget a value that a run left on the device."""

    @property
    @abstractmethod
    def queued(self) -> int:
        """Runs that wait."""

    def statistics(self) -> DeviceStatistics:
        """What it has done, and holds."""
        counts = DeviceStatistics(**vars(self.counts))
        counts.queued, counts.used, counts.functions = self.queued, self.used, sorted(self._loaded)
        return counts

    def check_open(self) -> None:
        """DeviceError where it is closed or has failed for good."""
        if self.state in ("closed", "failed"):
            raise DeviceError(f"device {self.name} is {self.state}")

    @abstractmethod
    def close(self) -> None:
        """End the runs that have begun, fail those that wait, free everything."""

    def begins(self, run: Run) -> bool:
        """Note that this thread is busy with a run from now on; False for one that was abandoned."""
        run.began = time.perf_counter()
        if run.error is None:
            _CURRENT.run = run
            return True
        self.count(run, run.error)
        run.done(None, run.error)
        return False

    def count(self, run: Run, error: BaseException | None) -> None:
        """Note a run that has ended."""
        _CURRENT.run = None
        self.counts.runs += 1
        self.counts.errors += error is not None
        self.counts.busy += time.perf_counter() - run.began


def machine_memory() -> int:
    """Bytes of memory that this machine has."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _memory_of_windows()


def _memory_of_windows() -> int:
    """The second of seven 64-bit fields of MEMORYSTATUSEX, which begins with its length and a percentage."""
    status = (ctypes.c_uint64 * 8)(ctypes.sizeof(ctypes.c_uint64) * 8)
    if not getattr(ctypes, "windll").kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):  # noqa: B009
        raise DeviceError("this machine does not say how much memory it has: give the device `memory`")
    return status[1]
