"""glow sample: write a sample model to a file, to try the other commands on."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from glow_tools.command_line import Parser
from glow_tools.common import command, guarded

EXAMPLES = """\
  glow sample squeezenet                writes squeezenet.onnx
  glow sample resnet50 -o model.onnx
"""
#: The samples, and what each of them is called in the onnx package.
SAMPLES = {
    "squeezenet": "light_squeezenet",
    "shufflenet": "light_shufflenet",
    "inception_v1": "light_inception_v1",
    "inception_v2": "light_inception_v2",
    "densenet121": "light_densenet121",
    "resnet50": "light_resnet50",
    "alexnet": "light_bvlc_alexnet",
    "zfnet512": "light_zfnet512",
    "vgg19": "light_vgg19",
}


def sample(name: str) -> Path:
    """The file of a sample in the installed onnx package; GlowError where it is missing."""
    from importlib.util import find_spec

    from glow_dialects.core.errors import GlowError

    found = find_spec("onnx")
    if found is None or found.origin is None:
        raise GlowError(
            "the sample models are part of the onnx package, which is not installed: pip install onnx"
        )
    file = Path(found.origin).parent / "backend/test/data/light" / f"{SAMPLES[name]}.onnx"
    if not file.exists():
        raise GlowError(f"{file}: this version of the onnx package does not contain the sample '{name}'")
    return file


def arguments() -> Parser:
    """The command line."""
    about = (
        "Write a sample model to a file, to try the other commands on. The models are image classifiers that "
        "the onnx package contains. Their weights are random numbers, so they show speed and file formats, "
        "not accuracy. Nothing is downloaded."
    )
    parser = command("glow-sample", about, EXAMPLES)
    parser.add_argument("name", choices=SAMPLES, metavar="NAME", help=f"one of {', '.join(SAMPLES)}")
    told = "file to write (default: NAME.onnx)"
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=told)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-sample`."""
    a = arguments().parse_args(argv)
    return guarded(lambda: _write(a))


def _write(a: argparse.Namespace) -> None:
    from glow_dialects.core.files import whole

    output = a.output or Path(f"{a.name}.onnx")
    with whole(output) as temporary:
        temporary.write_bytes(sample(a.name).read_bytes())
    print(f"wrote {output}")


if __name__ == "__main__":
    raise SystemExit(main())
