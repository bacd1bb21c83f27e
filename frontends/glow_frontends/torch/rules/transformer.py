"""Rules of the layers of transformers that PyTorch has as one operator, which it chooses in inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glow_dialects.ops.activation import GeluOp
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.layer_norm import LayerNormOp
from glow_dialects.ops.logic import NotOp
from glow_dialects.ops.relu import ReluOp
from glow_frontends.graph import Emitter, RuleError, Value, dtype_of_value, rank, shape
from glow_frontends.graph.movement import pieces
from glow_frontends.torch.node import Node
from glow_frontends.torch.rules.nn import attended, linear

Rule = Callable[..., Any]
#: What a mask is of: pairs of positions, keys of each sample, or both.
PAIRS, KEYS = 0, 1


def _allowed(g: Emitter, mask: Value | None, kind: int | None) -> Value | None:
    """A mask as attention takes it: where a boolean one holds nothing is seen."""
    if mask is None:
        return None
    if dtype_of_value(mask) == np.dtype(bool):
        mask = g(NotOp, mask)
    batch, *rest = shape(mask)
    return g.reshape(mask, (batch, 1, 1, *rest)) if kind == KEYS else mask


def _self_attention(
    g: Emitter, n: Node, x: Value, heads: int, weights: tuple[Value, Value, Value, Value], mask: Value | None
) -> Value:
    """Queries, keys and values of one product, attention in heads, and a product of the result.

    A query without keys gives NaN: these operators have a plain softmax.
    """
    batch, length, width = shape(x)
    parts = pieces(g, linear(g, n, x, weights[0], weights[1]), 2, (width,) * 3)
    split = [g.transpose(g.reshape(p, (batch, length, heads, width // heads)), (0, 2, 1, 3)) for p in parts]
    y, *_ = attended(g, split[0], split[1], split[2], mask, 0.0, False, None, masked=False)
    return linear(
        g, n, g.reshape(g.transpose(y, (0, 2, 1, 3)), (batch, length, width)), weights[2], weights[3]
    )


def encoder_layer(
    g: Emitter,
    n: Node,
    x: Value,
    width: int,
    heads: int,
    qkv_weight: Value,
    qkv_bias: Value,
    out_weight: Value,
    out_bias: Value,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *more: Any,
) -> Value:
    """nn.TransformerEncoderLayer."""
    scale1, shift1, scale2, shift2, up, up_bias, down, down_bias, mask, kind = more
    if rank(x) != 3:
        raise RuleError("one sequence without a batch")
    allowed = _allowed(g, mask, kind)
    weights = (qkv_weight, qkv_bias, out_weight, out_bias)

    def normal(v: Value, scale: Value, shift: Value) -> Value:
        return g(LayerNormOp, v, scale, shift, axis=2, epsilon=eps)

    def attention(v: Value) -> Value:
        return _self_attention(g, n, v, heads, weights, allowed)

    def feed_forward(v: Value) -> Value:
        inner = linear(g, n, v, up, up_bias)
        inner = g(GeluOp, inner, approximate="none") if use_gelu else g(ReluOp, inner)
        return linear(g, n, inner, down, down_bias)

    if norm_first:
        x = g(AddOp, x, attention(normal(x, scale1, shift1)))
        return g(AddOp, x, feed_forward(normal(x, scale2, shift2)))
    x = normal(g(AddOp, x, attention(x)), scale1, shift1)
    return normal(g(AddOp, x, feed_forward(x)), scale2, shift2)


def multi_head_attention(
    g: Emitter,
    n: Node,
    query: Value,
    key: Value,
    value: Value,
    width: int,
    heads: int,
    qkv_weight: Value,
    qkv_bias: Value,
    out_weight: Value,
    out_bias: Value,
    mask: Value | None = None,
    need_weights: bool = True,
    average: bool = True,
    kind: int | None = None,
) -> list[Value | None]:
    """nn.MultiheadAttention of a sequence over itself, without its weights."""
    if query is not key or key is not value or (need_weights and n.wants(1)):
        raise RuleError("attention of one sequence over another, or its weights, as one operator")
    weights = (qkv_weight, qkv_bias, out_weight, out_bias)
    return [_self_attention(g, n, query, heads, weights, _allowed(g, mask, kind)), None]


RULES: dict[str, Rule] = {
    "_native_multi_head_attention": multi_head_attention,
    "_transformer_encoder_layer_fwd": encoder_layer,
}
