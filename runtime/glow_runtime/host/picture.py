"""Pictures of a host: contents of the devices as Graphviz text, and partitions over time as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from glow_runtime.devices.manager import DeviceManager
from glow_runtime.host.network import Network

COLORS = ("#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc", "#d9d2e9", "#fce5cd", "#d0e0e3", "#ead1dc")
"""A network has one of them."""


def to_dot(devices: Iterable[DeviceManager], networks: Mapping[str, Network]) -> str:
    """A box for each device with the partitions on it; arrows are values that go from one to another.

    A partition's number is the step in which it can run: those of one step run side by side.
    """
    lines = ["digraph host {", "  rankdir=TB; compound=true;"]
    lines.append('  node [shape=box, style="rounded,filled", fontname=Helvetica, fontsize=10];')
    boxes: dict[str, list[str]] = {manager.name: [] for manager in devices}
    edges: list[str] = []
    colors = dict(zip(networks, _repeated(COLORS), strict=False))
    for network in (program for known in networks.values() for program in known.programs):
        steps = steps_of(network)
        for number, replica in enumerate(network.replicas):
            for index, (part, manager) in enumerate(zip(network.parts, replica.managers, strict=True)):
                title = f"{network.name} {part.name}" if len(network.parts) > 1 else network.name
                copy = f", replica {number}" if len(network.replicas) > 1 else ""
                text = rf"{_escaped(title)}{copy}\n{steps[index]}: {part.constant_bytes} bytes"
                key = _key(network, number, index)
                boxes[manager.name].append(
                    f'    "{key}" [label="{text}", fillcolor="{colors[network.name]}"];'
                )
            edges += _edges(network, number)
    for index, (name, inside) in enumerate(boxes.items()):
        lines += [f"  subgraph cluster_{index} {{", f'    label="{_escaped(name)}"; fontname=Helvetica;']
        lines += [*inside, f'    "empty {index}" [style=invis, shape=point];', "  }"]
    return "\n".join([*lines, *edges, "}", ""])


def steps_of(network: Network) -> list[int]:
    """The step of each partition: one more than the last of those that it waits for."""
    steps: list[int] = []
    for part in network.parts:
        before = [steps[network.writers[n]] for n in part.inputs if n in network.writers]
        steps.append(1 + max(before, default=0))
    return steps


def _edges(network: Network, replica: int) -> list[str]:
    found: dict[tuple[int, int], list[str]] = {}
    for name, writer in network.writers.items():
        for reader in network.readers.get(name, ()):
            found.setdefault((writer, reader), []).append(name)
    lines: list[str] = []
    for pair, names in found.items():
        writer, reader = (_key(network, replica, index) for index in pair)
        lines.append(f'  "{writer}" -> "{reader}" [label="{_named(names)}", fontsize=9];')
    return lines


def _named(names: list[str]) -> str:
    return _escaped(names[0] if len(names) == 1 else f"{len(names)} values")


def _key(network: Network, replica: int, partition: int) -> str:
    return _escaped(f"{network.name}/{network.version}/{replica}/{partition}")


def _repeated(colors: tuple[str, ...]) -> Iterable[str]:
    while True:
        yield from colors


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")


#: Width of a schedule's picture, of the names before it, and the height of a row, in pixels.
WIDTH, NAMES, ROW = 1000, 160, 30


def schedule_svg(events: Sequence[Mapping[str, Any]]) -> str:
    """The partitions of a tracer's `events` as an SVG: a row for each device, time from left to right."""
    tracks = {e["tid"]: str(e["args"]["name"]) for e in events if e["ph"] == "M"}
    runs = [e for e in events if e.get("cat") == "partition"]
    first = min((e["ts"] for e in runs), default=0.0)
    whole = max((e["ts"] + e["dur"] for e in runs), default=first) - first or 1.0
    rows = sorted({e["tid"] for e in runs}, key=lambda tid: tracks[tid])
    names = sorted({str(e["name"]) for e in runs})
    parts = [f'<text x="4" y="{ROW * row + 20}">{escape(tracks[tid])}</text>' for row, tid in enumerate(rows)]
    for event in runs:
        left, width = (event["ts"] - first) * WIDTH / whole, event["dur"] * WIDTH / whole
        place = f'x="{NAMES + left:.1f}" y="{ROW * rows.index(event["tid"]) + 5}" width="{width:.1f}"'
        color = COLORS[names.index(event["name"]) % len(COLORS)]
        told = escape(f"{event['name']}: {event['dur']:.0f} us")
        drawn = f'height="20" fill="{color}" stroke="#666" stroke-width="0.5"'
        parts.append(f"<rect {place} {drawn}><title>{told}</title></rect>")
    height = ROW * len(rows) + 25
    parts.append(f'<text x="{NAMES}" y="{height - 5}">{whole:.0f} us</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + NAMES + 4}" height="{height}" '
    return "\n".join([f'{head}font-family="sans-serif" font-size="12">', *parts, "</svg>", ""])
