"""What another input shape costs in a process that has compiled a model, and run it, for one shape.

    python -m benchmarks.shapes MODEL.onnx FIRST SECOND    # folders with inputs.npz and names.json

Prints JSON: processor seconds (all threads, and the second process that compiles) and elapsed seconds from
the model to the first answer, and from the second shape to a program for it. The cache on disk is a new one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.quantization_models import recorded

Row = dict[str, Any]


class Watch:
    """Processor seconds, children's included, and elapsed seconds since it was made."""

    def __init__(self) -> None:
        self._start = self._now()

    def read(self) -> list[float]:
        """[processor, elapsed] seconds."""
        return [now - before for now, before in zip(self._now(), self._start, strict=True)]

    @staticmethod
    def _now() -> tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime + _of_children(), time.perf_counter()


def _of_children() -> float:
    """Processor seconds of the processes that this one started and that still run, where Linux tells."""
    ticks = 0
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(model: Path, first: Path, second: Path) -> Row:
    """Both shapes of one model, in this process."""
    import glow_compiler as glow

    before, after = recorded(first), recorded(second)
    with tempfile.TemporaryDirectory(prefix="glow-shapes-") as folder:
        os.environ["GLOW_CACHE_DIR"] = folder
        watch = Watch()
        net = glow.compile(str(model))
        net.run(before)
        loaded = watch.read()
        watch = Watch()
        net.specialize({name: array.shape for name, array in after.items()}, after)
        taken = watch.read()
        report = net.report()
    return {
        "model": model.stem,
        "first": loaded,
        "second": taken,
        "kernels": report.kernels,
        "compiled": report.notes.get("kernels compiled", 0),
    }


def medians(model: Path, cases: Path, runs: int) -> Row:
    """The medians of some processes; `cases` has the folders `a` and `b`."""
    command = [sys.executable, "-m", "benchmarks.shapes", str(model), str(cases / "a"), str(cases / "b")]
    rows: list[Row] = []
    for _ in range(runs):
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent
        )
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    middle = {
        key: [statistics.median(row[key][i] for row in rows) for i in (0, 1)] for key in ("first", "second")
    }
    return rows[0] | middle


def main() -> None:
    """One model in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    a = parser.parse_args()
    print(json.dumps(measure(a.model, a.first, a.second)))


if __name__ == "__main__":
    main()
