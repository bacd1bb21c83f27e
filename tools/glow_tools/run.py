"""glow-run: compile a model and run it, compare it, time it."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_dialects.core.files import whole
from glow_tools.closeness import statistics
from glow_tools.common import (
    add_backend,
    add_budget,
    add_debug_info,
    add_exact,
    add_shape,
    command,
    count_option,
    fail,
    guarded,
    read_module,
    show_log,
    threads_option,
)
from glow_tools.feeds import load_inputs, run_feed
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


def _arguments() -> argparse.ArgumentParser:
    parser = command("glow-run", "Compile a model and run it once (or --iterations times).", EXAMPLES)
    add = parser.add_argument
    add("model", help="an .onnx, .mlir, .pt2 or saved .glow file; - is IR on standard input")
    add_backend(parser)
    told = "worker threads, or auto: one per core (default: 1)"
    add("--threads", type=threads_option, default=1, help=told)
    told = "the value of an input (.npy), or of several inputs (.npz); may override a default value"
    add("--input", type=_input_option, action="append", default=[], metavar="[NAME=]FILE", help=told)
    add("--inputs", type=Path, metavar="FILE", help="values of all inputs: .npz with arrays by name, or .npy")
    add("--random", type=count_option, metavar="SEED", help="use random inputs with this seed")
    add_shape(parser)
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
    return parser


def _input_option(text: str) -> tuple[str, str]:
    """`name=file.npy` as a pair, whose name is empty for a file alone."""
    name, _, path = text.rpartition("=")
    return name, path


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-run`."""
    parser = _arguments()
    arguments = parser.parse_args(argv)
    check_usage(parser, arguments)
    again = shlex.join(["glow-run", *(sys.argv[1:] if argv is None else argv)])
    return guarded(lambda: _run(arguments, again))


def _run(a: argparse.Namespace, again: str) -> int:
    from rich.console import Console

    import glow_compiler as glow
    from glow_dialects.core.time_limit import NOTE

    show_log()
    console = Console(stderr=True)
    shapes = dict(a.shape)
    a.model = read_module(a.model) if a.model == "-" else a.model
    with console.status("reading the model") as status:
        start = time.perf_counter()
        hosted = a.device or a.partition or a.picture or (a.timeline and a.backend == "cpu")
        net: Any = (
            _hosted(a, shapes)
            if hosted
            else glow.compile(
                a.model,
                backend=a.backend,
                threads=a.threads,
                shapes=shapes or None,
                progress=lambda stage: status.update(stage),
                exact=a.exact,
                compile_budget=a.compile_budget,
                **({} if a.debug_info == "none" else {"debug_info": a.debug_info}),
            )
        )
        feed = run_feed(net, _given(a, net), a.random, shapes)
        out = net.run(feed)
        elapsed = time.perf_counter() - start
    place = f"{len(net.network.partitions)} partitions" if hosted else a.backend
    print(f"compiled and run once in {elapsed:.2f} s on {place}")
    if not (hosted or a.report) and (note := net.report().notes.get(NOTE)):
        print(f"{NOTE}: {note}")
    for name, value in out.items():
        print(f"{name}: {value.dtype} {list(value.shape)} {statistics(value)}")
    if a.report:
        _print_report(net)
    if a.timeline and not hosted:
        _draw(net, a)
    if a.iterations:
        _time(net, feed, a.iterations)
    if hosted:
        if a.picture:
            net.draw(a.picture)
        net.close()
    if a.output:
        _save(a.output, out)
    if a.layers:
        return compare_layers(a, feed, again)
    return compare_outputs(a, feed, out) if a.compare else 0


def _print_report(net: Any) -> None:
    """The report of a compilation, and what a program that is simulated knows of its time."""
    _report(net.report())
    timeline = getattr(net, "program", None) and net.program.timeline()
    print(timeline.text() if timeline else "", end="")


def _time(net: Any, feed: Mapping[str, np.ndarray], count: int) -> None:
    """Run some more times, and print how long that took."""
    times: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        net.run(feed)
        times.append((time.perf_counter() - start) * 1e3)
    print(f"{count} runs: median {np.median(times):.3f} ms, min {min(times):.3f} ms")


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


def _given(a: argparse.Namespace, net: Any) -> dict[str, Any]:
    """The inputs of files."""
    given: dict[str, Any] = {}
    for name, file in [("", a.inputs)] * (a.inputs is not None) + a.input:
        given |= load_inputs(Path(file), [p.name for p in net.inputs], name)
    return given


def _save(path: Path, out: dict[str, Any]) -> None:
    """Write a file as np.savez does, for outputs of any names."""
    with whole(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, value in out.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(value), allow_pickle=False)


def _report(report: Any) -> None:
    for stage, seconds in report.stages.items():
        print(f"  {stage:24} {seconds * 1e3:10.1f} ms")
    print(
        f"  kernels {report.kernels}, arena {report.arena_bytes} bytes, weights {report.weight_bytes} bytes"
    )
    for name, value in report.notes.items():
        print(f"  {name}: {value}")


if __name__ == "__main__":
    raise SystemExit(main())
