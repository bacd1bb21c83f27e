"""Rules of fused operators: a standard operator with its neighbours, and normalisation of sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import helper

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.activation import (
    ClipOp,
    EluOp,
    GeluOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    SigmoidOp,
    TanhOp,
)
from glow_dialects.ops.arithmetic import AddOp, MulOp, SubOp
from glow_dialects.ops.layer_norm import LayerNormOp, RmsNormOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_dialects.ops.unary_math import ReciprocalOp, SqrtOp
from glow_frontends.graph import BoundedValue, Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.movement import broadcast
from glow_frontends.onnx.node import Node, Result
from glow_frontends.onnx.rules import indexing, nn, sampling
from glow_frontends.onnx.rules import shape as shapes
from glow_frontends.onnx.rules.rule import Rule, Versions

INT32 = np.dtype(np.int32)
#: Names of attributes `activation_params` (or alpha, beta) stand for, by activation.
PARAMETERS: dict[str, tuple[type[GraphOp], tuple[str, ...]]] = {
    "Clip": (ClipOp, ("min", "max")),
    "Elu": (EluOp, ("alpha",)),
    "HardSigmoid": (HardSigmoidOp, ("alpha", "beta")),
    "HardSwish": (HardSwishOp, ()),
    "LeakyRelu": (LeakyReluOp, ("alpha",)),
    "Relu": (ReluOp, ()),
    "Sigmoid": (SigmoidOp, ()),
    "Tanh": (TanhOp, ()),
}


def standard(rule: Rule, version: int) -> Rule:
    """The rule of a standard operator at a version, for an operator of the same meaning."""
    return lambda g, n: rule(g, replace(n, opset=version))


def activate(g: Emitter, n: Node, x: Value) -> Value:
    """`x` after the activation that a fused node names."""
    name = n.text("activation", "")
    if not name:
        return x
    if name not in PARAMETERS:
        raise RuleError(f"activation '{name}' is unknown; known are {', '.join(PARAMETERS)}")
    kind, names = PARAMETERS[name]
    single = [n.number(f"activation_{p}") for p in ("alpha", "beta")]
    parameters = n.numbers("activation_params") or tuple(v for v in single if v is not None)
    if len(parameters) < len(names):
        raise RuleError(f"activation '{name}' needs {len(names)} parameters, got {len(parameters)}")
    return g(kind, x, **dict(zip(names, parameters, strict=False)))


def fused_conv(g: Emitter, n: Node) -> Value:
    """FusedConv: act(conv(X, W) + B + Z)."""
    y = nn.conv(g, n)
    if n.get(3) is not None:
        y = g(AddOp, y, n[3])
    return activate(g, n, y)


def fused_gemm(g: Emitter, n: Node) -> Value:
    """FusedGemm: act(alpha A B + beta C)."""
    return activate(g, n, nn.gemm(g, n))


def fused_matmul(g: Emitter, n: Node) -> Value:
    """FusedMatMul: alpha A' B', the last two axes exchanged, or the first moved behind the batch."""
    parts = [_turned(g, n, n[i], name) for i, name in enumerate("AB")]
    y = product(g, parts[0], parts[1])
    alpha = n.number("alpha", 1.0)
    return y if alpha == 1.0 else g(MulOp, y, g.like(alpha, y))


def _turned(g: Emitter, n: Node, x: Value, name: str) -> Value:
    axes = list(range(rank(x)))
    if n.flag(f"transBatch{name}") and len(axes) > 2:
        axes = [*axes[1:-1], 0, axes[-1]]
    if n.flag(f"trans{name}") and len(axes) > 1:
        axes[-1], axes[-2] = axes[-2], axes[-1]
    return g.transpose(x, axes)


def biased_gelu(approximate: str) -> Rule:
    """Gelu of the sum of the inputs; a bias may be absent."""

    def rule(g: Emitter, n: Node) -> Value:
        x = n[0] if n.get(1) is None else g(AddOp, n[0], n[1])
        return g(GeluOp, x, approximate=approximate)

    return rule


def quick_gelu(g: Emitter, n: Node) -> Value:
    """QuickGelu: x sigmoid(alpha x)."""
    x, alpha = n[0], n.number("alpha", 1.702)
    return g(MulOp, x, g(SigmoidOp, g(MulOp, x, g.like(alpha, x))))


def skip_layer_norm(g: Emitter, n: Node) -> list[Value | None]:
    """SkipLayerNormalization: the norm of input + skip + bias, and on request that sum."""
    total = _sum(g, n[0], n[1], n.get(4))
    return [*_norm(g, n, total, n[2], n.get(3)), total]


def skip_rms_norm(g: Emitter, n: Node) -> list[Value | None]:
    """SkipSimplifiedLayerNormalization: the same without mean and shift."""
    total = _sum(g, n[0], n[1], n.get(3))
    if n.wants(1) or n.wants(2):
        raise RuleError("statistics of a simplified norm")
    scale = cast_to(g, n[2], dtype_of_value(total))
    epsilon = n.number("epsilon", 1e-12)
    return [g(RmsNormOp, total, scale, axis=rank(total) - 1, epsilon=epsilon), None, None, total]


def _sum(g: Emitter, x: Value, skip: Value, bias: Value | None) -> Value:
    if rank(skip) < rank(x) or shape(skip) != shape(x):
        skip = broadcast(g, skip, shape(x))
    if bias is not None:
        x = g(AddOp, x, bias)
    return g(AddOp, x, skip)


def _norm(g: Emitter, n: Node, x: Value, scale: Value, shift: Value | None) -> list[Value | None]:
    """The norm over the last axis; mean and 1 / deviation where the node wants them."""
    epsilon, axis = n.number("epsilon", 1e-12), rank(x) - 1
    parts = [None if p is None else cast_to(g, p, dtype_of_value(x)) for p in (scale, shift)]
    y = g(LayerNormOp, x, *parts, axis=axis, epsilon=epsilon)
    if not (n.wants(1) or n.wants(2)):
        return [y, None, None]
    share = g.like(1.0 / shape(x)[-1], x)
    mean = g(MulOp, g(ReduceSumOp, x, axes=(axis,), keepdims=True), share)
    centred = g(SubOp, x, mean)
    square = g(ReduceSumOp, g(MulOp, centred, centred), axes=(axis,), keepdims=True)
    variance = g(MulOp, square, share)
    return [y, mean, g(ReciprocalOp, g(SqrtOp, g(AddOp, variance, g.like(epsilon, x))))]


def embed_layer_norm(g: Emitter, n: Node) -> list[Value | None]:
    """EmbedLayerNormalization: the norm of word + position + segment embeddings; lengths of the mask."""
    ids = n[0]
    positions = n.get(8)
    if positions is None:
        positions = g.reshape(g.numbers(shape(ids)[1]), (1, shape(ids)[1]))
    total = g(AddOp, indexing.gathered(g, n, n[2], ids, 0), indexing.gathered(g, n, n[3], positions, 0))
    if n.get(1) is not None and n.get(4) is not None:
        total = g(AddOp, total, indexing.gathered(g, n, n[4], n[1], 0))
    y = g(LayerNormOp, total, n[5], n[6], axis=2, epsilon=n.number("epsilon", 1e-12))
    mask = n.get(7)
    if mask is None:
        lengths = broadcast(g, np.zeros((), np.int32), (shape(ids)[0],))
    else:
        lengths = g(ReduceSumOp, cast_to(g, mask, INT32), axes=(1,), keepdims=False)
    return [y, lengths, total]


def expand_dims(g: Emitter, n: Node) -> Value:
    """ExpandDims: one axis of size 1 more."""
    axis = g.integer(n[1], "the axis of ExpandDims")
    dims = list(shape(n[0]))
    dims.insert(axis if axis >= 0 else axis + len(dims) + 1, 1)
    return g.reshape(n[0], dims)


def inner_range(g: Emitter, n: Node) -> Value | BoundedValue:
    """Range whose step may be absent."""
    if n.get(2) is not None:
        return shapes.range_(g, n)
    return shapes.range_(g, replace(n, inputs=[n[0], n[1], g.like(1, n[0])]))


def biased_softmax(g: Emitter, n: Node) -> Result:
    """BiasSoftmax: softmax(data + bias) over the axes from `axis` on, the bias broadcast on either side."""
    x, bias = n[0], n[1]
    axis = n.integer("axis", 1) % rank(x)
    if not n.flag("is_inner_broadcast", True) and rank(bias) == rank(x) - axis:
        bias = g.reshape(bias, (*(1,) * axis, *shape(bias)))
    attribute = helper.make_attribute("axis", axis)
    inner = replace(n, opset=1, inputs=[g(AddOp, x, bias)], attributes={"axis": attribute})
    return nn.flat_softmax(SoftmaxOp)(g, inner)


RULES: dict[str, Versions] = {
    "BiasAdd": lambda g, n: g(AddOp, g(AddOp, n[0], n[1]), n[2]),
    "BiasGelu": biased_gelu("none"),
    "BiasSoftmax": biased_softmax,
    "EmbedLayerNormalization": embed_layer_norm,
    "ExpandDims": expand_dims,
    "FastGelu": biased_gelu("tanh"),
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "GatherND": standard(indexing.gather_nd, 13),
    "Gelu": biased_gelu("none"),
    "GemmFastGelu": lambda g, n: g(
        GeluOp,
        product(g, n[0], n[1]) if n.get(2) is None else g(AddOp, product(g, n[0], n[1]), n[2]),
        approximate="tanh",
    ),
    "GridSample": standard(sampling.grid_sample, 16),
    "Pad": standard(shapes.pad, 18),
    "QuickGelu": quick_gelu,
    "Range": inner_range,
    "SkipLayerNormalization": skip_layer_norm,
    "SkipSimplifiedLayerNormalization": skip_rms_norm,
    "TransposeMatMul": fused_matmul,
    "Trilu": standard(indexing.trilu, 14),
}
