"""glow-opt: parse or import a program, run passes, print it at any level."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from glow_tools.common import fail, guarded, parse_text, read_module, shape_option

EXAMPLES = """examples:
  glow-opt net.mlir -p optimize
  glow-opt model.onnx -p 'optimize,lower,instr'
  glow-opt model.onnx -p cpu -t llvm-ir
  cat net.mlir | glow-opt - -p 'glow-schedule{by=order}' --print-ir changed
"""


def _arguments() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="glow-opt",
        description="Parse (or import, by extension) a program, run a pass pipeline, print the result.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("file", nargs="?", default="-", help=".mlir or .onnx file; - is standard input")
    made.add_argument("-p", "--passes", default="", help="pipeline, such as 'optimize,glow-irgen'")
    made.add_argument("-t", "--target", default="mlir", help="mlir, glow-ir, dot, svg, llvm-ir or asm")
    made.add_argument("-o", "--output", help="output file (default: standard output)")
    made.add_argument("--shape", type=shape_option, action="append", default=[], metavar="NAME=DxD")
    made.add_argument("--mcpu", default="host", help="CPU for llvm-ir and asm (default: host)")
    made.add_argument("--print-op-generic", action="store_true", help="print the generic form")
    made.add_argument("--split-input-file", action="store_true", help="programs separated by // -----")
    made.add_argument("--verify-diagnostics", action="store_true", help="print errors and go on")
    made.add_argument("--disable-verify", action="store_true", help="do not verify")
    made.add_argument("--allow-unregistered-dialect", action="store_true")
    made.add_argument("--print-ir", choices=["before", "after", "changed", "failure"], default="never")
    made.add_argument("--dump", type=Path, help="folder for the module after each pass")
    made.add_argument("--timing", action="store_true", help="time each pass")
    made.add_argument("--statistics", action="store_true", help="operation counts that each pass changes")
    made.add_argument("--bisect-limit", type=int, help="run only the first N passes")
    made.add_argument("--reproducer", type=Path, help="write module and pipeline here on a failure")
    made.add_argument("--list-passes", action="store_true", help="list passes and pipelines")
    made.add_argument("--show-pipeline", action="store_true", help="print the expanded pipeline")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-opt`."""
    arguments = _arguments().parse_args(argv)
    return guarded(lambda: _run(arguments))


def _run(a: argparse.Namespace) -> int:
    if a.list_passes:
        return _list()
    if a.show_pipeline:
        from glow_tools.pipelines import describe, parse

        print(describe(parse(a.passes)))
        return 0
    text: str | None = None
    if a.split_input_file or a.verify_diagnostics:
        text = sys.stdin.read() if a.file == "-" else Path(a.file).read_text()
    parts = [None] if text is None else text.split("// -----\n") if a.split_input_file else [text]
    outputs: list[str] = []
    for part in parts:
        if a.verify_diagnostics:
            outputs.append(_diagnosed(a, part))
        else:
            outputs.append(_one(a, part))
    joined = "\n// -----\n\n".join(outputs) if len(outputs) > 1 else outputs[0]
    if a.output:
        Path(a.output).write_text(joined)
    else:
        sys.stdout.write(joined)
    return 0


def _diagnosed(a: argparse.Namespace, part: str | None) -> str:
    from xdsl.utils.exceptions import ParseError, PassFailedException, VerifyException

    from glow_dialects.core.errors import GlowError
    from glow_tools.common import first_line

    try:
        return _one(a, part)
    except VerifyException as error:
        return f"error: the program is not valid: {first_line(error)}\n"
    except (ParseError, PassFailedException, GlowError) as error:
        return f"error: {str(error).strip()}\n"


def _one(a: argparse.Namespace, part: str | None) -> str:
    from glow_tools.context import tool_context

    ctx = tool_context()
    if part is None:
        module = read_module(a.file, dict(a.shape), ctx)
    else:
        module = parse_text(part, a.file, ctx, a.allow_unregistered_dialect)
    if not a.disable_verify:
        module.verify()
    if a.passes:
        from glow_passes.instrumentation import InstrumentedRun, Instrumentation
        from glow_tools.pipelines import parse

        options = Instrumentation(
            print_ir=a.print_ir,
            dump=a.dump,
            timing=a.timing,
            statistics=a.statistics,
            verify_each=not a.disable_verify,
            bisect_limit=a.bisect_limit,
            reproducer=a.reproducer,
        )
        InstrumentedRun(ctx, options).run(module, parse(a.passes))
    from glow_tools.targets import TARGETS

    if a.target not in TARGETS:
        fail(f"unknown target '{a.target}'; there are: {', '.join(TARGETS)}")
    return TARGETS[a.target](module, a)


def _list() -> int:
    from glow_passes import all_passes
    from glow_tools.pipelines import describe, named

    for name, item in sorted(all_passes().items()):
        print(f"{name:32} {(item.__doc__ or '').strip().splitlines()[0]}")
    for name, passes in named().items():
        print(f"{name:32} {describe(passes)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
