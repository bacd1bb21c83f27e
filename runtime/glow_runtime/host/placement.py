"""Placement: programs of one network that are made while it serves, in partitions on devices.

What a model asks of a run (open sizes, branches that data decide, nodes that only the host runs) is planned
by its executable, here. Each program that the plan needs is divided and put on the devices; where these have
no more room, the programs that were used longest ago make some.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Literal
from weakref import finalize

from glow_backends.base import Port, Program
from glow_backends.report import Report
from glow_dialects.core.errors import DeviceMemoryError, ShapeError
from glow_dialects.core.extent import Extent
from glow_dialects.core.symbols import solved
from glow_runtime.compiler import Compiler
from glow_runtime.devices.device import Device
from glow_runtime.devices.local import LocalManager
from glow_runtime.devices.manager import DeviceManager, current_run
from glow_runtime.host.answers import settle
from glow_runtime.host.executor import Execution
from glow_runtime.host.loading import Loader
from glow_runtime.host.network import Network, Replica, open_check
from glow_runtime.host.partitions import Partition, divide
from glow_runtime.program_source import Signature

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_dialects.core.types import Array

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class PlacingCompiler(Compiler):
    """Compiles modules in partitions, which a placement puts on devices; no program is remembered."""

    placement: Placement | None = None

    def keyed(self, key: str | None) -> str | None:
        return None

    def compile(self, module: ModuleOp, own: bool = False) -> Program:
        assert self.placement is not None
        return self.placement.program(module)

    def recall(self, module: ModuleOp) -> Program:
        return self.compile(module, own=True)


class Placement:
    """The programs of one network on the devices of a loader, in `parts` partitions each (0: as few as
    memory allows)."""

    def __init__(
        self,
        name: str,
        label: str,
        loader: Loader,
        parts: int,
        replicas: int | Literal["saturate"],
    ) -> None:
        self._name, self._label, self.tracer = name, label, loader.tracer
        self._loader, self._parts = loader, parts
        self._replicas: int | Literal["saturate"] = replicas
        managers = loader.managers
        self.compiler = PlacingCompiler(managers[0].device.compiler(), placement=self)
        #: What runs the plan: as many requests as the devices can work on, and one that comes next.
        self.threads = LocalManager(Device("cpu", "host", cores=1 + sum(m.device.lanes for m in managers)))
        self._numbers = count()
        self._changed = threading.Condition(threading.RLock())
        #: Programs that are on the devices, by number, those used last at the end.
        self._loaded: OrderedDict[int, Network] = OrderedDict()
        self._users: Counter[int] = Counter()
        #: Numbers of programs that nobody has any more.
        self._gone: deque[int] = deque()

    @property
    def networks(self) -> list[Network]:
        """The programs that are on the devices, those used last at the end."""
        with self._changed:
            self._sweep()
            return list(self._loaded.values())

    def program(self, module: ModuleOp) -> Program:
        """A module in partitions on the devices; PartitionError, DeviceMemoryError: there is no room."""
        with self._changed:
            self._sweep()
            mine = Counter[DeviceManager]()
            for network in self._loaded.values():
                for manager, part in network.placed():
                    mine[manager] += part.constant_bytes
        rooms = self._loader.rooms(mine)
        number = next(self._numbers)
        label = f"{self._label}/{number}"
        division = divide(label, module, rooms, self._parts, self._loader.timed)
        inputs, outputs = (
            [Signature(p.name, p.shape, p.dtype) for p in ports]
            for ports in (division.inputs, division.outputs)
        )
        network = Network(self._name, number, division.partitions, inputs, outputs, open_check)
        network.replicas.append(Replica([self._loader.managers[p.place] for p in division.partitions]))
        program = PlacedProgram(self, network, division.inputs, division.outputs)
        finalize(program, self._gone.append, number)
        with self._changed:
            self._load(network)
        return program

    @contextmanager
    def using(self, network: Network) -> Generator[Replica]:
        """A replica of a program, which is on the devices meanwhile."""
        with self._changed:
            self._load(network)
            self._loaded.move_to_end(network.version)
            self._users[network.version] += 1
            replica = min(network.replicas, key=lambda r: r.outstanding)
            replica.outstanding += 1
        try:
            yield replica
        finally:
            with self._changed:
                replica.outstanding -= 1
                self._users[network.version] -= 1
                self._changed.notify_all()

    def _load(self, network: Network) -> None:
        """Have a program on its devices; others make room for it, as soon as no run uses them."""
        while network.version not in self._loaded:
            self._sweep()
            try:
                self._loader.load(network, network.replicas[0].managers, self._replicas)
            except DeviceMemoryError:
                if not self._loaded:
                    raise
                idle = next((n for n in self._loaded if not self._users[n]), None)
                if idle is None:
                    self._changed.wait()
                else:
                    self._loader.unload(self._loaded.pop(idle))
            else:
                self._loaded[network.version] = network

    def _sweep(self) -> None:
        """Take programs off the devices that nobody has any more."""
        while self._gone:
            number = self._gone.popleft()
            network = self._loaded.pop(number, None)
            self._users.pop(number, None)
            if network is not None:
                self._loader.unload(network)

    def close(self) -> None:
        """End the threads, and take all programs off the devices."""
        self.threads.close()
        with self._changed:
            while self._loaded:
                self._loader.unload(self._loaded.popitem()[1])


class PlannedNetwork(Network):
    """A network whose plan runs here, and makes the programs that it needs while it serves."""

    def __init__(
        self,
        name: str,
        version: int,
        partitions: Sequence[Partition],
        inputs: Sequence[Signature],
        outputs: Sequence[Signature],
        placement: Placement,
    ) -> None:
        super().__init__(name, version, partitions, inputs, outputs, open_check)
        self._placement = placement
        self.replicas.append(Replica([placement.threads]))

    @property
    def programs(self) -> Sequence[Network]:
        return self._placement.networks

    def close(self) -> None:
        self._placement.close()


class PlacedProgram(Program):
    """A program in partitions on devices; a run waits for them."""

    def __init__(
        self, placement: Placement, network: Network, inputs: Sequence[Port], outputs: Sequence[Port]
    ) -> None:
        self.inputs, self.outputs = list(inputs), list(outputs)
        self._placement, self._network = placement, network
        self.report = Report(weight_bytes=sum(p.constant_bytes for p in network.parts))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        call, answer = current_run(), Future[dict[str, Any]]()
        with self._placement.using(self._network) as replica:
            execution = Execution(
                self._network,
                replica,
                {p.name: inputs[p.name] for p in self.inputs},
                lambda outputs, error: settle(answer, outputs, error),
                self._placement.tracer,
                -1 if call is None else call.number,
            )
            if call is not None:
                call.follow(execution)
            execution.start()
            return answer.result()

    def fits(self, shapes: Shapes) -> bool:
        pairs = self._pairs(shapes)
        return pairs is not None and all(program.fits(own) for program, own in pairs)

    def excludes(self, shapes: Shapes) -> bool:
        pairs = [(program, own) for program, own in self._pairs(shapes) or () if not program.fits(own)]
        return bool(pairs) and all(program.excludes(own) for program, own in pairs)

    def _pairs(self, shapes: Shapes) -> list[tuple[Program, Shapes]] | None:
        """The programs of the partitions, and the shapes of their inputs for those of the whole's.

        None where these are no shapes of its inputs.
        """
        if any(len(shapes[p.name]) != len(p.shape) for p in self.inputs):
            return None
        try:
            sizes = solved(pair for p in self.inputs for pair in zip(p.shape, shapes[p.name], strict=True))
        except ShapeError:
            return None

        def own(port: Port) -> tuple[int, ...]:
            return tuple(d.at(sizes) if isinstance(d, Extent) else d for d in port.shape)

        return [
            (program, {p.name: own(p) for p in program.inputs})
            for part in self._network.parts
            for program in part.function.programs
        ]
