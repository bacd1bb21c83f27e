"""Loader: copies of networks on devices, where these have room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from glow_dialects.core.errors import DeviceMemoryError, NetworkError
from glow_runtime.devices.function import DeviceFunction, ProgramFunction
from glow_runtime.devices.manager import DeviceManager
from glow_runtime.host.network import Network, Replica
from glow_runtime.host.partitions import Room

if TYPE_CHECKING:
    from glow_runtime.host.tracing import Tracer


class Loader:
    """Puts networks on devices; where a tracer notes the steps of kernels, programs tell their times."""

    def __init__(self, managers: Sequence[DeviceManager], tracer: Tracer | None = None) -> None:
        self.managers, self.tracer = managers, tracer
        self.timed = tracer is not None and tracer.kernels

    def rooms(self, more: Mapping[DeviceManager, int] | None = None) -> list[Room]:
        """The devices with the bytes that are free on them, and `more` of those that can be made free."""
        free = {m: m.available + (more or {}).get(m, 0) for m in self.managers}
        return [Room(m.device, m.name, free[m] if m.device.memory is not None else None) for m in free]

    def load(
        self, network: Network, first: Sequence[DeviceManager], replicas: int | Literal["saturate"]
    ) -> None:
        """Put copies of a network on devices, the first on those that it was planned for; all or none."""
        wanted = self._count(replicas, len(network.parts))
        if wanted > 1 and any(_has_state(p.function) for p in network.parts):
            raise NetworkError(f"network '{network.name}' has states, and each replica would have its own")
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
            alike = [m for m in self.managers if kind_of(m) == kind_of(first)]
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


def kind_of(manager: DeviceManager) -> object:
    """What must be the same for a compiled function to run on two devices."""
    device = manager.device
    return (
        type(device.compiler()),
        device.compiler().name,
        device.compiler().exact,
        device.threads,
        device.supported,
        device.unsupported,
    )


def _has_state(function: DeviceFunction) -> bool:
    return isinstance(function, ProgramFunction) and bool(getattr(function.program, "state", None))
