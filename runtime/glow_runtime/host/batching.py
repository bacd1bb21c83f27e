"""Dynamic batching: requests that arrive together run as one, along the first axis of all tensors."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_backends.base import Port, as_array, check_inputs, check_mapping
from glow_dialects.core.errors import BindingError, ClosedError, GlowError
from glow_runtime.devices.function import ModelFunction
from glow_runtime.devices.manager import DeviceManager, Run
from glow_runtime.host.answers import Outputs, settle, starts
from glow_runtime.host.network import Network
from glow_runtime.host.request import Request

if TYPE_CHECKING:
    from glow_backends.base import Program
    from glow_dialects.core.types import Array
    from glow_runtime.executable import Executable
    from glow_runtime.host.tracing import Tracer


@dataclass(frozen=True)
class Batching:
    """How a host forms batches of requests.

    Args:
        size: The largest number of samples in a batch.
        delay: How many seconds the first request waits for others.
        sizes: The batch sizes that run; smaller batches are padded with zeros. By default a batch has the
            samples that arrived, if one program serves any number, and otherwise a power of two.

    Examples:
        >>> glow.Batching(size=16, delay=0.001).size
        16
    """

    size: int = 8
    delay: float = 0.002
    sizes: Sequence[int] = ()

    @property
    def steps(self) -> list[int]:
        """The sizes of batches that run, in order."""
        steps = sorted({*self.sizes, self.size} if self.sizes else {self.size})
        if not self.sizes:
            power = 1
            while power < self.size:
                steps.append(power)
                power *= 2
        return sorted(steps)


class Batcher:
    """A queue of requests and a thread that makes batches of them.

    While as many batches run as there are replicas it waits, so that under load batches fill up; full ones go
    on to wait at the devices, one for each replica, so that these never do. What it needs is compiled, and
    has run, when it is made.
    """

    def __init__(
        self,
        network: Network,
        batching: Batching,
        begin: Callable[[Request], None],
        tracer: Tracer | None = None,
    ) -> None:
        shapes = [s.shape for s in (*network.inputs, *network.outputs)]
        fixed = {s[0] for s in shapes if s}
        if any(not s for s in shapes) or len(fixed) != 1:
            raise BindingError(
                f"network '{network.name}' cannot be batched: "
                "its inputs and outputs do not all have the same first dimension"
            )
        (first,) = fixed
        self.batching = batching if first is None else Batching(first, batching.delay, (first,))
        self._network, self._begin, self._tracer = network, begin, tracer
        self._expected = [(s.name, s.dtype, len(s.shape)) for s in network.inputs]
        self._steps = self.batching.steps
        if first is None and _only_rows_are_open(network):
            self._warm()
        self._waiting: deque[Request] = deque()
        self._samples = 0  # of those that wait
        self._changed = threading.Condition()
        self._closed = False
        self._flying = 0
        self._thread = threading.Thread(target=self._serve, name=f"glow-batch-{network.name}", daemon=True)
        self._thread.start()
        if first is not None:  # inputs of fewer samples are fine
            network.check = self._check

    def _warm(self) -> None:
        """Compile for the sizes of batches, and run each once on every replica."""
        function, sizes = self._network.parts[0].function, self._steps
        if isinstance(function, ModelFunction) and not self.batching.sizes:
            served = self._served(function.net)
            if served:
                self._steps, sizes = list(range(1, self.batching.size + 1)), served
        for replica in self._network.replicas:
            for rows in sizes:
                shapes = _shapes(self._network, rows)
                zeros = {s.name: np.zeros(shapes[s.name], s.dtype) for s in self._network.inputs}
                _run_once(replica.managers[0], function.name, zeros)
        if isinstance(function, ModelFunction) and not any(
            m.local for r in self._network.replicas for m in r.managers
        ):
            function.net.forget()  # other processes have their own

    def _served(self, net: Executable) -> list[int]:
        """Sizes with a program each that together serve any size; none where padding needs fewer programs."""
        programs: dict[Program, int] = {}
        try:
            for rows in range(self.batching.size, 0, -1):
                programs.setdefault(net.prepare(_shapes(self._network, rows)), rows)
                if len(programs) > len(self._steps):
                    return []
        except GlowError:  # of a model that is not for any number of samples
            return []
        return list(programs.values())

    @property
    def waiting(self) -> int:
        """Requests that are in no batch yet."""
        return len(self._waiting)

    def _check(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs as arrays, of any number of samples up to the batch."""
        check_mapping(inputs)
        expected: list[Port] = []
        for signature in self._network.inputs:
            given = as_array(signature.name, inputs.get(signature.name, np.empty(0)))
            rows = given.shape[0] if given.ndim else 0
            rows = rows if 0 < rows <= self.batching.size else self.batching.size
            shape = (rows, *(d or 0 for d in signature.shape[1:]))
            expected.append(Port(signature.name, shape, signature.dtype))
        return check_inputs(expected, inputs)

    def takes(self, request: Request) -> bool:
        """Whether a request can be part of a batch: arrays as declared, all of one number of samples."""
        inputs, rows, form = request.inputs, 0, ()
        if len(inputs) != len(self._expected):
            return False
        for name, dtype, rank in self._expected:
            array = inputs.get(name)
            if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != rank:
                return False
            count, *rest = array.shape
            if not 0 < count <= self.batching.size or (rows and rows != count):
                return False
            rows, form = count, (*form, *rest)
        request.rows, request.form = rows, form
        return True

    def put(self, request: Request) -> bool:
        """Have a request wait for a batch; false where there will be none."""
        with self._changed:
            if self._closed:
                return False
            self._waiting.append(request)
            self._samples += request.rows
            if (len(self._waiting) == 1 or self._full) and self._may_fly:  # nothing else tells the thread
                self._changed.notify()
        return True

    # --- the thread --------------------------------------------------------------------------
    def _serve(self) -> None:
        while (batch := self._next()) is not None:
            live = [r for r in batch if starts(r.future)]
            if live:
                self._run(live)
            else:
                self._landed()

    def _next(self) -> list[Request] | None:
        """The requests of the next batch, of one shape; None at the end."""
        with self._changed:
            while True:
                if not self._waiting and self._closed:
                    return None
                if not self._waiting or not self._may_fly:
                    self._changed.wait()
                    continue
                end = self._waiting[0].arrived + self.batching.delay
                left = end - time.perf_counter()
                if self._closed or left <= 0 or self._full:
                    self._flying += 1
                    return self._taken()
                self._changed.wait(left)

    @property
    def _full(self) -> bool:
        """Whether what waits is a batch."""
        return self._samples >= self.batching.size

    @property
    def _may_fly(self) -> bool:
        """Whether there is a replica for another batch, or a device has one to begin and none behind it."""
        replicas = len(self._network.replicas)
        return self._flying < (2 * replicas if self._full else replicas)

    def _taken(self) -> list[Request]:
        form, size = self._waiting[0].form, self.batching.size
        taken: list[Request] = []
        kept: list[Request] = []
        total = 0
        while self._waiting and total < size:
            request = self._waiting.popleft()
            if request.form == form and total + request.rows <= size:
                taken.append(request)
                total += request.rows
            else:
                kept.append(request)
        self._waiting.extendleft(reversed(kept))
        self._samples -= total
        return taken

    def _run(self, live: Sequence[Request]) -> None:
        """Run a batch; its requests get their parts."""
        total = sum(request.rows for request in live)
        size = next(s for s in self._steps if s >= total)
        try:
            inputs = {n: _stacked([r.inputs[n] for r in live], size) for n in live[0].inputs}
            self._network.counts.batches += 1
            batch = Request(self._network, inputs, min(r.priority for r in live), None, live[0].number)
            batch.batch = True
            if self._tracer is not None:
                self._tracer.together([request.number for request in live])
            batch.future.add_done_callback(lambda future: self._done(live, size, future))
            self._begin(batch)
        except BaseException as error:
            self._landed()
            self._answer(live, size, {}, error)

    def _done(self, live: Sequence[Request], size: int, future: Future[dict[str, Any]]) -> None:
        self._landed()
        error = ClosedError("the host is closed") if future.cancelled() else future.exception()
        self._answer(live, size, {} if error is not None else future.result(), error)

    def _answer(
        self, live: Sequence[Request], size: int, outputs: Outputs, error: BaseException | None
    ) -> None:
        """Give the requests of a batch their parts of its outputs, or its error."""
        counts, now = self._network.counts, time.perf_counter()
        counts.took(*[now - request.arrived for request in live])
        counts.succeeded += 0 if error is not None else len(live)
        counts.failed += len(live) if error is not None else 0
        named, start = list(outputs.items()), 0
        for request in live:
            end = start + request.rows
            if self._tracer is not None:
                self._tracer.ended(request, error)
            settle(request.future, {n: _part(a, start, end, size) for n, a in named}, error)
            start = end

    def _landed(self) -> None:
        with self._changed:
            self._flying -= 1
            self._changed.notify()

    def close(self) -> None:
        """Run what waits, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _only_rows_are_open(network: Network) -> bool:
    """Whether the number of samples is all that is not known of its inputs."""
    return network.single and all(s.kind == "tensor" and None not in s.shape[1:] for s in network.inputs)


def _shapes(network: Network, rows: int) -> dict[str, tuple[int, ...]]:
    """The shapes of its inputs for a number of samples."""
    return {s.name: (rows, *(d or 0 for d in s.shape[1:])) for s in network.inputs}


def _run_once(manager: DeviceManager, function: str, inputs: Mapping[str, Any]) -> None:
    """Run a function, and wait; a model that refuses zeros is no error."""
    ended = threading.Event()
    manager.submit(Run(function, inputs, lambda outputs, error: ended.set()))
    ended.wait()


def _stacked(parts: Sequence[Array], size: int) -> Array:
    """The parts one after another, and zeros up to `size`."""
    if len(parts) == 1 and len(parts[0]) == size:
        return parts[0]
    missing = size - sum(map(len, parts))
    if missing:
        parts = [*parts, np.zeros((missing, *parts[0].shape[1:]), parts[0].dtype)]
    return np.concatenate(parts)


def _part(array: Any, start: int, end: int, size: int) -> Any:
    """A request's samples of an output."""
    return array if (start, end) == (0, size) else np.array(array[start:end])
