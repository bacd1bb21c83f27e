"""glow-run --compare: compare outputs, or every layer, with another run."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from glow_dialects.core.errors import GlowError
from glow_dialects.core.file_kinds import FileKind, is_kind
from glow_tools.closeness import Tolerance, difference
from glow_tools.onnxruntime_run import onnxruntime_outputs

Shapes = dict[str, tuple[int, ...]]
#: What --compare takes beside model files.
ENGINES = ("onnxruntime", "interpreter")


def compared_option(text: str) -> str:
    """An engine or a model file; argparse reports what is wrong with it."""
    if text not in ENGINES and Path(text).suffix not in (".onnx", ".mlir"):
        raise argparse.ArgumentTypeError(f"'{text}' is not {', '.join(ENGINES)} or a .onnx or .mlir file")
    return text


def check_usage(parser: argparse.ArgumentParser, a: argparse.Namespace) -> None:
    """Options that need others."""
    if a.layers and not a.compare:
        parser.error("--layers needs --compare: onnxruntime, interpreter or a model file")
    if a.node and not a.layers:
        parser.error("--node needs --layers, which finds the node")
    if a.layers and (a.device or a.partition):
        parser.error("--layers looks into one program; leave out --device and --partition")
    for option, given in (("--exact", a.exact), ("--compile-budget", a.compile_budget is not None)):
        if given and is_kind(a.model, FileKind.GLOW):
            parser.error(f"{option} is for compiling: a .glow file is already compiled")
    if a.compile_budget is not None and (a.device or a.partition or a.picture):
        parser.error("--compile-budget is of one program; leave out --device, --partition and --picture")
    if a.layers and is_kind(a.model, FileKind.GLOW):
        parser.error("--layers needs the model: the layers of a .glow file are already merged")
    if a.node and not (is_kind(a.model, FileKind.ONNX) and str(a.node).endswith(".onnx")):
        parser.error("--node writes a node of an .onnx model to an .onnx file")


def compare_outputs(a: argparse.Namespace, feed: dict[str, Any], out: dict[str, Any]) -> int:
    """Print how outputs differ; 1 where they do."""
    tolerance = Tolerance(a.rtol, a.atol)
    expected = _expected(a, feed)
    missing = [n for n in expected if n not in out]
    if missing:
        raise GlowError(f"{a.compare} has an output '{missing[0]}'; the model has: {', '.join(out)}")
    differences = {name: difference(out[name], value, tolerance) for name, value in expected.items()}
    wrong = {name: d for name, d in differences.items() if d.bad}
    for name, d in wrong.items():
        print(f"differs from {a.compare}: {name}: {d}", file=sys.stderr)
    if not wrong:
        largest = max(d.largest for d in differences.values())
        told = sys.stderr if a.json else sys.stdout  # behind the JSON there is nothing
        print(f"agrees with {a.compare}: max abs error {largest:.3g}", file=told)
    return 1 if wrong else 0


def _expected(a: argparse.Namespace, feed: dict[str, Any]) -> dict[str, Any]:
    """The outputs of the other run."""
    import glow_compiler as glow

    shapes = dict(a.shape) or None
    if a.compare == "onnxruntime":
        from glow_tools.layers import onnx_bytes

        onnx = is_kind(a.model, FileKind.ONNX)
        return onnxruntime_outputs(a.model if onnx else onnx_bytes(glow.load(a.model)), feed)
    if a.compare == "interpreter":
        return glow.compile(a.model, backend="interpreter", shapes=shapes, exact=a.exact).run(feed)
    net = glow.compile(a.compare, backend=a.backend, threads=a.threads, shapes=shapes, exact=a.exact)
    return net.run(feed)


def compare_layers(a: argparse.Namespace, feed: dict[str, Any], command: str) -> int:
    """Print the first layer that differs from another run's, and the worst ones; 1 where one does.

    `command` repeats the run.
    """
    from glow_tools.layers import Side, compare, layers_of, print_first, print_table

    tolerance = Tolerance(a.rtol, a.atol)
    model = layers_of(a.model)
    ours = Side("here", model, _compiled(a, a.backend, dict(a.shape)))
    if a.compare in ENGINES:
        theirs = Side(a.compare, model, _engine(a, dict(a.shape)))
    else:
        theirs = Side(a.compare, layers_of(a.compare), _compiled(a, a.backend, dict(a.shape)))
    found = compare(ours, theirs, feed, tolerance)
    wrong = sum(d.bad for d in found.differences.values())
    more = f"; {len(found.missing)} are in one of them only" if found.missing else ""
    print(f"compared {len(found.differences)} layers with {a.compare}: {wrong} differ{more}")
    first = found.first
    if first is not None:
        print_first(found, first)
        _alone(a, ours, theirs, first, found.want[first.value], feed, command)
    if found.worst():
        print_table(found)
    return int(first is not None)


def _compiled(a: argparse.Namespace, backend: str, shapes: Shapes) -> Any:
    """Runs a model with a backend."""
    import glow_compiler as glow

    threads = a.threads if backend == a.backend else 1
    options: dict[str, Any] = {"shapes": shapes or None, "exact": a.exact}
    return lambda model, feed: glow.compile(model, backend, threads, **options).run(feed)


def _engine(a: argparse.Namespace, shapes: Shapes) -> Any:
    """Runs a model with what it is compared with."""
    if a.compare == "interpreter":
        return _compiled(a, "interpreter", shapes)
    from glow_tools.layers import onnx_bytes

    return lambda model, feed: onnxruntime_outputs(onnx_bytes(model), feed, plain=True)


def _alone(
    a: argparse.Namespace, ours: Any, theirs: Any, layer: Any, want: Any, feed: Any, command: str
) -> None:
    """Say whether the node is wrong by itself, and how to repeat it."""
    from glow_tools.layers import OnnxLayers, alone, write_alone

    whole = ours.layers
    if not isinstance(whole, OnnxLayers) or a.compare not in ENGINES:
        return
    made = alone(theirs, layer, want, feed, whole)
    # The shapes of its inputs are those of the values, whatever --shape says of the model's.
    got = _compiled(a, a.backend, {})(made.model, made.feed)[layer.value]
    want = _engine(a, {})(made.model, made.feed)[layer.value]
    d = difference(got, want, Tolerance(a.rtol, a.atol))
    verdict = f"differs, too: {d}" if d.bad else "is right: what it is compiled together with makes it wrong"
    print(f"  alone, on the values that {theirs.name} has for its inputs, the node {verdict}")
    if a.node is None:
        print(f"  {command} --node node.onnx writes it with its inputs")
        return
    inputs = write_alone(a.node, made)
    again = ["glow-run", str(a.node), "--inputs", str(inputs), "--compare", a.compare]
    again += [] if a.backend == "cpu" else ["--backend", a.backend]
    print(f"  again: {shlex.join(again)}")
