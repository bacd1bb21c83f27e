"""Device: the description of something that runs programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from glow_backends.base import Backend, get_backend
from glow_dialects.core.byte_counts import byte_count
from glow_dialects.core.errors import DeviceError, GlowError


@dataclass(frozen=True)
class Device:
    """Something that runs programs.

    Args:
        kind: "cpu" (threads of this process), "interpreter" (the same, in NumPy), "process" (a separate
            process, which may crash alone), "ray" (an actor, possibly on another machine), or the kind of an
            installed package.
        name: A name for reports; by default the kind with a number.
        memory: Bytes for the constants of programs; None means no limit.
        backend: The backend that compiles for it; by default that of the kind.
        cores: The number of runs at a time, or the numbers of the cores that they run on.
        threads: Threads of each program.
        flops: Arithmetic operations per second, to balance partitions; None: measured, see `rates_of`.
        bandwidth: Bytes per second of its memory; None: measured.
        link: Bytes per second to and from it; None: measured.
        retry: Repeat a run once if the device crashed.
        exact: Compute quantised operators in float, by their definitions; see `compile`.
        supported: Names of the only operators that it runs.
        unsupported: Names of operators that it does not run.
        options: Options of the kind.

    Examples:
        >>> glow.Device("cpu", memory=64 << 20, threads=2).memory
        67108864
        >>> glow.Device.parse("cpu:0,memory=64M").memory
        67108864
    """

    kind: str = "cpu"
    name: str = ""
    memory: int | None = None
    backend: str | Backend = ""
    cores: int | tuple[int, ...] = 1
    threads: int = 1
    flops: float | None = None
    bandwidth: float | None = None
    link: float | None = None
    retry: bool = False
    exact: bool = False
    #: Operators (`glow.relu`) that it runs (none: all), and some of these that it does not.
    supported: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    #: What only one kind of device needs to know.
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)

    def __post_init__(self) -> None:
        """DeviceError for numbers that no device has."""
        if self.memory is not None and self.memory < 0:
            raise DeviceError(f"device {self.name or self.kind}: memory={self.memory}; bytes are 0 or more")
        if self.lanes < 1 or self.threads < 1:
            raise DeviceError(f"device {self.name or self.kind}: it has at least one core and one thread")

    @property
    def lanes(self) -> int:
        """How many runs go side by side."""
        return self.cores if isinstance(self.cores, int) else len(self.cores)

    def compiler(self) -> Backend:
        """The backend that compiles for it."""
        made = self.backend
        if not isinstance(made, Backend):
            made = get_backend(made or DEFAULT_BACKENDS.get(self.kind, "cpu"), threads=self.threads)
        return made.in_float() if self.exact else made

    @staticmethod
    def parse(text: str) -> Device:
        """`cpu:0`, or with further fields `process:1,memory=64M,cores=2`; DeviceError for anything else."""
        head, *settings = text.split(",")
        kind, _, _ = head.partition(":")
        device = Device(kind.strip(), name=head.strip() if ":" in head else "")
        known = {f.name: f.type for f in fields(Device)}
        for setting in settings:
            key, equals, value = setting.partition("=")
            if not equals or key not in known or key in ("kind", "options", "supported", "unsupported"):
                raise DeviceError(
                    f"device '{text}': '{setting}' is not one of memory=64M, cores=2, threads=1"
                )
            device = replace(device, **{key: _value(key, value, text)})
        return device


def _value(key: str, text: str, whole: str) -> Any:
    """What a field's text means."""
    try:
        if key in ("name", "backend"):
            return text
        if key in ("flops", "bandwidth", "link"):
            return float(text)
        if key in ("retry", "exact"):
            return text in ("1", "true", "yes")
        return byte_count(text) if key == "memory" else int(text)
    except (ValueError, GlowError) as error:
        raise DeviceError(f"device '{whole}': {key}={text}: {error}") from None


DEFAULT_BACKENDS = {"interpreter": "interpreter"}
"""Backends of kinds that do not use `cpu`."""


def named(devices: Sequence[Device]) -> list[Device]:
    """The devices with a name each: `cpu:0` where the user gave none. DeviceError for one name twice."""
    taken = [d.name for d in devices if d.name]
    if len(set(taken)) < len(taken):
        raise DeviceError(f"two devices have one name: {', '.join(taken)}")
    named: list[Device] = []
    for device in devices:
        number = 0
        name = device.name
        while not name or (not device.name and name in {*taken, *(d.name for d in named)}):
            name = f"{device.kind}:{number}"
            number += 1
        named.append(device if device.name else replace(device, name=name))
    return named
