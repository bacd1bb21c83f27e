"""glow sample: a small model to try commands on."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from glow_tools.command_line import Parser
from glow_tools.common import command, guarded

EXAMPLES = """\
  glow sample squeezenet                           writes model.onnx
  glow sample resnet50 -o resnet.onnx
  glow run model.onnx
"""
#: Models that the package onnx ships to test backends; their weights are made by the graph, not trained.
MODELS = (
    *("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet"),
    *("vgg19", "zfnet512"),
)


def arguments() -> Parser:
    """The command line."""
    about = (
        "Write a model that the package onnx ships for tests: a real architecture with weights that are not "
        "trained, so that the file is small."
    )
    parser = command("glow-sample", about, EXAMPLES)
    parser.add_argument("name", choices=MODELS)
    told = "the file to write (default: model.onnx)"
    parser.add_argument("-o", "--output", type=Path, default=Path("model.onnx"), metavar="FILE", help=told)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-sample`."""
    a = arguments().parse_args(argv)
    return guarded(lambda: _run(a))


def _run(a: argparse.Namespace) -> None:
    from importlib.util import find_spec

    from glow_dialects.core.errors import GlowError
    from glow_dialects.core.files import whole

    found = find_spec("onnx")
    places = [Path(p) for p in (found.submodule_search_locations or ())] if found else []
    file = next((p / f"backend/test/data/light/light_{a.name}.onnx" for p in places), None)
    if file is None or not file.is_file():
        raise GlowError(f"{a.name} is a file of the package onnx, which is not here: pip install onnx")
    with whole(a.output) as temporary:
        temporary.write_bytes(file.read_bytes())
    print(f"wrote {a.output} ({file.stat().st_size} bytes): {a.name}, its weights not trained")


if __name__ == "__main__":
    raise SystemExit(main())
