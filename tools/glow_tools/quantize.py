"""glow-quantize: a model on integers, by a profile of it."""

from __future__ import annotations

import argparse
import html
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glow_tools.command_line import Parser
from glow_tools.common import add_shape, command, count_option, guarded, write_text
from glow_tools.progress import Progress

if TYPE_CHECKING:
    from glow_compiler.quantization import Report

EXAMPLES = """\
  glow-quantize model.onnx --profile profile.yaml -o model.mlir
  glow-quantize model.onnx --profile profile.yaml --schema symmetric --calibration kl -o model.mlir
  glow-quantize model.onnx --profile profile.yaml -o qdq.onnx
  glow-quantize model.onnx --precision bf16 -o narrow.mlir
  glow-quantize model.onnx --profile profile.yaml --keep softmax conv1 -o model.mlir
  glow-quantize model.onnx --profile profile.yaml --inputs images.npy --report out.html
"""


def arguments() -> Parser:
    """The command line."""
    parser = command(
        "glow-quantize",
        "Quantise a model with a profile from glow-profile. Inputs and outputs stay in float.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("model", help=".onnx or .mlir file")
    add("--profile", metavar="PROFILE.yaml", help="the output of glow-profile; not needed for f16 and bf16")
    schemas = "how ranges become integers: asymmetric (default), symmetric, symmetric_uint8, symmetric_power2"
    add("--schema", default="asymmetric", help=schemas)
    add("--precision", default="int8", help="of activations: int8 (default), int16; or f16, bf16")
    add("--calibration", default="none", help="how ranges are chosen: none (default), kl, percentile, mse")
    add("--per-tensor", action="store_true", help="one scale per weight tensor instead of per channel")
    add("--bias", default="int32", help="type of biases: int32 (default), int16, int8")
    add("--keep", nargs="+", default=[], metavar="NAME", help="operators or values that stay in float")
    everything = "also quantise layers that hardly become faster, such as depthwise convolutions"
    add("--everything", action="store_true", help=everything)
    add_shape(parser)
    add("-o", "--output", metavar="MODEL", help="the quantised model to write: .mlir, or .onnx in QDQ form")
    add("--report", metavar="OUT.html", help="write the signal-to-noise ratio of each layer (- prints it)")
    add("--inputs", nargs="+", default=[], metavar="FILE", help="data for the report: .npz, .npy")
    add("--random", type=count_option, metavar="SEED", help="random data for the report, with this seed")
    add("--backend", default="cpu", help="where the report runs (default: cpu)")
    add("--json", action="store_true", help="the report as JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-quantize`."""
    parser = arguments()
    a = parser.parse_args(argv)
    if not a.output and not a.report:
        parser.error("nothing to write: give -o MODEL.mlir or --report OUT.html")
    if not a.profile and (a.report or a.precision.startswith("int")):
        parser.error("integers and reports need --profile PROFILE.yaml, which glow-profile writes")
    if a.report and not a.inputs and a.random is None:
        parser.error("a report needs data: give --inputs FILE, or --random SEED")
    return guarded(lambda: _run(a))


def _run(a: argparse.Namespace) -> int:
    from glow_compiler import save
    from glow_compiler.quantization import quantize, report
    from glow_passes.quantize.profile import Profile
    from glow_tools.feeds import feeds, open_model

    with Progress("reading the model") as progress:
        ranges = Profile.load(a.profile) if a.profile else Profile([])
        module = open_model(a.model, dict(a.shape), ranges.shapes, ranges.numbers)
        options: dict[str, Any] = {
            "schema": a.schema,
            "precision": a.precision,
            "calibration": a.calibration,
            "per_channel": not a.per_tensor,
            "bias": a.bias,
            "keep": tuple(a.keep),
            "everything": a.everything,
        }
        if a.output:
            progress("quantizing")
            quantized = quantize(module, ranges, **options)
            quantized.verify()
            save(quantized, a.output)
        if not a.report:
            return 0
        progress("comparing layers")
        data = feeds(module, a.inputs, a.random, 2)
        findings = report(module, data, ranges, a.backend, **options)
    page = findings.table() + "\n" if a.report == "-" else report_page(a.model, findings)
    if a.json:
        layers = [asdict(item) for item in findings.layers]
        finite = [{**item, "decibels": min(item["decibels"], 1e3)} for item in layers]  # as JSON has numbers
        page = json.dumps(finite, indent=1) + "\n"
    write_text(a.report, page)
    return 0


def report_page(model: str, findings: Report) -> str:
    """A page with one bar a layer, worst first; decibels of signal over quantisation noise."""
    top = max((layer.decibels for layer in findings.layers if layer.decibels < 1e3), default=1.0)
    rows = [
        f"<tr><td>{html.escape(layer.name)}</td><td>{layer.op}</td><td>{layer.decibels:.1f}</td>"
        f'<td><div style="width:{_width(layer.decibels, top)}em"></div></td></tr>'
        for layer in findings.layers
    ]
    return _PAGE.format(model=html.escape(Path(model).name), rows="\n".join(rows))


def _width(decibels: float, top: float) -> float:
    return round(30 * min(max(decibels, 0.0), top) / top, 2)


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Quantisation of {model}</title>
<style>
body {{ font-family: sans-serif; margin: 2em; }}
td, th {{ padding: 0.1em 0.8em; text-align: left; font-size: 90%; }}
td:nth-child(3) {{ text-align: right; }}
div {{ background: #47a; height: 0.8em; }}
</style></head><body>
<h1>Quantisation of {model}</h1>
<p>Signal over quantisation noise of each value, in decibels; the worst layers first.</p>
<table><tr><th>value</th><th>operator</th><th>dB</th><th></th></tr>
{rows}
</table></body></html>
"""


if __name__ == "__main__":
    raise SystemExit(main())
