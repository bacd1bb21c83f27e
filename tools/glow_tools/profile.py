"""glow-profile: run representative inputs through a model and record the ranges of its values."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from glow_tools.command_line import Parser
from glow_tools.common import add_backend, add_shape, command, count_option, guarded

EXAMPLES = """\
  glow-profile model.onnx --inputs images.npy -o profile.yaml
  glow-profile model.onnx --inputs a.npz b.npz c.npz -o profile.yaml
  glow-profile model.onnx --random 0 --batches 4 -o profile.yaml
"""


def arguments() -> Parser:
    """The command line."""
    parser = command(
        "glow-profile",
        "Record the range and histogram of every value of a model, for glow-quantize.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("model", help=".onnx or .mlir file")
    told = "calibration data: .npz files (one batch each) or .npy files"
    add("--inputs", nargs="+", default=[], metavar="FILE", help=told)
    told = "use normally distributed random inputs with this seed"
    add("--random", type=count_option, metavar="SEED", help=told)
    add("--batches", type=count_option, default=4, help="number of random batches (default: 4)")
    add_shape(parser)
    add_backend(parser)
    add("-o", "--output", type=Path, required=True, metavar="PROFILE.yaml")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-profile`."""
    a = arguments().parse_args(argv)
    return guarded(lambda: _run(a))


def _run(a: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import Progress

    from glow_compiler.quantization import profile
    from glow_dialects.core.files import whole
    from glow_tools.common import settled
    from glow_tools.feeds import feeds, first_archive, open_model

    first = first_archive(a.inputs)
    usual = {name: array.shape for name, array in first.items()}
    shapes = dict(a.shape)
    if not a.inputs and a.random is not None:
        made = settled(a.model, shapes)
        shapes, first = {**made.shapes, **shapes}, made.values
    module = open_model(a.model, shapes, usual, first)
    data = feeds(module, a.inputs, a.random, a.batches)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("profiling", total=len(data))
        ranges = profile(module, data, a.backend, progress=lambda done: progress.update(task, completed=done))
    with whole(a.output) as temporary:
        ranges.save(temporary)
    batches = f"{ranges.batches} batch{'es' * (ranges.batches != 1)}"
    print(f"{a.output}: {len(ranges.values)} values, {batches}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
