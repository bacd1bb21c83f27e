"""Embedding tables of recommendation models: segments of gathered rows, summed by a product with a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glow_dialects.core.types import Array
from glow_frontends.builder import Value
from glow_frontends.caffe2.node import Node
from glow_frontends.graph.errors import RuleError

#: Inputs that are no floats, by operator and position.
INTEGER_INPUTS: dict[str, dict[int, Any]] = {
    "BatchGather": {1: np.int64},
    "Gather": {1: np.int64},
    "LengthsMean": {1: np.int32},
    "LengthsSum": {1: np.int32},
    "SparseLengthsMean": {1: np.int64, 2: np.int32},
    "SparseLengthsSum": {1: np.int64, 2: np.int32},
    "SparseLengthsSumFused8BitRowwise": {1: np.int64, 2: np.int32},
    "SparseLengthsWeightedSum": {2: np.int64, 3: np.int32},
    "SparseLengthsWeightedSumFused8BitRowwise": {2: np.int64, 3: np.int32},
}


def _mask(n: Node, lengths: Value, count: int) -> Value:
    """[segments, count]: 1 where an element belongs to a segment."""
    g = n.graph
    segments = lengths.shape[0]
    ends = g.cumsum(g.cast(lengths, np.int64), 0)
    starts = ends - g.cast(lengths, np.int64)
    places = np.arange(count, dtype=np.int64)[None, :]
    after = g.cmp_ge(g.constant(places), g.reshape(starts, (segments, 1)))
    before = g.cmp_lt(g.constant(places), g.reshape(ends, (segments, 1)))
    return g.cast(g.logical_and(after, before), np.float32)


def _summed(n: Node, rows: Value, lengths: Value, weights: Value | None = None) -> Value:
    """Rows [count, *rest] summed by segment, each row times its weight."""
    g = n.graph
    count, *rest = rows.shape
    mask = _mask(n, lengths, count)
    if weights is not None:
        mask = mask * weights
    flat = g.reshape(rows, (count, int(np.prod(rest))))
    return g.reshape(g.matmul(mask, flat), (lengths.shape[0], *rest))


def _mean(n: Node, total: Value, lengths: Value) -> Value:
    g = n.graph
    counts = g.max(g.cast(lengths, np.float32), 1.0)
    return total / g.reshape(counts, (lengths.shape[0], *(1,) * (len(total.shape) - 1)))


def fused_rows(array: Array) -> Array:
    """Rows of bytes with a float scale and a float bias behind them, as numbers."""
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] <= 8:
        raise RuleError(f"{array.dtype}{list(array.shape)} contains no fused rows")
    tail = np.ascontiguousarray(array[:, -8:]).view(np.float32)
    return array[:, :-8].astype(np.float32) * tail[:, :1] + tail[:, 1:]


def _table(n: Node) -> Value:
    if "Fused8BitRowwise" in n.op.type:
        return n.graph.constant(fused_rows(n.array(0, "the table")), f"{n.op.input[0]}_rows")
    return n[0]


def _sparse(weighted: bool = False, mean: bool = False) -> Callable[[Node], Value]:
    def rule(n: Node) -> Value:
        first = 2 if weighted else 1
        indices, lengths = n[first], n[first + 1]
        rows = n.graph.gather(_table(n), indices, 0)
        total = _summed(n, rows, lengths, n[1] if weighted else None)
        return _mean(n, total, lengths) if mean else total

    return rule


def _dense(mean: bool = False) -> Callable[[Node], Value]:
    def rule(n: Node) -> Value:
        total = _summed(n, n[0], n[1])
        return _mean(n, total, n[1]) if mean else total

    return rule


SPARSE: dict[str, Callable[[Node], Value]] = {
    "LengthsMean": _dense(mean=True),
    "LengthsSum": _dense(),
    "SparseLengthsMean": _sparse(mean=True),
    "SparseLengthsSum": _sparse(),
    "SparseLengthsSumFused8BitRowwise": _sparse(),
    "SparseLengthsWeightedSum": _sparse(weighted=True),
    "SparseLengthsWeightedSumFused8BitRowwise": _sparse(weighted=True),
}
