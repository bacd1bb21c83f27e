"""Rules of normalisation over trailing axes, groups and whole samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.arithmetic import AddOp, MulOp, SubOp
from glow_dialects.ops.group_norm import GroupNormOp
from glow_dialects.ops.layer_norm import LayerNormOp, RmsNormOp
from glow_dialects.ops.lp_normalize import LpNormalizeOp
from glow_dialects.ops.mean_var_normalize import MeanVarNormalizeOp
from glow_dialects.ops.reduce import ReduceMeanOp
from glow_dialects.ops.unary_math import RsqrtOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.axes import axes_of, axis_of
from glow_frontends.graph.movement import broadcast
from glow_frontends.onnx.node import REQUIRED, Node, Result
from glow_frontends.onnx.rules.rule import Versions


def layer_norm(g: Emitter, n: Node) -> Result:
    """LayerNormalization, and the mean and the inverse deviation, f32, where they are asked for."""
    y = _trailing(g, n, LayerNormOp, n[1], n.get(2))
    if not (n.wants(1) or n.wants(2)):
        return y
    x = cast_to(g, n[0], np.dtype(np.float32))
    axes = tuple(range(axis_of(n.integer("axis", -1), rank(x)), rank(x)))
    mean = g(ReduceMeanOp, x, axes=axes, keepdims=True)
    centred = g(SubOp, x, mean)
    variance = g(ReduceMeanOp, g(MulOp, centred, centred), axes=axes, keepdims=True)
    return [y, mean, g(RsqrtOp, g(AddOp, variance, g.like(n.number("epsilon", 1e-5), x)))]


def rms_norm(g: Emitter, n: Node) -> Value:
    """RMSNormalization."""
    return _trailing(g, n, RmsNormOp, n[1], None)


def _trailing(g: Emitter, n: Node, kind: type[GraphOp], scale: Value, bias: Value | None) -> Value:
    """A normalisation of trailing axes; parameters that span other axes are applied behind it."""
    x = n[0]
    axis = axis_of(n.integer("axis", -1), rank(x))
    inner = shape(x)[axis:]
    parameters = [None if p is None else cast_to(g, p, dtype_of_value(x)) for p in (scale, bias)]
    fitted = [None if p is None else _fitted(g, p, inner) for p in parameters]
    options: dict[str, Any] = {"axis": axis, "epsilon": n.number("epsilon", 1e-5)}
    if all(f is not None for p, f in zip(parameters, fitted, strict=True) if p is not None):
        return g(kind, x, *fitted[: 1 if kind is RmsNormOp else 2], **options)
    y = g(kind, x, *[None] * (1 if kind is RmsNormOp else 2), **options)
    for operation, parameter in zip((MulOp, AddOp), parameters, strict=True):
        y = y if parameter is None else g(operation, y, parameter)
    return y


def _fitted(g: Emitter, parameter: Value, inner: Sequence[int]) -> Value | None:
    """A parameter in the normalised shape; None where it does not broadcast to that."""
    dims = shape(parameter)
    while len(dims) > len(inner) and dims[0] == 1:
        dims = dims[1:]
    if len(dims) > len(inner):
        return None
    return broadcast(g, g.reshape(parameter, dims), tuple(inner))


def group_norm(g: Emitter, n: Node) -> Value:
    """GroupNormalization; before opset 21 scale and bias belong to groups."""
    x, scale, bias = n[0], n[1], n[2]
    groups = n.integer("num_groups", REQUIRED)
    if groups < 1:
        raise RuleError(f"{groups} groups")
    if n.opset < 21:
        scale, bias = (_by_channel(g, p, shape(x)[1] // groups) for p in (scale, bias))
    return g(GroupNormOp, x, scale, bias, groups=groups, epsilon=n.number("epsilon", 1e-5))


def _by_channel(g: Emitter, parameter: Value, each: int) -> Value:
    """A parameter of groups, repeated for the channels of each group."""
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
