"""Modules from `.mlir` files."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError

from glow_dialects.core.errors import GlowError
from glow_dialects.core.file_kinds import FileKind, check_text, is_kind, refuse_file
from glow_dialects.core.files import unreadable
from glow_runtime.weights import attach_weights
from glow_tools.common import parse_text


def read_text_file(path: Path) -> str:
    """The text of a file; GlowError where it cannot be read or is no text: it says what is for such files."""
    if not is_kind(path, FileKind.TEXT):
        raise refuse_file(path, "a graph")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        raise GlowError(f"{path}: this is not text: it is not UTF-8") from None
    check_text(path, text)
    return text


def read_mlir(path: Path) -> ModuleOp:
    """The module of IR text, with the weights beside it, or of StableHLO; GlowError where it is neither."""
    text = read_text_file(path)
    try:
        module = parse_text(text, str(path))
    except ParseError as error:
        raise GlowError(str(error).strip()) from None
    attach_weights(module, path)
    return module
