"""A model in any form as the module that is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import public_name
from glow_compiler.api import check_kind, load_graph
from glow_dialects.core.errors import GlowError, OpenSizes, ShapeError
from glow_dialects.core.extent import is_open
from glow_dialects.core.symbols import Symbols
from glow_dialects.core.types import Array, shape_of
from glow_dialects.ops.module import placeholders
from glow_frontends.builder import GraphBuilder
from glow_passes.graph.bind_sizes import bind_sizes, sizes_of, symbols_of
from glow_passes.graph.rebatch import rebatch


def _is_onnx(model: Any) -> bool:
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

    def module_with_shapes(bound: Mapping[str, Sequence[int]] | None) -> ModuleOp:
        if not _is_onnx(model):
            module = load_graph(model)
            if symbols_of(module) is not None and not values:
                return _bound(module, bound or {}, batch)
            if bound or values:
                raise GlowError("only ONNX models take shapes and values; others have theirs")
            return module
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


def _bound(module: ModuleOp, shapes: Mapping[str, Sequence[int]], batch: int | None) -> ModuleOp:
    """A module with open sizes for the shapes of some inputs, and `batch` samples of the others."""
    sizes: dict[str, Sequence[int]] = {}
    for name, port in placeholders(module).items():
        shape = shape_of(port.type)
        if port.kind.data == "input" and is_open(shape):
            first = batch if batch is not None and is_open(shape[:1]) else shape[0]
            given = shapes.get(public_name(port), (first, *shape[1:]))
            if is_open(given):
                text = ", ".join(map(str, shape))
                raise ShapeError(f"input '{public_name(port)}' is ({text}): training needs batch= or shapes=")
            sizes[name] = given
    bound = module.clone()
    bind_sizes(bound, sizes_of(bound, sizes))
    return bound


def open_form(model: Any, trainable: Sequence[str], values: Mapping[str, Array] | None) -> ModuleOp | None:
    """A model that was trained with the sizes that it leaves open; None where it leaves none."""
    if not _is_onnx(model):
        module = load_graph(model)
        return None if symbols_of(module) is None else module.clone()
    from glow_frontends.onnx.trainable import import_trainable

    try:
        module = import_trainable(model, None, trainable, None, values, Symbols())
    except (GlowError, OpenSizes):  # of what is open only in its inputs' types
        return None
    return None if symbols_of(module) is None else module
