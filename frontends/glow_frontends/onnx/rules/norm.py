"""Rules of normalisation over trailing axes, groups and whole samples."""

from __future__ import annotations

from glow_dialects.ops.group_norm import GroupNormOp
from glow_dialects.ops.layer_norm import LayerNormOp, RmsNormOp
from glow_dialects.ops.lp_normalize import LpNormalizeOp
from glow_dialects.ops.mean_var_normalize import MeanVarNormalizeOp
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.node import Node, Result
from glow_frontends.onnx.rules.cast import cast_to
from glow_frontends.onnx.rules.rule import Versions, axes_of, axis_of
from glow_frontends.onnx.values import Value, dtype_of_value, rank, shape


def layer_norm(g: Emitter, n: Node) -> Result:
    """LayerNormalization; with its statistics by the standard's own body."""
    if n.wants(1) or n.wants(2):
        return n.scope.expand(n)
    x, scale, bias = n[0], n[1], n.get(2)
    axis = axis_of(n.integer("axis", -1), rank(x))
    dtype = dtype_of_value(x)
    parts = [None if p is None else cast_to(g, p, dtype) for p in (scale, bias)]
    return g(LayerNormOp, x, *parts, axis=axis, epsilon=n.number("epsilon", 1e-5))


def rms_norm(g: Emitter, n: Node) -> Value:
    """RMSNormalization."""
    x = n[0]
    axis = axis_of(n.integer("axis", -1), rank(x))
    scale = cast_to(g, n[1], dtype_of_value(x))
    return g(RmsNormOp, x, scale, axis=axis, epsilon=n.number("epsilon", 1e-5))


def group_norm(g: Emitter, n: Node) -> Value:
    """GroupNormalization; before opset 21 scale and bias belong to groups."""
    x, scale, bias = n[0], n[1], n[2]
    groups = n.integer("num_groups")
    if n.opset < 21:
        scale, bias = (_by_channel(g, p, shape(x)[1] // groups) for p in (scale, bias))
    return g(GroupNormOp, x, scale, bias, groups=groups, epsilon=n.number("epsilon", 1e-5))


def _by_channel(g: Emitter, parameter: Value, each: int) -> Value:
    """A parameter of groups, repeated for the channels of each group."""
    from glow_frontends.onnx.rules.shape import broadcast

    count = shape(parameter)[0]
    return g.reshape(broadcast(g, g.reshape(parameter, (count, 1)), (count, each)), (count * each,))


def mean_variance_norm(g: Emitter, n: Node) -> Value:
    """MeanVarianceNormalization."""
    axes = n.integers("axes", (0, 2, 3))
    return g(MeanVarNormalizeOp, n[0], axes=axes_of(axes, rank(n[0])), epsilon=1e-9)


def lp_norm(g: Emitter, n: Node) -> Value:
    """LpNormalization."""
    axis = axis_of(n.integer("axis", -1), rank(n[0]))
    return g(LpNormalizeOp, n[0], axis=axis, p=n.integer("p", 2))


RULES: dict[str, Versions] = {
    "GroupNormalization": group_norm,
    "LayerNormalization": layer_norm,
    "LpNormalization": lp_norm,
    "MeanVarianceNormalization": mean_variance_norm,
    "RMSNormalization": rms_norm,
    "SimplifiedLayerNormalization": rms_norm,  # as onnxruntime writes it into the standard domain
}
