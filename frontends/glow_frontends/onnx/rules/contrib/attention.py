"""Rules of attention over whole tensors: packed or separate projections, masks, appended pasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glow_dialects.ops.arithmetic import AddOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpGeOp, CmpLeOp, CmpLtOp, CmpNeOp
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.movement import join, pieces, take
from glow_frontends.graph.sizes import objects
from glow_frontends.onnx.node import REQUIRED, Node
from glow_frontends.onnx.rules import quantization
from glow_frontends.onnx.rules.rule import Versions

FLOAT = np.dtype(np.float32)


@dataclass
class Heads:
    """Queries [B, H, S, D], keys [B, H, T, D] and values [B, H, T, E] of one attention."""

    queries: Value
    keys: Value
    values: Value


def split_heads(g: Emitter, x: Value, heads: int) -> Value:
    """[B, S, H D] as [B, H, S, D]; a tensor of rank 4 is there already."""
    if rank(x) == 4:
        return x
    batch, length, width = shape(x)
    if heads < 1 or width % heads:
        raise RuleError(f"{width} columns do not split into {heads} heads")
    return g.transpose(g.reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def join_heads(g: Emitter, x: Value) -> Value:
    """[B, H, S, D] as [B, S, H D]."""
    batch, heads, length, width = shape(x)
    return g.reshape(g.transpose(x, (0, 2, 1, 3)), (batch, length, heads * width))


def attend(
    g: Emitter, n: Node, heads: Heads, masks: Sequence[Value], allowed: Value | None
) -> tuple[Value, Value]:
    """softmax(scale Q K^T + masks) V joined [B, S, H E], and the weights; what `allowed` denies weighs 0."""
    scale = n.number("scale", 0.0) or 1.0 / float(np.sqrt(shape(heads.queries)[-1]))
    scores = product(g, heads.queries, g.transpose(heads.keys, (0, 1, 3, 2)))
    scores = g(MulOp, scores, g.like(scale, scores))
    for mask in masks:
        scores = g(AddOp, scores, cast_to(g, mask, dtype_of_value(scores)))
    if allowed is not None:
        lowest = np.array(np.finfo(np.float32).min if dtype_of_value(scores) == FLOAT else -65504.0)
        scores = g(SelectOp, allowed, scores, lowest.astype(dtype_of_value(scores)))
    weights = g(SoftmaxOp, scores, axis=3)
    return join_heads(g, product(g, weights, heads.values)), weights


def causal(g: Emitter, queries: int, keys: int) -> Value:
    """Which of `keys` positions each of the last `queries` may see, [1, 1, S, T]."""
    rows = g(AddOp, g.numbers(queries), g.sizes(objects([keys - queries]), np.dtype(np.int64)))
    return g(CmpLeOp, g.reshape(g.numbers(keys), (1, 1, 1, keys)), g.reshape(rows, (1, 1, queries, 1)))


def additive_mask(g: Emitter, n: Node, mask: Value, batch: int, keys: int) -> Value:
    """A mask of kept positions as a term of the scores, [B, 1, 1 or S, T].

    Forms: the number of keys of each sample [B], ends then starts [2 B], ends, queries' and keys'
    cumulative lengths [3 B + 2], flags [B, T], [B, S, T] or [B, 1, S, T].
    """
    if rank(mask) == 1:
        keep = _kept(g, mask, batch, keys)
    else:
        flags = g(CmpNeOp, mask, g.like(0, mask))
        dims = shape(mask)
        if rank(mask) == 2 and dims[0] != batch:
            raise RuleError(f"a mask of shape {'x'.join(map(str, dims))} for a batch of {batch}")
        whole = {2: (dims[0], 1, 1, dims[-1]), 3: (dims[0], 1, *dims[1:])}
        keep = g.reshape(flags, whole.get(rank(mask), dims))
    low = n.number("mask_filter_value", -10000.0)
    return g(SelectOp, keep, np.zeros((), np.float32), np.array(low, np.float32))


def _kept(g: Emitter, mask: Value, batch: int, keys: int) -> Value:
    places = g.reshape(g.numbers(keys, dtype_of_value(mask)), (1, 1, 1, keys))
    count = shape(mask)[0]
    if count == batch:
        return g(CmpLtOp, places, g.reshape(mask, (batch, 1, 1, 1)))
    if count == 2 * batch:
        end, start = (g.reshape(p, (batch, 1, 1, 1)) for p in pieces(g, mask, 0, (batch, batch)))
        return g(AndOp, g(CmpLtOp, places, end), g(CmpGeOp, places, start))
    if count == 3 * batch + 2:
        lengths = pieces(g, mask, 0, (batch, count - batch))[0]
        return g(CmpLtOp, places, g.reshape(lengths, (batch, 1, 1, 1)))
    raise RuleError(f"a mask of {count} numbers for a batch of {batch}")


def attention(g: Emitter, n: Node) -> list[Value | None]:
    """Attention: the projections of one input by packed weights, attended to themselves."""
    projected = product(g, n[0], n[1])
    if n.get(2) is not None:
        projected = g(AddOp, projected, n[2])
    return _packed(g, n, projected, n.get(3), n.get(4), n.get(5))


def _packed(
    g: Emitter, n: Node, projected: Value, mask: Value | None, past: Value | None, bias: Value | None
) -> list[Value | None]:
    """Attention of projections [B, S, Q + K + V]; `past` and the present are [2, B, H, P, D]."""
    if n.flag("do_rotary"):
        raise RuleError("rotary positions inside Attention")
    count = n.integer("num_heads", 0)
    sizes = n.integers("qkv_hidden_sizes") or (shape(projected)[-1] // 3,) * 3
    parts = pieces(g, projected, 2, tuple(sizes))
    heads = Heads(*(split_heads(g, p, count) for p in parts))
    if past is not None:
        old = [g.reshape(p, shape(p)[1:]) for p in pieces(g, past, 0, (1, 1))]
        heads.keys, heads.values = (
            join(g, [o, p], 2) for o, p in zip(old, (heads.keys, heads.values), strict=True)
        )
    present: Value | None = None
    if n.wants(1):
        present = join(g, [g.reshape(p, (1, *shape(p))) for p in (heads.keys, heads.values)], 0)
    return [_masked(g, n, heads, mask, bias)[0], present]


def _masked(g: Emitter, n: Node, heads: Heads, mask: Value | None, bias: Value | None) -> tuple[Value, Value]:
    batch, queries, keys = shape(heads.queries)[0], shape(heads.queries)[2], shape(heads.keys)[2]
    masks: list[Value] = [] if bias is None else [bias]
    if mask is not None:
        masks.append(_cropped(g, additive_mask(g, n, mask, batch, keys), queries, keys))
    allowed = causal(g, queries, keys) if n.flag("unidirectional") and queries > 1 else None
    return attend(g, n, heads, masks, allowed)


def _cropped(g: Emitter, mask: Value, queries: int, keys: int) -> Value:
    """Of a square mask of the longest sequence, the rows of the last queries and the first keys."""
    rows, columns = shape(mask)[2:]
    if columns > keys:
        mask = pieces(g, mask, 3, (keys, columns - keys))[0]
    if rows > 1 and rows > queries:
        before = min(keys, rows) - queries
        mask = pieces(g, mask, 2, (before, queries, rows - before - queries))[1]
    return mask


def quantized_attention(g: Emitter, n: Node) -> list[Value | None]:
    """QAttention: Attention whose projection is a product of bytes."""
    x, w, bias, x_scale, w_scale = (n[i] for i in range(5))
    projected = quantization.real_product(g, (x, x_scale, n.get(6)), (w, w_scale, n.get(7)), None, bias)
    return _packed(g, n, projected, n.get(5), n.get(8), None)


def multi_head_attention(g: Emitter, n: Node) -> list[Value | None]:
    """MultiHeadAttention: projections that are packed, partly packed or separate, and their bias."""
    count = n.integer("num_heads", REQUIRED)
    query, key, value, bias = n[0], n.get(1), n.get(2), n.get(3)
    if rank(query) == 5 and key is None:
        query, key, value = _unpacked(g, query)
    elif key is not None and rank(key) == 5 and value is None:
        key, value = _unpacked(g, key)
    if key is None or value is None:
        raise RuleError("keys and values are missing")
    parts = [query, key, value]
    if bias is not None:
        parts = _biased(g, parts, bias, count)
    heads = Heads(*(split_heads(g, p, count) for p in parts))
    return _appended(g, n, heads, n.get(4), n.get(5), n.get(6), n.get(7))


def _unpacked(g: Emitter, x: Value) -> list[Value]:
    """The parts of [B, S, H, parts, D], each [B, H, S, D]."""
    parts = pieces(g, x, 3, (1,) * shape(x)[3])
    return [g.transpose(g.reshape(p, (*shape(p)[:3], shape(p)[4])), (0, 2, 1, 3)) for p in parts]


def _biased(g: Emitter, parts: Sequence[Value], bias: Value, count: int) -> list[Value]:
    widths = [shape(p)[2] if rank(p) == 3 else count * shape(p)[3] for p in parts]
    out: list[Value] = []
    for part, row in zip(parts, pieces(g, bias, 0, tuple(widths)), strict=True):
        if rank(part) == 4:
            row = g.reshape(row, (1, count, 1, shape(part)[3]))
        out.append(g(AddOp, part, row))
    return out


def _appended(
    g: Emitter,
    n: Node,
    heads: Heads,
    mask: Value | None,
    bias: Value | None,
    past_key: Value | None,
    past_value: Value | None,
) -> list[Value | None]:
    """Attention after the past is put before keys and values; these are results, too."""
    if past_key is not None and past_value is not None:
        heads.keys = join(g, [past_key, heads.keys], 2)
        heads.values = join(g, [past_value, heads.values], 2)
    y, weights = _masked(g, n, heads, mask, bias)
    return [y, heads.keys, heads.values, weights]


def decoder_attention(g: Emitter, n: Node) -> list[Value | None]:
    """DecoderMaskedMultiHeadAttention of one step, with a past that is appended."""
    if n.flag("past_present_share_buffer") or n.get(9) is not None:
        raise RuleError("a past in a shared buffer, or of beams")
    count = n.integer("num_heads", REQUIRED)
    parts = [n[0], n[1], n[2]]
    if n.get(10) is not None:
        parts = _biased(g, parts, n[10], count)
    heads = Heads(*(split_heads(g, p, count) for p in parts))
    return _appended(g, n, heads, n.get(3), n.get(4), n.get(5), n.get(6))


def rotate(
    g: Emitter, x: Value, cos: Value, sin: Value, positions: Value, interleaved: bool, width: int
) -> Value:
    """Rotary positions [B or 1, S] of the first `width` features of x [B, H, S, D]; the rest stays."""
    half = width // 2
    rows = (shape(positions)[0], 1, shape(positions)[1], half)
    angles = [g.reshape(table_rows(g, table, positions, half), rows) for table in (cos, sin)]
    return turned(g, x, angles, interleaved)


def turned(g: Emitter, x: Value, angles: Sequence[Value], interleaved: bool) -> Value:
    """Pairs of the first features of x [B, H, S, D] turned by angles (cos, sin) [B, 1, S, pairs]."""
    batch, heads, length, depth = shape(x)
    c, s = angles
    half = shape(c)[3]
    width = 2 * half
    x, rest = pieces(g, x, 3, (width, depth - width))
    if interleaved:
        pairs = g.transpose(g.reshape(x, (batch, heads, length, half, 2)), (0, 1, 2, 4, 3))
        x = g.reshape(pairs, (batch, heads, length, width))
    a, b = pieces(g, x, 3, (half, half))
    pair = [
        g(SubOp, g(MulOp, a, c), g(MulOp, b, s)),
        g(AddOp, g(MulOp, a, s), g(MulOp, b, c)),
    ]
    y = join(g, pair, 3)
    if interleaved:
        pairs = g.transpose(g.reshape(y, (batch, heads, length, 2, half)), (0, 1, 2, 4, 3))
        y = g.reshape(pairs, (batch, heads, length, width))
    return join(g, [y, rest], 3) if width < depth else y


def table_rows(g: Emitter, table: Value, positions: Value, half: int) -> Value:
    """The first `half` columns of a table's rows at some positions."""
    if shape(table)[1] < half:
        raise RuleError(f"a table of {shape(table)[1]} angles for {half} pairs")
    table = pieces(g, table, 1, (half, shape(table)[1] - half))[0]
    return take(g, table, positions, 0)


def rotary_embedding(g: Emitter, n: Node) -> Value:
    """RotaryEmbedding of [B, S, H D] or [B, H, S, D], at positions [B, S] or from one offset on."""
    x, positions, cos, sin = n[0], n[1], n[2], n[3]
    width = n.integer("rotary_embedding_dim", 0)
    whole = 2 * shape(cos)[1]
    flat = rank(x) == 3
    heads = n.integer("num_heads", 0) or (shape(x)[2] // (width or whole) if flat else shape(x)[1])
    length = shape(x)[1] if flat else shape(x)[2]
    if rank(positions) == 1:
        steps = g.reshape(g.numbers(length, dtype_of_value(positions)), (1, length))
        positions = g(AddOp, g.reshape(positions, (1, 1)), steps)
    split = split_heads(g, x, heads)
    if n.number("scale", 1.0) != 1.0:
        raise RuleError("a scale of rotary positions")
    y = rotate(g, split, cos, sin, positions, n.flag("interleaved"), width or min(whole, shape(split)[3]))
    return join_heads(g, y) if flat else y


RULES: dict[str, Versions] = {
    "Attention": attention,
    "DecoderMaskedMultiHeadAttention": decoder_attention,
    "MultiHeadAttention": multi_head_attention,
    "QAttention": quantized_attention,
    "RotaryEmbedding": rotary_embedding,
}
