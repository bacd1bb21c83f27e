"""The tables of RESULTS.md: our figures beside the installed peers', measured in the same run.

    python -m benchmarks.compare                                 # every table
    python -m benchmarks.compare --tables light,small --rounds 5
    python -m benchmarks.compare --zoo FOLDER                    # NAME.onnx with inputs NAME.npz
    python -m benchmarks.compare --zoo FOLDER --cases FOLDER     # their inputs of two shapes: NAME/a, NAME/b
    python -m benchmarks.compare --architectures FOLDER          # from python -m benchmarks.architectures

Each engine runs in a process of its own, pinned to the same cores; short rounds alternate between the
engines. The figures are medians. Results go to results.json, RESULTS.md and speed.svg beside this file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.report import write_report
from benchmarks.shapes import medians
from glow_tools.bench import chosen_cores, engines, machine
from glow_tools.bench_race import Race

HERE = Path(__file__).parent
Row = dict[str, Any]
KERNEL_RUNS = 40
"""Of each kernel's runs the shortest counts: neighbours on the same core slow down all the others."""


@dataclass(frozen=True)
class Settings:
    """What all tables share."""

    folder: Path
    rounds: int
    seconds: float
    zoo: Path | None
    architectures: Path | None
    cases: Path | None


def race(model: Path, settings: Settings, threads: int = 1, inputs: Path | None = None) -> Row:
    """One model on every engine."""
    start = time.perf_counter()
    names = engines("all")
    cores = chosen_cores(None, threads)
    made = Race(str(model), {}, names, threads, cores, 0, settings.folder, inputs)
    row = made.run(settings.rounds, settings.seconds)
    ours = row["engines"]["glow"]
    told = ours.get("error") or f"{ours['median_ms']:.3f} ms, {ours.get('speedup', 0):.2f} x the best peer"
    print(f"{row['model']:28} {told} ({time.perf_counter() - start:.0f} s)", flush=True)
    return row | {"threads": threads}


def light(settings: Settings) -> list[Row]:
    """The nine light models of the onnx package, batch 1."""
    return [race(models.light(n, 1, settings.folder), settings) for n in models.LIGHT]


def batch8(settings: Settings) -> list[Row]:
    """ResNet50 and VGG19, batch 8."""
    return [race(models.light(n, 8, settings.folder), settings) for n in ("resnet50", "vgg19")]


def threads(settings: Settings) -> list[Row]:
    """ResNet50 and VGG19, batch 8, two threads."""
    named = ("resnet50", "vgg19")
    return [race(models.light(n, 8, settings.folder), settings, threads=2) for n in named]


def small(settings: Settings) -> list[Row]:
    """Networks of microseconds."""
    return [race(models.small(n, settings.folder), settings) for n in models.SMALL]


def zoo(settings: Settings) -> list[Row]:
    """Real models of a folder."""
    if settings.zoo is None:
        return []
    found = sorted(settings.zoo.glob("*.onnx"))
    return [race(p, settings, inputs=p.with_suffix(".npz")) for p in found]


def architectures(settings: Settings) -> list[Row]:
    """Architectures of torchvision and timm with random weights, batch 1."""
    if settings.architectures is None:
        return []
    return [race(p, settings) for p in sorted(settings.architectures.glob("*.onnx"))]


def kernels(settings: Settings) -> list[Row]:
    """Convolutions without Winograd, as a share of the multiply-add peak measured between their runs."""
    import os

    from glow_backends.base import ports
    from glow_backends.cpu.backend import CpuBackend
    from glow_backends.cpu.profile import profile
    from glow_tools.bench_kernels import planned
    from glow_tools.input_values import random_numbers

    rows: list[Row] = []
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, chosen_cores(None, 1))
    try:
        backend = CpuBackend(winograd=False)
        for name in ("resnet50", "vgg19"):
            module, function, _ = planned(str(models.light(name, 1, settings.folder)), {}, backend)
            rng = np.random.default_rng(0)
            feed = {p.name: random_numbers(rng, p.shape, p.dtype) for p in ports(module, "input")}
            measured = profile(module, function, backend.target, feed, runs=KERNEL_RUNS)
            peak = measured.peak
            found = [t for t in measured.steps if "conv" in t.label and t.flops]
            rates = sorted(t.best_gflops / peak for t in found)
            total = sum(t.flops for t in found) / sum(t.least for t in found) / 1e9 / peak
            row = {"model": name, "peak_gflops": peak, "share": total, "median": rates[len(rates) // 2]}
            rows.append(row | {"least": rates[0], "best": rates[-1], "count": len(found)})
            print(f"{name:28} {100 * total:.0f} % of {peak:.0f} GFLOP/s", flush=True)
    finally:
        os.sched_setaffinity(0, before)
    return rows


def training(settings: Settings) -> list[Row]:
    """A training step, PyTorch beside it, one thread."""
    rows: list[Row] = []
    for name in ("mlp", "lenet", "resnet18"):
        command = [sys.executable, "-m", "benchmarks.training", name, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent)
        if done.returncode:
            print(f"{name:28} {(done.stderr.strip().splitlines() or ['failed'])[-1][:200]}", flush=True)
            continue
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"{name:28} {rows[-1]}", flush=True)
    return rows


def shapes(settings: Settings) -> list[Row]:
    """What another input shape costs in a warm process."""
    if settings.zoo is None or settings.cases is None:
        return []
    rows: list[Row] = []
    for path in sorted(settings.zoo.glob("*.onnx")):
        if (settings.cases / path.stem / "b").is_dir():
            rows.append(medians(path, settings.cases / path.stem, settings.rounds))
            cpu, wall = rows[-1]["second"]
            print(f"{path.stem:28} {cpu:.2f} s of processor time, {wall:.2f} s", flush=True)
    return rows


TABLES: dict[str, Callable[[Settings], list[Row]]] = {
    "light": light,
    "batch8": batch8,
    "threads": threads,
    "small": small,
    "zoo": zoo,
    "architectures": architectures,
    "kernels": kernels,
    "training": training,
    "shapes": shapes,
}


def main() -> None:
    """Measure the tables asked for; the others keep the figures of the run before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES), help="comma-separated (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds over the engines (default: 5)")
    parser.add_argument("--seconds", type=float, default=0.4, help="an engine and round (default: 0.4)")
    parser.add_argument("--zoo", type=Path, help="folder of models with inputs")
    parser.add_argument("--architectures", type=Path, help="folder of models")
    parser.add_argument("--cases", type=Path, help="folder of inputs of two shapes")
    parser.add_argument("--output", type=Path, default=HERE, help="folder for the results")
    a = parser.parse_args()
    wanted = a.tables.split(",")
    unknown = [t for t in wanted if t not in TABLES]
    if unknown:
        parser.error(f"no table '{unknown[0]}'; there are: {', '.join(TABLES)}")
    results_file = a.output / "results.json"
    results: dict[str, Any] = json.loads(results_file.read_text()) if results_file.exists() else {}
    with tempfile.TemporaryDirectory(prefix="glow-benchmarks-") as folder:
        settings = Settings(Path(folder), a.rounds, a.seconds, a.zoo, a.architectures, a.cases)
        for name in wanted:
            print(f"--- {name}: {TABLES[name].__doc__}", flush=True)
            load = machine()["load"]
            rows = TABLES[name](settings)
            if rows:
                date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
                results[name] = {"date": date, "load": load, "machine": machine(), "rows": rows}
                results_file.write_text(json.dumps(results, indent=1) + "\n")
    write_report(results, a.output)


if __name__ == "__main__":
    main()
