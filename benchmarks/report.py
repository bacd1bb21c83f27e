"""RESULTS.md and speed.svg from measured figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

RACES = {
    "light": "Light models of the onnx package, random weights, batch 1, one thread",
    "batch8": "Batch 8, one thread",
    "threads": "Batch 8, two threads",
    "small": "Very small networks, one thread",
    "zoo": "Real models of published packages, one thread",
    "architectures": "Architectures of torchvision and timm, random weights, batch 1, one thread",
}
#: Milliseconds below which times have a fourth place.
SMALL_MS = 0.1
PEERS = ("onnxruntime", "openvino", "torch")
INTRO = """\
# Results

`python -m benchmarks.compare` measures these figures. Every engine runs in its own process, pinned to the
same core, in alternating short rounds. Times are medians. Inputs and outputs are bound once on every
engine.

| column | meaning |
| --- | --- |
| x best | the time of the fastest peer divided by ours; more than 1 means that Glow is faster |
| spread | the variation of the rounds |
| error | the largest difference from onnxruntime's outputs, divided by the largest output |
| load | time from the file to the start of the first run, with an empty cache |
| warm | the same in a later process |

Random weights saturate the softmax of some light models, so an error of 0 says little there. The tests
compare all nine with tolerances of 1e-3 and 1e-5.
"""


def write_report(results: Mapping[str, Any], folder: Path) -> None:
    """Write both files for whatever tables there are."""
    parts = [INTRO, *environment(results)]
    for name, title in RACES.items():
        if name in results:
            parts += [f"## {title}\n", stamp(results[name]), *race_table(results[name]["rows"])]
    if "kernels" in results:
        parts += kernel_table(results["kernels"])
    if "training" in results:
        parts += training_table(results["training"])
    if "shapes" in results:
        parts += shapes_table(results["shapes"])
    (folder / "RESULTS.md").write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")
    bars = speeds(results)
    if bars:
        (folder / "speed.svg").write_text(chart(bars), encoding="utf-8")


def environment(results: Mapping[str, Any]) -> list[str]:
    """Machine and versions of the latest table."""
    if not results:
        return []
    found = max(results.values(), key=lambda r: r["date"])["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return [
        f"{found['processor']}, {found['cores']} cores; Python {found['python']}; {versions}.",
        "",
        "![speed relative to the fastest peer](speed.svg)",
        "",
    ]


def stamp(table: Mapping[str, Any]) -> str:
    """When a table was measured, and how busy the machine was before."""
    busy = ""
    if table["load"] > 0.5:
        busy = (
            f" The machine was busy (load {table['load']} of {table['machine']['cores']} cores before the "
            "run), so times are longer than on an idle machine."
        )
    return f"{table['date']}.{busy}\n"


def race_table(rows: Sequence[Row]) -> list[str]:
    """A table of models by engines, with the geometric mean of the speeds."""
    present = [p for p in PEERS if any(p in r["engines"] for r in rows)]
    titles = ["model", "ours ms", *(f"{p} ms" for p in present), "x best", "spread", "error"]
    titles += ["load s", "warm s", "peak MiB", *(f"{p} MiB" for p in present), "arena MiB"]
    several = any(r["threads"] > 1 for r in rows)
    titles += [f"{engine} x one thread" for engine in ("ours", *present)] if several else []
    lines = [f"| {' | '.join(titles)} |", "| --- |" + " ---: |" * (len(titles) - 1)]
    for row in rows:
        lines.append(f"| {' | '.join(race_cells(row, present, several))} |")
    ratios = [r["engines"]["glow"]["speedup"] for r in rows if "speedup" in r["engines"]["glow"]]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines += ["", f"Geometric mean {mean:.2f} x the fastest peer, minimum {min(ratios):.2f} x."]
    return [*lines, ""]


def race_cells(row: Row, present: Sequence[str], several: bool) -> list[str]:
    """The cells of one model; `several`: threads."""
    engines = row["engines"]
    ours = engines["glow"]
    if "error" in ours:
        more = len(present) + 1 if several else 0
        return [row["model"], f"failed: {ours['error']}", *[""] * (len(present) * 2 + 7 + more)]

    def figure(name: str, key: str, form: str, scale: float = 1.0) -> str:
        value = engines.get(name, {}).get(key)
        if value is not None and key == "median_ms" and value < SMALL_MS:
            form = ".4f"
        return "" if value is None else format(value / scale, form)

    return [
        row["model"],
        figure("glow", "median_ms", ".3f"),
        *(figure(p, "median_ms", ".3f") for p in present),
        figure("glow", "speedup", ".2f"),
        f"{100 * ours['spread']:.0f} %",
        figure("glow", "error_relative", ".1e"),
        figure("glow", "load_s", ".2f"),
        figure("glow", "warm_load_s", ".2f"),
        figure("glow", "peak_bytes", ".0f", 2**20),
        *(figure(p, "peak_bytes", ".0f", 2**20) for p in present),
        figure("glow", "arena_bytes", ".2f", 2**20),
        *(figure(engine, "scaling", ".2f") for engine in ("glow", *present) if several),
    ]


def kernel_table(table: Mapping[str, Any]) -> list[str]:
    """Direct convolutions as shares of the peak."""
    lines = [
        "## Direct convolution kernels, Winograd off, one core\n",
        stamp(table),
        "The shortest run of each kernel in the program, relative to the measured peak of multiply-adds "
        "between the runs.\n",
        "| model | convolutions | total | median | minimum | maximum | measured peak GFLOP/s |",
        "| --- |" + " ---: |" * 6,
    ]
    for row in table["rows"]:
        shares = [f"{100 * row[k]:.0f} %" for k in ("share", "median", "least", "best")]
        lines.append(f"| {row['model']} | {row['count']} | {' | '.join(shares)} | {row['peak_gflops']:.0f} |")
    return [*lines, ""]


def training_table(table: Mapping[str, Any]) -> list[str]:
    """Steps of training beside PyTorch's."""
    lines = [
        "## A step of training, one thread\n",
        stamp(table),
        "| network | ours ms | torch ms | x torch | ours MB | torch MB |",
        "| --- |" + " ---: |" * 5,
    ]
    for row in table["rows"]:
        ours, theirs = row["glow"], row["torch"]
        ratio = theirs["milliseconds"] / ours["milliseconds"]
        lines.append(
            f"| {row['model']} | {ours['milliseconds']:.3f} | {theirs['milliseconds']:.3f} | {ratio:.2f} "
            f"| {ours['megabytes']:.0f} | {theirs['megabytes']:.0f} |"
        )
    return [*lines, ""]


def shapes_table(table: Mapping[str, Any]) -> list[str]:
    """What a second input shape costs."""
    lines = [
        "## Another input shape in a warm process\n",
        stamp(table),
        "Processor time (all threads) and elapsed time in seconds: from the file to the first result with an "
        "empty cache, and then for a second input shape.\n",
        "| model | first, processor s | elapsed s | second, processor s | elapsed s | kernels "
        "| new kernels |",
        "| --- |" + " ---: |" * 6,
    ]
    for row in table["rows"]:
        times = (f"{t:.2f}" for t in (*row["first"], *row["second"]))
        lines.append(f"| {row['model']} | {' | '.join(times)} | {row['kernels']} | {row['compiled']} |")
    return [*lines, ""]


def speeds(results: Mapping[str, Any]) -> list[tuple[str, float]]:
    """(model, speed against the fastest peer) of all races."""
    bars: list[tuple[str, float]] = []
    for name in RACES:
        for row in results.get(name, {}).get("rows", ()):
            if "speedup" in row["engines"]["glow"]:
                suffix = " 2 threads" if row["threads"] == 2 else ""
                bars.append((row["model"] + suffix, row["engines"]["glow"]["speedup"]))
    return bars


def chart(bars: Sequence[tuple[str, float]]) -> str:
    """Horizontal bars with a line at 1, as SVG."""
    left, width, height = 210, 480, 18
    largest = max(1.5, *(value for _, value in bars))
    total = height * len(bars) + 50
    scale = width / largest
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" height="{total}" '
        'font-family="Helvetica, sans-serif" font-size="12">',
        f'<text x="{left}" y="18">times the speed of the fastest peer</text>',
    ]
    for number, (name, value) in enumerate(bars):
        y = 30 + number * height
        colour = "#2a7" if value >= 1 else "#c64"
        parts += [
            f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{name}</text>',
            f'<rect x="{left}" y="{y + 2}" width="{value * scale:.1f}" height="{height - 5}" '
            f'fill="{colour}"/>',
            f'<text x="{left + value * scale + 5:.1f}" y="{y + 12}">{value:.2f}</text>',
        ]
    one = left + scale
    parts.append(f'<line x1="{one:.1f}" y1="26" x2="{one:.1f}" y2="{total - 16}" stroke="#333"/>')
    return "\n".join([*parts, "</svg>", ""])
