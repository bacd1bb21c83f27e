"""Rules of small operators of com.microsoft that decoders, state-space models and trainers use."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from glow_dialects.ops.activation import SigmoidOp, SwishOp
from glow_dialects.ops.arithmetic import AddOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpEqOp, CmpGtOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.layer_norm import RmsNormOp
from glow_dialects.ops.logic import AndOp, IsInfOp, IsNanOp, NotOp, OrOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceSumOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import CosOp, SinOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import product, reduce
from glow_frontends.graph.axes import axis_of
from glow_frontends.graph.movement import broadcast, cut, join, pieces, take
from glow_frontends.onnx.node import REQUIRED, Node
from glow_frontends.onnx.rules import nn
from glow_frontends.onnx.rules.contrib.attention import join_heads, split_heads, table_rows, turned
from glow_frontends.onnx.rules.indexing import non_negative
from glow_frontends.onnx.rules.rule import Rule, Versions, only, option

FLOAT, INT32, INT64, BOOL = (np.dtype(t) for t in (np.float32, np.int32, np.int64, np.bool_))


def ban_repeats(g: Emitter, n: Node) -> Value:
    """NGramRepeatBlock: -inf for tokens that would repeat a run of `ngram_size` of the ids."""
    ids, scores, size = n[0], n[1], n.integer("ngram_size", REQUIRED)
    batch, length = shape(ids)
    if size < 1:
        raise RuleError(f"runs of {size} tokens")
    places = length - size + 1
    if places < 1:
        return scores
    same: Value = np.ones((batch, places), np.bool_)
    for step in range(size - 1):
        here = cut(g, ids, [0, step], [batch, step + places])
        ending = cut(g, ids, [0, length - size + 1 + step], [batch, length - size + 2 + step])
        same = g(AndOp, same, g(CmpEqOp, here, ending))
    follow = cut(g, ids, [0, size - 1], [batch, length])
    follow = non_negative(g, cast_to(g, follow, INT64), shape(scores)[1])
    blank = np.zeros(shape(scores), np.float32)
    banned = g(ScatterElementsOp, blank, follow, cast_to(g, same, FLOAT), axis=1, reduction="max")
    never = np.array(-np.inf, dtype_of_value(scores))
    return g(SelectOp, g(CmpGtOp, banned, np.zeros((), np.float32)), never, scores)


def unfold(g: Emitter, n: Node) -> Value:
    """UnfoldTensor: windows of `size` along an axis, each place of a window in a new last axis."""
    x = n[0]
    axis, size, step = (
        axis_of(n.integer("dim", -1), rank(x)),
        n.integer("size", REQUIRED),
        n.integer("step", 1),
    )
    extent = shape(x)[axis]
    if not 0 < size <= extent or step < 1:
        raise RuleError(f"windows of {size}, {step} apart, along {extent} elements")
    places = np.arange(0, extent - size + 1, step)[:, None] + np.arange(size)
    y = take(g, x, places.astype(np.int64), axis)
    order = [i for i in range(rank(y)) if i != axis + 1]
    return g.transpose(y, (*order, axis + 1))


def multimodal_rotary(g: Emitter, n: Node) -> Value:
    """MRotaryEmbedding: angles at the positions [3, B, S] of time, rows and columns, by sections."""
    x, positions, tables = n[0], n[1], (n[2], n[3])
    sections = n.integers("mrope_section") or ()
    half = sum(sections)
    if len(sections) != 3 or n.flag("is_packed_batching") or n.number("scale", 1.0) != 1.0:
        raise RuleError("sections that are not three, packed batches, or a scale of rotary positions")
    count, batch, length = shape(positions)
    if count != 3:
        raise RuleError(f"{count} streams of positions, 3 expected")
    stream = np.repeat(np.arange(3), sections)
    if n.integer("mrope_layout", 0) == 1:
        stream = np.zeros(half, np.int64)
        for which in (1, 2):
            stream[which : 3 * sections[which] : 3] = which
    flat = rank(x) == 3
    heads = n.integer("num_heads", 0) or (shape(x)[2] // (2 * half) if flat else shape(x)[1])
    split = split_heads(g, x, heads)
    angles: list[Value] = []
    for table in tables:
        rows = table_rows(g, table, g.reshape(positions, (3, batch * length)), half)
        chosen: Value = cut(g, rows, [0, 0, 0], [1, batch * length, half])
        for which in (1, 2):
            other = cut(g, rows, [which, 0, 0], [which + 1, batch * length, half])
            chosen = g(SelectOp, stream == which, other, chosen)
        angles.append(g.reshape(chosen, (batch, 1, length, half)))
    y = turned(g, split, angles, n.flag("interleaved"))
    return join_heads(g, y) if flat else y


def gemma_rotary(g: Emitter, n: Node) -> list[Value]:
    """GemmaRotaryEmbedding: queries and keys rotated by cos and sin of `emb`."""
    batch, length, depth = shape(n[0])
    kind = dtype_of_value(n[1])
    cos, sin = (cast_to(g, g.reshape(g(op, n[0]), (batch, 1, length, depth)), kind) for op in (CosOp, SinOp))
    return [g(AddOp, g(MulOp, n[i], cos), g(MulOp, n[i + 1], sin)) for i in (1, 3)]


def gated_position_bias(g: Emitter, n: Node) -> Value:
    """GatedRelativePositionBias: positions' bias times a gate that each query computes."""
    if n.get(6) is not None:
        raise RuleError("packed tokens")
    query = split_heads(g, g(AddOp, n[0], n[1]), n.integer("num_heads", REQUIRED))
    batch, heads, length, _ = shape(query)
    inner = g(AddOp, product(g, query, n[3]), n[4])
    pairs = g.reshape(inner, (batch, heads, length, 2, shape(inner)[3] // 2))
    gates = g(SigmoidOp, g(ReduceSumOp, pairs, axes=(4,), keepdims=False))
    u, r = pieces(g, gates, 3, (1, 1))
    scale = g(SubOp, g(MulOp, r, n[5]), g.like(1, r))
    return g(MulOp, g(AddOp, g(MulOp, u, scale), g.like(2, u)), n[2])


def causal_conv(g: Emitter, n: Node) -> list[Value]:
    """CausalConvWithState: each channel by itself along the last axis, over what came before, and that."""
    only(n, ndim=1, state_window=0, state_update_capacity=0, state_channels_last=-1, state_length=0)
    only(n, input_channel_offset=0, input_channels=0)
    active = option(n, "activation", {"none": False, "silu": True, "swish": True}, "none")
    turn, x, past = n.flag("channels_last"), n[0], n.get(3)
    dims = shape(x)
    if turn:
        x = g.transpose(g.reshape(x, (*dims[:2], prod(dims[2:]))), (0, 2, 1))
    batch, channels, length = shape(x)
    dilation = n.integer("dilation", 1)
    kept = (shape(n[1])[2] - 1) * dilation
    if past is None:
        past = broadcast(g, np.zeros((), dtype_of_value(x)), (batch, channels, kept))
    elif turn:
        past = g.transpose(g.reshape(past, (batch, kept, channels)), (0, 2, 1))
    whole = join(g, [past, x], 2)
    y = g(ConvOp, whole, n[1], n.get(2), pads=(0, 0), strides=(1,), dilations=(dilation,), group=channels)
    if active:
        y = g(SwishOp, y)
    state = cut(g, whole, [0, 0, length], [batch, channels, length + kept])
    if not turn:
        return [y, state]
    y, state = (g.transpose(v, (0, 2, 1)) for v in (y, state))
    return [g.reshape(y, dims), g.reshape(state, (batch, kept, *dims[2:]))]


def gated_rms_norm(g: Emitter, n: Node) -> Value:
    """GatedRMSNorm: norms of runs as long as the scale, times the activated gate; in f32."""
    kind, dims = dtype_of_value(n[0]), shape(n[0])
    x, scale, gate = (cast_to(g, n[i], FLOAT) for i in range(3))
    width = shape(scale)[0]
    runs = g.reshape(x, (prod(dims) // width, width))
    y = g.reshape(g(RmsNormOp, runs, scale, axis=1, epsilon=n.number("epsilon", 1e-5)), dims)
    gate = g(SigmoidOp if n.text("activation", "silu") == "sigmoid" else SwishOp, gate)
    return cast_to(g, g(MulOp, y, gate), kind)


def scaled_silu(g: Emitter, n: Node) -> Value:
    """ScaledSiLU: z sigmoid(z) of z = scale x."""
    x = n[0]
    scale = g.like(n.number("alpha", 1.0), x) if n.get(1) is None else cast_to(g, n[1], dtype_of_value(x))
    z = g(MulOp, x, scale)
    return g(MulOp, z, g(SigmoidOp, z))


def integer_product(g: Emitter, n: Node) -> Value:
    """MulInteger: (A - its zero point) (B - its zero point) as int32."""
    parts: list[Value] = []
    for place in (0, 2):
        part = cast_to(g, n[place], INT32)
        zero = n.get(place + 1)
        parts.append(part if zero is None else g(SubOp, part, cast_to(g, zero, INT32)))
    return g(MulOp, *parts)


def integer_sum(g: Emitter, n: Node) -> Value:
    """ReduceSumInteger: sums of small integers as int32."""
    x = cast_to(g, n[0], INT32)
    axes = tuple(axis_of(a, rank(x)) for a in n.integers("axes") or range(rank(x)))
    return reduce(g, ReduceSumOp, x, axes, n.flag("keepdims", True))


def biased_dropout(g: Emitter, n: Node) -> list[Value | None]:
    """BiasDropout as it is in inference: data + bias + residual."""
    x = g(AddOp, n[0], n[1])
    inner = replace(n, opset=13, inputs=[x, n.get(3), n.get(4)])
    y, mask = nn.dropout(g, inner)
    return [y if n.get(2) is None or y is None else g(AddOp, y, n[2]), mask]


def complex_product(conjugate: bool) -> Rule:
    """ComplexMul and ComplexMulConj: pairs of the last axis are numbers."""

    def rule(g: Emitter, n: Node) -> Value:
        (a, b), (c, d) = (pieces(g, n[i], rank(n[i]) - 1, (1, 1)) for i in range(2))
        ac, bd, ad, bc = g(MulOp, a, c), g(MulOp, b, d), g(MulOp, a, d), g(MulOp, b, c)
        signs = (AddOp, SubOp) if conjugate else (SubOp, AddOp)
        real, imaginary = g(signs[0], ac, bd), g(signs[1], bc, ad)
        return join(g, [real, imaginary], rank(real) - 1)

    return rule


def all_finite(g: Emitter, n: Node) -> Value:
    """IsAllFinite: one bool for all inputs."""
    wrong: Value = np.zeros((), np.bool_)
    for x in n.tensors():
        kinds = [] if n.flag("isinf_only") else [IsNanOp]
        kinds += [] if n.flag("isnan_only") else [IsInfOp]
        for kind in kinds:
            count = cast_to(g, g(kind, x), INT32)
            most = g(ReduceMaxOp, count, axes=tuple(range(rank(x))), keepdims=False)
            wrong = g(OrOp, wrong, cast_to(g, most, BOOL))
    return g(NotOp, wrong)


RULES: dict[str, Versions] = {
    "BiasDropout": biased_dropout,
    "CausalConvWithState": causal_conv,
    "ComplexMul": complex_product(False),
    "ComplexMulConj": complex_product(True),
    "GatedAdd": lambda g, n: g(AddOp, n[0], g(MulOp, n[1], n[2])),
    "GatedRMSNorm": gated_rms_norm,
    "GatedRelativePositionBias": gated_position_bias,
    "GemmaRotaryEmbedding": gemma_rotary,
    "IsAllFinite": all_finite,
    "MRotaryEmbedding": multimodal_rotary,
    "MulInteger": integer_product,
    "NGramRepeatBlock": ban_repeats,
    "ReduceSumInteger": integer_sum,
    "ScaledSiLU": scaled_silu,
    "TorchEmbedding": lambda g, n: take(g, n[0], n[1], 0),
    "UnfoldTensor": unfold,
}
