"""Provisioner: loads networks onto devices. Each partition is compiled once; a failure is undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from glow_backends.base import Backend, ports
from glow_dialects.core.errors import (
    ImportProblems,
    NetworkError,
    PartitionError,
    ShapeError,
    UnsupportedError,
)
from glow_dialects.core.extent import is_open
from glow_runtime.compiler import Compiler
from glow_runtime.devices.function import ModelFunction, Recipe
from glow_runtime.devices.manager import DeviceManager
from glow_runtime.executable import Executable
from glow_runtime.host.loading import Loader, kind_of
from glow_runtime.host.network import Network, open_check, static_check
from glow_runtime.host.partitions import Partition, divide
from glow_runtime.host.placement import Placement, PlannedNetwork
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

    def executable(self, model: Any, compiler: Compiler, shapes: Shapes | None) -> Executable:
        """The model with all that it needs to run, its programs made by a compiler."""
        ...

    def elsewhere(self, model: Any, backend: Backend, shapes: Shapes | None, folder: Path) -> Recipe:
        """How another process compiles the model as a whole; `folder` is for files that it reads."""
        ...


Placed = tuple[Network, Sequence[DeviceManager]]
"""A network, and the devices of the partitions of its first replica."""


class Provisioner:
    """Makes networks of models: divides and compiles them, and has them loaded."""

    def __init__(self, loader: Loader, reader: Reader) -> None:
        self._loader, self._reader = loader, reader
        self._managers = loader.managers

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
            may_stay = partitioning == "auto" and not self._bounded and not self._reader.has_plan(model)
            divided = self._divided(name, label, module, version, partitioning, may_stay)
            network, first = divided or self._whole(name, label, version, model, shapes)
        self._loader.load(network, first, replicas)
        return network

    def remove(self, network: Network) -> None:
        """Take a network off the devices, and end what ran its plan."""
        self._loader.unload(network)
        network.close()
        network.replicas.clear()

    # --- dividing ----------------------------------------------------------------------------
    def _stays_whole(self, model: Any, partitioning: Partitioning) -> bool:
        """Whether a model is one function on one device."""
        if isinstance(model, Executable) or self._partitions(partitioning) is None:
            return True
        alike = len({kind_of(m) for m in self._managers}) == 1
        whole = partitioning == "auto" and not self._bounded and alike and not self._loader.timed
        return whole and not self._reader.has_plan(model)

    @property
    def _bounded(self) -> bool:
        """Whether a device has a limit of memory."""
        return any(m.device.memory is not None for m in self._managers)

    def _module(self, model: Any, shapes: Shapes | None) -> ModuleOp | None:
        """The graph of a model; None where only its runs tell all that there is to compute."""
        try:
            module = self._reader.module(model, shapes)
        except (ShapeError, ImportProblems, UnsupportedError):
            return None
        return None if any(is_open(port.shape) for port in ports(module, "input")) else module

    def _divided(
        self,
        name: str,
        label: str,
        module: ModuleOp,
        version: int,
        partitioning: Partitioning,
        may_stay: bool,
    ) -> Placed | None:
        """The network in partitions, and their devices; None where it has to stay whole, and may."""
        try:
            division = divide(
                label, module, self._loader.rooms(), self._partitions(partitioning) or 0, self._loader.timed
            )
        except PartitionError as error:
            if may_stay:
                return None
            raise PartitionError(f"network '{name}': {error}") from None
        inputs, outputs = (
            [Signature(p.name, p.shape, p.dtype) for p in ports]
            for ports in (division.inputs, division.outputs)
        )
        check = static_check(division.inputs)
        network = Network(name, version, division.partitions, inputs, outputs, check)
        return network, [self._managers[p.place] for p in division.partitions]

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
        placement = Placement(name, label, self._loader, self._partitions(partitioning) or 0, replicas)
        try:
            net = self._reader.executable(model, placement.compiler, shapes)
            function = _model_function(label, net, 0, _refuse)
            placement.threads.load(function)
        except BaseException:
            placement.close()
            raise
        return PlannedNetwork(
            name, version, [Partition("main", function, 0)], net.inputs, net.outputs, placement
        )

    def _whole(self, name: str, label: str, version: int, model: Any, shapes: Shapes | None) -> Placed:
        """The network as one function, on the device that has most room."""
        manager = max(self._managers, key=lambda m: (m.available, -len(m.statistics().functions)))
        if not self._bounded:
            manager = min(self._managers, key=lambda m: len(m.statistics().functions))
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
        choices = {"auto": 0, "memory": 0, "balance": len(self._managers), "none": None}
        if partitioning not in choices:
            raise PartitionError(
                f"partition={partitioning!r} is not one of {', '.join(choices)}, or a number"
            )
        return choices[partitioning]


def _model_function(
    label: str, net: Executable, size: int, elsewhere: Callable[[Path], Recipe]
) -> ModelFunction:
    """The function of a whole model, with `size` bytes of constants."""
    names = [s.name for s in net.inputs], [s.name for s in net.outputs]
    return ModelFunction(f"{label}/main", *names, size, net, net.backend, elsewhere)


def _refuse(folder: Path) -> Recipe:
    raise NetworkError(
        f"an executable cannot move to another process; give the host the model ({folder.name})"
    )
