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
from typing import TYPE_CHECKING, Literal, NoReturn

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from glow_dialects.core.types import Array

OK, BAD_INPUT, USAGE = 0, 1, 2


def command(name: str, description: str, examples: str) -> argparse.ArgumentParser:
    """The argument parser of a command; `examples` is printed under the options."""
    parser = argparse.ArgumentParser(
        prog=name,
        description=description,
        epilog=f"examples:\n{examples}\nexit status: 0 success, 1 bad input or failed check, 2 usage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    return parser


class _Version(argparse.Action):
    """Looks the version up when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(parser.prog, version("glow-compiler"))
        raise SystemExit(OK)


def show_log() -> None:
    """Write what the library logs, as that it compiles for another shape, to the standard error."""
    import logging

    log = logging.getLogger("glow")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("glow: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)


def fail(message: str) -> NoReturn:
    """Print `error: message` and exit with 1."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(BAD_INPUT)


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
    from glow_passes.failure import message_of, reason

    match error:
        case VerifyException():
            return message_of(error)
        case ParseError() | GlowError() | PassFailedException():
            notes = [f"\n  {n}" for n in getattr(error, "__notes__", ()) if n.startswith("in pass ")]
            return str(error).strip() + "".join(notes)
        case OSError():
            told = error.strerror or str(error)
            return f"{error.filename}: {told}" if error.filename else told
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
    from glow_dialects.core.file_kinds import FileKind, kind_of_file

    kind = FileKind.TEXT if path == "-" else kind_of_file(path)
    if kind is FileKind.ONNX:
        from glow_compiler.quantization import opened

        check_no_pipe(path)
        given = dict(inputs or {})
        return opened(path, shapes, {name: value.shape for name, value in given.items()}, given)
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
        _bind(module, shapes)
    return module


def _bind(module: ModuleOp, shapes: Mapping[str, Sequence[int]]) -> None:
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


def fixed(module: ModuleOp) -> ModuleOp:
    """A module all of whose sizes are known; BindingError for an input that leaves one open."""
    from glow_backends.base import ports
    from glow_dialects.core.errors import BindingError
    from glow_dialects.core.extent import Extent, is_open

    for port in ports(module, "input"):
        if is_open(port.shape):
            dims = "x".join("?" if isinstance(d, Extent) else str(d) for d in port.shape)
            binding = f"--shape {port.name}={dims.replace('?', '1')}"
            raise BindingError(f"input '{port.name}' is {dims}; bind it with {binding}")
    return module


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
        "shape of an input, where the model leaves it open, another is wanted, or it has a default value; "
        "or the size of a dimension that the model names: N=1"
    )
    option = "NAME=1x3x224x224"
    parser.add_argument("--shape", type=shape_option, action="append", default=[], metavar=option, help=told)


def add_backend(parser: argparse.ArgumentParser) -> None:
    """The option --backend."""
    told = "cpu, interpreter or one of a package, with options: npu{tile=16 hide=false} (default: cpu)"
    parser.add_argument("--backend", default="cpu", help=told)


def add_precision(parser: argparse.ArgumentParser) -> None:
    """The option --precision, of the backend cpu."""
    told = (
        "products of float32 as three products of bfloat16 (fast), where the processor gains by it, or with "
        "factors rounded to bfloat16 (bf16)  (default: float32)"
    )
    parser.add_argument("--precision", choices=("float32", "fast", "bf16"), default="float32", help=told)


def backend_text(a: argparse.Namespace) -> str:
    """The backend of --backend with the precision that is asked for."""
    if a.precision == "float32":
        return a.backend
    if a.backend != "cpu":
        fail("--precision is for backend cpu")
    return f"cpu{{precision={a.precision}}}"


def add_exact(parser: argparse.ArgumentParser) -> None:
    """The option --exact."""
    told = "quantised operators of the model in float, as their definitions say"
    parser.add_argument("--exact", action="store_true", help=told)


def add_budget(parser: argparse.ArgumentParser) -> None:
    """The option --compile-budget."""
    told = "after so many seconds of compiling a program, leave out what is optional (default: no limit)"
    parser.add_argument("--compile-budget", type=seconds_option, metavar="SECONDS", help=told)


def add_debug_info(parser: argparse.ArgumentParser) -> None:
    """The option --debug-info."""
    told = "for gdb and perf: nothing, lines of the printed program, tensors as variables (default: none)"
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


def count_option(text: str) -> int:
    """A whole number of at least 0; argparse reports what is wrong with it."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number, 0 or more")
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
