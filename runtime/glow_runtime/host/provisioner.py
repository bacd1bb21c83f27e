"""Provisioner: networks to devices. Each partition is compiled once; a failure leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from glow_backends.base import Backend, ports
from glow_dialects.core.errors import (
    DeviceMemoryError,
    ImportProblems,
    NetworkError,
    PartitionError,
    ShapeError,
    UnsupportedError,
)
from glow_dialects.core.extent import is_open
from glow_runtime.compiler import Compiler
from glow_runtime.devices.function import DeviceFunction, ModelFunction, ProgramFunction, Recipe
from glow_runtime.devices.manager import DeviceManager
from glow_runtime.executable import Executable
from glow_runtime.host.network import Network, Replica, open_check, static_check
from glow_runtime.program_source import Signature

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_runtime.host.partitions import Room
    from glow_runtime.host.tracing import Tracer

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

    def executable(self, model: Any, compiler: Compiler, shapes: Shapes | None) -> Executable:
        """The model with all that it needs to run, its programs made by a compiler."""
        ...

    def elsewhere(self, model: Any, backend: Backend, shapes: Shapes | None, folder: Path) -> Recipe:
        """How another process compiles the model as a whole; `folder` is for files that it reads."""
        ...


Placed = tuple[Network, Sequence[DeviceManager]]
"""A network, and the devices of the partitions of its first replica."""


class Provisioner:
    """Puts networks on devices, with programs that tell the times of steps where a tracer notes them."""

    def __init__(
        self, managers: Sequence[DeviceManager], reader: Reader, tracer: Tracer | None = None
    ) -> None:
        self.managers, self._reader, self.tracer = managers, reader, tracer
        self.timed = tracer is not None and tracer.kernels

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
        if self._stays_whole(model, partitioning):
            network, first = self._whole(name, label, version, model, shapes)
        else:
            module = self._module(model, shapes)
            if module is None:
                return self._planned(name, label, version, model, partitioning, replicas, shapes)
            divided = self._divided(name, label, version, module, partitioning)
            network, first = divided or self._whole(name, label, version, model, shapes)
        self.load(network, first, replicas)
        return network

    def load(
        self, network: Network, first: Sequence[DeviceManager], replicas: int | Literal["saturate"]
    ) -> None:
        """Put copies of a network on devices, the first on those that it was planned for; all or none."""
        wanted = self._count(replicas, len(network.parts))
        if wanted > 1 and any(_has_state(p.function) for p in network.parts):
            raise NetworkError(
                f"network '{network.name}' has states, of which replicas would each have their own"
            )
        made: list[Replica] = []
        loaded: list[tuple[DeviceManager, str]] = []
        try:
            for number in range(wanted):
                chosen = first if number == 0 else self._chosen(network, first, loaded)
                for part, manager in zip(network.parts, chosen, strict=True):
                    manager.load(part.function)
                    loaded.append((manager, part.function.name))
                made.append(Replica(chosen))
        except BaseException:
            for manager, function in reversed(loaded):
                manager.evict(function)
            raise
        network.replicas[:] = made

    def unload(self, network: Network) -> None:
        """Take a network off the devices; it can be loaded again."""
        for manager, part in network.placed():
            if manager.has(part.function.name):
                manager.evict(part.function.name)

    def remove(self, network: Network) -> None:
        """Take a network off the devices, and end what ran its plan."""
        self.unload(network)
        if network.placement is not None:
            network.placement.close()
        network.replicas.clear()

    # --- dividing ----------------------------------------------------------------------------
    def _stays_whole(self, model: Any, partitioning: Partitioning) -> bool:
        """Whether a model is one function on one device."""
        if isinstance(model, Executable) or self._partitions(partitioning) is None:
            return True
        bounded = any(m.device.memory is not None for m in self.managers)
        alike = len({_kind(m) for m in self.managers}) == 1
        whole = partitioning == "auto" and not bounded and alike and not self.timed
        return whole and not self._reader.has_plan(model)

    def _module(self, model: Any, shapes: Shapes | None) -> ModuleOp | None:
        """The graph of a model; None where only its runs tell all that there is to compute."""
        try:
            module = self._reader.module(model, shapes)
        except (ShapeError, ImportProblems, UnsupportedError):
            return None
        return None if any(is_open(port.shape) for port in ports(module, "input")) else module

    def _divided(
        self, name: str, label: str, version: int, module: ModuleOp, partitioning: Partitioning
    ) -> Placed | None:
        """The network in partitions, and their devices; None where it has to stay whole, and may."""
        from glow_runtime.host.partitions import divide

        try:
            division = divide(label, module, self.rooms(), self._partitions(partitioning) or 0, self.timed)
        except PartitionError as error:
            if partitioning == "auto" and not any(m.device.memory is not None for m in self.managers):
                return None
            raise PartitionError(f"network '{name}': {error}") from None
        inputs, outputs = (
            [Signature(p.name, p.shape, p.dtype) for p in ports]
            for ports in (division.inputs, division.outputs)
        )
        check = static_check(division.inputs)
        network = Network(name, version, division.partitions, inputs, outputs, check)
        return network, [self.managers[p.place] for p in division.partitions]

    def rooms(self, more: Mapping[DeviceManager, int] | None = None) -> list[Room]:
        """The devices with the bytes that are free on them, and `more` of those that can be made free."""
        from glow_runtime.host.partitions import Room

        free = {m: m.available + (more or {}).get(m, 0) for m in self.managers}
        return [Room(m.device, m.name, free[m] if m.device.memory is not None else None) for m in free]

    def _planned(
        self,
        name: str,
        label: str,
        version: int,
        model: Any,
        partitioning: Partitioning,
        replicas: int | Literal["saturate"],
        shapes: Shapes | None,
    ) -> Network:
        """A network whose plan runs here, and its programs in partitions on devices; see `Placement`."""
        from glow_runtime.host.partitions import Partition
        from glow_runtime.host.placement import Placement

        placement = Placement(name, label, self, self._partitions(partitioning) or 0, replicas)
        try:
            net = self._reader.executable(model, placement.compiler, shapes)
            function = _model_function(label, net, 0, _refuse)
            placement.threads.load(function)
        except BaseException:
            placement.close()
            raise
        network = Network(
            name, version, [Partition("main", function, 0)], net.inputs, net.outputs, open_check
        )
        network.placement = placement
        network.replicas.append(Replica([placement.threads]))
        return network

    def _whole(self, name: str, label: str, version: int, model: Any, shapes: Shapes | None) -> Placed:
        """The network as one function, on the device that has most room."""
        from glow_runtime.host.partitions import Partition

        manager = max(self.managers, key=lambda m: (m.available, -len(m.statistics().functions)))
        if not any(m.device.memory is not None for m in self.managers):
            manager = min(self.managers, key=lambda m: len(m.statistics().functions))
        backend = manager.device.compiler()
        given = isinstance(model, Executable)
        net = model if given else self._reader.executable(model, Compiler(backend), shapes)
        program = net.only_program
        elsewhere = lambda folder: self._reader.elsewhere(model, backend, shapes, folder)  # noqa: E731
        size = 0 if program is None else program.report.weight_bytes
        function = _model_function(label, net, size, _refuse if given else elsewhere)
        check = open_check if program is None else static_check(program.inputs)
        parts = [Partition("main", function, 0)]
        return Network(name, version, parts, net.inputs, net.outputs, check), [manager]

    def _partitions(self, partitioning: Partitioning) -> int | None:
        """How many partitions are asked for; 0: as few as memory allows; None: the model is not divided."""
        if isinstance(partitioning, int) and not isinstance(partitioning, bool):
            if partitioning < 1:
                raise PartitionError(f"partition={partitioning}: a network has at least one")
            return partitioning
        choices = {"auto": 0, "memory": 0, "balance": len(self.managers), "none": None}
        if partitioning not in choices:
            raise PartitionError(
                f"partition={partitioning!r} is not one of {', '.join(choices)}, or a number"
            )
        return choices[partitioning]

    # --- replicas ----------------------------------------------------------------------------
    def _count(self, replicas: int | Literal["saturate"], partitions: int) -> int:
        if replicas == "saturate":
            return max(1, len(self.managers) // partitions)
        if not isinstance(replicas, int) or replicas < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise NetworkError(f"replicas={replicas!r}: a network has at least one, or 'saturate'")
        return replicas

    def _chosen(
        self,
        network: Network,
        planned: Sequence[DeviceManager],
        loaded: Sequence[tuple[DeviceManager, str]],
    ) -> Sequence[DeviceManager]:
        """Devices for one more replica: those that have least of this network, then most memory."""
        chosen: list[DeviceManager] = []
        load = [manager for manager, _ in loaded]
        taken: dict[DeviceManager, int] = {}
        for part, first in zip(network.parts, planned, strict=True):
            alike = [m for m in self.managers if _kind(m) == _kind(first)]
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


def _model_function(
    label: str, net: Executable, size: int, elsewhere: Callable[[Path], Recipe]
) -> ModelFunction:
    """The function of a whole model, with `size` bytes of constants."""
    names = [s.name for s in net.inputs], [s.name for s in net.outputs]
    return ModelFunction(f"{label}/main", *names, size, net, net.backend, elsewhere)


def _has_state(function: DeviceFunction) -> bool:
    return isinstance(function, ProgramFunction) and bool(getattr(function.program, "state", None))


def _refuse(folder: Path) -> Recipe:
    raise NetworkError(f"an executable stays in its process; give the host the model ({folder.name})")
