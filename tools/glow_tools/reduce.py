"""glow-reduce: the smallest model or program on which a command still fails in the same way."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from glow_dialects.core.file_kinds import FileKind, kind_of_file, refuse_file
from glow_tools.command_line import Parser
from glow_tools.common import add_shape, command, count_option, guarded

if TYPE_CHECKING:
    from glow_tools.reduce_ir import IrCase
    from glow_tools.reduce_onnx import OnnxCase

EXAMPLES = """\
  glow-reduce model.onnx --check 'glow-run {} --inputs {inputs} --compare onnxruntime'
  glow-reduce net.mlir --check 'glow-opt {} -p cpu --validate --inputs {inputs}' -o small.mlir
  glow-reduce net.mlir --passes cpu --check 'glow-opt {} -p {passes}' --message 'internal error'
"""


def arguments() -> Parser:
    """The command line."""
    parser = command(
        "glow-reduce",
        "Find the smallest model or program on which a command still fails. Removes functions, nodes, "
        "instructions, outputs and passes, and simplifies sizes and weights. The failure counts as the same "
        "if the exit status is the same, there is an error message or none as before, and the output "
        "contains the words of --message.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("file", help="an .onnx model, or an .mlir program of any level, with its weights")
    names = "{} is the file (default: last argument), {inputs} its inputs, {passes} the pipeline"
    add("--check", required=True, metavar="COMMAND", help=f"the command that fails: {names}")
    add("--message", metavar="TEXT", help="words that the output must contain")
    add("--inputs", type=Path, metavar="FILE", help="input values (default: random)")
    told = "seed of the random inputs (default: 0)"
    add("--random", type=count_option, default=0, metavar="SEED", help=told)
    add_shape(parser)
    add("--passes", metavar="PIPELINE", help="also remove passes of this pipeline")
    add("-o", "--output", type=Path, help="file to write (default: reduced.onnx or reduced.mlir)")
    add("--seconds", type=count_option, default=600, metavar="N", help="stop after this time (default: 600)")
    told = "time limit of one check in seconds (default: 120)"
    add("--timeout", type=count_option, default=120, metavar="N", help=told)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-reduce`."""
    parser = arguments()
    a = parser.parse_args(argv)
    suffix = {FileKind.ONNX: ".onnx", FileKind.TEXT: ".mlir"}.get(kind_of_file(a.file))
    if suffix is None:
        parser.error(str(refuse_file(a.file, "an ONNX model or IR")))
    a.output = a.output or Path(f"reduced{suffix}")
    if a.output.suffix != suffix:
        parser.error(f"the result of a {suffix} file is a {suffix} file: -o NAME{suffix}")
    if a.passes is None and "{passes}" in a.check:
        parser.error("{passes} in --check needs --passes PIPELINE")
    if a.passes is not None and "{passes}" not in a.check:
        parser.error("--passes needs {passes} in --check")
    return guarded(lambda: _run(a))


class _TimeUp(Exception):
    """No more checks."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its status (None: not in time), with an error message or not, the words or not."""

    status: int | None
    error: bool
    words: bool

    @property
    def bad(self) -> bool:
        """Whether it failed."""
        return self.status != 0 and self.words


@dataclass
class Checker:
    """Runs the command on candidates; the smallest so far that fails as the whole does is `best`."""

    a: argparse.Namespace
    folder: Path
    passes: list[str] = field(default_factory=list[str])
    first: Outcome | None = None
    best: Any = None
    count: int = 0
    end: float = 0.0

    def outcome(self, case: OnnxCase | IrCase, passes: Sequence[str]) -> Outcome:
        """Run the command on a candidate."""
        import numpy as np

        if self.first is not None and time.monotonic() > self.end:
            raise _TimeUp
        self.count += 1
        file, inputs = self.folder / f"model{self.a.output.suffix}", self.folder / "inputs.npz"
        case.write(file)
        with inputs.open("wb") as archive:
            np.savez(archive, **case.feed)
        return self._ended(self._command(str(file), str(inputs), passes))

    def _command(self, file: str, inputs: str, passes: Sequence[str]) -> str:
        text = self.a.check if "{}" in self.a.check else self.a.check + " {}"
        for name, value in (("{}", file), ("{inputs}", inputs), ("{passes}", ",".join(passes))):
            text = text.replace(name, shlex.quote(value))
        return text

    def _ended(self, text: str) -> Outcome:
        try:
            done = subprocess.run(text, shell=True, capture_output=True, timeout=self.a.timeout)
        except subprocess.TimeoutExpired:
            return Outcome(None, False, not self.a.message)
        output, errors = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
        error = any(line.startswith("error: ") for line in errors.splitlines())
        return Outcome(done.returncode, error, self.a.message is None or self.a.message in output + errors)

    def wrong(self, case: Any, passes: Sequence[str] | None = None) -> bool:
        """Whether the command fails on a candidate as on the whole."""
        passes = self.passes if passes is None else passes
        if self.outcome(case, passes) != self.first:
            return False
        self.best, self.passes = case, list(passes)
        print(f"{case.size()} after {self.count} checks", file=sys.stderr)
        return True


def _run(a: argparse.Namespace) -> int:
    from glow_tools.cases import read_case

    with TemporaryDirectory(prefix="glow-reduce-") as folder:
        checker = Checker(a, Path(folder), _passes(a.passes))
        case = read_case(a.file, a.inputs, a.random, dict(a.shape))
        first = checker.outcome(case, checker.passes)
        if not first.bad:
            words = f" with '{a.message}'" if a.message else ""
            from glow_dialects.core.errors import GlowError

            raise GlowError(f"--check does not fail{words} on {a.file} (status {first.status})")
        checker.first, checker.best, checker.end = first, case, time.monotonic() + a.seconds
        try:
            _reduce(case, checker)
        except _TimeUp:
            print(f"stopped after {a.seconds} s; --seconds N gives it more", file=sys.stderr)
        return _written(a, checker, case)


def _passes(text: str | None) -> list[str]:
    from glow_tools.pipelines import parse

    return [str(item.spec()) for item in parse(text)] if text else []


def _reduce(case: OnnxCase | IrCase, checker: Checker) -> None:
    """Passes first: what is left of them runs faster."""
    from glow_tools import reduce_onnx
    from glow_tools.delta import smallest

    if checker.passes:
        smallest(checker.passes, lambda some: checker.wrong(case, some))
    if isinstance(case, reduce_onnx.OnnxCase):
        reduce_onnx.reduced(case, checker.wrong)
    else:
        from glow_tools import reduce_ir

        reduce_ir.reduced(case, checker.wrong)


def _written(a: argparse.Namespace, checker: Checker, whole: OnnxCase | IrCase) -> int:
    from glow_tools.cases import write_case

    best = checker.best
    inputs = write_case(best, a.output)
    print(f"{whole.size()} became {best.size()}: {a.output}, inputs {inputs}")
    if checker.passes:
        print(f"passes: {','.join(checker.passes)}")
    print(f"again: {checker._command(str(a.output), str(inputs), checker.passes)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
