"""The picture and the table of the README, from the figures behind RESULTS.md.

    python -m benchmarks.picture

writes docs/pictures/speed.svg and prints the table. A test compares both with the documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.report import RACES

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results.json"
PICTURE = ROOT / "docs/pictures/speed.svg"
#: Engines in the order of the columns: their name for a reader, and the colour of their bars.
ENGINES = {
    "glow": ("Glow", "#1b9e77"),
    "onnxruntime": ("onnxruntime", "#7570b3"),
    "openvino": ("OpenVINO", "#d98c3f"),
}
#: The models of the table, and what they are.
TABLE = {
    "nudenet-yolov8n": "YOLOv8n, object detection",
    "ppocr-rec-v4": "PP-OCRv4, text recognition",
    "magika": "Magika, file types",
    "basic-pitch": "Basic Pitch, music transcription",
    "smart-turn-qdq": "Smart Turn, speech, int8",
    "resnet50_b1": "ResNet-50, image classification",
}
#: Of the picture: where bars begin, the length of the longest, the heights of a bar and a model.
LEFT, WIDTH, BAR, GROUP = 150, 430, 11, 44
STYLE = """\
<style>
  text { font: 12px Helvetica, Arial, sans-serif; fill: #222 }
  .paper { fill: #fff }
  @media (prefers-color-scheme: dark) { text { fill: #ddd } .paper { fill: #16191d } }
</style>"""

Times = Mapping[str, float]


def measured(results: Mapping[str, Any]) -> dict[str, Times]:
    """Milliseconds of each engine for each model, one thread."""
    rows = (row for race in RACES for row in results.get(race, {}).get("rows", ()) if row["threads"] == 1)
    return {
        row["model"]: {
            name: engine["median_ms"] for name, engine in row["engines"].items() if engine.get("median_ms")
        }
        for row in rows
    }


def table(times: Mapping[str, Times]) -> Iterator[str]:
    """The rows of the README's table."""
    titles = [f"{name} ms" for name, _ in ENGINES.values()]
    yield f"| model | {' | '.join(titles)} | Glow is faster by |"
    yield "| --- |" + " ---: |" * (len(ENGINES) + 1)
    for model, name in TABLE.items():
        cells = [f"{times[model][engine]:.1f}" for engine in ENGINES]
        best = min(times[model][engine] for engine in ENGINES if engine != "glow")
        yield f"| {name} | {' | '.join(cells)} | {best / times[model]['glow']:.2f} x |"


def picture(times: Mapping[str, Times], models: Iterable[str]) -> str:
    """Bars of each model's times, as parts of its slowest engine's."""
    names = list(models)
    height, width = 50 + GROUP * len(names), LEFT + WIDTH + 80
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        "<title>Time of one inference, one thread: shorter is better</title>",
        STYLE,
        f'<rect class="paper" width="{width}" height="{height}"/>',
        '<text x="10" y="20">Time of one inference in milliseconds, one thread; shorter is better</text>',
    ]
    for number, (name, colour) in enumerate(ENGINES.values()):
        x = LEFT + 110 * number
        lines.append(f'<rect x="{x}" y="30" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x + 15}" y="39">{name}</text>')
    for number, model in enumerate(names):
        lines += _bars(times[model], escape(model), 50 + number * GROUP)
    return "\n".join([*lines, "</svg>", ""])


def _bars(times: Times, model: str, top: int) -> Iterator[str]:
    """One model: its name, and a bar with its milliseconds for each engine."""
    yield f'<text x="{LEFT - 8}" y="{top + 21}" text-anchor="end">{model}</text>'
    known = [(times[engine], colour) for engine, (_, colour) in ENGINES.items() if engine in times]
    for place, (milliseconds, colour) in enumerate(known):
        y, length = (
            top + place * (BAR + 1),
            WIDTH * milliseconds / max(times[e] for e in ENGINES if e in times),
        )
        yield f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
        yield f'<text x="{LEFT + length + 5:.1f}" y="{y + 10}">{milliseconds:.3g}</text>'


def made() -> tuple[str, list[str]]:
    """The picture of the real models, and the table, from the file of results."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    times = measured(results)
    return picture(times, (row["model"] for row in results["zoo"]["rows"])), list(table(times))


def main() -> None:
    """Write the picture, print the table."""
    drawn, rows = made()
    PICTURE.write_text(drawn, encoding="utf-8")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
