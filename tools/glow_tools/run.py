"""glow-run: compile a model and run it, compare it, time it."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_dialects.core.files import whole
from glow_tools.closeness import statistics
from glow_tools.command_line import Parser
from glow_tools.common import (
    add_backend,
    add_budget,
    add_debug_info,
    add_exact,
    add_input,
    add_json,
    add_precision,
    add_shape,
    backend_text,
    command,
    count_option,
    fail,
    guarded,
    print_json,
    read_module,
    show_log,
    threads_option,
)
from glow_tools.feeds import model_feed
from glow_tools.progress import Progress
from glow_tools.run_layers import check_usage, compare_layers, compare_outputs, compared_option

if TYPE_CHECKING:
    from glow_tools.run_host import HostedModel

EXAMPLES = """\
  glow-run model.onnx --random 0 --compare onnxruntime
  glow-run model.onnx --random 0 --compare onnxruntime --layers
  glow-run model.onnx --input data=x.npy --output out.npz
  glow-run model.onnx --shape data=8x3x224x224 --random 0 --iterations 20
  glow-run model.onnx --random 0 --device cpu:0 --device process:1 --partition memory=64M --report
"""


def arguments() -> Parser:
    """The command line."""
    parser = command("glow-run", "Compile a model and run it once (or --iterations times).", EXAMPLES)
    add = parser.add_argument
    add("model", help="an .onnx, .mlir, .pt2 or saved .glow file; - is IR on standard input")
    add_backend(parser)
    told = "worker threads, or auto: one per core (default: 1)"
    add("--threads", type=threads_option, default=1, help=told)
    add_input(parser)
    add_shape(parser)
    add_precision(parser)
    add_exact(parser)
    add_budget(parser)
    add_debug_info(parser)
    add("--output", type=Path, metavar="OUT.npz", help="write the outputs to this file")
    other = "compare with onnxruntime, with the interpreter, or with another model file"
    add("--compare", type=compared_option, metavar="OTHER", help=other)
    told = "with --compare: compare every layer and find the first that differs"
    add("--layers", action="store_true", help=told)
    told = "with --layers: write the first differing node, and its inputs to FILE.npz"
    add("--node", type=Path, metavar="FILE.onnx", help=told)
    add("--rtol", type=float, default=1e-3, help="relative tolerance of f32 (default: 1e-3)")
    add("--atol", type=float, default=1e-5, help="absolute tolerance (default: 1e-5)")
    add("--iterations", type=count_option, default=0, metavar="N", help="measure the time of N runs")
    told = "run on devices: cpu:0, process:1, ..."
    add("--device", action="append", default=[], metavar="DEVICE", help=told)
    add("--partition", default="", help="how to partition: a number, auto, balance, or memory=64M per device")
    told = "with --device: draw which nodes are on which device (.svg or .dot)"
    add("--picture", type=Path, metavar="FILE", help=told)
    drawn = "write a timeline of devices, or of a backend's units: for Perfetto (.json), or a picture (.svg)"
    add("--timeline", type=Path, metavar="FILE.json|FILE.svg", help=drawn)
    add("--report", action="store_true", help="print the time of each stage, kernels and memory")
    add_json(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-run`."""
    parser = arguments()
    a = parser.parse_args(argv)
    check_usage(parser, a)
    again = shlex.join(["glow-run", *(sys.argv[1:] if argv is None else argv)])
    return guarded(lambda: _run(a, again))


def _run(a: argparse.Namespace, again: str) -> int:
    show_log()
    shapes = dict(a.shape)
    if a.model == "-":
        a.model = read_module(a.model)
    with Progress("reading the model") as progress:
        start = time.perf_counter()
        hosted = bool(a.device or a.partition or a.picture or (a.timeline and a.backend == "cpu"))
        net: Any = _hosted(a, shapes) if hosted else _compiled(a, shapes, progress)
        source = None if hosted else net.source
        feed = model_feed(a.model, shapes, a.input, a.inputs, a.random, source)
        out = net.run(feed)
        elapsed = time.perf_counter() - start
    place = f"{len(net.network.partitions)} partitions" if hosted else a.backend
    figures: dict[str, Any] = {
        "seconds": elapsed,
        "on": place,
        "outputs": [_figures(*o) for o in out.items()],
    }
    if not a.json:
        print(f"compiled and run once in {elapsed:.2f} s on {place}")
        _print_outputs(out, "" if hosted or a.report else _left_out(net))
    if a.report:
        figures["report"] = _report(net, a.json)
    if a.timeline and not hosted:
        _draw(net, a)
    if a.iterations:
        figures["runs"] = _timed(net, feed, a)
    if hosted:
        if a.picture:
            net.draw(a.picture)
        net.close()
    if a.output:
        _save(a.output, out)
    if a.json:
        print_json(figures)
    if a.layers:
        return compare_layers(a, feed, again)
    return compare_outputs(a, feed, out) if a.compare else 0


def _compiled(a: argparse.Namespace, shapes: dict[str, Any], progress: Any) -> Any:
    """The model compiled for this process."""
    import glow_compiler as glow

    return glow.compile(
        a.model,
        backend=backend_text(a),
        threads=a.threads,
        shapes=shapes or None,
        progress=progress,
        exact=a.exact,
        compile_budget=a.compile_budget,
        **({} if a.debug_info == "none" else {"debug_info": a.debug_info}),
    )


def _left_out(net: Any) -> str:
    """What the compile budget left out."""
    from glow_dialects.core.time_limit import NOTE

    left_out = net.report().notes.get(NOTE)
    return f"{NOTE}: {left_out}" if left_out else ""


def _print_outputs(out: dict[str, Any], note: str) -> None:
    if note:
        print(note)
    for name, value in out.items():
        print(f"{name}: {value.dtype} {list(value.shape)} {statistics(value)}")


def _figures(name: str, value: Any) -> dict[str, Any]:
    """An output in numbers."""
    made: dict[str, Any] = {"name": name, "dtype": str(value.dtype), "shape": list(value.shape)}
    if value.size and value.dtype != object and value.dtype.kind not in "cUS":
        numbers = value.astype(np.float64)
        made |= {"min": numbers.min(), "mean": numbers.mean(), "max": numbers.max()}
        made |= {k: None for k in ("min", "mean", "max") if not np.isfinite(made[k])}  # JSON has no such
    return made


def _timed(net: Any, feed: dict[str, Any], a: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of runs."""
    times: list[float] = []
    with Progress(f"running {a.iterations} times"):
        for _ in range(a.iterations):
            start = time.perf_counter()
            net.run(feed)
            times.append((time.perf_counter() - start) * 1e3)
    if not a.json:
        print(f"{a.iterations} runs: median {np.median(times):.3f} ms, min {min(times):.3f} ms")
    return {"count": a.iterations, "median_ms": float(np.median(times)), "min_ms": min(times)}


def _draw(net: Any, a: argparse.Namespace) -> None:
    """Write the cycles of a run."""
    program = getattr(net, "program", None)
    timeline = program and program.timeline()
    if timeline is None:
        fail(f"backend {a.backend} does not count cycles, so there is no timeline")
    with whole(a.timeline) as temporary:
        text = timeline.svg() if a.timeline.suffix == ".svg" else timeline.trace()
        temporary.write_text(text, encoding="utf-8")
    print(f"{timeline.cycles} cycles, {timeline.stalls} of them waiting; wrote {a.timeline}")


def _hosted(a: argparse.Namespace, shapes: dict[str, tuple[int, ...]]) -> HostedModel:
    """The model on the devices of the command line."""
    from glow_tools.run_host import HostedModel

    return HostedModel(a.model, a.device, a.partition or "auto", shapes or None, a.timeline, a.exact)


def _save(path: Path, out: dict[str, Any]) -> None:
    """Write a file as np.savez does, for outputs of any names."""
    with whole(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, value in out.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(value), allow_pickle=False)


def _report(net: Any, quiet: bool) -> dict[str, Any]:
    """Print stages with seconds, kernels and bytes, and what a backend that counts cycles did when."""
    report = net.report()
    timeline = getattr(net, "program", None) and net.program.timeline()
    if not quiet:
        for stage, seconds in report.stages.items():
            print(f"  {stage:24} {seconds * 1e3:10.1f} ms")
        sizes = f"arena {report.arena_bytes} bytes, weights {report.weight_bytes} bytes"
        print(f"  kernels {report.kernels}, {sizes}")
        for name, value in report.notes.items():
            print(f"  {name}: {value}")
        print(timeline.text() if timeline else "", end="")
    sizes = {"arena_bytes": report.arena_bytes, "weight_bytes": report.weight_bytes}
    notes = {name: str(value) for name, value in report.notes.items()}
    return {"stages_s": dict(report.stages), "kernels": report.kernels, **sizes, "notes": notes}


if __name__ == "__main__":
    raise SystemExit(main())
