"""quantize_weights: weight-only quantisation, optionally with data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import Backend
from glow_compiler.api import compile
from glow_compiler.quantization import Data, Feed, checked, prepared, run_passes
from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array, typed
from glow_dialects.ops.arithmetic import MulOp
from glow_dialects.ops.module import PlaceholderOp, SaveOp, functions
from glow_dialects.ops.reduce import ReduceMeanOp
from glow_passes.graph.cse import CsePass
from glow_passes.graph.dce import DcePass
from glow_passes.graph.symbols import Symbols
from glow_passes.quantize.quantize_weights import Form, weighted
from glow_passes.quantize.quantize_weights import quantize_weights as rewrite
from glow_passes.quantize.schema import QuantizationError

_PREFIX = "squares."


def quantize_weights(
    model: Any,
    bits: int = 4,
    group: int = 32,
    *,
    activations: str = "int8",
    data: Data | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    backend: str | Backend = "cpu",
) -> ModuleOp:
    """Store the weights of matrix products in 4 or 8 bits (weight-only quantisation).

    `save` writes these products to .onnx as MatMulNBits.

    Args:
        model: A model in any form that `load` accepts.
        bits: 4 or 8.
        group: The number of inputs that share a scale.
        activations: "int8" rounds activations to 8 bits in the same groups, so that products are integer
            sums; "f32" keeps them in float.
        data: Dicts of inputs, one per batch. With data, errors are weighted by the size of the activations.
        shapes: Fixes dynamic dimensions.
        backend: Where the model runs on the data.

    Returns:
        A module for `compile` and `save`.

    Raises:
        QuantizationError: The model has no product that can be quantised, or an option is wrong.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> w = g.constant(np.ones((64, 32), np.float32), "w")
        >>> g.save(g.matmul(g.placeholder("x", (2, 64)), w), "y")
        >>> net = glow.compile(glow.quantize_weights(g, bits=4))
    """
    form = Form(bits, group, activations == "int8")
    form.check()
    if activations not in ("int8", "f32"):
        raise QuantizationError(f"activations='{activations}': expected int8 or f32")
    batches = None if data is None else list(checked(data))
    if batches is not None and not batches:
        raise QuantizationError("the calibration data is empty: no batch was given")
    module = prepared(model, shapes, batches[0] if batches else {})
    importance = input_squares(module, batches, backend) if batches else {}
    if not rewrite(module, form, importance):
        raise QuantizationError(f"the model has no product by constant weights with groups of {group} inputs")
    run_passes(module, (CsePass(), DcePass()))
    return module


def input_squares(module: ModuleOp, data: Sequence[Feed], backend: str | Backend = "cpu") -> dict[str, Array]:
    """For each matrix of a product, by its name, the mean square of each of its inputs over the data."""
    watched = module.clone()
    names = _watch(watched)
    if not names:
        return {}
    net = compile(watched, backend)
    sums: dict[str, Array] = {}
    for feed in data:
        made = net.run(feed)
        for output, name in names.items():
            sums[name] = sums.get(name, 0) + made[output].astype(np.float64)
    bad = next((name for name, total in sums.items() if not np.isfinite(total).all()), None)
    if bad is not None:
        raise GlowError(f"the calibration data makes inputs of '{bad}' that are not finite numbers")
    return sums


def _watch(module: ModuleOp) -> dict[str, str]:
    """Save the mean squares of products' inputs; the matrices' names by the outputs'."""
    names: dict[str, str] = {}
    symbols = Symbols(module)
    for function in list(functions(module)):
        for value, name in list(weighted(function)):
            last = function.body.block.last_op
            assert last is not None
            b = Builder.before(last)
            squares = b(ReduceMeanOp(b(MulOp(value, value)), axes=(0,), keepdims=False))
            place = PlaceholderOp.of(symbols.fresh(_PREFIX + name), typed(squares), "output")
            module.body.block.insert_op_before(place, function)
            function.body.block.add_op(SaveOp.of(squares, place))
            names[place.sym_name.data] = name
    return names
