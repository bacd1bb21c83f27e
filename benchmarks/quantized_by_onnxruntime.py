"""Networks that onnxruntime's quantiser wrote, beside onnxruntime itself: time, first answer, difference.

    pip install onnx-ir  # for blocks of int4
    python -m benchmarks.quantized_by_onnxruntime [--network REGEX] [--way REGEX] [--json FILE]

Random weights and inputs; one thread each on one pinned core, the two in turn. `ratio` is onnxruntime's
time over ours, `first` the seconds from the file to the first answer without a cache. The other numbers are
largest differences over the output's largest value: `error` of ours and `interpreter` of the interpreter's
from onnxruntime's output, `its_error` of that from what it says with its optimisations off (where the
processor has no VNNI, its products of unsigned and signed bytes saturate). Where ours or the interpreter's is
further than 2e-3 and a step of the output from both of onnxruntime's, the line ends in a verdict: `rounding
decides` if it lies in the range of onnxruntime's own answers when its floats move by a last bit, `as far as
its own` if those lie as far apart (where one step in the middle of a network moves hundreds at its end), else
`differs`, and the run fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.quantized_networks import NETWORKS, feeds
from glow_tools.onnxruntime_run import onnxruntime_outputs
from glow_tools.reduce_onnx import OnnxCase

SECONDS = 0.25
"""Seconds that a program is timed for."""
ROUNDS = 5
SHORTEST = 2e-4
"""Seconds of calls that are timed together, below which the clock would count."""

TESTS = Path(__file__).resolve().parent.parent / "tests" / "onnx"
"""Where the last bits of a model are moved."""
NEAR = 2e-3
"""How far from onnxruntime's an output may be, over its largest value, where a step of it is less."""
VERDICTS = ("rounding decides", "as far as its own", "differs")
"""What an answer that is further may be."""

Feed = dict[str, np.ndarray]


def _dynamic(weights: str, **options: Any) -> Callable[[Path, Path, Sequence[Feed]], None]:
    def convert(source: Path, target: Path, data: Sequence[Feed]) -> None:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        del data
        quantize_dynamic(source, target, weight_type=QuantType[weights], **options)

    return convert


def _static(
    form: str, activations: str, weights: str, **options: Any
) -> Callable[[Path, Path, Sequence[Feed]], None]:
    def convert(source: Path, target: Path, data: Sequence[Feed]) -> None:
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

        class Reader(CalibrationDataReader):
            """The feeds, one after another."""

            def __init__(self) -> None:
                self.feeds = iter(data)

            def get_next(self) -> Any:
                """The next feed."""
                return next(self.feeds, None)

        quantize_static(
            source,
            target,
            Reader(),
            quant_format=QuantFormat[form],
            activation_type=QuantType[activations],
            weight_type=QuantType[weights],
            **options,
        )

    return convert


def _blocks(source: Path, target: Path, data: Sequence[Feed]) -> None:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    del data
    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=32, is_symmetric=True)
    quantizer.process()
    quantizer.model.save_model_to_file(str(target))


WAYS: dict[str, Callable[[Path, Path, Sequence[Feed]], None]] = {
    "dynamic u8": _dynamic("QUInt8"),
    "dynamic s8": _dynamic("QInt8"),
    "dynamic s8 per channel": _dynamic("QInt8", per_channel=True),
    "QDQ u8s8": _static("QDQ", "QUInt8", "QInt8"),
    "QDQ u8s8 per channel": _static("QDQ", "QUInt8", "QInt8", per_channel=True),
    "QDQ s8s8": _static("QDQ", "QInt8", "QInt8"),
    "QDQ u8u8": _static("QDQ", "QUInt8", "QUInt8"),
    "QOperator u8s8": _static("QOperator", "QUInt8", "QInt8"),
    "QOperator u8u8": _static("QOperator", "QUInt8", "QUInt8"),
    "int4 blocks": _blocks,
}
"""Name -> what converts a file, given inputs to calibrate with."""


def quantized(network: str, way: str, folder: Path) -> Path:
    """The file of a network, quantised in one way; made when it is not there."""
    source, target = (folder / f"{network} {w}.onnx".replace(" ", "_") for w in ("float", way))
    if not source.exists():
        onnx.save(NETWORKS[network](), source)
    if not target.exists():
        WAYS[way](source, target, feeds(onnx.load(source), 8))
    return target


def measure(path: Path, feed: Feed) -> tuple[dict[str, float], str]:
    """Microseconds of both, their ratio, seconds to the first answer, and the errors; a verdict where far."""
    import onnxruntime

    import glow_compiler as glow

    start = time.perf_counter()
    net = glow.compile(path)
    ours = list(net.run(feed).values())[0]
    first = time.perf_counter() - start
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    theirs = session.run(None, feed)[0]
    times = timed([lambda: net.run(feed), lambda: session.run(None, feed)])
    ((name, plain),) = onnxruntime_outputs(str(path), feed, plain=True).items()
    exact = list(glow.compile(path, backend="interpreter").run(feed).values())[0]
    scale = float(np.abs(plain).max()) or 1.0
    row = {"us": times[0], "onnxruntime": times[1], "ratio": times[1] / times[0], "first": first}
    row |= {"error": _apart(ours, theirs) / scale, "its_error": _apart(theirs, plain) / scale}
    row["interpreter"] = _apart(exact, theirs) / scale
    model = onnx.load(path)
    near = 1.001 * max(NEAR * scale, _step(model))
    far = [y for y in (ours, exact) if min(_apart(y, theirs), _apart(y, plain)) > near]
    if not far:
        return row, ""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    from rounding import moved_answers, rounding_decides

    case = OnnxCase(model, feed)
    if all(rounding_decides(case, name, y) for y in far):
        return row, VERDICTS[0]
    reach = max(_apart(y, plain) for y in moved_answers(case, name))
    return row, VERDICTS[1 if all(_apart(y, plain) <= reach for y in far) else 2]


def _apart(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.abs(x.astype(np.float64) - y).max())


def _step(model: onnx.ModelProto) -> float:
    """The scale of the integers that a model's output is made of; 0 where it is not."""
    constants = {c.name: c for c in model.graph.initializer}
    made_by = {name: node for node in model.graph.node for name in node.output}
    last = made_by[model.graph.output[0].name]
    if last.op_type != "DequantizeLinear" or last.input[1] not in constants:
        return 0.0
    return float(onnx.numpy_helper.to_array(constants[last.input[1]]).max())


def timed(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Microseconds of processor time of the fastest, over rounds in turn: others disturb these least."""
    best, repeats = [float("inf")] * len(calls), [1] * len(calls)
    for _ in range(ROUNDS):
        for i, call in enumerate(calls):
            end = time.perf_counter() + SECONDS / ROUNDS
            while time.perf_counter() < end:
                start = time.thread_time()
                for _ in range(repeats[i]):
                    call()
                seconds = (time.thread_time() - start) / repeats[i]
                best[i] = min(best[i], seconds)
                repeats[i] = max(1, int(SHORTEST / best[i]))
    return [1e6 * b for b in best]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; 1 where something could not be compiled, or differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--network", default="", help="networks whose name this expression is found in")
    parser.add_argument("--way", default="", help="ways, likewise")
    parser.add_argument("--folder", type=Path, help="where the models are kept (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="write the numbers, too")
    a = parser.parse_args(arguments)
    os.environ["GLOW_CACHE_DIR"] = ""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows: dict[str, dict[str, float]] = {}
    verdicts, failed = list[str](), 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in (n for n in NETWORKS if re.search(a.network, n)):
            for way in (w for w in WAYS if re.search(a.way, w)):
                try:
                    path = quantized(name, way, folder)
                    row, verdict = measure(path, feeds(onnx.load(path), 1, seed=9)[0])
                except Exception as error:
                    failed += 1
                    print(f"{name} | {way}: {type(error).__name__}: {error}", file=sys.stderr)
                    continue
                rows[f"{name} | {way}"] = row
                verdicts.append(verdict)
                numbers = " ".join(f"{k} {v:.4g}" for k, v in row.items())
                print(f"{name:22} {way:24} {numbers} {verdict}", flush=True)
    if rows:
        ratios = np.array([r["ratio"] for r in rows.values()])
        mean = float(np.exp(np.log(ratios).mean()))
        first, error = (max(r[key] for r in rows.values()) for key in ("first", "error"))
        print(f"{len(rows)} cases: geometric mean {mean:.2f}, least {ratios.min():.2f}, below 1:", end=" ")
        below = int((ratios < 1).sum())
        print(f"{below}, longest first answer {first:.1f} s, largest error {error:.2g};", end=" ")
        print(", ".join(f"{verdicts.count(v)} {v}" for v in VERDICTS))
    if a.json:
        a.json.write_text(json.dumps(rows, indent=1))
    return int(failed > 0 or VERDICTS[2] in verdicts)


if __name__ == "__main__":
    sys.exit(main())
