"""glow-run on devices: a model in partitions, in the form in which glow-run has any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import glow_compiler as glow
from glow_backends.report import Report
from glow_dialects.core.byte_counts import byte_count
from glow_passes.watch.dot import drawn
from glow_runtime.devices.device import Device
from glow_runtime.host.provisioner import Partitioning
from glow_runtime.program_source import Signature
from glow_tools.common import write_text

#: Devices where the memory of each is asked for, but not how many there are.
MOST_DEVICES = 16


class HostedModel:
    """A model on a host of its own: `run` and `report`, as an executable has them."""

    def __init__(
        self,
        model: Any,
        devices: Sequence[str],
        partition: str,
        shapes: Mapping[str, Sequence[int]] | None,
        trace: Path | None = None,
        exact: bool = False,
    ) -> None:
        partitioning, memory = partition_named(partition)
        wanted = [Device.parse(d) for d in devices]
        if not wanted:
            count = partitioning if isinstance(partitioning, int) else MOST_DEVICES if memory else 1
            wanted = [Device()] * count
        if memory is not None:
            wanted = [d if d.memory is not None else replace(d, memory=memory) for d in wanted]
        wanted = [replace(d, exact=d.exact or exact) for d in wanted]
        self._trace = trace
        self._tracer = glow.Tracer(kernels=True) if trace is not None else None
        self.host = glow.HostManager(wanted, tracer=self._tracer)
        try:
            self.network = self.host.add_network("model", model, partitioning, shapes=shapes)
        except BaseException:
            self.host.close()
            raise
        self.inputs, self.defaults = self.network.inputs, list[Signature]()

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name."""
        return self.host.run("model", inputs)

    def report(self) -> Report:
        """Where each partition is, and the bytes of its constants."""
        managers = [m for program in self.network.programs[-1:] for m in program.replicas[0].managers]
        notes = {
            part.name: f"on {manager.name}, {part.constant_bytes} bytes of constants, "
            f"reads {', '.join(part.inputs) or 'nothing'}"
            for part, manager in zip(self.network.partitions, managers, strict=False)
        }
        return Report(weight_bytes=sum(p.constant_bytes for p in self.network.partitions), notes=notes)

    def draw(self, path: Path) -> None:
        """Write a picture of the devices and what is on them: SVG, or Graphviz text."""

        text = self.host.picture()
        write_text(str(path), drawn(text) if path.suffix == ".svg" else text)

    def close(self) -> None:
        """Free the devices, and write the timeline."""
        self.host.close()
        if self._tracer is not None and self._trace is not None:
            self._tracer.write(self._trace)


def partition_named(text: str) -> tuple[Partitioning, int | None]:
    """The partitioning of an option, and bytes a device: `3`, `balance`, `memory=64M`."""
    if text.isdecimal():
        return int(text), None
    kind, equals, size = text.partition("=")
    return (kind, byte_count(size)) if equals else (text, None)  # pyright: ignore[reportReturnType]
