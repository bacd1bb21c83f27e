"""A race: one model on several engines, in alternating short rounds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glow_dialects.core.file_kinds import FileKind, is_kind, refuse_file
from glow_tools.feeds import model_feed


class Runner:
    """The parent's end of one worker process."""

    def __init__(self, settings: Mapping[str, Any], cache: Path) -> None:
        threads = str(settings["threads"])
        quiet = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "GLOW_CACHE_DIR": str(cache)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "glow_tools.bench_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **quiet},
        )
        self.ask("start", **settings)

    def ask(self, what: str, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer; `error` says what went wrong."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"what": what, **request}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"error": "the process died"}

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Race:
    """One model, its inputs (a .npz file, or random ones), and a worker for each engine."""

    def __init__(
        self,
        model: str,
        shapes: Mapping[str, Sequence[int]],
        engines: Sequence[str],
        threads: int,
        cores: Sequence[int],
        seed: int,
        folder: Path,
        inputs: Path | None = None,
        values: Sequence[tuple[str, str]] = (),
        backend: str = "cpu",
        exact: bool = False,
        budget: float | None = None,
    ) -> None:
        self.model = model
        self.engines = engines
        self.folder = folder
        self.feed = folder / "feed.npz"
        if not is_kind(model, FileKind.ONNX):
            raise refuse_file(model, "an ONNX model, which the peers read too")
        feed = model_feed(model, shapes, values, inputs, seed)
        np.savez(self.feed, **feed)  # pyright: ignore[reportArgumentType]
        self.settings: dict[str, Any] = {
            "model": model,
            "threads": threads,
            "cores": list(cores),
            "backend": backend,
            "exact": exact,
            "budget": budget,
        }

    def run(
        self, rounds: int, seconds: float, progress: Callable[[str], None] = lambda _: None
    ) -> dict[str, Any]:
        """Load everywhere, then `rounds` times `seconds` on each engine in turn.

        With several threads each engine also runs on one thread in the same rounds, on the last core:
        figures of one and of several threads that were taken at different moments say nothing together.
        """
        cache = self.folder / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        figures: dict[str, dict[str, Any]] = {}
        runners: dict[tuple[str, int], Runner] = {}
        times: dict[tuple[str, int], list[list[float]]] = {}
        try:
            for name in self.engines:
                progress(f"{Path(self.model).stem}: loading it in {name}")
                figures[name] = self._load(name, cache, runners)
            for number in range(rounds):
                progress(f"{Path(self.model).stem}: round {number + 1} of {rounds}")
                for (name, threads), runner in runners.items():
                    answer = runner.ask("time", seconds=seconds, least=3)
                    if "error" in answer:
                        figures[name] = answer
                        continue
                    times.setdefault((name, threads), []).append(answer["times"])
                    if threads == self.settings["threads"]:
                        figures[name]["peak_bytes"] = answer["peak_bytes"]
        finally:
            for runner in runners.values():
                runner.close()
        for (name, threads), taken in times.items():
            if "error" in figures[name]:
                continue
            race = statistics(taken)
            if threads == self.settings["threads"]:
                figures[name] |= race
            else:
                figures[name]["one_thread_ms"] = race["median_ms"]
                figures[name]["scaling"] = race["median_ms"] / figures[name]["median_ms"]
        self._compare(figures)
        return {"model": Path(self.model).stem, "engines": figures}

    def _load(self, name: str, cache: Path, runners: dict[tuple[str, int], Runner]) -> dict[str, Any]:
        """Start an engine; ours twice, with an empty object cache and with a filled one."""
        output, threads = str(self.folder / f"{name}.npz"), self.settings["threads"]
        runner = Runner({**self.settings, "engine": name}, cache)
        answer = runner.ask("load", feed=str(self.feed), output=output)
        if name == "glow" and "error" not in answer:
            runner.close()
            runner = Runner({**self.settings, "engine": name}, cache)
            warm = runner.ask("load", feed=str(self.feed), output=output)
            answer = {**warm, "load_s": answer["load_s"], "warm_load_s": warm.get("load_s")}
        if "error" in answer:
            runner.close()
            return answer
        runners[name, threads] = runner
        if threads > 1:
            alone = {**self.settings, "engine": name, "threads": 1, "cores": self.settings["cores"][-1:]}
            runners[name, 1] = Runner(alone, cache)
            second = runners[name, 1].ask("load", feed=str(self.feed), output=str(self.folder / "alone.npz"))
            if "error" in second:
                return second
        return answer

    def _compare(self, figures: dict[str, dict[str, Any]]) -> None:
        """Errors against onnxruntime (or the first peer), and speed against the fastest peer."""
        running = [n for n, f in figures.items() if "error" not in f]
        peers = [n for n in running if n != "glow"]
        if "glow" in running and peers:
            best = min(figures[n]["median_ms"] for n in peers)
            figures["glow"]["speedup"] = best / figures["glow"]["median_ms"]
        reference = "onnxruntime" if "onnxruntime" in peers else peers[0] if peers else None
        if reference is None:
            return
        with np.load(self.folder / f"{reference}.npz") as expected:
            for name in running:
                if name != reference:
                    with np.load(self.folder / f"{name}.npz") as got:
                        figures[name]["error_relative"] = distance(expected, got)
                        figures[name]["error_against"] = reference


def statistics(rounds: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Median over all runs, the fastest run, and how far the rounds' medians lie apart."""
    every = np.array([t for taken in rounds for t in taken]) * 1e3
    medians = np.array([np.median(taken) for taken in rounds]) * 1e3
    return {
        "median_ms": float(np.median(medians)),
        "min_ms": float(every.min()),
        "runs": len(every),
        "round_medians_ms": [round(float(m), 6) for m in medians],
        "spread": float((medians.max() - medians.min()) / np.median(medians)),
    }


def distance(expected: Any, got: Any) -> float | None:
    """The largest difference of two sets of outputs, over the largest magnitude of its tensor."""
    worst = 0.0
    names = list(expected.files)
    mapped = list(got.files)
    if len(names) != len(mapped):
        return None
    for index, name in enumerate(names):
        want, have = expected[name], got[name if name in mapped else mapped[index]]
        if want.dtype.kind not in "fiub" or not want.size:
            continue
        scale = float(np.abs(want.astype(np.float64)).max()) or 1.0
        gap = np.abs(want.astype(np.float64) - have.astype(np.float64))
        worst = max(worst, float(np.nanmax(gap)) / scale)
    return worst
