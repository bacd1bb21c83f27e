"""Modules from `.mlir` files."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError

from glow_dialects.core.errors import GlowError
from glow_dialects.parse import parse_module
from glow_runtime.weights import attach_weights
from glow_tools.context import tool_context


def read_mlir(path: Path) -> ModuleOp:
    """The module of IR text, with the weights beside it; GlowError where it is none."""
    try:
        module = parse_module(path.read_text(encoding="utf-8"), str(path), tool_context())
    except OSError as error:
        raise GlowError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise GlowError(f"{path}: this is not text; ONNX models need the extension .onnx") from None
    except ParseError as error:
        raise GlowError(str(error).strip()) from None
    attach_weights(module, path)
    return module
