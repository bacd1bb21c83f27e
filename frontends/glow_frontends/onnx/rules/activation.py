"""Rules of activations that need more than a name."""

from __future__ import annotations

from math import prod

import numpy as np

from glow_dialects.ops.activation import PreluOp, SigmoidOp
from glow_dialects.ops.arg_reduce import ArgMaxOp
from glow_dialects.ops.arithmetic import MulOp
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, Value, dtype_of_value, rank, shape, uniform
from glow_frontends.graph.axes import axis_of, flat_axis
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions


def prelu(g: Emitter, n: Node) -> Value:
    """PRelu; before opset 9 a slope of one dimension belongs to axis 1."""
    x, slope = n[0], n[1]
    if n.opset < 9 and rank(slope) == 1 and rank(x) > 1 and shape(slope)[0] == shape(x)[1]:
        slope = g.reshape(slope, (shape(slope)[0], *(1,) * (rank(x) - 2)))
    return g(PreluOp, x, slope)


def swish(g: Emitter, n: Node) -> Value:
    """Swish: x sigmoid(alpha x)."""
    x, alpha = n[0], n.number("alpha", 1.0)
    scaled = x if alpha == 1.0 else g(MulOp, x, g.like(alpha, x))
    return g(MulOp, x, g(SigmoidOp, scaled))


def hardmax(g: Emitter, n: Node) -> Value:
    """Hardmax: 1 at the first maximum; before opset 13 over all axes from `axis` on."""
    x = n[0]
    dims = shape(x)
    if n.opset < 13:
        axis = flat_axis(n.integer("axis", 1), rank(x))
        flat = (prod(dims[:axis]), prod(dims[axis:]))
        return g.reshape(_hardmax(g, g.reshape(x, flat), 1), dims)
    return _hardmax(g, x, axis_of(n.integer("axis", -1), rank(x)))


def _hardmax(g: Emitter, x: Value, axis: int) -> Value:
    first = g(ArgMaxOp, x, axis=axis, keepdims=True, select_last_index=False)
    ones = [1] * rank(x)
    ones[axis] = shape(x)[axis]
    positions = g.reshape(g.numbers(shape(x)[axis]), ones)
    kind = dtype_of_value(x)
    zero, one = uniform(np.zeros((), kind), ()), uniform(np.ones((), kind), ())
    return g(SelectOp, g(CmpEqOp, first, positions), one, zero)


RULES: dict[str, Versions] = {
    "PRelu": prelu,
    "Swish": swish,
    "Hardmax": hardmax,
}
