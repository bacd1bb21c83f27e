"""Common parts of the commands: reading and writing programs, one message and exit code an error.

Nothing heavy is imported before it is needed, so that `--help` and usage errors come at once.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from glow_tools.command_line import BAD_INPUT, OK, Parser
from glow_tools.progress import clear_line

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from glow_compiler.open_inputs import Settled
    from glow_dialects.core.types import Array


def command(name: str, description: str, examples: str) -> Parser:
    """The argument parser of a command; `examples` is printed under the options."""
    return Parser(name, description, examples)


def show_log() -> None:
    """Write what the library logs, as that it compiles for another shape, to the standard error."""
    import logging

    log = logging.getLogger("glow")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.addFilter(lambda _: clear_line() is None)
        handler.setFormatter(logging.Formatter("glow: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)


def fail(message: str) -> NoReturn:
    """Print `error: message` and exit with 1."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(BAD_INPUT)


def note(message: str) -> None:
    """Say on the standard error what was decided for the user."""
    clear_line()
    print(f"note: {message}", file=sys.stderr)


def guarded(body: Callable[[], int | None]) -> int:
    """Run a command; an error becomes one message and exit code 1.

    GLOW_TRACEBACK=1 lets the exception through, for people who work on the compiler.
    """
    try:
        return body() or OK
    except BrokenPipeError:
        # The reader has gone (`glow-opt ... | head`); keep Python from flushing into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return _report("interrupted")
    except Exception as error:
        if os.environ.get("GLOW_TRACEBACK"):
            raise
        return _report(describe(error))


def describe(error: Exception) -> str:
    """The message of an exception for a user."""
    from xdsl.utils.exceptions import ParseError, PassFailedException, VerifyException

    from glow_dialects.core.errors import GlowError
    from glow_dialects.core.files import unreadable
    from glow_passes.failure import message_of, reason

    match error:
        case VerifyException():
            return message_of(error)
        case ParseError() | GlowError() | PassFailedException():
            notes = [f"\n  {n}" for n in getattr(error, "__notes__", ()) if n.startswith("in pass ")]
            return str(error).strip() + "".join(notes)
        case OSError():
            return str(unreadable(error.filename, error)) if error.filename else error.strerror or str(error)
        case MemoryError():
            return f"not enough memory: {error}"
        case RecursionError():
            return "the program is nested too deep"
        case _:
            what = f"{type(error).__name__}: {reason(error)}"
            return f"internal error, please report it: {what} (GLOW_TRACEBACK=1 shows where)"


def _report(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return BAD_INPUT


#: An operation of StableHLO, in generic form or not.
_STABLEHLO = re.compile(r'"stablehlo\.\w+"\(|= stablehlo\.\w+ ')


def parse_text(text: str, name: str, ctx: Context | None = None, unregistered: bool = False) -> ModuleOp:
    """Parse IR, or import StableHLO; raises ParseError with file, line and column."""
    if not unregistered and _STABLEHLO.search(text):
        from glow_frontends.stablehlo import import_stablehlo

        return import_stablehlo(text, name)
    from glow_dialects.parse import parse_module
    from glow_tools.context import tool_context

    ctx = ctx or tool_context()
    ctx.allow_unregistered = unregistered
    return parse_module(text, name, ctx)


def read_text(path: str) -> tuple[str, str]:
    """Text of a file, or of standard input for `-`, and the name that messages give it."""
    from glow_dialects.core.errors import GlowError

    if path == "-":
        try:
            return sys.stdin.read(), "<stdin>"
        except UnicodeDecodeError:
            raise GlowError("-: this is not text") from None
    from glow_compiler.mlir_file import read_text_file

    check_no_pipe(path)
    return read_text_file(Path(path)), path


def check_no_pipe(path: str) -> None:
    """GlowError for a named pipe, which a read might wait on for ever; those of the shell are fed."""
    from glow_dialects.core.errors import GlowError

    if Path(path).is_fifo() and not path.startswith(("/dev/", "/proc/")):
        raise GlowError(f"{path}: this is a pipe, not a file; `-` reads standard input")


def read_module(
    path: str,
    shapes: dict[str, Sequence[int]] | None = None,
    ctx: Context | None = None,
    unregistered: bool = False,
    inputs: Mapping[str, Array] | None = None,
) -> ModuleOp:
    """A module from an `.onnx` or `.pt2` file or IR text (`-`: standard input), with its weights if there.

    Sizes that neither it nor `shapes` fixes are open. Where single integers decide which graph an ONNX model
    has, it is the one for those in `inputs`, and for the shapes there.
    """
    from glow_dialects.core.errors import NotStatic
    from glow_dialects.core.file_kinds import FileKind, kind_of_file

    kind = FileKind.TEXT if path == "-" else kind_of_file(path)
    if kind is FileKind.ONNX:
        from glow_compiler.quantization import opened

        check_no_pipe(path)
        given = dict(inputs or {})
        try:
            return opened(path, shapes, {name: value.shape for name, value in given.items()}, given)
        except NotStatic:
            return _decided(path, shapes or {}, given)
    if kind is FileKind.TORCH_EXPORT:
        from glow_compiler import load

        check_no_pipe(path)
        return load(path, shapes)
    text, name = read_text(path)
    module = parse_text(text, name, ctx, unregistered)
    if path != "-":
        from glow_runtime.weights import attach_weights

        attach_weights(module, Path(path))
    if shapes:
        bind_shapes(module, shapes)
    return module


def settled(
    model: Any,
    shapes: Mapping[str, Sequence[int]],
    values: dict[str, Any] | None = None,
    silent: bool = False,
) -> Settled:
    """The shapes of a model's inputs, and contents of those that decide; a line says what was chosen."""
    from glow_compiler.settle import settle

    made = settle(model, shapes, values)
    if made.note and not silent:
        note(made.note)
    return made


def _decided(path: str, shapes: Mapping[str, Sequence[int]], given: dict[str, Array]) -> ModuleOp:
    """The graph of an ONNX model that is one for some contents of inputs alone: for those that are likely.

    Raises the NotStatic that is at hand where no contents decide.
    """
    from glow_compiler.quantization import opened

    made = settled(path, shapes, given, silent=True)
    if not made.values.keys() - given.keys():
        raise
    note(made.note)
    return opened(path, made.shapes, made.shapes, {**given, **made.values})


def bind_shapes(module: ModuleOp, shapes: Mapping[str, Sequence[int]]) -> None:
    """Bind the open sizes of a module that the shapes of some inputs tell."""
    from glow_backends.base import public_name
    from glow_dialects.ops.module import placeholders
    from glow_passes.graph.bind_sizes import bind_sizes, sizes_of, symbols_of

    conditions = symbols_of(module)
    if conditions is not None:
        inputs = {public_name(p): n for n, p in placeholders(module).items() if p.kind.data == "input"}
        given = {inputs[n]: shape for n, shape in shapes.items() if n in inputs}
        sizes = sizes_of(module, given, every=False)
        for symbol in conditions.symbols:
            if symbol.name in shapes:
                sizes[symbol] = shapes[symbol.name][0] // symbol.divisor
        bind_sizes(module, sizes)


def write_text(path: str | None, text: str) -> None:
    """Write `text` to a file, whole or not at all; to standard output for None and `-`."""
    if path is None or path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    from glow_dialects.core.files import whole

    with whole(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")


def add_shape(parser: argparse.ArgumentParser) -> None:
    """The option --shape, which a command's user may give several times."""
    told = (
        "shape of an input: needed for dynamic dimensions, also overrides a fixed shape or a default value; "
        "or the size of a named dimension: N=1"
    )
    option = "NAME=1x3x224x224"
    parser.add_argument("--shape", type=shape_option, action="append", default=[], metavar=option, help=told)


def add_input(parser: argparse.ArgumentParser, random: bool = True) -> None:
    """The options --input, --inputs and --random."""
    add = parser.add_argument
    told = (
        "an input's value, also in place of its default: a .npy file, a .npz of several, a picture, a number "
        "(sr=16000, size=8,8), random, zeros or ones"
    )
    add("--input", type=input_option, action="append", default=[], metavar="[NAME=]VALUE", help=told)
    add("--inputs", type=Path, metavar="FILE", help="values of the inputs: .npz, arrays by name, or .npy")
    if random:
        add("--random", type=count_option, metavar="SEED", help="random inputs from this seed (default: 0)")


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option --json."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def print_json(value: object) -> None:
    """Print a value as JSON."""
    import json

    print(json.dumps(value, indent=1))


def add_backend(parser: argparse.ArgumentParser) -> None:
    """The option --backend."""
    told = "cpu, interpreter or a backend of a package, with options: npu{tile=16 hide=false} (default: cpu)"
    parser.add_argument("--backend", default="cpu", help=told)


def add_precision(parser: argparse.ArgumentParser) -> None:
    """The option --precision, of the backend cpu."""
    told = (
        "products of float32 as three products of bfloat16 (fast), where the processor gains by it, or with "
        "factors rounded to bfloat16 (bf16); float32 is the default"
    )
    kinds = ("float32", "fast", "bf16")
    parser.add_argument("--precision", choices=kinds, metavar="KIND", default="float32", help=told)


def backend_text(a: argparse.Namespace) -> str:
    """The backend of --backend with the precision that is asked for."""
    if a.precision == "float32":
        return a.backend
    if a.backend != "cpu":
        fail("--precision is for backend cpu")
    return f"cpu{{precision={a.precision}}}"


def add_exact(parser: argparse.ArgumentParser) -> None:
    """The option --exact."""
    told = "compute quantised operators in float, by their definitions"
    parser.add_argument("--exact", action="store_true", help=told)


def add_budget(parser: argparse.ArgumentParser) -> None:
    """The option --compile-budget."""
    told = "stop optional optimisation after this time (default: no limit)"
    parser.add_argument("--compile-budget", type=seconds_option, metavar="SECONDS", help=told)


def add_debug_info(parser: argparse.ArgumentParser) -> None:
    """The option --debug-info."""
    told = (
        "for gdb and perf: lines of the printed program, or full: also tensors as variables (default: none)"
    )
    parser.add_argument("--debug-info", choices=("none", "lines", "full"), default="none", help=told)


def shape_option(text: str) -> tuple[str, tuple[int, ...]]:
    """`name=1x3x224x224` as a pair; argparse reports what is wrong with it."""
    name, separator, dims = text.rpartition("=")
    try:
        if not separator:
            raise ValueError
        shape = tuple(int(d) for d in dims.split("x")) if dims else ()
        if any(d < 0 for d in shape):
            raise ValueError
        return name, shape
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=1x3x224x224") from None


def input_option(text: str) -> tuple[str, str]:
    """`name=value` as a pair, whose name is empty for a value alone."""
    name, _, value = text.rpartition("=")
    if not value:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


def count_option(text: str) -> int:
    """A whole number of at least 0; argparse reports what is wrong with it."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer, 0 or more")
    return int(text)


def seconds_option(text: str) -> float:
    """A number of at least 0; argparse reports what is wrong with it."""
    try:
        if (seconds := float(text)) >= 0:
            return seconds
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds, 0 or more")


def threads_option(text: str) -> int | Literal["auto"]:
    """`auto` or a whole number."""
    return "auto" if text == "auto" else count_option(text)
