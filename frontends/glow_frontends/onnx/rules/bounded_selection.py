"""Rules of selections by data, whose results have an upper bound: compiled, and cut where they leave."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from glow_dialects.ops.non_max_suppression import NonMaxSuppressionOp
from glow_dialects.ops.non_zero import NonZeroOp
from glow_frontends.graph import BoundedValue, Emitter, Value, dtype_of_value, rank, shape
from glow_frontends.graph.axes import axis_of, ranked
from glow_frontends.graph.movement import cut, take
from glow_frontends.onnx.node import Node, known_inputs
from glow_frontends.onnx.rules.rule import Versions


def non_zero(g: Emitter, n: Node) -> Value | BoundedValue:
    """NonZero: indices of the non-zero elements, one column each."""
    x = n[0] if rank(n[0]) else g.reshape(n[0], (1,))
    if isinstance(x, np.ndarray):
        return np.array(np.nonzero(x), np.int64)
    places, count = g.once((NonZeroOp, x), lambda: g.many(NonZeroOp, x))
    return g.bounded(places, 1, count)


def compress(g: Emitter, n: Node) -> Value | BoundedValue:
    """Compress: the slices along an axis (or the elements) whose condition is true."""
    x, condition = n[0], n[1]
    if dtype_of_value(x) == object:
        known_inputs(n)
    axis = axis_of(n.integer("axis"), rank(x)) if n.has("axis") else 0
    if not n.has("axis"):
        x = g.reshape(x, (prod(shape(x)),))
    condition = cut(g, condition, [0], [min(ranked(condition, 1)[0], shape(x)[axis])])
    if isinstance(condition, np.ndarray):
        return take(g, x, np.flatnonzero(condition), axis)
    places, count = g.once((NonZeroOp, condition), lambda: g.many(NonZeroOp, condition))
    return g.bounded(take(g, x, g.reshape(places, shape(condition)), axis), axis, count)


def non_max_suppression(g: Emitter, n: Node) -> Value | BoundedValue:
    """NonMaxSuppression: (batch, class, box) of the boxes kept, by falling score."""
    return suppressed(g, n, np.array(ranked(n[0], 3)[1], np.int64))


def suppressed(g: Emitter, n: Node, available: Value) -> Value | BoundedValue:
    """The same among the first boxes."""
    boxes, scores = n[0], n[1]
    most, overlap, threshold = (None if v is None or 0 in shape(v) else v for v in map(n.get, (2, 3, 4)))
    if most is None:
        return np.zeros((0, 3), np.int64)
    limit = ranked(boxes, 3)[1]
    if isinstance(most, np.ndarray):
        limit = max(0, min(limit, int(g.scalar(most, "the number of boxes"))))
    overlap = np.zeros((), np.float32) if overlap is None else overlap
    numbers = [None if v is None else g.reshape(v, ()) for v in (most, overlap, threshold)]
    options: dict[str, Any] = {"limit": limit, "center_point_box": n.flag("center_point_box")}
    kept, count = g.many(NonMaxSuppressionOp, boxes, scores, available, *numbers, **options)
    return g.bounded(kept, 0, count)


RULES: dict[str, Versions] = {
    "NonZero": non_zero,
    "Compress": compress,
    "NonMaxSuppression": non_max_suppression,
}
