"""Provisioner: networks to devices. Each partition is compiled once; a failure leaves nothing behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from glow_backends.base import Backend
from glow_dialects.core.errors import (
    DeviceMemoryError,
    ImportProblems,
    NetworkError,
    PartitionError,
    ShapeError,
    UnsupportedError,
)
from glow_runtime.devices.function import DeviceFunction, ModelFunction, ProgramFunction, Recipe
from glow_runtime.devices.manager import DeviceManager
from glow_runtime.executable import Executable
from glow_runtime.host.network import Network, Replica, open_check, static_check
from glow_runtime.program_source import Signature

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


Shapes = Mapping[str, Sequence[int]]
#: How many partitions: `auto` and `memory` as few as the devices' memory allows (`auto` divides nothing where
#: no device has a bound), `balance` one a device, `none` one.
Partitioning = Literal["auto", "memory", "balance", "none"] | int


class Reader(Protocol):
    """How a host reads models; the Python API has one for all forms of models."""

    def module(self, model: Any, shapes: Shapes | None) -> ModuleOp:
        """The graph of a model; a GlowError where its shapes are open, or not all of it is one graph."""
        ...

    def has_plan(self, model: Any) -> bool:
        """Whether nodes of the model say in which partition they are."""
        ...

    def executable(self, model: Any, backend: Backend, shapes: Shapes | None) -> Executable:
        """The model compiled as a whole."""
        ...

    def elsewhere(self, model: Any, backend: Backend, shapes: Shapes | None, folder: Path) -> Recipe:
        """How another process compiles the model as a whole; `folder` is for files that it reads."""
        ...


Placed = tuple[Network, Sequence[DeviceManager]]
"""A network, and the devices of the partitions of its first replica."""


class Provisioner:
    """Puts networks on devices; with programs that tell the times of their steps, if they are `timed`."""

    def __init__(self, managers: Sequence[DeviceManager], reader: Reader, timed: bool = False) -> None:
        self._managers, self._reader, self._timed = managers, reader, timed

    def provide(
        self,
        name: str,
        version: int,
        model: Any,
        partitioning: Partitioning,
        replicas: int | Literal["saturate"],
        shapes: Shapes | None,
    ) -> Network:
        """A network that is loaded; where something fails nothing of it stays on a device."""
        label = f"{name}@{version}"
        network, first = self._divided(name, label, version, model, partitioning, shapes) or self._whole(
            name, label, version, model, shapes
        )
        wanted = self._count(replicas, len(network.partitions))
        if wanted > 1 and any(_has_state(p.function) for p in network.partitions):
            raise NetworkError(f"network '{name}' has states, of which replicas would each have their own")
        loaded: list[tuple[DeviceManager, str]] = []
        try:
            for number in range(wanted):
                chosen = first if number == 0 else self._chosen(network, loaded)
                for part, manager in zip(network.partitions, chosen, strict=True):
                    manager.load(part.function)
                    loaded.append((manager, part.function.name))
                network.replicas.append(Replica(chosen))
        except BaseException:
            for manager, function in reversed(loaded):
                manager.evict(function)
            raise
        return network

    def remove(self, network: Network) -> None:
        """Take a network off the devices."""
        for replica in network.replicas:
            for part, manager in zip(network.partitions, replica.managers, strict=True):
                if manager.has(part.function.name):
                    manager.evict(part.function.name)
        network.replicas.clear()

    # --- dividing ----------------------------------------------------------------------------
    def _divided(
        self,
        name: str,
        label: str,
        version: int,
        model: Any,
        partitioning: Partitioning,
        shapes: Shapes | None,
    ) -> Placed | None:
        """The network in partitions, and their devices; None where it stays whole."""
        from glow_runtime.host.partitions import Room, divide

        count = self._partitions(partitioning)
        bounded = any(m.device.memory is not None for m in self._managers)
        alike = len({_kind(m) for m in self._managers}) == 1
        if isinstance(model, Executable) or count is None:
            return None
        whole = partitioning == "auto" and not bounded and alike and not self._timed
        if whole and not self._reader.has_plan(model):
            return None
        try:
            module = self._reader.module(model, shapes)
        except (ShapeError, ImportProblems, UnsupportedError):
            if partitioning == "auto":
                return None  # a model of open shapes, or with nodes on the host, is whole
            raise
        rooms = [
            Room(m.device, m.name, m.available if m.device.memory is not None else None)
            for m in self._managers
        ]
        try:
            division = divide(label, module, rooms, count, self._timed)
        except PartitionError as error:
            if partitioning == "auto" and not bounded:
                return None
            raise PartitionError(f"network '{name}': {error}") from None
        chosen = [self._managers[p.place] for p in division.partitions]
        inputs = [Signature(p.name, p.shape, p.dtype) for p in division.inputs]
        outputs = [Signature(p.name, p.shape, p.dtype) for p in division.outputs]
        check = static_check(division.inputs)
        return Network(name, version, division.partitions, inputs, outputs, check), chosen

    def _whole(self, name: str, label: str, version: int, model: Any, shapes: Shapes | None) -> Placed:
        """The network as one function, on the device that has most room."""
        from glow_runtime.host.partitions import Partition

        manager = max(self._managers, key=lambda m: (m.available, -len(m.statistics().functions)))
        if not any(m.device.memory is not None for m in self._managers):
            manager = min(self._managers, key=lambda m: len(m.statistics().functions))
        backend = manager.device.compiler()
        given = isinstance(model, Executable)
        net = model if given else self._reader.executable(model, backend, shapes)
        program = net.only_program
        size = 0 if program is None else program.report.weight_bytes
        function = ModelFunction(
            f"{label}/main",
            [s.name for s in net.inputs],
            [s.name for s in net.outputs],
            size,
            net,
            backend,
            _refuse if given else lambda folder: self._reader.elsewhere(model, backend, shapes, folder),
        )
        check = open_check if program is None else static_check(program.inputs)
        parts = [Partition("main", function, 0)]
        return Network(name, version, parts, net.inputs, net.outputs, check), [manager]

    def _partitions(self, partitioning: Partitioning) -> int | None:
        """How many partitions are asked for; 0: as few as memory allows; None: the model is not divided."""
        if isinstance(partitioning, int) and not isinstance(partitioning, bool):
            if partitioning < 1:
                raise PartitionError(f"partition={partitioning}: a network has at least one")
            return partitioning
        choices = {"auto": 0, "memory": 0, "balance": len(self._managers), "none": None}
        if partitioning not in choices:
            raise PartitionError(
                f"partition={partitioning!r} is not one of {', '.join(choices)}, or a number"
            )
        return choices[partitioning]

    # --- replicas ----------------------------------------------------------------------------
    def _count(self, replicas: int | Literal["saturate"], partitions: int) -> int:
        if replicas == "saturate":
            return max(1, len(self._managers) // partitions)
        if not isinstance(replicas, int) or replicas < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise NetworkError(f"replicas={replicas!r}: a network has at least one, or 'saturate'")
        return replicas

    def _chosen(
        self, network: Network, loaded: Sequence[tuple[DeviceManager, str]]
    ) -> Sequence[DeviceManager]:
        """Devices for one more replica: those that have least of this network, then most memory."""
        chosen: list[DeviceManager] = []
        load = [manager for manager, _ in loaded]
        taken: dict[DeviceManager, int] = {}
        for part, first in zip(network.partitions, network.replicas[0].managers, strict=True):
            alike = [m for m in self._managers if _kind(m) == _kind(first)]
            alike.sort(key=lambda m: (load.count(m) + chosen.count(m), -m.available))
            for manager in alike:
                free = manager.available - taken.get(manager, 0)
                if manager.has(part.function.name) or part.constant_bytes <= free:
                    chosen.append(manager)
                    taken[manager] = taken.get(manager, 0) + part.constant_bytes
                    break
            else:
                raise DeviceMemoryError(
                    f"network '{network.name}': no device has {part.constant_bytes} bytes for another "
                    f"replica of partition '{part.name}'; free are "
                    + ", ".join(f"{m.name} {m.available}" for m in alike)
                )
        return chosen


def _kind(manager: DeviceManager) -> object:
    """What must be the same for a compiled function to run on two devices."""
    device = manager.device
    return (
        type(device.compiler()),
        device.compiler().name,
        device.threads,
        device.supported,
        device.unsupported,
    )


def _has_state(function: DeviceFunction) -> bool:
    return isinstance(function, ProgramFunction) and bool(getattr(function.program, "state", None))


def _refuse(folder: Path) -> Recipe:
    raise NetworkError(f"an executable stays in its process; give the host the model ({folder.name})")
