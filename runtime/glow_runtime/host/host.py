"""HostManager: networks on devices, and the requests for them: limits, priorities, timeouts, versions."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any, Literal, Self

from glow_backends.base import cores
from glow_dialects.core.errors import ClosedError, DeadlineError, NetworkError, RefusedError
from glow_dialects.core.forks import renew_after_fork
from glow_runtime.devices.device import Device, named
from glow_runtime.devices.manager import DeviceManager, DeviceStatistics, Run, ended
from glow_runtime.devices.registry import manager_of
from glow_runtime.host.answers import Outputs, error_of, failed, settle, starts
from glow_runtime.host.batching import Batcher, Batching
from glow_runtime.host.deadlines import Deadlines
from glow_runtime.host.executor import Execution
from glow_runtime.host.loading import Loader
from glow_runtime.host.network import Network, NetworkStatistics, Replica, shapes_of
from glow_runtime.host.provisioner import Partitioning, Provisioner, Reader, Shapes
from glow_runtime.host.request import Request
from glow_runtime.host.tracing import Tracer

CLOSED = "the host is closed"


class HostManager:
    """Serves networks on devices: `with HostManager(devices=[...]) as host: host.add_network(...)`.

    At most `max_active` requests run and `max_queue` wait; a further one is refused (RefusedError).
    Without `devices` there is a `cpu` one for each core. All methods are for any thread.
    """

    def __init__(
        self,
        devices: Sequence[Device | str] | None = None,
        max_active: int = 48,
        max_queue: int = 100,
        *,
        reader: Reader,
        tracer: Tracer | None = None,
    ) -> None:
        if max_active < 1 or max_queue < 0:
            raise NetworkError(f"max_active={max_active}, max_queue={max_queue}: 1 or more, and 0 or more")
        asked = [Device.parse(d) if isinstance(d, str) else d for d in devices or [Device()] * cores()]
        self.max_active, self.max_queue, self.tracer = max_active, max_queue, tracer
        #: Networks by name.
        self.networks: dict[str, Network] = {}
        self.devices: list[DeviceManager] = []
        try:
            for device in named(asked):
                self.devices.append(manager_of(device))
        except BaseException:
            for manager in self.devices:
                manager.close()
            raise
        self._provisioner = Provisioner(Loader(self.devices, tracer), reader)
        self._batchers: dict[Network, Batcher] = {}
        self._lock = threading.Lock()
        self._provisioning = threading.Lock()
        self._adding: set[str] = set()
        self._queue: list[Request] = []
        self._active = 0
        self._numbers, self._uses, self._versions = count(), count(1), count(1)
        self._idle = threading.Condition(self._lock)
        self._deadlines = Deadlines()
        #: Why there are no more requests, if so.
        self._closed = ""
        renew_after_fork(self)

    def renew(self) -> None:
        """Be closed: called in a fork, whose devices are the original's."""
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._queue, self.networks, self._batchers = [], {}, {}
        self._closed = "the host is of the process that was forked; make one in this process"

    # --- networks ----------------------------------------------------------------------------
    def add_network(
        self,
        name: str,
        model: Any,
        partition: Partitioning = "auto",
        replicas: int | Literal["saturate"] = 1,
        *,
        shapes: Shapes | None = None,
        batching: Batching | None = None,
    ) -> Network:
        """Partition, compile and load a model.

        Args:
            name: The name of the network.
            model: A model in any form that `compile` accepts.
            partition: "auto" (as few partitions as the devices' memory allows), "balance" (one per device),
                "none", or a number.
            replicas: Copies on other devices, or "saturate" for as many as fit.
            shapes: Fixes dynamic dimensions.
            batching: Runs requests together; see `Batching`.

        Returns:
            The network.

        Raises:
            NetworkError: The name is already used.
            PartitionError: The model cannot be partitioned in this way.
            GlowError: The model cannot be compiled. After any error, nothing remains on the devices.
        """
        with self._lock:
            self._open()
            if name in self.networks or name in self._adding:
                raise NetworkError(f"there is a network '{name}' already; remove it, or update_network")
            self._adding.add(name)
        try:
            network = self._provided(name, model, partition, replicas, shapes, batching)
            with self._lock:
                self.networks[name] = network
        finally:
            with self._lock:
                self._adding.discard(name)
        return network

    def update_network(
        self,
        name: str,
        model: Any,
        partition: Partitioning = "auto",
        replicas: int | Literal["saturate"] = 1,
        *,
        shapes: Shapes | None = None,
        batching: Batching | None = None,
    ) -> Network:
        """Replace a network by a new version, between two requests.

        The old version serves until the new one is loaded, and finishes its requests. Arguments and errors
        are those of `add_network`; NetworkError if there is no such network.
        """
        with self._lock:
            self._open()
            self._known(name)
            if name in self._adding:
                raise NetworkError(f"network '{name}' is being changed")
            self._adding.add(name)
        try:
            network = self._provided(name, model, partition, replicas, shapes, batching)
            with self._lock:
                before, self.networks[name] = self.networks.get(name), network
            if before is not None:
                self._retire(before)
        finally:
            with self._lock:
                self._adding.discard(name)
        return network

    def _provided(
        self,
        name: str,
        model: Any,
        partition: Partitioning,
        replicas: int | Literal["saturate"],
        shapes: Shapes | None,
        batching: Batching | None,
    ) -> Network:
        with self._provisioning:
            version = next(self._versions)
            network = self._provisioner.provide(name, version, model, partition, replicas, shapes)
            try:
                if batching is not None:
                    self._batchers[network] = Batcher(network, batching, self._begin_batch, self.tracer)
                network.inline = network.single and batching is None and self.tracer is None
            except BaseException:
                self._provisioner.remove(network)
                raise
        return network

    def remove_network(self, name: str, wait: bool = True) -> None:
        """Remove a network, if it exists.

        Args:
            name: The name of the network.
            wait: Finish its requests first.

        Raises:
            NetworkError: Without `wait`: it has requests. Always: it is being added.
        """
        with self._lock:
            if name in self._adding:
                raise NetworkError(f"network '{name}' is being added")
            network = self.networks.get(name)
            if network is None:
                return
            if not wait and (network.outstanding or any(r.network is network for r in self._queue)):
                raise NetworkError(f"network '{name}' is busy")
            del self.networks[name]
        self._retire(network)

    def _retire(self, network: Network) -> None:
        """Free a network that gets no more requests, when it has ended those that it has."""
        batcher = self._batchers.pop(network, None)
        if batcher is not None:
            batcher.close()
        with self._idle:
            while network.outstanding or any(r.network is network for r in self._queue):
                self._idle.wait()
        with self._provisioning:
            self._provisioner.remove(network)

    # --- requests ----------------------------------------------------------------------------
    def run(
        self, name: str, inputs: Mapping[str, Any], priority: int = 0, timeout: float | None = None
    ) -> Outputs:
        """Run a network and wait for the result. Arguments and errors are those of `submit`.

        Returns:
            The outputs by name.
        """
        network = self.networks.get(name)
        if timeout is None and network is not None and network.inline:
            outputs = self._run_here(network, inputs)
            if outputs is not None:
                return outputs
        return self.submit(name, inputs, priority, timeout).result()

    def submit(
        self, name: str, inputs: Mapping[str, Any], priority: int = 0, timeout: float | None = None
    ) -> Future[Outputs]:
        """Send a request to a network.

        Args:
            name: The name of the network.
            inputs: An array for each input, by name.
            priority: Requests with smaller numbers come first.
            timeout: Seconds until the result must be ready, including the time in the queue.

        Returns:
            A Future of the outputs. `cancel` works while the request waits. It may have these errors.

        Raises:
            BindingError: An input has a wrong name, shape or element type.
            NetworkError: There is no such network.
            RefusedError: Too many requests are waiting.
            DeadlineError: The time is over.
            ClosedError: The host has been closed.
            DeviceError: A device failed.
        """
        network = self.networks.get(name)
        if network is None or self._closed:
            return self._refused(name)
        try:
            arrays = network.check(inputs)
        except Exception as error:
            return failed(error)
        deadline = None if timeout is None else time.perf_counter() + timeout
        request = Request(network, arrays, priority, deadline, next(self._numbers))
        if self.tracer is not None:
            self.tracer.arrived(request)
        batcher = self._batchers.get(network)
        if batcher is not None and batcher.takes(request):
            network.counts.requests += 1
            self._admit_batched(request, batcher)
        else:
            self._admit(request)
        if deadline is not None and not request.future.done():
            forget = self._deadlines.at(deadline, lambda: self._expire(request))
            request.future.add_done_callback(lambda _: forget())
        return request.future

    async def run_async(
        self, name: str, inputs: Mapping[str, Any], priority: int = 0, timeout: float | None = None
    ) -> Outputs:
        """`run` for asyncio: other tasks go on meanwhile, unless it is shorter than a change of threads."""
        from asyncio import wrap_future

        network, shapes, began = self.networks.get(name), shapes_of(inputs), time.perf_counter()
        outputs = self._run_here(network, inputs) if network and network.is_quick(shapes) else None
        waited = outputs is None
        if outputs is None:
            outputs = await wrap_future(self.submit(name, inputs, priority, timeout))
        if network is not None:
            network.took(shapes, time.perf_counter() - began, waited)
        return outputs

    def _run_here(self, network: Network, inputs: Mapping[str, Any]) -> Outputs | None:
        """Outputs of a run on this thread; None where nothing is free at once."""
        with self._lock:
            if (
                self._active >= self.max_active
                or self._queue
                or self.networks.get(network.name) is not network
            ):
                return None
            self._active += 1
            replica = self._replica(network)
            replica.outstanding += 1
        began = time.perf_counter()
        error: BaseException | None = None
        outputs: Outputs | None = None
        try:
            arrays = network.check(inputs)
            outputs = replica.managers[0].run_here(network.parts[0].function.name, arrays)
        except BaseException as failure:
            error = failure
            raise
        finally:
            counted = outputs is not None or error is not None
            network.counts.requests += counted
            self._ended(network, replica, began, error, counted)
        return outputs

    def _refused(self, name: str) -> Future[Outputs]:
        if self._closed:
            return failed(ClosedError(self._closed))
        known = ", ".join(sorted(self.networks)) or "none"
        return failed(NetworkError(f"no network '{name}'; there are: {known}"))

    def _admit(self, request: Request) -> None:
        """Start a request, have it wait, or refuse it."""
        network = request.network
        with self._lock:
            closed = bool(self._closed) or self.networks.get(network.name) is not network
            replica: Replica | None = None
            refused = False
            if not closed:
                network.counts.requests += 1
                if self._active < self.max_active and not self._queue:
                    replica = self._started(request)
                elif len(self._queue) < self.max_queue:
                    heapq.heappush(self._queue, request)
                else:
                    refused, network.counts.refused = True, network.counts.refused + 1
        if closed and not self._closed and network.name in self.networks:
            request.network = self.networks[network.name]  # a new version came in between
            self._admit(request)
        elif closed:
            settle(request.future, None, error_of(self._refused(network.name)))
        elif refused:
            limits = f"{self.max_active} run and {self.max_queue} wait"
            settle(request.future, None, RefusedError(f"too many requests: {limits}; try again later"))
        elif replica is not None:
            self._begin(request, replica)

    def _admit_batched(self, request: Request, batcher: Batcher) -> None:
        """Have a request wait for a batch, or refuse it."""
        if batcher.waiting >= self.max_queue + self.max_active:
            request.network.counts.refused += 1
            error = RefusedError(f"too many requests: {batcher.waiting} wait for a batch; try again later")
            settle(request.future, None, error)
        elif not batcher.put(request):
            self._admit(request)  # the network is gone, or there is a new version of it

    def _started(self, request: Request) -> Replica:
        """Count a request as active, on the replica that has least to do. Under the lock."""
        self._active += 1
        replica = request.replica = self._replica(request.network)
        replica.outstanding += 1
        return replica

    def _replica(self, network: Network) -> Replica:
        """The replica with the fewest requests; of equals, the one that was used longest ago."""
        replicas = network.replicas
        replica = replicas[0]
        if len(replicas) > 1:
            replica = min(replicas, key=lambda r: (r.outstanding, r.last_used))
            replica.last_used = next(self._uses)
        return replica

    def _begin(self, request: Request, replica: Replica) -> None:
        """Send an admitted request to its devices."""
        request.started = time.perf_counter()
        if not starts(request.future):
            request.network.counts.cancelled += request.future.cancelled()
            self._ended(request.network, replica, request.arrived, None, counted=False)
            return
        if self.tracer is not None:
            waited = request.arrived, request.started
            self.tracer.span("wait", "queue", "host queue", *waited, request=request.number)
        if request.network.single:
            self._begin_single(request, replica)
            return
        execution = Execution(
            request.network,
            replica,
            request.inputs,
            lambda outputs, error: self._finish(request, replica, outputs, error),
            self.tracer,
            request.number,
        )
        request.execution = execution
        execution.start()

    def _begin_single(self, request: Request, replica: Replica) -> None:
        """Send a request of a whole network to its device."""
        function = request.network.parts[0].function
        run = request.execution = Run(function.name, request.inputs, ended, number=request.number)

        def done(outputs: Mapping[str, Any] | None, error: BaseException | None) -> None:
            run.done = ended
            if self.tracer is not None:
                device = replica.managers[0].name
                outputs = self.tracer.ran(device, function, run, outputs, request.number)
            self._finish(request, replica, None if outputs is None else dict(outputs), error)

        run.done = done
        try:
            replica.managers[0].submit(run)
        except BaseException as error:
            self._finish(request, replica, None, error)

    def _begin_batch(self, request: Request) -> None:
        """Admit a batch that a batcher made: it waits, and is never refused."""
        with self._lock:
            replica = None
            if self._active < self.max_active and not self._queue:
                replica = self._started(request)
            else:
                heapq.heappush(self._queue, request)
        if replica is not None:
            self._begin(request, replica)

    def _finish(
        self, request: Request, replica: Replica, outputs: Outputs | None, error: BaseException | None
    ) -> None:
        """A request has ended on its devices."""
        request.execution = None
        if self.tracer is not None:
            self.tracer.ended(request, error)
        self._ended(request.network, replica, request.arrived, error, counted=not request.batch)
        settle(request.future, outputs, error)

    def _ended(
        self,
        network: Network,
        replica: Replica,
        arrived: float,
        error: BaseException | None,
        counted: bool = True,
    ) -> None:
        """Free the place of a request, and start the next ones that wait."""
        starting: list[tuple[Request, Replica]] = []
        with self._lock:
            self._active -= 1
            replica.outstanding -= 1
            if counted:
                counts, seconds = network.counts, time.perf_counter() - arrived
                counts.took(seconds)
                if error is None:
                    counts.succeeded += 1
                else:
                    counts.failed += 1
            while self._queue and self._active < self.max_active:
                request = heapq.heappop(self._queue)
                starting.append((request, self._started(request)))
            if not replica.outstanding:
                self._idle.notify_all()
        for request, chosen in starting:
            self._begin(request, chosen)

    def _expire(self, request: Request) -> None:
        """The time of a request is over: it fails now; what a device has begun of it ends there."""
        if request.future.done():
            return
        error = DeadlineError(
            f"network '{request.network.name}': the request took longer than it was allowed"
        )
        waited = False
        with self._lock:
            if request in self._queue:
                self._queue.remove(request)
                heapq.heapify(self._queue)
                request.network.counts.failed += 1
                waited = True
                self._idle.notify_all()
        if not waited and (execution := request.execution) is not None:
            execution.abandon(error)
        settle(request.future, None, error)

    # --- state -------------------------------------------------------------------------------
    def health(self) -> dict[str, str]:
        """The state of each device: ready, restarting, failed or closed."""
        return {manager.name: manager.state for manager in self.devices}

    @property
    def ready(self) -> bool:
        """Whether requests are taken: it is open, and no device has failed."""
        return not self._closed and all(m.state == "ready" for m in self.devices)

    def statistics(self) -> dict[str, NetworkStatistics]:
        """Counts and latencies of each network."""
        with self._lock:
            found = {name: network.statistics() for name, network in self.networks.items()}
            for request in self._queue:
                if request.network.name in found:
                    found[request.network.name].queued += 1
        return found

    def device_statistics(self) -> dict[str, DeviceStatistics]:
        """What each device has done, and holds."""
        return {manager.name: manager.statistics() for manager in self.devices}

    def close(self) -> None:
        """Take no more requests, end those that run, fail those that wait, and free the devices."""
        with self._lock:
            if self._closed:
                return
            self._closed = CLOSED
            waiting, self._queue = self._queue, []
            networks, self.networks = list(self.networks.values()), {}
        for request in waiting:
            settle(request.future, None, ClosedError(CLOSED))
        for network in networks:
            self._retire(network)
        self._deadlines.close()
        for manager in self.devices:
            manager.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> None:
        if self._closed:
            raise ClosedError(self._closed)

    def _known(self, name: str) -> Network:
        if name not in self.networks:
            known = ", ".join(sorted(self.networks)) or "none"
            raise NetworkError(f"no network '{name}'; there are: {known}")
        return self.networks[name]
