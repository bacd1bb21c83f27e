"""glow-bench: time, load time, memory and error of models, compared with other engines."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glow_tools.common import (
    add_backend,
    add_budget,
    add_exact,
    add_shape,
    command,
    count_option,
    fail,
    guarded,
    show_log,
    write_text,
)

EXAMPLES = """\
  glow-bench model.onnx
  glow-bench a.onnx b.onnx --json results.json
  glow-bench model.onnx --shape data=8x3x224x224 --threads 2
  glow-bench model.onnx --profile                  time, GFLOP/s and GB/s of every kernel
  glow-bench model.onnx --trace trace.json         for chrome://tracing or ui.perfetto.dev
  glow-bench model.onnx --profile --json -         the same as JSON
  glow-bench model.onnx --accuracy                 error of each convolution against float64
"""


def _arguments() -> argparse.ArgumentParser:
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
    add_exact(parser)
    add_budget(parser)
    add_shape(parser)
    add("--peers", default="all", help="other engines, separated by commas, or all or none (default: all)")
    add("--rounds", type=count_option, default=9, help="number of rounds (default: 9)")
    add("--seconds", type=float, default=0.5, help="seconds per engine and round (default: 0.5)")
    told = "input values: .npz with arrays by name, or .npy (default: random)"
    add("--inputs", type=Path, metavar="FILE", help=told)
    add("--seed", type=count_option, default=0, help="seed of the random inputs (default: 0)")
    add("--cores", help="cores to use, such as 1 or 0,1 (default: the last ones)")
    add("--json", metavar="FILE", help="write all figures to this file; - is standard output")
    add("--profile", action="store_true", help="measure the time of each kernel")
    add("--trace", type=Path, metavar="FILE", help="write compilation and kernels as a Chrome trace")
    told = "measure the error of each convolution, compared with float64"
    add("--accuracy", action="store_true", help=told)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-bench`."""
    parser = _arguments()
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

        figures = [show(model, dict(a.shape), a) for model in a.models]
        if a.json:
            write_text(a.json, json.dumps({"machine": machine(), "models": figures}, indent=1) + "\n")
        return 0
    from glow_tools.bench_race import Race

    names = engines(a.peers)
    cores = chosen_cores(a.cores, a.threads)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="glow-bench-") as folder:
        for model in a.models:
            shapes = {n: list(s) for n, s in a.shape}
            options = a.threads, cores, a.seed, Path(folder), a.inputs, a.backend, a.exact, a.compile_budget
            race = Race(model, shapes, names, *options)
            results.append(race.run(a.rounds, a.seconds))
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
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "versions": versions,
    }


def print_table(report: Mapping[str, Any]) -> None:
    """The figures as a table; the last column is our speed relative to the fastest peer."""
    from rich.console import Console
    from rich.table import Table

    pinned = ", ".join(map(str, report["cores"]))
    title = f"{report['machine']['processor']}, {report['threads']} thread(s) on core {pinned}"
    table = Table(title=title)
    for name in ("model", "engine", "median ms", "min ms", "load s", "warm s"):
        table.add_column(name, justify="left" if name in ("model", "engine") else "right")
    several = ("x one thread",) if report["threads"] > 1 else ()
    for name in ("peak MiB", "arena MiB", "max rel error", "x best peer", *several):
        table.add_column(name, justify="right")
    for result in report["models"]:
        for number, (engine, figures) in enumerate(result["engines"].items()):
            shown = result["model"] if number == 0 else ""
            if "error" in figures:
                table.add_row(shown, engine, figures["error"])
                continue
            scaling = [f"{figures['scaling']:.2f}"] if several else []
            table.add_row(shown, engine, *row(figures), *scaling, end_section=False)
        table.add_section()
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    for result in report["models"]:
        for engine, figures in result["engines"].items():
            if "error" in figures:
                print(f"{result['model']} on {engine}: {figures['error']}")


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
