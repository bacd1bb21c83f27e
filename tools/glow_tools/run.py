"""glow-run: compile a model and run it, compare it, time it."""

from __future__ import annotations

import argparse
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_dialects.core.files import whole
from glow_tools.common import (
    add_shape,
    command,
    count_option,
    fail,
    guarded,
    read_module,
    show_log,
    threads_option,
)
from glow_tools.feeds import load_array

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_tools.run_host import HostedModel

EXAMPLES = """\
  glow-run model.onnx --random 0 --compare onnxruntime
  glow-run model.onnx --input data=x.npy --output out.npz
  glow-run model.onnx --shape data=8x3x224x224 --random 0 --iterations 20
  glow-run model.onnx --random 0 --device cpu:0 --device process:1 --partition memory=64M --report
"""


def _arguments() -> argparse.ArgumentParser:
    parser = command("glow-run", "Compile a model and run it once (or --iterations times).", EXAMPLES)
    add = parser.add_argument
    add("model", help=".onnx or .mlir file; - is IR text on standard input")
    add("--backend", default="cpu", help="cpu or interpreter (default: cpu)")
    add("--threads", type=threads_option, default=1, help="worker threads, or auto: one a core (default: 1)")
    add(
        "--input",
        type=_input_option,
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an input's value (also in place of its default value)",
    )
    add("--random", type=count_option, metavar="SEED", help="random inputs from this seed")
    add_shape(parser)
    add("--output", type=Path, metavar="OUT.npz", help="write the outputs here")
    add("--compare", choices=["onnxruntime", "interpreter"], help="check against another run")
    add("--rtol", type=float, default=1e-3, help="relative tolerance (default: 1e-3)")
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
    add("--timeline", type=Path, metavar="FILE.json", help="with devices: what happened when, for Perfetto")
    add("--report", action="store_true", help="stages with seconds, kernels, bytes")
    return parser


def _input_option(text: str) -> tuple[str, str]:
    """`name=file.npy` as a pair; argparse reports what is wrong with it."""
    name, separator, path = text.rpartition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=FILE.npy")
    return name, path


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-run`."""
    arguments = _arguments().parse_args(argv)
    return guarded(lambda: _run(arguments))


def _run(a: argparse.Namespace) -> int:
    from rich.console import Console

    import glow_compiler as glow

    show_log()
    console = Console(stderr=True)
    shapes = dict(a.shape)
    if a.model == "-":
        a.model = read_module(a.model)
    with console.status("reading the model") as status:
        start = time.perf_counter()
        hosted = a.device or a.partition or a.timeline
        net: Any = (
            _hosted(a, shapes)
            if hosted
            else glow.compile(
                a.model,
                backend=a.backend,
                threads=a.threads,
                shapes=shapes or None,
                progress=lambda stage: status.update(stage),
            )
        )
        feed = _feed(a, net, shapes)
        out = net.run(feed)
        elapsed = time.perf_counter() - start
    place = f"{len(net.network.partitions)} partitions" if hosted else a.backend
    print(f"compiled and run once in {elapsed:.2f} s on {place}")
    for name, value in out.items():
        print(f"{name}: {value.dtype} {list(value.shape)} {_summary(value)}")
    if a.report:
        _report(net.report())
    if a.iterations:
        times: list[float] = []
        for _ in range(a.iterations):
            start = time.perf_counter()
            net.run(feed)
            times.append((time.perf_counter() - start) * 1e3)
        print(f"{a.iterations} runs: median {np.median(times):.3f} ms, min {min(times):.3f} ms")
    if hosted:
        net.close()
    if a.output:
        _save(a.output, out)
    return _compare(a, feed, out) if a.compare else 0


def _hosted(a: argparse.Namespace, shapes: dict[str, tuple[int, ...]]) -> HostedModel:
    """The model on the devices of the command line."""
    from glow_tools.run_host import HostedModel

    return HostedModel(a.model, a.device, a.partition or "auto", shapes or None, a.timeline)


def _summary(value: Any) -> str:
    if value.dtype.kind not in "fiu" or not value.size:
        return ""
    return f"min {value.min():.6g} mean {value.astype(np.float64).mean():.6g} max {value.max():.6g}"


def _feed(a: argparse.Namespace, net: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    files: dict[str, str] = dict(a.input)
    known = [p.name for p in (*net.inputs, *net.defaults)]
    for name in files:
        if name not in known:
            fail(f"unknown input '{name}'; the inputs are: {', '.join(known)}")
    rng = np.random.default_rng(a.random or 0)
    feed = {p.name: load_array(Path(files[p.name])) for p in net.defaults if p.name in files}
    for port in net.inputs:
        if port.name in files:
            feed[port.name] = load_array(Path(files[port.name]))
            continue
        if a.random is None:
            ways = f"give --input {port.name}=FILE.npy or --random SEED"
            fail(f"input '{port.name}' has no value; {ways}")
        if port.kind == "other":
            fail(f"input '{port.name}' is not a tensor; run it from Python, with glow.compile")
        if port.kind == "unranked" and port.name not in shapes:
            fail(f"input '{port.name}' may have any rank; bind it with --shape {port.name}=1x...")
        shape: tuple[int | None, ...] = port.shape
        shape = shapes.get(port.name, shape)
        if None in shape:
            dims = "x".join("?" if d is None else str(d) for d in shape)
            binding = f"--shape {port.name}={dims.replace('?', '1')}"
            fail(f"input '{port.name}' is {dims}; bind it with {binding}")
        feed[port.name] = _random(rng, shape, port.dtype)
    return feed


def _random(rng: np.random.Generator, shape: Sequence[int | None], dtype: np.dtype) -> Any:
    sizes = [d or 0 for d in shape]
    if dtype.kind == "b":
        return rng.random(sizes) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0, 2, sizes).astype(dtype)
    return rng.standard_normal(sizes).astype(dtype)


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


def _compare(a: argparse.Namespace, feed: dict[str, Any], out: dict[str, Any]) -> int:
    if a.compare == "onnxruntime":
        expected = _onnxruntime(a.model, feed)
    else:
        import glow_compiler as glow

        expected = glow.compile(a.model, backend="interpreter", shapes=dict(a.shape) or None).run(feed)
    worst = 0.0
    wrong: list[str] = []
    for name, value in expected.items():
        got = out[name]
        if got.shape != value.shape or got.dtype != value.dtype:
            wrong.append(f"{name}: {got.dtype}{list(got.shape)} instead of {value.dtype}{list(value.shape)}")
        elif not np.allclose(got, value, rtol=a.rtol, atol=a.atol, equal_nan=True):
            wrong.append(f"{name}: max abs error {np.nanmax(np.abs(got - value)):.3g}")
        elif value.size and value.dtype.kind == "f":
            worst = max(worst, float(np.nanmax(np.abs(got - value))))
    for line in wrong:
        print(f"differs from {a.compare}: {line}", file=sys.stderr)
    if not wrong:
        print(f"agrees with {a.compare}: max abs error {worst:.3g}")
    return 1 if wrong else 0


def _onnx(model: str | ModuleOp) -> str | bytes:
    """The model for onnxruntime: its file, or the model written as ONNX."""
    if isinstance(model, str) and model.endswith(".onnx"):
        return model
    import glow_compiler as glow
    from glow_frontends.onnx.export import export_model

    return export_model(glow.load(model)).SerializeToString()


def _onnxruntime(model: str | ModuleOp, feed: dict[str, Any]) -> dict[str, Any]:
    try:
        from onnxruntime import InferenceSession, SessionOptions  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:
        fail("onnxruntime is not installed; pip install onnxruntime")
    options: Any = SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session: Any = InferenceSession(_onnx(model), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


if __name__ == "__main__":
    raise SystemExit(main())
