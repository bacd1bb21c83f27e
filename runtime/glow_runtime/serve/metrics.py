"""Server metrics for Prometheus and for the live page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glow_runtime.host.host import HostManager


def status(host: HostManager) -> dict[str, Any]:
    """Networks and devices with their counts."""
    networks = {
        name: asdict(counts) | {"partitions": len(host.networks[name].partitions)}
        for name, counts in host.statistics().items()
        if name in host.networks
    }
    health = host.health()
    devices = {
        name: asdict(counts) | {"state": health[name]} for name, counts in host.device_statistics().items()
    }
    return {"ready": host.ready, "networks": networks, "devices": devices}


_OF_DEVICES = (
    ("runs", "counter", "Runs of functions."),
    ("errors", "counter", "Runs that failed."),
    ("restarts", "counter", "Restarts after a crash."),
    ("busy", "counter", "Seconds of runs."),
    ("queued", "gauge", "Runs that wait."),
    ("memory", "gauge", "Bytes for constants."),
    ("used", "gauge", "Bytes of constants."),
)
"""Figures of devices: name, kind and text."""


def prometheus(host: HostManager) -> str:
    """The metrics, in Prometheus' text format."""
    lines: list[str] = []

    def sample(name: str, values: list[tuple[str, float]]) -> None:
        lines.extend(f"glow_{name}{{{labels}}} {_number(value)}" for labels, value in values)

    def metric(name: str, kind: str, text: str, values: list[tuple[str, float]]) -> None:
        lines.append(f"# HELP glow_{name} {text}")
        lines.append(f"# TYPE glow_{name} {kind}")
        sample(name, values)

    networks = {_escaped(n): s for n, s in host.statistics().items()}
    devices = {_escaped(n): s for n, s in host.device_statistics().items()}
    results = ("succeeded", "failed", "refused", "cancelled")
    metric(
        "requests_total", "counter", "Requests by network and result.",
        [(f'network="{n}",result="{r}"', getattr(s, r)) for n, s in networks.items() for r in results],
    )  # fmt: skip
    metric(
        "request_seconds", "summary", "Latencies of the last requests.",
        [
            (f'network="{n}",quantile="{q}"', getattr(s, name))
            for n, s in networks.items()
            for q, name in (("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"))
        ],
    )  # fmt: skip
    for end, name in (("sum", "seconds"), ("count", "timed")):
        sample(
            f"request_seconds_{end}",
            [(f'network="{n}"', getattr(s, name, 0)) for n, s in networks.items()],
        )
    for name, text in (("active", "Requests that run."), ("queued", "Requests that wait.")):
        metric(name, "gauge", text, [(f'network="{n}"', getattr(s, name)) for n, s in networks.items()])
    metric(
        "batches_total", "counter", "Batches.", [(f'network="{n}"', s.batches) for n, s in networks.items()]
    )
    for name, kind, text in _OF_DEVICES:
        end = "_total" if kind == "counter" else ""
        metric(
            f"device_{name}{end}",
            kind,
            text,
            [(f'device="{n}"', getattr(s, name)) for n, s in devices.items()],
        )
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """A value with all of its digits."""
    return str(value) if isinstance(value, int) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>glow-serve</title><style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 2rem }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left }
.bar { background: #e8eef7; height: .6rem; width: 8rem; display: inline-block }
.bar i { background: #3b6fb6; height: 100%; display: block }
</style></head><body><h1>glow-serve <small id="state"></small></h1>
<h2>Networks</h2><table id="networks"></table><h2>Devices</h2><table id="devices"></table>
<script>
let before = null, last = 0;
const cell = (row, text, tag = "td") => { const c = document.createElement(tag); c.textContent = text;
  row.appendChild(c); return c };
const fill = (id, heads, rows) => { const table = document.getElementById(id); table.replaceChildren();
  const head = table.insertRow(); heads.forEach(h => cell(head, h, "th"));
  for (const values of rows) { const row = table.insertRow();
    for (const v of values) { if (v && v.part !== undefined) { const c = cell(row, ""),
      bar = document.createElement("span"), inner = document.createElement("i"); bar.className = "bar";
      inner.style.width = Math.min(100, 100 * v.part) + "%"; bar.appendChild(inner); c.appendChild(bar) }
      else cell(row, v) } } };
const ms = s => (1000 * s).toFixed(2) + " ms", mib = b => (b / 1048576).toFixed(1) + " MiB";
async function show() {
  try { const s = await (await fetch("status")).json(), now = performance.now(), span = (now - last) / 1000;
    const rate = (kind, name, field) => before && before[kind][name]
      ? ((s[kind][name][field] - before[kind][name][field]) / span) : 0;
    document.getElementById("state").textContent = s.ready ? "ready" : "not ready";
    fill("networks", ["network", "requests/s", "p50", "p99", "active", "queued", "failed", "refused",
      "batches", "partitions"], Object.entries(s.networks).map(([n, v]) => [n,
      rate("networks", n, "succeeded").toFixed(1), ms(v.p50),
      ms(v.p99), v.active, v.queued, v.failed, v.refused, v.batches, v.partitions]));
    fill("devices", ["device", "state", "busy", "runs/s", "queued", "errors", "restarts", "constants", "of"],
      Object.entries(s.devices).map(([n, v]) => [n, v.state, {part: rate("devices", n, "busy")},
      rate("devices", n, "runs").toFixed(1), v.queued, v.errors, v.restarts, mib(v.used), mib(v.memory)]));
    before = s; last = now;
  } catch (e) { document.getElementById("state").textContent = "no answer" }
  setTimeout(show, 1000) }
show();
</script></body></html>
"""
