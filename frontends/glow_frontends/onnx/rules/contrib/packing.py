"""Rules of batches without padding: tokens of all samples in one row, and attention among those of each.

A batch of B samples of up to S tokens is packed as its T real tokens [T, W]. `token_offset` [B, S] says where
in the padded batch they stand: of the T real tokens first, then of the others.
"""

from __future__ import annotations

from math import prod

import numpy as np

from glow_dialects.ops.arithmetic import AddOp, SubOp
from glow_dialects.ops.compare import CmpLtOp
from glow_dialects.ops.cumsum import CumsumOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceSumOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import BoundedValue, Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.movement import broadcast, join, pieces
from glow_frontends.onnx.node import REQUIRED, Node
from glow_frontends.onnx.rules.contrib.attention import Heads, attend, split_heads
from glow_frontends.onnx.rules.rule import Versions

INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)


def remove_padding(g: Emitter, n: Node) -> list[Value | BoundedValue]:
    """RemovePadding: the real tokens, where they stood, where samples begin, the longest sample."""
    batch, length, width = shape(n[0])
    counts = cast_to(g, g.reshape(n[1], (batch, 1)), INT64)
    real = g.reshape(g(CmpLtOp, g.reshape(g.numbers(length), (1, length)), counts), (batch * length,))
    sums = g(CumsumOp, cast_to(g, real, INT64), axis=0)
    stood = g.numbers(batch * length)
    whole = g(ReduceSumOp, counts, axes=(0, 1), keepdims=False)
    others = g(AddOp, whole, g(SubOp, stood, sums))
    places = g(SelectOp, real, g(SubOp, sums, np.array(1)), others)
    offset = g(ScatterNdOp, stood, g.reshape(places, (batch * length, 1)), stood)
    rows = g(GatherOp, g.reshape(n[0], (batch * length, width)), offset, axis=0)
    flat = g.reshape(counts, (batch,))
    ends = join(g, [np.zeros(1, np.int64), g(CumsumOp, flat, axis=0)], 0)
    longest = g(ReduceMaxOp, flat, axes=(0,), keepdims=True)
    numbers = (g.reshape(offset, (batch, length)), ends, longest)
    return [g.bounded(rows, 0, whole), *(cast_to(g, x, INT32) for x in numbers)]


def _stands(g: Emitter, offset: Value, tokens: int) -> Value:
    """Where the real tokens stand in the padded batch, [T]."""
    count = prod(shape(offset))
    if tokens > count:
        raise RuleError(f"{tokens} tokens for {count} positions")
    return pieces(g, g.reshape(offset, (count,)), 0, (tokens, count - tokens))[0]


def _padded(g: Emitter, x: Value, offset: Value) -> Value:
    """Tokens [T, W] as a batch [B, S, W], zeros where none stands."""
    tokens, width = shape(x)
    stands = g.reshape(_stands(g, offset, tokens), (tokens, 1))
    batch, length = shape(offset)
    zeros = broadcast(g, np.zeros((), dtype_of_value(x)), (batch * length, width))
    return g.reshape(g(ScatterNdOp, zeros, stands, x), (batch, length, width))


def restore_padding(g: Emitter, n: Node) -> Value:
    """RestorePadding: the batch with zeros for padding."""
    return _padded(g, n[0], n[1])


def packed_attention(g: Emitter, n: Node) -> Value:
    """PackedAttention: projections of packed tokens, attended to in their samples."""
    projected = g(AddOp, product(g, n[0], n[1]), n[2])
    sizes = n.integers("qkv_hidden_sizes") or (shape(projected)[1] // 3,) * 3
    return _attended(g, n, pieces(g, projected, 1, tuple(sizes)), 3)


def packed_multi_head_attention(g: Emitter, n: Node) -> Value:
    """PackedMultiHeadAttention: queries, keys and values of packed tokens, or all three of each head."""
    parts: list[Value]
    if rank(n[0]) == 4:
        tokens, heads, _, width = shape(n[0])
        parts = [g.reshape(p, (tokens, heads * width)) for p in pieces(g, n[0], 2, (1, 1, 1))]
    else:
        parts = [n[0], n[1], n[2]]
    if n.get(3) is not None:
        rows = pieces(g, n[3], 0, tuple(shape(p)[1] for p in parts))
        parts = [g(AddOp, p, row) for p, row in zip(parts, rows, strict=True)]
    return _attended(g, n, parts, 4)


def _attended(g: Emitter, n: Node, parts: list[Value], at: int) -> Value:
    """Attention among the tokens of each sample; offsets, ends of samples and bias are inputs `at` and on."""
    offset, ends, bias = n[at], n[at + 1], n.get(at + 2)
    tokens, (batch, length) = shape(parts[0])[0], shape(offset)
    heads = [split_heads(g, _padded(g, p, offset), n.integer("num_heads", REQUIRED)) for p in parts]
    counts = g(SubOp, *(pieces(g, ends, 0, sizes)[i] for i, sizes in ((1, (1, batch)), (0, (batch, 1)))))
    places = g.reshape(g.numbers(length, dtype_of_value(counts)), (1, 1, 1, length))
    allowed = g(CmpLtOp, places, g.reshape(counts, (batch, 1, 1, 1)))
    y, _ = attend(g, n, Heads(*heads), [] if bias is None else [bias], allowed)
    rows = g.reshape(y, (batch * length, shape(y)[2]))
    return g(GatherOp, rows, _stands(g, offset, tokens), axis=0)


def relative_position_bias(g: Emitter, n: Node) -> Value:
    """RelativePositionBias of T5: the bias of each head for the bucket of a distance, [1, H, S, T].

    Half of the buckets are single distances, the others grow with its logarithm up to `max_distance`. The
    table lies in memory as [H, buckets], whatever its shape says.
    """
    buckets, heads = shape(n[0])
    rows, columns = (g.integer(n[i], "a length of RelativePositionBias") for i in (1, 2))
    ahead = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    both = n.flag("is_bidirectional")
    side = buckets // 2 if both else buckets
    distance = np.abs(ahead) if both else np.maximum(-ahead, 0)
    single, most = side // 2, n.integer("max_distance", REQUIRED)
    if single < 1 or most <= single:
        raise RuleError(f"{buckets} buckets for distances up to {most}")
    share = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(single)) / np.log(most / single)
    grown = np.minimum(single + (share * (side - single)).astype(np.int64), side - 1)
    bucket = np.where(distance < single, distance, grown) + (side * (ahead > 0) if both else 0)
    table = g.reshape(n[0], (heads, buckets))
    return g.reshape(g(GatherOp, table, bucket, axis=1), (1, heads, rows, columns))


RULES: dict[str, Versions] = {
    "PackedAttention": packed_attention,
    "PackedMultiHeadAttention": packed_multi_head_attention,
    "RelativePositionBias": relative_position_bias,
    "RemovePadding": remove_padding,
    "RestorePadding": restore_padding,
}
