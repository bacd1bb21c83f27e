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
from glow_tools.common import (
    add_backend,
    add_budget,
    add_debug_info,
    add_exact,
    add_precision,
    add_shape,
    backend_text,
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
    add("model", help=".onnx, .mlir or saved .glow file; - is IR text on standard input")
    add_backend(parser)
    add("--threads", type=threads_option, default=1, help="worker threads, or auto: one a core (default: 1)")
    add(
        "--input",
        type=_input_option,
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="an input's value in a .npy file (also in place of its default value), or a .npz of several",
    )
    add("--inputs", type=Path, metavar="FILE", help="values of the inputs: .npz, arrays by name, or .npy")
    add("--random", type=count_option, metavar="SEED", help="random inputs from this seed")
    add_shape(parser)
    add_precision(parser)
    add_exact(parser)
    add_budget(parser)
    add_debug_info(parser)
    add("--output", type=Path, metavar="OUT.npz", help="write the outputs here")
    other = "check against another run: onnxruntime, interpreter, or a model in another form (FILE.mlir)"
    add("--compare", type=compared_option, metavar="OTHER", help=other)
    add("--layers", action="store_true", help="with --compare: every layer, to find the first that differs")
    add("--node", type=Path, metavar="FILE.onnx", help="with --layers: write that node, inputs in FILE.npz")
    add("--rtol", type=float, default=1e-3, help="relative tolerance of f32 (default: 1e-3)")
    add("--atol", type=float, default=1e-5, help="absolute tolerance (default: 1e-5)")
    add("--iterations", type=count_option, default=0, metavar="N", help="time N runs, milliseconds")
    add(
        "--device",
        action="append",
        default=[],
        metavar="DEVICE",
        help="run on devices: cpu:0, process:1, ...",
    )
    add("--partition", default="", help="partitions: a number, auto, balance or memory=64M (of each device)")
    add("--picture", type=Path, metavar="FILE", help="with devices: what is on which, as .svg or .dot")
    drawn = "what devices, or the units of a backend that counts cycles, did when: for Perfetto, or a picture"
    add("--timeline", type=Path, metavar="FILE.json|FILE.svg", help=drawn)
    add("--report", action="store_true", help="stages with seconds, kernels, bytes")
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
    if a.model == "-":
        a.model = read_module(a.model)
    with console.status("reading the model") as status:
        start = time.perf_counter()
        hosted = a.device or a.partition or a.picture or (a.timeline and a.backend == "cpu")
        net: Any = (
            _hosted(a, shapes)
            if hosted
            else glow.compile(
                a.model,
                backend=backend_text(a),
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
        _report(net.report())
        timeline = getattr(net, "program", None) and net.program.timeline()
        print(timeline.text() if timeline else "", end="")
    if a.timeline and not hosted:
        _draw(net, a)
    if a.iterations:
        times: list[float] = []
        for _ in range(a.iterations):
            start = time.perf_counter()
            net.run(feed)
            times.append((time.perf_counter() - start) * 1e3)
        print(f"{a.iterations} runs: median {np.median(times):.3f} ms, min {min(times):.3f} ms")
    if hosted:
        if a.picture:
            net.draw(a.picture)
        net.close()
    if a.output:
        _save(a.output, out)
    if a.layers:
        return compare_layers(a, feed, again)
    return compare_outputs(a, feed, out) if a.compare else 0


def _draw(net: Any, a: argparse.Namespace) -> None:
    """Write the cycles of a run."""
    program = getattr(net, "program", None)
    timeline = program and program.timeline()
    if timeline is None:
        fail(f"backend {a.backend} counts no cycles: there is nothing for --timeline")
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
