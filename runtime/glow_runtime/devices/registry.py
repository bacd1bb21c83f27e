"""Kinds of devices: built-in ones, and those of installed packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from warnings import warn

from glow_dialects.core.errors import DeviceError
from glow_runtime.devices.device import Device
from glow_runtime.devices.manager import DeviceManager

_OWN = {
    "cpu": ("glow_runtime.devices.local", "LocalManager"),
    "interpreter": ("glow_runtime.devices.local", "LocalManager"),
    "process": ("glow_runtime.devices.process", "ProcessManager"),
    "ray": ("glow_runtime.devices.ray_actor", "RayManager"),
}


def kinds() -> dict[str, Callable[[Device], DeviceManager]]:
    """Makers of managers by kind: ours, and those that packages offer as entry points `glow.devices`.

    One that cannot be loaded is left out, with a warning that names it.
    """
    from importlib.metadata import entry_points

    known: dict[str, Callable[[Device], DeviceManager]] = {}
    for entry in entry_points(group="glow.devices"):
        try:
            known[entry.name] = entry.load()
        except Exception as error:  # whatever a package does when it is imported
            problem = f"{type(error).__name__}: {error}"
            warn(f"device kind '{entry.name}' of {entry.value} is ignored: {problem}", RuntimeWarning, 2)
    return known | {kind: _own(kind) for kind in _OWN}


def _own(kind: str) -> Callable[[Device], DeviceManager]:
    module, name = _OWN[kind]
    return lambda device: getattr(import_module(module), name)(device)


def manager_of(device: Device) -> DeviceManager:
    """The manager of a device; DeviceError lists the kinds that there are."""
    known = {device.kind: _own(device.kind)} if device.kind in _OWN else kinds()
    if device.kind not in known:
        raise DeviceError(f"no kind of device '{device.kind}'; there are: {', '.join(sorted(known))}")
    return known[device.kind](device)
