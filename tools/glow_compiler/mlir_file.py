"""Modules from `.mlir` files."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError

from glow_dialects.core.errors import GlowError
from glow_runtime.weights import attach_weights
from glow_tools.common import parse_text


def read_text_file(path: Path) -> str:
    """The text of a file; GlowError where it cannot be read or is no text: it says what is for such files."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        folder = path.is_dir() and (path / "config.json").exists()
        hint = "; glow.LanguageModel reads folders of language models" if folder else ""
        raise GlowError(f"{path}: {error.strerror or error}{hint}") from None
    except UnicodeDecodeError:
        hint = "ONNX models need the extension .onnx"
        if path.suffix in (".pt", ".pt2", ".pth", ".ckpt"):
            hint = "write PyTorch's model by torch.onnx.export(model, inputs, 'model.onnx')"
        raise GlowError(f"{path}: this is not text; {hint}") from None


def read_mlir(path: Path) -> ModuleOp:
    """The module of IR text, with the weights beside it, or of StableHLO; GlowError where it is neither."""
    text = read_text_file(path)
    try:
        module = parse_text(text, str(path))
    except ParseError as error:
        raise GlowError(str(error).strip()) from None
    attach_weights(module, path)
    return module
