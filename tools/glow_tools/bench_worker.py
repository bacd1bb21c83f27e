"""One engine in a process of its own, driven by glow-bench over pipes.

A line of JSON in is a request, a line of JSON out its answer: `load`, then `run` as often as wanted.
Separate processes keep the engines' threads, allocators and peak memory apart.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from glow_tools.peers import ENGINES


class Worker:
    """The state between requests."""

    def __init__(self, settings: dict[str, Any]) -> None:
        if settings["cores"]:
            os.sched_setaffinity(0, settings["cores"])
        options = (settings[name] for name in ("model", "threads", "backend", "exact", "budget"))
        self.engine = ENGINES[settings["engine"]](*options)
        self.run: Callable[[], object] | None = None

    def load(self, feed: str, output: str) -> dict[str, Any]:
        """Load the model, run it once, and leave the outputs in `output`."""
        with np.load(feed, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        self.engine.shapes = {name: array.shape for name, array in arrays.items()}
        before = peak_bytes()
        start = time.perf_counter()
        self.engine.load()
        seconds = time.perf_counter() - start
        self.run, outputs = self.engine.bind(arrays)
        self.run()
        results = {n: np.array(a) for n, a in outputs().items()}
        named: dict[str, Any] = {f"out:{n}": a for n, a in results.items()}
        np.savez(Path(output), **named)
        return {"load_s": seconds, "base_bytes": before, **self.engine.facts()}

    def time(self, seconds: float, least: int) -> dict[str, Any]:
        """Run for about `seconds`, at least `least` times; seconds of each run, and peak memory."""
        assert self.run is not None
        run, times = self.run, list[float]()
        end = time.perf_counter() + seconds
        now = time.perf_counter()
        while len(times) < least or now < end:
            run()
            after = time.perf_counter()
            times.append(after - now)
            now = after
        return {"times": times, "peak_bytes": peak_bytes()}


def peak_bytes() -> int:
    """The most memory that this program has held, in bytes.

    Linux's own count: getrusage's starts from what the parent held when it forked.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(s.split()[1]) * 1024 for s in lines if s.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an engine prints is no answer
    worker: Worker | None = None
    for line in sys.stdin:
        request = json.loads(line)
        what = request.pop("what")
        try:
            if what == "start":
                worker = Worker(request)
                answer: dict[str, Any] = {}
            else:
                assert worker is not None
                answer = getattr(worker, what)(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
