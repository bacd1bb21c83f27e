"""Rules of operators that were experiments of the first opsets; converters of that time wrote them."""

from __future__ import annotations

import numpy as np

from glow_dialects.ops.activation import SoftplusOp, TanhOp
from glow_dialects.ops.arithmetic import AddOp, MulOp
from glow_frontends.graph import Emitter, RuleError, Value, dtype_of_value, rank, shape
from glow_frontends.graph.movement import cut
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions


def affine(g: Emitter, n: Node) -> Value:
    """Affine: alpha x + beta."""
    scaled = g(MulOp, n[0], g.like(n.number("alpha", 1.0), n[0]))
    return g(AddOp, scaled, g.like(n.number("beta", 0.0), n[0]))


def image_scaler(g: Emitter, n: Node) -> Value:
    """ImageScaler: scale x + bias of the channel."""
    x = n[0]
    bias = np.array(n.numbers("bias", ()), np.float64).reshape(-1, *(1,) * (rank(x) - 2))
    scaled = g(MulOp, x, g.like(n.number("scale", 1.0), x))
    return g(AddOp, scaled, bias.astype(dtype_of_value(x))) if bias.size else scaled


def scale(g: Emitter, n: Node) -> Value:
    """Scale: a multiple."""
    return g(MulOp, n[0], g.like(n.number("scale", 1.0), n[0]))


def scaled_tanh(g: Emitter, n: Node) -> Value:
    """ScaledTanh: alpha tanh(beta x)."""
    inner = g(MulOp, n[0], g.like(n.number("beta", 1.0), n[0]))
    return g(MulOp, g(TanhOp, inner), g.like(n.number("alpha", 1.0), n[0]))


def parametric_softplus(g: Emitter, n: Node) -> Value:
    """ParametricSoftplus: alpha log(exp(beta x) + 1)."""
    inner = g(MulOp, n[0], g.like(n.number("beta", 1.0), n[0]))
    return g(MulOp, g(SoftplusOp, inner), g.like(n.number("alpha", 1.0), n[0]))


def crop(g: Emitter, n: Node) -> Value:
    """Crop: a picture without its border (left, top, right, bottom), or so much of it as `scale` says."""
    x, border, size = n[0], n.integers("border", ()), n.integers("scale", ())
    if rank(x) != 4 or len(border) != 4:
        raise RuleError("a border of four numbers and a tensor of rank 4 are expected")
    left, top, right, bottom = border
    height, width = shape(x)[2:]
    ends = [top + size[0], left + size[1]] if len(size) == 2 else [height - bottom, width - right]
    if not (0 <= top <= ends[0] <= height and 0 <= left <= ends[1] <= width):
        raise RuleError(f"the crop leaves nothing of {height}x{width}")
    return cut(g, x, [0, 0, top, left], [*shape(x)[:2], *ends])


RULES: dict[str, Versions] = {
    "Affine": affine,
    "Crop": crop,
    "ImageScaler": image_scaler,
    "ParametricSoftplus": parametric_softplus,
    "Scale": scale,
    "ScaledTanh": scaled_tanh,
}
