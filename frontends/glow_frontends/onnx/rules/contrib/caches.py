"""Rules of attention over key-value caches: query heads in groups, positions of each sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glow_dialects.ops.activation import TanhOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, FloorDivOp, MaxOp, MinOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.layer_norm import RmsNormOp
from glow_dialects.ops.logic import AndOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, shape
from glow_frontends.graph.arithmetic import product
from glow_frontends.graph.movement import broadcast, join, pieces, take
from glow_frontends.onnx.node import REQUIRED, Node
from glow_frontends.onnx.rules.contrib.attention import join_heads, rotate, split_heads
from glow_frontends.onnx.rules.rule import Versions, only

INT64 = np.dtype(np.int64)
#: Inputs without a rule yet, such as those of a quantised cache.
UNSUPPORTED = {12: "a quantised cache", 13: "a quantised cache", 16: "lengths of queries"}


@dataclass
class Place:
    """Where new keys go: `start` [B, 1, 1, 1] of each sample, `new` of them, `total` places in the cache."""

    start: Value
    new: int
    total: int


def group_query_attention(g: Emitter, n: Node) -> list[Value | None]:
    """GroupQueryAttention: new keys are written at each sample's end of the cache, then attended to."""
    for position, what in UNSUPPORTED.items():
        if n.get(position) is not None:
            raise RuleError(what)
    only(n, causal=1, sliding_window_cache=0)
    if n.wants(3):
        only(n, qk_output=2)
    query, key, value = _projections(g, n)
    place = _place(g, query, n.get(3), n[6], n[5])
    if n.get(14) is not None or n.get(15) is not None:
        both = n.number("qk_norm_epsilon", 1e-6)
        query = g(RmsNormOp, query, n[14], axis=3, epsilon=n.number("q_norm_epsilon", both))
        key = g(RmsNormOp, key, n[15], axis=3, epsilon=n.number("k_norm_epsilon", both))
    if n.flag("do_rotary"):
        query, key = (_turned(g, n, x, place, (n[7], n[8]), n.get(9)) for x in (query, key))
    keys, values = (_write(g, n.get(3 + i), x, place) for i, x in enumerate((key, value)))
    y, weights = _grouped(g, n, query, keys, values, _allowed(g, n, place), n.get(10), n.get(11))
    return [y, keys, values, weights]


def sparse_attention(g: Emitter, n: Node) -> list[Value]:
    """SparseAttention: as GroupQueryAttention, of the blocks of keys that a layout gives each head."""
    query, key, value = _projections(g, n)
    last = g(SubOp, n[8], g.like(1, n[8]))
    place = _place(g, query, n[3], n[7], last)
    if n.flag("do_rotary"):
        query, key = (_turned(g, n, x, place, (n[9], n[10]), None) for x in (query, key))
    keys, values = (_write(g, n[3 + i], x, place) for i, x in enumerate((key, value)))
    batch, heads = shape(query)[:2]
    seen = broadcast(g, _allowed(g, n, place), (batch, 1, 1, place.new, place.total))
    seen = g(AndOp, seen, _blocks(g, n, place, batch, heads))
    y, _ = _grouped(g, n, query, keys, values, seen, None, None)
    return [y, keys, values]


def _blocks(g: Emitter, n: Node, place: Place, batch: int, heads: int) -> Value:
    """Which places the layout of each head has for each query, [B, K, H / K, S, T]."""
    ends, columns = (g.known(n[i], "the layout of SparseAttention") for i in (5, 6))
    size, shared = n.integer("sparse_block_size", REQUIRED), n.integer("kv_num_heads", REQUIRED)
    layouts, rows = ends.shape[0], ends.shape[1] - 1
    if heads % layouts:
        raise RuleError(f"{layouts} layouts for {heads} heads")
    kept = np.zeros((layouts, rows, -(-place.total // size)), np.bool_)
    for layout in range(layouts):
        for row in range(rows):
            listed = columns[layout, ends[layout, row] : ends[layout, row + 1]]
            kept[layout, row, listed[(listed >= 0) & (listed < kept.shape[2])]] = True
    wide = np.repeat(kept, size, 2)[:, :, : place.total]
    wide = np.tile(np.moveaxis(wide, 0, 1), (1, heads // layouts, 1))  # [rows, H, T]
    queries = g(AddOp, place.start, _steps(g, place.new, 2))
    row = g(FloorDivOp, g(MaxOp, queries, np.array(0)), np.array(size))
    listed = take(g, wide, g(MinOp, g.reshape(row, (shape(row)[0], place.new)), np.array(rows - 1)), 0)
    listed = g.transpose(listed, (0, 2, 1, 3))
    return g.reshape(listed, (batch, shared, heads // shared, place.new, place.total))


def _projections(g: Emitter, n: Node) -> list[Value]:
    """Queries [B, H, S, D], keys and values [B, K, S, D]."""
    heads, shared = n.integer("num_heads", REQUIRED), n.integer("kv_num_heads", REQUIRED)
    if n.get(1) is not None:
        parts = [n[0], n[1], n[2]]
    else:
        width = shape(n[0])[2] // (heads + 2 * shared)
        parts = pieces(g, n[0], 2, (heads * width, shared * width, shared * width))
    counts = (heads, shared, shared)
    return [split_heads(g, p, count) for p, count in zip(parts, counts, strict=True)]


def _place(g: Emitter, query: Value, past: Value | None, length: Value, last: Value) -> Place:
    """Where new keys go in a cache of some length; `last` is the place of each sample's last one.

    Of a length within the cache any may be given (see `cache_counts`). The first keys of samples that are
    shorter than the longest begin at 0, too.
    """
    batch, new = shape(query)[0], shape(query)[2]
    whole = g.integer(length, "the length of the cache")
    total = max(whole, 0 if past is None else shape(past)[2])
    if new == whole:
        return Place(broadcast(g, np.zeros((), np.int64), (batch, 1, 1, 1)), new, total)
    ends = g.reshape(cast_to(g, last, INT64), (batch, 1, 1, 1))
    start = g(AddOp, ends, g.size(1 - new, INT64))
    return Place(g(MaxOp, start, np.zeros((), np.int64)), new, total)


def _steps(g: Emitter, count: int, axis: int) -> Value:
    dims = [1, 1, 1, 1]
    dims[axis] = count
    return g.reshape(g.numbers(count), dims)


def _turned(
    g: Emitter, n: Node, x: Value, place: Place, tables: tuple[Value, Value], positions: Value | None
) -> Value:
    if positions is None:
        rows = g(MaxOp, g(AddOp, place.start, _steps(g, place.new, 2)), np.zeros((), np.int64))
        positions = g.reshape(rows, (shape(rows)[0], place.new))
    cos, sin = tables
    return rotate(g, x, cos, sin, positions, n.flag("rotary_interleaved"), 2 * shape(cos)[1])


def _write(g: Emitter, past: Value | None, x: Value, place: Place) -> Value:
    """The cache [B, K, total, D] with `x` [B, K, new, D] at each sample's start."""
    batch, heads, new, width = shape(x)
    if place.total == new:
        return x
    offset = g(SubOp, _steps(g, place.total, 2), place.start)
    inside = g(AndOp, g(CmpGeOp, offset, g.like(0, offset)), g(CmpLtOp, offset, g.size(new, INT64)))
    index = g(MinOp, g(MaxOp, offset, g.like(0, offset)), g.size(new - 1, INT64))
    index = broadcast(g, index, (batch, heads, place.total, width))
    spread = g(GatherElementsOp, x, index, axis=2)
    old: Value = np.zeros((), dtype_of_value(x))
    if past is not None and shape(past)[2]:
        rest = place.total - shape(past)[2]
        if not rest:
            old = past
        else:
            old = join(g, [past, broadcast(g, old, (batch, heads, rest, width))], 2)
    return g(SelectOp, inside, spread, old)


def _allowed(g: Emitter, n: Node, place: Place) -> Value:
    """Which places each query sees, [B, 1, 1, S, T]: none after its own, and of a window the last ones."""
    batch = shape(place.start)[0]
    mine = g(AddOp, place.start, _steps(g, place.new, 2))
    theirs = _steps(g, place.total, 3)
    seen = g(CmpLeOp, theirs, mine)
    window = n.integer("local_window_size", -1)
    if window > 0:
        seen = g(AndOp, seen, g(CmpGtOp, theirs, g(SubOp, mine, np.array(window, np.int64))))
    return g.reshape(seen, (batch, 1, 1, place.new, place.total))


def _grouped(
    g: Emitter,
    n: Node,
    query: Value,
    keys: Value,
    values: Value,
    allowed: Value,
    bias: Value | None,
    sink: Value | None,
) -> tuple[Value, Value]:
    """Attention of H query heads to K of keys: the queries of a group are rows of one product."""
    batch, heads, new, width = shape(query)
    shared, total = shape(keys)[1:3]
    each = heads // shared
    rows = g.reshape(query, (batch, shared, each * new, width))
    scores = product(g, rows, g.transpose(keys, (0, 1, 3, 2)))
    scale = n.number("scale", 0.0) or 1.0 / float(np.sqrt(width))
    scores = g(MulOp, scores, g.like(scale, scores))
    limit = n.number("softcap", 0.0)
    if limit:
        bound = g.like(limit, scores)
        scores = g(MulOp, g(TanhOp, g(DivOp, scores, bound)), bound)
    scores = g.reshape(scores, (batch, shared, each, new, total))
    if bias is not None:
        dims = shape(bias)
        groups = (shared, each) if dims[1] == heads else (1, 1)
        scores = g(AddOp, scores, g.reshape(bias, (dims[0], *groups, *dims[2:])))
    low = np.array(-np.inf).astype(dtype_of_value(scores))
    scores = g(SelectOp, allowed, scores, low)
    weights = _weights(g, n, scores, (shared, each), sink)
    flat = g.reshape(weights, (batch, shared, each * new, total))
    y = g.reshape(product(g, flat, values), (batch, heads, new, shape(values)[3]))
    return join_heads(g, y), g.reshape(weights, (batch, heads, new, total))


def _weights(g: Emitter, n: Node, scores: Value, heads: tuple[int, int], sink: Value | None) -> Value:
    """Softmax; a sink of each head, or of score 0, takes its share."""
    if sink is None and not n.flag("smooth_softmax"):
        return g(SoftmaxOp, scores, axis=4)
    column = np.zeros((1, 1, 1, 1, 1), dtype_of_value(scores)) if sink is None else sink
    column = g.reshape(column, (1, *heads, 1, 1)) if sink is not None else column
    column = cast_to(g, column, dtype_of_value(scores))
    dims = (*shape(scores)[:4], 1)
    wide = broadcast(g, column, dims)
    both = g(SoftmaxOp, join(g, [scores, wide], 4), axis=4)
    return pieces(g, both, 4, (shape(scores)[4], 1))[0]


RULES: dict[str, Versions] = {
    "GroupQueryAttention": group_query_attention,
    "SparseAttention": sparse_attention,
}
