"""glow-translate: from one form of a model to another, decided by the extensions of the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from glow_tools.command_line import Parser
from glow_tools.common import (
    add_shape,
    command,
    guarded,
    read_module,
    write_text,
)
from glow_tools.progress import Progress

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

EXAMPLES = """\
  glow-translate model.onnx net.mlir             also writes net.weights.safetensors
  glow-translate model.onnx net.mlir --shape data=8x3x224x224
  glow-translate net.mlir model.onnx             the other direction; the weights are inside
  glow-translate model.onnx graph.svg            a picture (needs Graphviz); graph.dot: its source
  glow-translate net.mlir - --to dot | dot -Tpdf -o net.pdf
"""


def arguments() -> Parser:
    """The command line."""
    parser = command(
        "glow-translate",
        "Convert a model (.onnx, or .mlir with its weights file) to .mlir, .onnx, .dot or .svg. "
        "Constants of more than 256 bytes are written to NAME.weights.safetensors, next to NAME.mlir.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("source", help="an .onnx or .mlir file; - is IR on standard input")
    add("target", nargs="?", default="-", help="file to write; - is standard output (the default)")
    add("-o", "--output", metavar="TARGET", help="file to write, instead of the second argument")
    add("--to", choices=tuple(WRITERS), help="output format (default: from the extension)")
    add_shape(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-translate`."""
    parser = arguments()
    a = parser.parse_args(argv)
    if a.output is not None:
        if a.target != "-":
            parser.error("two outputs: give either the second file or -o")
        a.target = a.output
    form = a.to or Path(a.target).suffix.removeprefix(".") or "mlir"
    if form in ("mlir", "onnx") and a.target != "-" and Path(a.target).suffix != f".{form}":
        parser.error(f"a .{form} file is called NAME.{form}")
    if form not in WRITERS:
        parser.error(f"no form '.{form}'; targets end in {', '.join('.' + w for w in WRITERS)}")
    return guarded(lambda: _translate(a.source, a.target, form, dict(a.shape)))


def _translate(source: str, target: str, form: str, shapes: dict[str, tuple[int, ...]]) -> None:
    from glow_tools.context import tool_context

    with Progress("reading the model") as progress:
        module = read_module(source, dict(shapes), tool_context())
        module.verify()
        if target != "-":
            progress("writing the model")
            WRITERS[form](module, target)
    if target == "-":
        WRITERS[form](module, target)


def _write_model(module: ModuleOp, target: str) -> None:
    """Both forms that hold a whole model; on standard output IR text goes without its weights."""
    if target == "-":
        from glow_tools.targets import text_of

        write_text(target, text_of(module))
        return
    import glow_compiler as glow

    glow.save(module, target)


def _write_dot(module: ModuleOp, target: str) -> None:
    from glow_passes.watch.dot import to_dot

    write_text(target, to_dot(module))


def _write_svg(module: ModuleOp, target: str) -> None:
    from glow_passes.watch.dot import to_svg

    write_text(target, to_svg(module))


def _write_onnx(module: ModuleOp, target: str) -> None:
    if target != "-":
        _write_model(module, target)
        return
    import sys

    from glow_frontends.onnx.export import export_model

    sys.stdout.buffer.write(export_model(module).SerializeToString())


WRITERS: dict[str, Callable[[ModuleOp, str], None]] = {
    "mlir": _write_model,
    "onnx": _write_onnx,
    "dot": _write_dot,
    "svg": _write_svg,
}


if __name__ == "__main__":
    raise SystemExit(main())
