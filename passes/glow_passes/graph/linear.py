"""Convolutions and matrix products seen as one thing: y = linear(x) + bias, channel by channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, dtype_of, is_float, present, shape_of, typed
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import MatmulOp
from glow_passes.graph.driver import Rewriter, is_used_once
from glow_passes.graph.match import is_known

LINEAR = (ConvOp, ConvTransposeOp, FullyConnectedOp, MatmulOp)


def plain_properties(op: GraphOp) -> dict[str, Any]:
    """The properties to build the same operator again with other operands."""
    return {name: value for name, value in op.properties.items() if name != SEGMENTS}


@dataclass(frozen=True)
class Linear:
    """A linear operator with weights (and bias, if any) known at compile time."""

    op: Any
    weights: Array
    bias: Array | None

    @property
    def last(self) -> bool:
        """Whether channels come last in the result."""
        return isinstance(self.op, FullyConnectedOp | MatmulOp) or self.op.layout == "NHWC"

    @property
    def channels(self) -> int:
        """Channels of the result."""
        shape = shape_of(self.op.result)
        return shape[-1] if self.last else shape[1]

    def scaled_weights(self, factor: Array) -> Array:
        """Weights whose result is `factor` (one a channel) times as large."""
        if isinstance(self.op, FullyConnectedOp | MatmulOp):
            return self.weights * factor
        if isinstance(self.op, ConvOp):
            return self.weights * factor.reshape(-1, *(1,) * (self.weights.ndim - 1))
        group = self.op.group
        rows = factor.reshape(group, -1)  # one row a group of output channels
        grouped = self.weights.reshape(group, -1, *self.weights.shape[1:])
        if self.last:
            made = grouped * rows.reshape(group, *(1,) * (self.weights.ndim - 1), -1)
        else:
            made = grouped * rows.reshape(group, 1, -1, *(1,) * (self.weights.ndim - 2))
        return made.reshape(self.weights.shape)

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


def linear_of(value: SSAValue, r: Rewriter) -> Linear | None:
    """The float linear operator with known weights that makes `value` for one reader."""
    op: Any = value.owner
    if not isinstance(op, LINEAR) or not is_used_once(value) or op.predicate is not None:
        return None
    if not is_float(typed(value).element_type) or not is_known(op.operands[1], r):
        return None
    bias = None
    for vector in present(op.bias) if not isinstance(op, MatmulOp) else ():
        bias = r.array(vector)
        if bias is None:
            return None
    weights = r.array(op.operands[1])
    return None if weights is None else Linear(op, wide(weights), None if bias is None else wide(bias))


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
