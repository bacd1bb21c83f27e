"""A model in any form as the module that is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import public_name
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array
from glow_dialects.ops.module import placeholders
from glow_passes.graph.rebatch import rebatch


def _is_onnx(model: Any) -> bool:
    from glow_frontends.builder import GraphBuilder

    path = isinstance(model, str | Path)
    return str(model).endswith(".onnx") if path else not isinstance(model, ModuleOp | GraphBuilder)


def module_of(
    model: Any,
    shapes: Mapping[str, Sequence[int]] | None,
    trainable: Sequence[str],
    batch: int | None,
    values: Mapping[str, Array] | None,
    wanted: Mapping[str, Sequence[int]] | None,
) -> ModuleOp:
    """The model as a module; with `wanted` shapes of inputs for another number of samples."""
    from glow_compiler.api import check_kind, load

    def module_with_shapes(bound: Mapping[str, Sequence[int]] | None) -> ModuleOp:
        if not _is_onnx(model):
            if bound or values:
                raise GlowError("only ONNX models take shapes and values; others have theirs")
            return load(model)
        check_kind(model)
        from glow_frontends.onnx.trainable import import_trainable

        return import_trainable(model, bound, trainable, batch, values)

    if wanted is not None and _is_onnx(model):
        try:
            return module_with_shapes(wanted)
        except GlowError:  # its shapes are fixed
            pass
    module = module_with_shapes(shapes)
    if wanted is not None:
        module = module.clone()
        inputs = {public_name(p): n for n, p in placeholders(module).items() if p.kind.data == "input"}
        rebatch(module, {inputs[n]: s for n, s in wanted.items() if n in inputs})
    return module
