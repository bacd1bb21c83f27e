"""glow-bench --profile, --trace and --accuracy: the cost and the accuracy of each kernel of a program."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend, ports
from glow_backends.cpu.backend import CpuBackend
from glow_backends.cpu.profile import KernelTime, profile
from glow_dialects.core.errors import GlowError
from glow_dialects.core.location import shortened
from glow_dialects.core.time_limit import NOTE, limited
from glow_dialects.instr.memory import InstrFuncOp, instr_functions
from glow_dialects.ops.control import has_control
from glow_runtime.compile import outline
from glow_runtime.lowering import lower
from glow_tools.common import read_module, settled, write_text
from glow_tools.feeds import model_feed
from glow_tools.progress import clear_line


def planned(
    path: str,
    shapes: Mapping[str, Sequence[int]],
    backend: Backend,
    opened: bool = False,
    inputs: Mapping[str, Any] | None = None,
    exact: bool = False,
) -> tuple[ModuleOp, InstrFuncOp, dict[str, float]]:
    """The module of a model, compiled down to planned instructions, and seconds of each phase.

    Its sizes are known, unless it is `opened`: then shapes may have extents. What else `shapes` leave open is
    chosen. `inputs` as in `read_module`, `exact` as in `glow.compile`.
    """
    stages: dict[str, float] = {}
    if not opened:
        made = settled(path, shapes, dict(inputs or {}))
        shapes, inputs = made.shapes, {**made.values, **(inputs or {})}
    start = time.perf_counter()
    module = read_module(path, dict(shapes), inputs=inputs)
    if opened and has_control(module):
        outline(module, backend)
    stages["load"] = time.perf_counter() - start
    stages |= lower(module, backend.in_float(exact))
    functions = instr_functions(module)
    if not functions:
        raise GlowError(f"{path}: there is no glow.func in it; only networks are compiled ahead of time")
    return module, functions[0], stages


def show(
    path: str,
    shapes: Mapping[str, Sequence[int]],
    a: argparse.Namespace,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Print, write and return what the options of glow-bench ask for; no tables beside JSON."""
    backend, quiet = CpuBackend(threads=a.threads), a.json == "-"
    figures: dict[str, Any] = {"model": Path(path).stem}
    inputs = model_feed(path, shapes, a.input, a.inputs, a.seed)
    shapes = {name: array.shape for name, array in inputs.items()}
    if a.accuracy:
        from glow_tools.bench_accuracy import accuracies, print_accuracy

        errors = accuracies(path, shapes, backend.in_float(a.exact), a.seed, inputs)
        figures["accuracy"] = [asdict(item) for item in errors]
        if not quiet:
            clear_line()
            print_accuracy(errors)
    if not (a.profile or a.trace):
        return figures
    progress(f"{Path(path).stem}: compiling")
    with limited(a.compile_budget) as limit:
        module, function, stages = planned(path, shapes, backend, inputs=inputs, exact=a.exact)
    if limit is not None and (note := limit.note()):
        figures[NOTE] = note
        if not quiet:
            print(f"{NOTE}: {note}")
    feed = {p.name: inputs[p.name] for p in ports(module, "input")}
    progress(f"{Path(path).stem}: measuring")
    measured = profile(module, function, backend.target, feed, runs=max(5, 3 * a.rounds))
    times, peak = measured.steps, measured.peak
    if a.trace:
        write_text(str(a.trace), json.dumps(trace(stages, times)) + "\n")
    if a.profile:
        rates = [
            {"gflops": t.gflops, "gbytes": t.gbytes, "peak_share": t.gflops / peak, "balance": t.balance}
            for t in times
        ]
        figures |= {"peak_gflops": peak, "stages_s": stages}
        figures["kernels"] = [asdict(t) | rate for t, rate in zip(times, rates, strict=True)]
        if not quiet:
            clear_line()
            print_profile(Path(path).stem, times, peak)
    return figures


def print_profile(model: str, times: Sequence[KernelTime], peak: float) -> None:
    """A table of the steps in order, then the sums by kind."""
    total = sum(t.seconds for t in times) or 1e-12
    title = f"{model}: {total * 1e3:.3f} ms in {len(times)} steps; measured peak {peak:.0f} GFLOP/s"
    table = Table(title=title)
    table.add_column("step")
    table.add_column("node", no_wrap=True, max_width=40)
    for name in ("operation", "kernel"):
        table.add_column(name)
    several = any(len(t.busy) > 1 for t in times)
    for name in ("us", "% of time", "GFLOP/s", "% of peak", "GB/s", *["% busy"] * several):
        table.add_column(name, justify="right")
    for number, item in enumerate(times):
        label = item.label.removeprefix("glow_cpu_instr.")
        node = escape(shortened(item.nodes, 3))
        table.add_row(str(number), node, label, item.kernel, *_cells(item, total, peak, several))
    table.add_section()
    for item in by_operation(times):
        label = item.label.removeprefix("glow_cpu_instr.")
        table.add_row("", "", label, item.kernel, *_cells(item, total, peak, several))
    Console(width=160, highlight=False).print(table)


def by_operation(times: Sequence[KernelTime]) -> list[KernelTime]:
    """The steps of equal operation added up, the longest first."""
    groups: dict[str, list[KernelTime]] = {}
    for item in times:
        groups.setdefault(item.label, []).append(item)
    sums = [
        KernelTime(
            label,
            f"({len(items)} steps)",
            0.0,
            sum(i.seconds for i in items),
            sum(i.flops for i in items),
            sum(i.bytes for i in items),
            tuple(map(sum, zip(*(i.busy for i in items), strict=True))),
        )
        for label, items in groups.items()
    ]
    return sorted(sums, key=lambda s: -s.seconds)


def _cells(item: KernelTime, total: float, peak: float, several: bool) -> list[str]:
    cells = [
        f"{item.seconds * 1e6:.1f}",
        f"{100 * item.seconds / total:.1f}",
        f"{item.gflops:.1f}" if item.flops else "",
        f"{100 * item.gflops / peak:.0f}" if item.flops else "",
        f"{item.gbytes:.1f}",
    ]
    return [*cells, f"{100 * item.balance:.0f}"] if several else cells


def trace(stages: Mapping[str, float], times: Sequence[KernelTime]) -> dict[str, Any]:
    """Chrome's trace format: the stages of compilation on one line, one run's kernels on another."""
    events: list[dict[str, Any]] = []
    names = {1: "compile", 2: "run"}
    for thread, name in names.items():
        meta = {"name": "thread_name", "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}
        events.append(meta)
    now = 0.0
    for name, seconds in stages.items():
        events.append(_event(name, 1, now, seconds, {}))
        now += seconds
    for item in times:
        about = {"nodes": item.nodes, "kernel": item.kernel, "gflops": item.gflops, "gbytes": item.gbytes}
        events.append(_event(item.label, 2, now + item.start, item.seconds, about))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _event(name: str, thread: int, start: float, seconds: float, about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "ph": "X",
        "pid": 1,
        "tid": thread,
        "ts": start * 1e6,
        "dur": seconds * 1e6,
        "args": dict(about),
    }
