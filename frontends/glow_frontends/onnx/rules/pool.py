"""Rules of pooling."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.arithmetic import AddOp, DivOp, MulOp, SubOp
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.lp_pool import LpPoolOp
from glow_dialects.ops.max_pool import MaxPoolOp, MaxPoolWithArgmaxOp
from glow_frontends.graph import Emitter, Value, rank, shape
from glow_frontends.graph.windows import zeros_around
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.rules.windows import window_of


def max_pool(g: Emitter, n: Node) -> list[Value]:
    """MaxPool, with the flat indices of the maxima where they are used."""
    x = n[0]
    window = window_of(n, shape(x)[2:])
    if not n.wants(1):
        return [g(MaxPoolOp, x, **window.options())]
    result, indices = g.many(MaxPoolWithArgmaxOp, x, **window.options())
    if n.flag("storage_order"):
        indices = _column_major(g, indices, shape(x))
    return [result, indices]


def _column_major(g: Emitter, indices: Value, dims: tuple[int, ...]) -> Value:
    """Flat indices of row-major spatial axes as those of column-major ones."""
    spatial = dims[2:]
    total = prod(spatial)
    base = g(MulOp, g(DivOp, indices, g.like(total, indices)), g.like(total, indices))
    rest = g(SubOp, indices, base)
    out, weight = base, 1
    stride = total
    for size in spatial:
        stride //= size
        digit = g(DivOp, rest, g.like(stride, indices))
        rest = g(SubOp, rest, g(MulOp, digit, g.like(stride, indices)))
        out = g(AddOp, out, g(MulOp, digit, g.like(weight, indices)))
        weight *= size
    return out


def average_pool(g: Emitter, n: Node) -> Value:
    """AveragePool; counted padding is written out where ceil_mode adds padding that is not counted."""
    x = n[0]
    window = window_of(n, shape(x)[2:])
    counted = n.flag("count_include_pad")
    if counted and any(window.extra):
        x, counted = zeros_around(g, x, window.pads), False
        window = replace(window, pads=(0,) * 2 * window.spatial)
    return g(AvgPoolOp, x, count_include_pad=counted, **window.options())


def lp_pool(g: Emitter, n: Node) -> Value:
    """LpPool."""
    window = window_of(n, shape(n[0])[2:])
    return g(LpPoolOp, n[0], p=_power(n), **window.options())


def _power(n: Node) -> int:
    return int(n.number("p", 2.0) if n.opset < 2 else n.integer("p", 2))


def global_average_pool(g: Emitter, n: Node) -> Value:
    """GlobalAveragePool."""
    return _whole(g, AvgPoolOp, n[0], count_include_pad=False)


def global_max_pool(g: Emitter, n: Node) -> Value:
    """GlobalMaxPool."""
    return _whole(g, MaxPoolOp, n[0])


def global_lp_pool(g: Emitter, n: Node) -> Value:
    """GlobalLpPool."""
    return _whole(g, LpPoolOp, n[0], p=_power(n))


def _whole(g: Emitter, kind: type[GraphOp], x: Value, **more: Any) -> Value:
    spatial = shape(x)[2:]
    ones = (1,) * (rank(x) - 2)
    return g(kind, x, kernel=spatial, strides=ones, pads=(0,) * 2 * len(ones), dilations=ones, **more)


RULES: dict[str, Versions] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "GlobalLpPool": global_lp_pool,
}
