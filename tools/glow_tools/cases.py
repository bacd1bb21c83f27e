"""Models with inputs, as the tools that look for faults take and leave them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from glow_dialects.core.file_kinds import FileKind, is_kind
from glow_dialects.core.files import whole
from glow_tools.common import read_module
from glow_tools.feeds import model_feed, one_feed

if TYPE_CHECKING:
    from glow_tools.reduce_ir import IrCase
    from glow_tools.reduce_onnx import OnnxCase


def read_case(
    path: str, inputs: Path | None, seed: int, shapes: dict[str, tuple[int, ...]]
) -> OnnxCase | IrCase:
    """A model file with inputs: those of a .npz file, or random ones."""
    if not is_kind(path, FileKind.ONNX):
        from glow_tools.reduce_ir import IrCase

        module = read_module(path)
        module.verify()
        return IrCase(module, one_feed(module, inputs, seed))
    from glow_frontends.onnx.parts import read_whole
    from glow_tools.reduce_onnx import OnnxCase

    return OnnxCase(read_whole(path), model_feed(path, shapes, file=inputs, seed=seed))


def write_case(case: OnnxCase | IrCase, path: Path) -> Path:
    """Write a model, and its inputs to a .npz file beside it, whose path this is."""
    import numpy as np

    inputs = path.with_suffix(".npz")
    case.write(path)
    with whole(inputs) as temporary, temporary.open("wb") as file:
        np.savez(file, **case.feed)
    return inputs
