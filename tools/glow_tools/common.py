"""What the commands share: reading programs, and turning errors into one message and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, PassFailedException, VerifyException

from glow_dialects.core.errors import GlowError
from glow_dialects.dialects import context

OK, BAD_INPUT, USAGE = 0, 1, 2


def fail(message: str) -> NoReturn:
    """Print `error: message` and exit with 1."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(BAD_INPUT)


def guarded(body: Callable[[], int | None]) -> int:
    """Run a command; a user's error becomes one message and exit code 1."""
    try:
        return body() or OK
    except VerifyException as error:
        return _report(f"the program is not valid: {first_line(error)}")
    except ParseError as error:
        return _report(str(error).strip())
    except (GlowError, PassFailedException) as error:
        return _report(str(error))
    except FileNotFoundError as error:
        return _report(f"no such file: {error.filename}")
    except (IsADirectoryError, PermissionError) as error:
        return _report(f"cannot read {error.filename}: {error.strerror}")
    except BrokenPipeError:
        return OK
    except KeyboardInterrupt:
        return _report("interrupted")


def _report(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return BAD_INPUT


def first_line(error: Exception) -> str:
    """The message without the dump of the module that xDSL adds to it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if "Underlying verification failure" in line:
            return line.split(":", 1)[1].strip()
    return lines[0] if lines else type(error).__name__


def parse_text(text: str, name: str, ctx: Context | None = None, unregistered: bool = False) -> ModuleOp:
    """Parse IR; raises ParseError with file, line and column."""
    ctx = ctx or context()
    ctx.allow_unregistered = unregistered
    try:
        return Parser(ctx, text, name).parse_module()
    except RecursionError:
        raise GlowError(f"{name}: nesting is too deep") from None


def read_module(path: str, shapes: dict[str, Sequence[int]] | None = None, ctx: Context | None = None) -> ModuleOp:
    """A module from an `.onnx` or `.mlir` file, or from standard input for `-`."""
    if path == "-":
        return parse_text(sys.stdin.read(), "<stdin>", ctx)
    if path.endswith(".onnx"):
        from glow_frontends.onnx import import_model

        return import_model(path, shapes=shapes)
    try:
        text = Path(path).read_text()
    except UnicodeDecodeError:
        raise GlowError(f"{path}: not text; models need the extension .onnx") from None
    module = parse_text(text, path, ctx)
    weights = Path(path).with_suffix(".weights.safetensors")
    if weights.exists():
        from glow_runtime.weights import attach

        attach(module, weights)
    return module


def shape_option(text: str) -> tuple[str, tuple[int, ...]]:
    """`name=1x3x224x224` as a pair; argparse reports what is wrong with it."""
    import argparse

    name, separator, dims = text.rpartition("=")
    try:
        if not separator:
            raise ValueError
        return name, tuple(int(d) for d in dims.split("x")) if dims else ()
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=1x3x224x224") from None
