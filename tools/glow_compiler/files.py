"""Writing models: IR text with a weights file, or ONNX; files are replaced atomically."""

from __future__ import annotations

from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any

from xdsl.printer import Printer

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.files import whole
from glow_runtime import weights


def save(model: Any, path: str | Path) -> None:
    """Write a model as `.mlir` or `.onnx`.

    With `.mlir`, constants of more than 256 bytes are in a second file, NAME.weights.safetensors.

    Args:
        model: A module or a GraphBuilder.
        path: The file; its extension selects the format.

    Raises:
        UnsupportedError: Another extension, or an operator that ONNX cannot express.
        GlowError: A weight has no values, or the file cannot be written.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> g.save(g.relu(g.placeholder("x", (2,))), "y")
        >>> glow.save(g, "net.mlir")
        >>> glow.save(g, "net.onnx")
    """
    from glow_compiler.api import load_graph

    module, target = load_graph(model), Path(path)
    match target.suffix:
        case ".mlir":
            out = StringIO()
            Printer(out).print_op(module)
            with ExitStack() as files:
                if weights.resources(module):
                    beside = target.with_suffix(weights.SUFFIX)
                    weights.write(module, files.enter_context(whole(beside)))
                text = files.enter_context(whole(target))
                text.write_text(out.getvalue() + "\n", encoding="utf-8")
        case ".onnx":
            from glow_frontends.onnx.export import save_model

            save_model(module, target)
        case other:
            raise UnsupportedError(f"{path}: no form '{other}'; there are .mlir and .onnx")
