"""Convolutions and matrix products seen as one thing: y = linear(x) + bias, channel by channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.layer_axes import LayerAxes
from glow_dialects.core.types import Array, dtype_of, is_float, shape_of, typed
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import MatmulOp
from glow_passes.graph.driver import Rewriter, is_used_once


def plain_properties(op: GraphOp) -> dict[str, Any]:
    """The properties to build the same operator again with other operands."""
    return {name: value for name, value in op.properties.items() if name != SEGMENTS}


@dataclass(frozen=True)
class Linear:
    """A linear operator with weights (and bias, if any) known at compile time."""

    op: Any
    axes: LayerAxes
    weights: Array
    bias: Array | None

    @property
    def last(self) -> bool:
        """Whether channels come last in the result."""
        return self.axes.channels == -1

    @property
    def channels(self) -> int:
        """Channels of the result."""
        shape = shape_of(self.op.result)
        return shape[-1] if self.last else shape[1]

    def scaled_weights(self, factor: Array) -> Array:
        """Weights whose result is `factor` (one a channel) times as large."""
        return self.weights * self.axes.beside_outputs(factor, self.weights)

    def rebuilt(self, weights: Array, bias: Array | None, r: Rewriter) -> SSAValue:
        """The operator with other weights and bias, kept in the element type of the model."""
        dtype = dtype_of(self.op.result.type)
        op = self.op
        hint = op.operands[1].name_hint or "weights"
        filter = op.operands[1]
        if weights is not self.weights:
            filter = r.weight(np.ascontiguousarray(weights, dtype), hint)
        kept = {**plain_properties(op), "results": op.result.type}
        if bias is None:
            return r(type(op)(op.operands[0], filter, **kept))
        vector = r.weight(np.ascontiguousarray(bias, dtype), f"{hint}_bias")
        kind = FullyConnectedOp if isinstance(op, MatmulOp) else type(op)
        return r(kind(op.operands[0], filter, vector, **kept))


def bias_of(op: GraphOp) -> Sequence[SSAValue]:
    """The bias of a layer, or nothing where it has none."""
    return op.operand_group("bias") if "bias" in dict(op.operand_groups()) else ()


def linear_of(value: SSAValue, r: Rewriter) -> Linear | None:
    """The float linear operator with known weights that makes `value` for one reader."""
    op: Any = value.owner
    axes = op.layer_axes() if isinstance(op, GraphOp) else None
    if axes is None or not is_used_once(value) or op.predicate is not None:
        return None
    if not is_float(typed(value).element_type):
        return None
    bias = None
    for vector in bias_of(op):
        bias = r.array(vector)
        if bias is None:
            return None
    weights = r.array(op.operands[1])
    return None if weights is None else Linear(op, axes, wide(weights), None if bias is None else wide(bias))


def wide(array: Array) -> Array:
    """At least float32, to compute in."""
    return array if array.dtype.char in "fd" else array.astype(np.float32)


def channel_vector(array: Array, linear: Linear) -> Array | None:
    """A constant that broadcasts along everything but the channels, as one number a channel."""
    rank, count = len(shape_of(linear.op.result)), linear.channels
    axis = rank - 1 if linear.last else 1
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(n != 1 for i, n in enumerate(shape) if i != axis):
        return None
    return np.broadcast_to(wide(array).reshape(-1), (count,))
