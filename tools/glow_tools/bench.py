"""glow-bench: time, load time, memory and error of models, compared with other engines."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glow_tools.command_line import Parser
from glow_tools.common import (
    add_backend,
    add_budget,
    add_exact,
    add_input,
    add_precision,
    add_shape,
    backend_text,
    command,
    count_option,
    fail,
    guarded,
    show_log,
    write_text,
)
from glow_tools.progress import Progress

if TYPE_CHECKING:
    from rich.table import Table

EXAMPLES = """\
  glow-bench model.onnx
  glow-bench a.onnx b.onnx --json results.json
  glow-bench model.onnx --shape data=8x3x224x224 --threads 2
  glow-bench model.onnx --profile                  time, GFLOP/s and GB/s of every kernel
  glow-bench model.onnx --trace trace.json         for chrome://tracing or ui.perfetto.dev
  glow-bench model.onnx --profile --json -         the same as JSON
  glow-bench model.onnx --accuracy                 error of each convolution against float64
"""


def arguments() -> Parser:
    """The command line."""
    parser = command(
        "glow-bench",
        "Measure models with this compiler and with the other installed engines (onnxruntime, OpenVINO, "
        "PyTorch through onnx2torch). Each engine runs in its own process, on the same cores. Short rounds "
        "alternate between the engines, so that noise affects all of them, and medians are reported. Times "
        "are in milliseconds, load times in seconds, memory in MiB. --profile, --trace and --accuracy "
        "measure our kernels instead.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("models", nargs="+", help=".onnx files")
    add("--threads", type=count_option, default=1, help="threads of every engine (default: 1)")
    add_backend(parser)
    add_precision(parser)
    add_exact(parser)
    add_budget(parser)
    add_shape(parser)
    add("--peers", default="all", help="other engines, separated by commas, or all or none (default: all)")
    add("--rounds", type=count_option, default=9, help="number of rounds (default: 9)")
    add("--seconds", type=float, default=0.5, help="seconds per engine and round (default: 0.5)")
    add_input(parser, random=False)
    add("--seed", type=count_option, default=0, help="seed of the random inputs (default: 0)")
    add("--cores", help="cores to use, such as 1 or 0,1 (default: the last ones)")
    told = "print all figures as JSON, or write them to this file"
    add("--json", nargs="?", const="-", metavar="FILE", help=told)
    add("--profile", action="store_true", help="measure the time of each kernel")
    add("--trace", type=Path, metavar="FILE", help="write compilation and kernels as a Chrome trace")
    told = "measure the error of each convolution, compared with float64"
    add("--accuracy", action="store_true", help=told)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-bench`."""
    parser = arguments()
    a = parser.parse_args(argv)
    if not a.threads or not a.rounds:
        parser.error("--threads and --rounds are at least 1")
    if a.trace and len(a.models) > 1:
        parser.error("--trace writes one file: give one model")
    show_log()
    return guarded(lambda: _run(a))


def _run(a: argparse.Namespace) -> int:
    if a.profile or a.trace or a.accuracy:
        if a.backend != "cpu":
            fail("--profile, --trace and --accuracy are of backend cpu; glow-run --report has cycles")
        from glow_tools.bench_kernels import show

        figures: list[dict[str, Any]] = []
        for model in a.models:
            with Progress(f"{Path(model).stem}: measuring") as progress:
                figures.append(show(model, dict(a.shape), a, progress))
        if a.json:
            write_text(a.json, json.dumps({"machine": machine(), "models": figures}, indent=1) + "\n")
        return 0
    from glow_tools.bench_race import Race

    if not find_spec("resource"):
        fail(f"{sys.platform} does not tell how much memory a process took; `--profile` works without")
    names = engines(a.peers)
    cores = chosen_cores(a.cores, a.threads)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="glow-bench-") as folder:
        for model in a.models:
            shapes = {n: list(s) for n, s in a.shape}
            options = (
                a.threads,
                cores,
                a.seed,
                Path(folder),
                a.inputs,
                a.input,
                backend_text(a),
                a.exact,
                a.compile_budget,
            )
            with Progress(f"{Path(model).stem}: reading the model") as progress:
                race = Race(model, shapes, names, *options)
                results.append(race.run(a.rounds, a.seconds, progress))
    report = {"machine": machine(), "cores": cores, "threads": a.threads, "models": results}
    if a.json:
        write_text(a.json, json.dumps(report, indent=1) + "\n")
    if a.json != "-":
        print_table(report)
    return 1 if any("error" in r["engines"]["glow"] for r in results) else 0


def engines(wanted: str) -> list[str]:
    """Names of the engines to race, ours first; a message where a wanted one is not there."""
    from glow_tools.peers import ENGINES

    peers = [n for n in ENGINES if n != "glow"]
    if wanted == "none":
        return ["glow"]
    if wanted == "all":
        return ["glow", *(n for n in peers if ENGINES[n].available())]
    names = [n.strip() for n in wanted.split(",")]
    for name in names:
        if name not in peers:
            fail(f"no peer '{name}'; there are: {', '.join(peers)}")
        if not ENGINES[name].available():
            fail(f"{name} is not there: install the package {ENGINES[name].package}")
    return ["glow", *names]


def chosen_cores(text: str | None, threads: int) -> list[int]:
    """The cores to pin to: those given, else as many as threads from the last ones on."""
    if not hasattr(os, "sched_getaffinity"):
        if text is not None:
            fail(f"--cores: {sys.platform} does not keep a process on cores; leave the option out")
        return []
    usable = sorted(os.sched_getaffinity(0))
    if text is None:
        return usable[-threads:]
    try:
        cores = sorted({int(c) for c in text.split(",")})
    except ValueError:
        fail(f"--cores '{text}' is not a list such as 0,1")
    missing = [c for c in cores if c not in usable]
    if missing:
        fail(f"core {missing[0]} is not usable; there are: {', '.join(map(str, usable))}")
    return cores


def machine() -> dict[str, Any]:
    """The conditions of the figures: processor, cores, system load, versions."""
    import importlib.metadata
    import platform

    names = ("glow-compiler", "xdsl", "llvmlite", "numpy", "onnxruntime", "openvino", "torch")
    versions: dict[str, str] = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next(s.split(":", 1)[1].strip() for s in lines if s.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": versions,
    }


#: The figures of an engine, a column each, or a row where the terminal is narrow.
_COLUMNS = (
    "median ms",
    "min ms",
    "load s",
    "warm s",
    "peak MiB",
    "arena MiB",
    "max rel error",
    "x best peer",
)
#: Columns of the terminal from which every figure has one.
_WIDE = 120


def print_table(report: Mapping[str, Any]) -> None:
    """The figures as a table; the last column is our speed relative to the fastest peer.

    On a narrow terminal each engine is a column and each figure a row.
    """
    from rich.console import Console

    console = Console(
        width=None if sys.stdout.isatty() or os.environ.get("COLUMNS") else 140, highlight=False
    )
    pinned = ", ".join(map(str, report["cores"])) or "any"
    title = f"{report['machine']['processor']}, {report['threads']} thread(s) on core {pinned}"
    several = ("x one thread",) if report["threads"] > 1 else ()
    headings = (*_COLUMNS, *several)
    if console.width >= _WIDE:
        console.print(_wide(report, title, headings))
    else:
        console.print(title)
        for result in report["models"]:
            console.print(_narrow(result, headings))
    for result in report["models"]:
        for engine, figures in result["engines"].items():
            if "error" in figures:
                print(f"{result['model']} on {engine}: {figures['error']}")


def _wide(report: Mapping[str, Any], title: str, headings: Sequence[str]) -> Table:
    """A row for each model and engine."""
    from rich.table import Table

    table = Table(title=title)
    for name in ("model", "engine", *headings):
        table.add_column(name, justify="left" if name in ("model", "engine") else "right")
    for result in report["models"]:
        for number, (engine, figures) in enumerate(result["engines"].items()):
            shown = result["model"] if number == 0 else ""
            table.add_row(shown, engine, *_cells(figures, len(headings)))
        table.add_section()
    return table


def _narrow(result: Mapping[str, Any], headings: Sequence[str]) -> Table:
    """One model: a column for each engine."""
    from rich.table import Table

    table = Table(title=result["model"], title_justify="left")
    table.add_column("")
    for engine in result["engines"]:
        table.add_column(engine, justify="right")
    columns = [_cells(figures, len(headings)) for figures in result["engines"].values()]
    for heading, *cells in zip(headings, *columns, strict=True):
        table.add_row(heading, *cells)
    return table


def _cells(figures: Mapping[str, Any], count: int) -> list[str]:
    """The cells of an engine; what went wrong is told below the table."""
    if "error" in figures:
        return ["failed", *[""] * (count - 1)]
    scaling = [f"{figures['scaling']:.2f}"] if "scaling" in figures else [""]
    return [*row(figures), *scaling][:count]


def _milliseconds(time: float) -> str:
    """Microseconds have digits, too."""
    return f"{time:.3f}" if time >= 0.1 else f"{time:.5f}"


def row(figures: Mapping[str, Any]) -> list[str]:
    """The cells of one engine."""
    arena = figures.get("arena_bytes")
    warm = figures.get("warm_load_s")
    error = figures.get("error_relative")
    speed = figures.get("speedup")
    return [
        _milliseconds(figures["median_ms"]),
        _milliseconds(figures["min_ms"]),
        f"{figures['load_s']:.2f}",
        "" if warm is None else f"{warm:.2f}",
        f"{figures['peak_bytes'] / 2**20:.0f}",
        "" if arena is None else f"{arena / 2**20:.2f}",
        "" if error is None else f"{error:.1e}",
        "" if speed is None else f"{speed:.2f}",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
