"""glow-opt: parse or import a program, run passes, print it at any level."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from glow_tools.command_line import Parser
from glow_tools.common import (
    add_shape,
    bind_shapes,
    command,
    count_option,
    guarded,
    parse_text,
    read_module,
    read_text,
    write_text,
)
from glow_tools.progress import Progress

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from glow_dialects.core.times import Times
    from glow_passes.instrumentation import Watcher
    from glow_runtime.page.recording import Recording
    from glow_tools.input_values import Feed
    from glow_tools.validate import Validator

EXAMPLES = """\
  glow-opt net.mlir -p optimize
  glow-opt model.onnx -p lower,instr
  glow-opt model.onnx -p cpu -t llvm-ir -o model.ll
  glow-opt model.onnx -p cpu --validate -o /dev/null
  glow-opt model.onnx -p optimize --timing --statistics --dump steps
  cat net.mlir | glow-opt - -p 'glow-schedule{by=order}' --print-ir changed
"""
TARGETS = ("mlir", "glow-ir", "dot", "svg", "kernels", "llvm-ir", "asm")


def arguments() -> Parser:
    """The command line."""
    parser = command(
        "glow-opt",
        "Read a program or import a model, run passes on it, and print the result.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("file", nargs="?", default="-", help="an .mlir program or a model; - is standard input")
    add("-p", "--passes", default="", help="passes or pipelines to run, such as 'optimize,glow-irgen'")
    printed = f"output format: {', '.join(TARGETS)}, or one of a package (default: mlir)"
    add("-t", "--target", default="mlir", type=_target, help=printed)
    add("-o", "--output", help="output file (default: standard output)")
    add_shape(parser)
    add("--mcpu", default="host", help="CPU for kernels, llvm-ir and asm (default: host)")
    add("--print-op-generic", action="store_true", help="print the generic form")
    add("--print-debuginfo", action="store_true", help="print the locations of operations")
    told = "the file has several programs, separated by // -----"
    add("--split-input-file", action="store_true", help=told)
    announced = "print errors; fail unless they match the comments // expected-error {{text}}"
    add("--verify-diagnostics", action="store_true", help=announced)
    add("--disable-verify", action="store_true", help="do not verify")
    add("--allow-unregistered-dialect", action="store_true", help="accept unknown operations")
    add("--list-passes", action="store_true", help="list passes and pipelines")
    add("--show-dialects", action="store_true", help="list dialects and their operations")
    what = "print an analysis instead of the program: readers, dependencies, liveness or cost"
    add("--analyze", metavar="NAME", help=what)
    add("--functions", metavar="GLOB", default="*", help="run passes on these functions only")
    add("--show-pipeline", action="store_true", help="print the expanded pipeline")
    _add_watching(parser)
    return parser


def _add_watching(parser: argparse.ArgumentParser) -> None:
    """Options that print or check what passes do."""
    watch = parser.add_argument_group("inspecting passes (printed to standard error)")
    add = watch.add_argument
    moments = ["before", "after", "changed", "diff", "failure"]
    printed = "print the module before or after passes; diff: what each pass changed"
    add("--print-ir", choices=moments, default="never", help=printed)
    told = "with --print-ir: only these passes, e.g. glow-cpu-*"
    add("--print-passes", default="*", metavar="GLOB", help=told)
    add("--print-functions", default="*", metavar="GLOB", help="with --print-ir: only these functions")
    told = "write a page that shows passes, graphs, memory and kernels"
    add("--html", type=Path, metavar="FILE.html", help=told)
    add("--dump", type=Path, metavar="FOLDER", help="write the module after each pass to this folder")
    told = "write the program of each phase as .ir, .mlir and .dot to this folder"
    add("--save-graphs", type=Path, metavar="FOLDER", help=told)
    levels = "1: input and result; 2: after each pipeline of -p; 3: before and after each pass, also as SVG"
    add("--save-graphs-level", type=int, default=1, choices=(1, 2, 3), help=levels)
    add("--timing", action="store_true", help="print the time of each stage and each pass")
    add("--statistics", action="store_true", help="print how each pass changes the number of operations")
    checked = "run the program in the interpreter after each pass and check that its results do not change"
    add("--validate", action="store_true", help=checked)
    inputs = "input values: for --validate (default: random), and integers that ONNX shapes depend on"
    add("--inputs", type=Path, metavar="FILE", help=inputs)
    told = "seed of the random inputs (default: 0)"
    add("--random", type=count_option, default=0, metavar="SEED", help=told)
    add("--rtol", type=float, default=1e-3, help="with --validate: relative tolerance of f32 (default: 1e-3)")
    add("--atol", type=float, default=1e-5, help="with --validate: absolute tolerance (default: 1e-5)")
    add("--bisect-limit", type=count_option, metavar="N", help="run only the first N passes")
    told = "if a pass fails, write module, weights and pipeline to this file"
    add("--reproducer", type=Path, metavar="FILE", help=told)
    add("--run-reproducer", action="store_true", help="run the pipeline in the first line of a reproducer")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-opt`."""
    a = arguments().parse_args(argv)
    return guarded(lambda: _run(_reproduced(a) if a.run_reproducer else a))


def _reproduced(a: argparse.Namespace) -> argparse.Namespace:
    """The options that the first line of a reproducer names, for its module."""
    from glow_dialects.core.errors import GlowError

    if a.file == "-":
        raise GlowError("a reproducer is a file, with its weights in a second file")
    first = read_text(a.file)[0].partition("\n")[0]
    start = "// RUN: glow-opt %s "
    if not first.startswith(start):
        raise GlowError(f"{a.file}: this is no reproducer, its first line names no command of glow-opt")
    told = arguments().parse_args([a.file, *shlex.split(first.removeprefix(start))])
    for name, default in vars(arguments().parse_args([])).items():  # what watches the passes
        if getattr(a, name) != default and name not in ("file", "run_reproducer"):
            setattr(told, name, getattr(a, name))
    return told


def _run(a: argparse.Namespace) -> int:
    if a.list_passes:
        return _list()
    if a.show_dialects:
        return _dialects()
    if a.analyze is not None:
        _check_analysis(a.analyze)
    if a.show_pipeline:
        from glow_tools.pipelines import describe, parse

        print(describe(parse(a.passes, a.mcpu)))
        return 0
    if a.output is not None and a.output.endswith(".onnx"):
        from glow_dialects.core.errors import GlowError

        raise GlowError(f"{a.output}: glow-opt prints programs as text; glow-translate writes ONNX models")
    if not (a.split_input_file or a.verify_diagnostics):
        from glow_dialects.core.quiet_gc import quiet_gc

        with quiet_gc(), Progress("running passes" if a.passes else "reading the program"):
            text = _one(a, None)
        write_text(a.output, text)
        return 0
    return _several(a)


def _several(a: argparse.Namespace) -> int:
    """The programs of one file, each on its own; 1 where one fails, or fails otherwise than announced."""
    from glow_tools.diagnostics import parts_of, verified

    text, name = read_text(a.file)
    outcome = verified(parts_of(text, a.split_input_file), name, lambda part: _one(a, part.text))
    write_text(a.output, outcome.text(errors=a.verify_diagnostics))
    wrong = outcome.problems if a.verify_diagnostics else outcome.errors
    for message in wrong:
        print(f"error: {message}", file=sys.stderr)
    return 1 if wrong else 0


def _passes(a: argparse.Namespace) -> list[ModulePass]:
    if not a.passes:
        return []
    from glow_tools.pipelines import parse

    return parse(a.passes, a.mcpu)


def _one(a: argparse.Namespace, part: str | None) -> str:
    """The output for one program: the file, or `part` of it."""
    from glow_dialects.core.times import Times

    times = Times()
    try:
        with times.part("run") as whole:
            return _watched(a, part, whole)
    finally:
        if a.timing:
            times.parts[0].print(sys.stderr)


def _watched(a: argparse.Namespace, part: str | None, times: Times) -> str:
    """The output for one program, and the times of its parts; with --html, a page of it."""
    from glow_dialects.core.verify import verify
    from glow_tools.context import tool_context

    ctx = tool_context()
    with times.part("pipeline"):
        passes = _passes(a)  # before the program is read, which may take a while
    with times.part("import"):
        module = _read(a, part, ctx)
    if not a.disable_verify:
        with times.part("verify"):
            verify(module)
    recording = _recording(a, module)
    if passes:
        with times.part("passes") as within:
            _pipeline(a, ctx, module, passes, recording, within)
    with times.part(f"emission of {a.target}") as emitting:
        a.times = emitting
        text = _emitted(a, module) if a.analyze is None else _analyzed(a, module)
    if recording is not None:
        with times.part("page, with measuring of kernels"):
            _write_page(a, recording, module, times)
    return text


def _analyzed(a: argparse.Namespace, module: ModuleOp) -> str:
    """What --analyze prints, function by function."""
    from glow_dialects.instr.memory import InstrFuncOp
    from glow_dialects.ops.module import FuncOp
    from glow_passes.analysis import ANALYSES

    lines: list[str] = []
    for function in module.ops:
        if isinstance(function, FuncOp | InstrFuncOp):
            lines.append(f"{a.analyze} of @{function.sym_name.data}")
            lines += [f"  {line}" for line in ANALYSES[a.analyze](function).lines()]
    return "\n".join([*lines, ""])


def _read(a: argparse.Namespace, part: str | None, ctx: Context) -> ModuleOp:
    if part is None:
        return read_module(a.file, dict(a.shape), ctx, a.allow_unregistered_dialect, _named_inputs(a))
    return parse_text(part, "<stdin>" if a.file == "-" else a.file, ctx, a.allow_unregistered_dialect)


def _named_inputs(a: argparse.Namespace) -> Feed | None:
    """What --inputs names, before the inputs of the program are known."""
    if a.inputs is None or a.inputs.suffix != ".npz":
        return None
    from glow_tools.input_values import load_archive

    return load_archive(a.inputs)


def _recording(a: argparse.Namespace, module: ModuleOp) -> Recording | None:
    """What watches the passes for --html."""
    if a.html is None:
        return None
    from glow_runtime.page.recording import Recording

    recording = Recording(f"{Path(a.file).name} -p '{a.passes}'" if a.passes else Path(a.file).name)
    recording.begin(module)
    return recording


def _write_page(a: argparse.Namespace, recording: Recording, module: ModuleOp, times: Times) -> None:
    from glow_backends.cpu.backend import CpuBackend
    from glow_runtime.page.report import CompilationReport, finish

    recording.seconds = {part.name: part.seconds for part in times.parts if part.seconds}
    if times.parts and (passes := next((p for p in times.parts if p.name == "passes"), None)) is not None:
        checks = sum(p.seconds for p in passes.parts if p.name == "verification")
        work = sum(p.seconds for p in passes.parts) - checks
        recording.seconds |= {"passes": work, "verification of passes": checks}
    finish(recording, module, CpuBackend(cpu=a.mcpu))
    CompilationReport(recording).save(a.html)


def _pipeline(
    a: argparse.Namespace,
    ctx: Context,
    module: ModuleOp,
    passes: list[ModulePass],
    recording: Recording | None,
    times: Times,
) -> None:
    """Run passes as the options say."""
    from glow_passes.instrumentation import Instrumentation, InstrumentedRun
    from glow_passes.some_functions import run_on
    from glow_runtime.weights import WeightWriter

    options = Instrumentation(
        print_ir=a.print_ir,
        print_passes=a.print_passes,
        print_functions=a.print_functions,
        observe=None if recording is None else partial(recording.step, module, ""),
        dump=a.dump,
        statistics=a.statistics,
        verify_each=not a.disable_verify,
        check=_validator(a, module) if a.validate else None,
        bisect_limit=a.bisect_limit,
        reproducer=a.reproducer,
        repeated=_repeated(a),
        weights=WeightWriter(),
    )
    run = InstrumentedRun(ctx, options)
    try:
        if a.functions == "*":
            run.run(module, passes, _saver(a, module))
        else:
            run_on(module, a.functions, lambda part: run.run(part, passes, _saver(a, part)))
    finally:
        run.add_times(times)
    if options.check is not None:
        print(options.check, file=sys.stderr)


def _validator(a: argparse.Namespace, module: ModuleOp) -> Validator:
    """What compares values after passes with those before them."""
    from glow_tools.closeness import Tolerance
    from glow_tools.feeds import one_feed
    from glow_tools.validate import Validator

    feed = one_feed(module, a.inputs, a.random)
    bind_shapes(module, {name: array.shape for name, array in feed.items()})  # the interpreter knows sizes
    return Validator(feed, Tolerance(a.rtol, a.atol))


def _target(text: str) -> str:
    """A target of -t: ours, or one of a package."""
    if text not in TARGETS:
        from glow_dialects.core.errors import UnsupportedError
        from glow_tools.targets import emitter

        try:
            emitter(text)
        except UnsupportedError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _repeated(a: argparse.Namespace) -> str:
    """The options that change what passes do, or what is printed."""
    words = [] if a.mcpu == "host" else ["--mcpu", a.mcpu]
    words += ["--disable-verify"] * a.disable_verify
    words += ["--allow-unregistered-dialect"] * a.allow_unregistered_dialect
    words += [] if a.target == "mlir" else ["-t", a.target]
    if a.validate:
        words += ["--validate", "--random", str(a.random), "--rtol", str(a.rtol), "--atol", str(a.atol)]
        words += [] if a.inputs is None else ["--inputs", str(a.inputs)]
    return "".join(f" {shlex.quote(word)}" for word in words)


def _emitted(a: argparse.Namespace, module: ModuleOp) -> str:
    """The output for a module; its weights are written beside an output that is a program."""
    from glow_tools.targets import emitter

    try:
        text = emitter(a.target)(module, a)
    except Exception:
        if a.reproducer is not None:
            from glow_passes.instrumentation import Instrumentation, InstrumentedRun, text_of
            from glow_runtime.weights import WeightWriter
            from glow_tools.context import tool_context

            options = Instrumentation(reproducer=a.reproducer, repeated=_repeated(a))
            run = InstrumentedRun(tool_context(), options)
            run.reproduce("-p ''", text_of(module), WeightWriter()(module))
        raise
    if a.target == "mlir" and a.output not in (None, "-") and not a.split_input_file:
        from glow_runtime.weights import WeightWriter

        output = Path(a.output)
        if output.is_file() or not output.exists():  # there is nothing beside /dev/null or a pipe
            WeightWriter()(module)(output)
    return text


def _saver(a: argparse.Namespace, module: ModuleOp) -> Watcher | None:
    """The writer of the graphs of the phases, where they are wanted."""
    if a.save_graphs is None:
        return None
    from glow_compiler.ir_text import Saver
    from glow_tools.pipelines import phases

    saver = Saver(a.save_graphs, a.save_graphs_level)
    saver.module("input", module)
    ends = phases(a.passes, a.mcpu)

    def watch(number: int, name: str, moment: str) -> None:
        if a.save_graphs_level == 3:
            saver.module(f"{moment}_{name}", module)
        last = number + 1 == max(ends, default=0)
        if moment == "after" and number + 1 in ends and (last or a.save_graphs_level > 1):
            saver.module("result" if last else ends[number + 1], module)

    return watch


def _dialects() -> int:
    """Each dialect that programs may name, with its operations."""
    from glow_dialects.dialects import operation_names
    from glow_tools.context import tool_context

    ctx = tool_context(everything=True)
    for name in sorted(ctx.registered_dialect_names):
        operations = [o.removeprefix(f"{name}.") for o in operation_names(ctx, name)]
        print(f"{name:16} {', '.join(operations)}".rstrip())
    return 0


def _check_analysis(name: str) -> None:
    from glow_dialects.core.errors import UnsupportedError
    from glow_passes.analysis import ANALYSES

    if name not in ANALYSES:
        raise UnsupportedError(f"there is no analysis '{name}'; there are: {', '.join(ANALYSES)}")


def _list() -> int:
    from glow_tools.pipelines import describe, every_pass, named, xdsl_passes

    for name, item in sorted(every_pass().items()):
        print(f"{name:32} {(item.__doc__ or '').strip().splitlines()[0]}")
    for name, passes in named().items():
        print(f"{name:32} {describe(passes)}")
    print("of xDSL:")
    print(", ".join(sorted(xdsl_passes())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
