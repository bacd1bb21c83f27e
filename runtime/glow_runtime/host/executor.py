"""Executor: one request on its way through the partitions of a replica."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glow_runtime.devices.manager import Run, ended
from glow_runtime.host.network import Network, Replica
from glow_runtime.host.tracing import Tracer

#: (outputs, None) or (None, first error).
Finish = Callable[[dict[str, Any] | None, BaseException | None], None]


class Execution:
    """The state of one request: values so far, partitions that wait, runs on devices.

    A partition starts when all that it reads is there. After an error none starts any more; `finish` is
    called once, when nothing runs, with the first error.
    """

    def __init__(
        self,
        network: Network,
        replica: Replica,
        inputs: Mapping[str, Any],
        finish: Finish,
        tracer: Tracer | None = None,
        number: int = 0,
    ) -> None:
        self._network, self._replica, self._finish = network, replica, finish
        self._values: dict[str, Any] = dict(inputs)
        self._tracer, self._number = tracer, number
        self._lock = threading.Lock()
        self._missing = [sum(n in network.writers for n in p.inputs) for p in network.parts]
        self._running = 0
        #: Those that devices have, by partition.
        self._runs: dict[int, Run] = {}
        self._left = len(network.parts)
        self._error: BaseException | None = None
        self._ended = False

    def start(self) -> None:
        """Start the partitions that read only inputs."""
        if not self._left:
            self._finish({n: self._values[n] for n in self._network.output_names}, None)
            return
        self._dispatch([i for i, missing in enumerate(self._missing) if not missing])

    def abandon(self, error: BaseException) -> None:
        """Start nothing more; `finish` still waits for what runs."""
        with self._lock:
            self._error = self._error or error
            runs = list(self._runs.values())
        for run in runs:
            run.abandon(error)

    def _dispatch(self, ready: Sequence[int]) -> None:
        with self._lock:
            self._running += len(ready)
        for number in ready:
            self._start(number)

    def _start(self, number: int) -> None:
        network, replica = self._network, self._replica
        part, manager = network.parts[number], replica.managers[number]
        try:
            with self._lock:
                if self._error is not None:
                    raise self._error
                # A whole network takes what the caller gives, and says what is wrong with it.
                inputs = dict(self._values) if network.single else {n: self._values[n] for n in part.inputs}
            resident = network.resident(replica, number) if not network.single else frozenset[str]()
            run = Run(part.function.name, inputs, ended, resident, number=self._number)
            run.done = lambda outputs, error: self._done(number, run, outputs, error)
            self._runs[number] = run
            manager.submit(run)
        except BaseException as error:
            self._done(number, None, None, error)

    def _done(
        self, number: int, run: Run | None, outputs: Mapping[str, Any] | None, error: BaseException | None
    ) -> None:
        """A partition has ended: start those that waited for it alone, or end the request."""
        if run is not None:
            run.done = ended
        if self._tracer is not None and run is not None:
            function, device = self._network.parts[number].function, self._replica.managers[number].name
            outputs = self._tracer.ran(device, function, run, outputs, self._number)
        ready: list[int] = []
        with self._lock:
            self._running -= 1
            self._runs.pop(number, None)
            if error is not None:
                self._error = self._error or error
            else:
                assert outputs is not None
                self._left -= 1
                self._values.update(outputs)
                for name in outputs:
                    for reader in self._network.readers.get(name, ()):
                        self._missing[reader] -= 1
                        if not self._missing[reader]:
                            ready.append(reader)
            if self._error is not None:
                ready = []
            end = not self._ended and not ready and not self._running
            self._ended = self._ended or end
        if end:
            self._end()
        elif ready:
            self._dispatch(ready)

    def _end(self) -> None:
        values, self._values = self._values, {}
        self._release(values)
        if self._error is not None:
            self._finish(None, self._error)
        else:
            self._finish({n: values[n] for n in self._network.output_names}, None)

    def _release(self, values: Mapping[str, Any]) -> None:
        """Have devices forget what they kept for this request."""
        if self._network.single:
            return
        for name, writer in self._network.writers.items():
            if name in values and name not in self._network.output_names:
                self._replica.managers[writer].release(values[name])
