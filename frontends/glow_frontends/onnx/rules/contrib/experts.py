"""Rules of mixtures of experts: each token passes through the few experts that its router prefers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.activation import ClipOp, GeluOp, SigmoidOp, SwishOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, FloorDivOp, MulOp
from glow_dialects.ops.dequantize_blocks import WIDTHS, DequantizeBlocksOp, unpack
from glow_dialects.ops.expert_matmul import ExpertMatmulOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.identity import IdentityOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_dialects.ops.top_k import TopKOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, shape
from glow_frontends.graph.movement import broadcast, pieces
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions

ACTIVATIONS: dict[str, type[GraphOp]] = {
    "gelu": GeluOp,
    "identity": IdentityOp,
    "relu": ReluOp,
    "silu": SwishOp,
}
FLOAT = np.dtype(np.float32)
Product = Callable[[Value, Value], Value]
"""(x [rows, K], the expert of each row): each row times the weights of its expert, [rows, N]."""


def experts(g: Emitter, n: Node) -> Value:
    """MoE: weights [experts, N, K] and biases [experts, N]."""
    layers = [_layer(g, n[i], n.get(i + 1)) for i in (2, 4)]
    gate = None if n.get(6) is None else _layer(g, n[6], n.get(7))
    return _mixture(g, n, layers, gate, None)


def quantized_experts(g: Emitter, n: Node) -> Value:
    """QMoE: the same with weights of 2, 4 or 8 bits, a scale for each row or block of it."""
    if n.text("quant_type", "int") != "int" or n.integer("weights_prepacked", 0) > 0:
        raise RuleError("weights that are no integers, or in an order of their own")
    places = {2: (3, 4, 11), 5: (6, 7, 12), 8: (9, 10, 13)}
    layers: list[Product] = []
    for number, (codes, (scales, bias, points)) in enumerate(places.items(), 1):
        if n.get(codes) is None:
            continue
        bits = n.integer(f"fc{number}_expert_weight_bits", n.integer("expert_weight_bits", 4))
        layers.append(_layer(g, _packed(g, n, (codes, scales, points), bits), n.get(bias)))
    return _mixture(g, n, layers[:2], (*layers, None)[2], n.get(14))


def _packed(g: Emitter, n: Node, places: tuple[int, int, int], bits: int) -> Value:
    """Weights of few bits: codes, scales and zero points at some inputs."""
    what = "the weights of QMoE"
    codes, scales = (g.known(n[i], what) for i in places[:2])
    zeros = None if n.get(places[2]) is None else g.known(n[places[2]], what)
    if bits not in WIDTHS:
        raise RuleError(f"weights of {bits} bits")
    count, rows, stored = codes.shape
    depth = stored * 8 // bits
    scales = scales.astype(np.float32).reshape(count, rows, -1)
    blocks = scales.shape[-1]
    if zeros is not None and blocks > 1:
        zeros = unpack(zeros.reshape(count, rows, -1), bits, blocks)
    elif zeros is not None:
        zeros = unpack(zeros.reshape(count, -1), bits, rows).reshape(count, rows, 1)
    block = n.integer("block_size", 0) or depth
    point = 0.0 if zeros is not None else float(1 << (bits - 1))
    shift = None if zeros is None else g.value(zeros.astype(np.float32))
    parts = [g.value(codes), g.value(scales), shift]
    return g(DequantizeBlocksOp, *parts, bits=bits, block=block, depth=depth, point=point)


def _layer(g: Emitter, weights: Value, bias: Value | None) -> Product:
    """A product and a bias [experts, N]."""

    def apply(x: Value, experts: Value) -> Value:
        y = g(ExpertMatmulOp, x, weights, experts)
        return y if bias is None else g(AddOp, y, cast_to(g, g(GatherOp, bias, experts), FLOAT))

    return apply


def _mixture(
    g: Emitter, n: Node, layers: Sequence[Product], gate: Product | None, scores: Value | None
) -> Value:
    """The sum of the preferred experts' results for each token, by their shares.

    There is a row for each token and expert, in the order of the experts: rows of one lie together.
    """
    x = n[0]
    flat = cast_to(g, g.reshape(x, (prod(shape(x)[:-1]), shape(x)[-1])), FLOAT)
    chosen, shares = _routes(g, n, scores)
    tokens, each = shape(chosen)
    count = tokens * each
    experts, places = g.reshape(chosen, (count,)), None
    if is_open((count,)) or tokens > 1:
        how: dict[str, Any] = {"k": count, "axis": 0, "largest": False, "sorted": True}
        experts, order = g.many(TopKOp, experts, **how)
        _, places = g.many(TopKOp, order, **how)
        rows = g(GatherOp, flat, g(FloorDivOp, order, np.array(each, np.int64)))
    else:
        rows = broadcast(g, flat, (count, shape(flat)[1]))
    y = layers[1](_activated(g, n, rows, experts, layers[0], gate), experts)
    y = y if places is None else g(GatherOp, y, places)
    y = g(MulOp, g.reshape(y, (tokens, each, shape(y)[1])), g.reshape(shares, (tokens, each, 1)))
    total = g(ReduceSumOp, y, axes=(1,), keepdims=False)
    return cast_to(g, g.reshape(total, shape(x)), dtype_of_value(x))


def _routes(g: Emitter, n: Node, scores: Value | None) -> tuple[Value, Value]:
    """The numbers of each token's experts [T, k], and their shares."""
    logits, count = cast_to(g, n[1], FLOAT), n.integer("k", 1)
    if n.flag("use_sparse_mixer"):
        raise RuleError("the sparse mixer")
    if shape(logits)[-1] != shape(n[2])[0]:
        raise RuleError(f"{shape(logits)[-1]} scores per token for {shape(n[2])[0]} experts")
    best, chosen = g.many(TopKOp, logits, k=count, axis=1, largest=True, sorted=True)
    relative = n.flag("normalize_routing_weights")
    if scores is not None:
        shares = g(GatherElementsOp, cast_to(g, scores, FLOAT), chosen, axis=1)
        if relative:
            shares = g(DivOp, shares, g(ReduceSumOp, shares, axes=(1,), keepdims=True))
    elif relative or n.op == "QMoE":
        shares = g(SoftmaxOp, best, axis=1)
    else:
        shares = g(GatherElementsOp, g(SoftmaxOp, logits, axis=1), chosen, axis=1)
    return chosen, shares


def _activated(g: Emitter, n: Node, x: Value, experts: Value, layer: Product, gate: Product | None) -> Value:
    """The results of experts' first layers."""
    name, y = n.text("activation_type", "relu").lower(), layer(x, experts)
    if name != "swiglu":
        if name not in ACTIVATIONS:
            raise RuleError(f"activation '{name}' is unknown; known are swiglu, {', '.join(ACTIVATIONS)}")
        y = g(GeluOp, y, approximate="tanh") if name == "gelu" else g(ACTIVATIONS[name], y)
        return y if gate is None else g(MulOp, y, gate(x, experts))
    fusion, half = n.integer("swiglu_fusion", 0), shape(y)[1] // 2
    if fusion == 1:
        pairs = g.reshape(y, (shape(y)[0], half, 2))
        gated, linear = (g.reshape(p, (shape(y)[0], half)) for p in pieces(g, pairs, 2, (1, 1)))
    elif fusion == 2:
        gated, linear = pieces(g, y, 1, (half, half))
    elif gate is not None:
        gated, linear = y, gate(x, experts)
    else:
        raise RuleError("swiglu of one layer that is not fused")
    limit = n.number("swiglu_limit", float("inf"))
    if limit != float("inf"):
        gated = g(ClipOp, gated, min=float(np.finfo(np.float32).min), max=limit)
        linear = g(ClipOp, linear, min=-limit, max=limit)
    alpha, beta = n.number("activation_alpha", 1.0), n.number("activation_beta", 0.0)
    turned = g(MulOp, gated, g(SigmoidOp, g(MulOp, gated, g.like(alpha, gated))))
    return g(MulOp, turned, g(AddOp, linear, g.like(beta, linear)))


RULES: dict[str, Versions] = {"MoE": experts, "QMoE": quantized_experts}
