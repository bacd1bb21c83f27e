"""Rules of activations."""

from __future__ import annotations

from math import prod

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.activation import (
    CeluOp,
    EluOp,
    GeluOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    MishOp,
    PreluOp,
    SeluOp,
    SigmoidOp,
    SoftplusOp,
    SoftsignOp,
    ThresholdedReluOp,
)
from glow_dialects.ops.arg_reduce import ArgMaxOp
from glow_dialects.ops.arithmetic import AddOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpEqOp, CmpGtOp, CmpLtOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph.axes import axis_of, flat_axis
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.values import Value, dtype_of_value, rank, shape, uniform
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Rule, Versions


def activation(kind: type[GraphOp], **defaults: float) -> Rule:
    """A function of one operand whose float attributes keep their names."""

    def rule(g: Emitter, n: Node) -> Value:
        return g(kind, n[0], **{name: n.number(name, value) for name, value in defaults.items()})

    return rule


def prelu(g: Emitter, n: Node) -> Value:
    """PRelu; before opset 9 a slope of one dimension belongs to axis 1."""
    x, slope = n[0], n[1]
    if n.opset < 9 and rank(slope) == 1 and rank(x) > 1 and shape(slope)[0] == shape(x)[1]:
        slope = g.reshape(slope, (shape(slope)[0], *(1,) * (rank(x) - 2)))
    return g(PreluOp, x, slope)


def selu(g: Emitter, n: Node) -> Value:
    """Selu: gamma (alpha e^x - alpha) below zero, gamma x above."""
    return g(
        SeluOp,
        n[0],
        alpha=n.number("alpha", 1.67326319217681884765625),
        gamma=n.number("gamma", 1.05070102214813232421875),
    )


def gelu(g: Emitter, n: Node) -> Value:
    """Gelu."""
    return g(GeluOp, n[0], approximate=n.text("approximate", "none"))


def swish(g: Emitter, n: Node) -> Value:
    """Swish: x sigmoid(alpha x)."""
    x, alpha = n[0], n.number("alpha", 1.0)
    scaled = x if alpha == 1.0 else g(MulOp, x, g.like(alpha, x))
    return g(MulOp, x, g(SigmoidOp, scaled))


def shrink(g: Emitter, n: Node) -> Value:
    """Shrink: x + bias below -lambd, x - bias above lambd, else 0."""
    x = n[0]
    bias, limit = n.number("bias", 0.0), n.number("lambd", 0.5)
    low = g(CmpLtOp, x, g.like(-limit, x))
    high = g(CmpGtOp, x, g.like(limit, x))
    zero = g.like(0, x)
    above = g(SelectOp, high, g(SubOp, x, g.like(bias, x)), zero)
    return g(SelectOp, low, g(AddOp, x, g.like(bias, x)), above)


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
    "Relu": activation(ReluOp),
    "Sigmoid": activation(SigmoidOp),
    "LeakyRelu": activation(LeakyReluOp, alpha=0.01),
    "Elu": activation(EluOp, alpha=1.0),
    "Celu": activation(CeluOp, alpha=1.0),
    "ThresholdedRelu": activation(ThresholdedReluOp, alpha=1.0),
    "HardSigmoid": activation(HardSigmoidOp, alpha=0.2, beta=0.5),
    "HardSwish": activation(HardSwishOp),
    "Softplus": activation(SoftplusOp),
    "Softsign": activation(SoftsignOp),
    "Mish": activation(MishOp),
    "PRelu": prelu,
    "Selu": selu,
    "Gelu": gelu,
    "Swish": swish,
    "Shrink": shrink,
    "Hardmax": hardmax,
}
