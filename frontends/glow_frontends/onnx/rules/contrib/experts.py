"""Rules of mixtures of experts: each token passes through the few experts that its router prefers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.activation import ClipOp, GeluOp, SigmoidOp, SwishOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.control import IfOp
from glow_dialects.ops.dequantize_blocks import WIDTHS, DequantizeBlocksOp, unpack
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.identity import IdentityOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceSumOp
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_dialects.ops.top_k import TopKOp
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import NeedsValue, RuleError
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.cast import cast_to
from glow_frontends.onnx.rules.nn import product
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.rules.shape import broadcast, cut, pieces
from glow_frontends.onnx.values import Value, dtype_of_value, shape

ACTIVATIONS: dict[str, type[GraphOp]] = {
    "gelu": GeluOp,
    "identity": IdentityOp,
    "relu": ReluOp,
    "silu": SwishOp,
}
FLOAT = np.dtype(np.float32)
LARGE = 1 << 14
"""Weights of an expert that are worth a branch."""
Product = Callable[[Value, int], Value]
"""(x [T, K], number of the expert): x times that expert's weights, [T, N]."""


def experts(g: Emitter, n: Node) -> Value:
    """MoE: weights [experts, N, K] and biases [experts, N]."""
    layers = [_layer(g, _plain(g, n[i]), n.get(i + 1)) for i in (2, 4)]
    gate = None if n.get(6) is None else _layer(g, _plain(g, n[6]), n.get(7))
    return _mixture(g, n, shape(n[2])[0], layers, gate, None)


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
        packed = _packed(g, n, (codes, scales, points), bits)
        layers.append(_layer(g, packed, n.get(bias)))
    return _mixture(g, n, shape(n[2])[0], layers[:2], (*layers, None)[2], n.get(14))


def _plain(g: Emitter, weights: Value) -> Product:
    count, rows, depth = shape(weights)

    def times(x: Value, expert: int) -> Value:
        one = cut(g, weights, [expert, 0, 0], [expert + 1, rows, depth]) if count > 1 else weights
        return product(g, x, g.transpose(g.reshape(one, (rows, depth)), (1, 0)))

    return times


def _packed(g: Emitter, n: Node, places: tuple[int, int, int], bits: int) -> Product:
    """Products with weights of few bits: codes, scales and zero points at some inputs."""
    what = "the weights of QMoE"
    codes, scales = (g.known(n[i], what) for i in places[:2])
    zeros = None if n.get(places[2]) is None else g.known(n[places[2]], what)
    if bits not in WIDTHS:
        raise RuleError(f"weights of {bits} bits")
    count, rows, stored = codes.shape
    depth = stored * 8 // bits
    scales = scales.astype(np.float32).reshape(count, rows, -1)
    blocks = scales.shape[-1]
    if zeros is not None and scales.ndim == 3 and blocks > 1:
        zeros = unpack(zeros.reshape(count, rows, -1), bits, blocks)
    elif zeros is not None:
        zeros = unpack(zeros.reshape(count, -1), bits, rows).reshape(count, rows, 1)
    block = n.integer("block_size", 0) or depth
    point = 0.0 if zeros is not None else float(1 << (bits - 1))

    def times(x: Value, expert: int) -> Value:
        shift = None if zeros is None else g.value(zeros[expert].astype(np.float32))
        parts = [g.value(codes[expert]), g.value(scales[expert]), shift]
        w = g(DequantizeBlocksOp, *parts, bits=bits, block=block, depth=depth, point=point)
        return product(g, x, g.transpose(w, (1, 0)))

    return times


def _layer(g: Emitter, times: Product, bias: Value | None) -> Product:
    """A product and a bias [experts, N]."""

    def apply(x: Value, expert: int) -> Value:
        y = times(x, expert)
        if bias is None:
            return y
        row = cut(g, bias, [expert, 0], [expert + 1, shape(bias)[1]])
        return g(AddOp, y, cast_to(g, row, dtype_of_value(y)))

    return apply


def _mixture(
    g: Emitter, n: Node, count: int, layers: Sequence[Product], gate: Product | None, scores: Value | None
) -> Value:
    """The sum of the preferred experts' results for each token, by their shares.

    Where tokens are few, most experts have none: whether one is asked is a branch at run time.
    """
    x = n[0]
    flat = cast_to(g, g.reshape(x, (prod(shape(x)[:-1]), shape(x)[-1])), FLOAT)
    tokens = shape(flat)[0]
    chosen, shares = _routes(g, n, scores)
    few = tokens < count and prod(shape(n[2])[1:]) >= LARGE and n.scope.control
    if few and g.guessing and isinstance(chosen, SSAValue):
        raise NeedsValue(chosen, "which experts run")
    total = broadcast(g, np.zeros((), np.float32), shape(flat))
    for expert in range(count):
        mine = g(CmpEqOp, chosen, np.array(expert, np.int64))
        share = g(SelectOp, mine, shares, np.zeros((), np.float32))
        share = g(ReduceSumOp, share, axes=(1,), keepdims=True)

        def added(_: Sequence[SSAValue], expert: int = expert, share: Value = share) -> list[Value]:
            inner = _activated(g, n, flat, expert, layers[0], gate)
            return [g(AddOp, total, g(MulOp, layers[1](inner, expert), share))]  # noqa: B023 - called at once

        used = g(ReduceMaxOp, cast_to(g, mine, np.dtype(np.int32)), axes=(0, 1), keepdims=False)
        if isinstance(used, SSAValue) and few:
            blocks = g.body((), added), g.body((), lambda _, kept=total: [kept])
            (total,) = g.builder.insert(IfOp.of(g.value(cast_to(g, used, np.dtype(bool))), *blocks)).outputs
        else:
            (total,) = added(())
    return cast_to(g, g.reshape(total, shape(x)), dtype_of_value(x))


def _routes(g: Emitter, n: Node, scores: Value | None) -> tuple[Value, Value]:
    """The numbers of each token's experts [T, k], and their shares."""
    logits, count = cast_to(g, n[1], FLOAT), n.integer("k", 1)
    if n.flag("use_sparse_mixer"):
        raise RuleError("the sparse mixer")
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


def _activated(g: Emitter, n: Node, x: Value, expert: int, layer: Product, gate: Product | None) -> Value:
    """The result of an expert's first layers."""
    name, y = n.text("activation_type", "relu").lower(), layer(x, expert)
    if name != "swiglu":
        if name not in ACTIVATIONS:
            raise RuleError(f"activation '{name}' is unknown; known are swiglu, {', '.join(ACTIVATIONS)}")
        y = g(GeluOp, y, approximate="tanh") if name == "gelu" else g(ACTIVATIONS[name], y)
        return y if gate is None else g(MulOp, y, gate(x, expert))
    fusion, half = n.integer("swiglu_fusion", 0), shape(y)[1] // 2
    if fusion == 1:
        pairs = g.reshape(y, (shape(y)[0], half, 2))
        gated, linear = (g.reshape(p, (shape(y)[0], half)) for p in pieces(g, pairs, 2, (1, 1)))
    elif fusion == 2:
        gated, linear = pieces(g, y, 1, (half, half))
    elif gate is not None:
        gated, linear = y, gate(x, expert)
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
