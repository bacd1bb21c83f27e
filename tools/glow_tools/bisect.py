"""glow-bisect: the import rule, pass, rewrite or kernel that makes a model compute something else."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glow_dialects.core.file_kinds import FileKind, kind_of_file, refuse_file
from glow_tools.command_line import Parser
from glow_tools.common import add_backend, add_json, add_shape, command, count_option, guarded, print_json
from glow_tools.progress import Progress

if TYPE_CHECKING:
    from glow_tools.culprit import Culprit, Search
    from glow_tools.reduce_ir import IrCase
    from glow_tools.reduce_onnx import OnnxCase

EXAMPLES = """\
  glow-bisect model.onnx
  glow-bisect net.mlir --inputs inputs.npz -o small.mlir
  glow-bisect net.mlir -p optimize,lower,instr --backend interpreter
"""


def arguments() -> Parser:
    """The command line."""
    parser = command(
        "glow-bisect",
        "Find the step of a compilation that changes a model's result: an import rule, a pass and its "
        "rewrite, or a kernel. Compares the model after import, after each pass and after compilation with "
        "the correct result (of onnxruntime, then of the interpreter). Exit status 1 if a step is wrong.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("model", help="an .onnx model, or an .mlir program with graphs or instructions")
    add("-p", "--passes", metavar="PIPELINE", help="passes to run instead of the backend's")
    add_backend(parser)
    add("--inputs", type=Path, metavar="FILE", help="input values (default: random)")
    told = "seed of the random inputs (default: 0)"
    add("--random", type=count_option, default=0, metavar="SEED", help=told)
    add_shape(parser)
    add("--rtol", type=float, default=1e-3, help="relative tolerance of f32 (default: 1e-3)")
    add("--atol", type=float, default=1e-5, help="absolute tolerance (default: 1e-5)")
    told = "write the smallest model with the problem to this file"
    add("-o", "--output", type=Path, metavar="FILE", help=told)
    add_json(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-bisect`."""
    parser = arguments()
    a = parser.parse_args(argv)
    suffix = {FileKind.ONNX: ".onnx", FileKind.TEXT: ".mlir"}.get(kind_of_file(a.model))
    if suffix is None:
        parser.error(str(refuse_file(a.model, "an ONNX model or IR")))
    if a.output is not None and a.output.suffix != suffix:
        parser.error(f"the result of a {suffix} file is a {suffix} file: -o NAME{suffix}")
    return guarded(lambda: _run(a))


def _run(a: argparse.Namespace) -> int:
    from glow_backends.base import get_backend
    from glow_tools.cases import read_case
    from glow_tools.closeness import Tolerance
    from glow_tools.culprit import Search
    from glow_tools.pipelines import parse

    passes = None if a.passes is None else parse(a.passes)
    search = Search(get_backend(a.backend), Tolerance(a.rtol, a.atol), passes)
    with Progress("reading the model") as progress:
        case = read_case(a.model, a.inputs, a.random, dict(a.shape))
        progress("comparing after each pass")
        found = blamed(case, search)
    if a.json:
        names = ("stage", "name", "shown", "effect")
        print_json(None if found is None else {n: str(getattr(found, n)) for n in names})
    elif found is None:
        print("nothing is wrong: every pass and every kernel keeps what the model computes")
    else:
        print(f"{found.stage} {found.name}\n  {found.shown}\n  {found.effect}")
    if found is not None and a.output is not None:
        with Progress("reducing the model"):
            _write(a, case, search, found)
    return 0 if found is None else 1


def blamed(case: OnnxCase | IrCase, search: Search) -> Culprit | None:
    """What is to blame for the results of a case."""
    from glow_tools.culprit import culprit_of_model, culprit_of_module
    from glow_tools.reduce_ir import IrCase

    if isinstance(case, IrCase):
        return culprit_of_module(case.module, case.feed, search)
    return culprit_of_model(case.model, case.feed, search)


def smallest_case(case: Any, search: Search, found: Culprit) -> Any:
    """The smallest part of a case for which the same is to blame."""
    from glow_tools import reduce_ir, reduce_onnx

    def same(part: Any) -> bool:
        try:
            return found.same(blamed(part, search))
        except Exception:  # a part that cannot be compiled, by whatever reason
            return False

    reduce: Callable[..., Any] = (
        reduce_ir.reduced if isinstance(case, reduce_ir.IrCase) else reduce_onnx.reduced
    )
    return reduce(case, same)


def _write(a: argparse.Namespace, case: OnnxCase | IrCase, search: Search, found: Culprit) -> None:
    from glow_tools.cases import write_case

    small = smallest_case(case, search, found)
    inputs = write_case(small, a.output)
    print(f"{case.size()} became {small.size()}: {a.output}, inputs {inputs}", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
