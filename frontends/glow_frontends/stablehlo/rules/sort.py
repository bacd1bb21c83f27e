"""sort and top_k."""

from __future__ import annotations

from collections.abc import Sequence

from glow_dialects.core.types import element_type
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.top_k import TopKOp
from glow_frontends.graph import Emitter, Value, dtype_of_value, rank, shape
from glow_frontends.stablehlo.node import Node, Rule
from glow_frontends.stablehlo.rules.regions import sort_keys
from glow_frontends.stablehlo.values import cast, pointwise


def sort(g: Emitter, n: Node) -> Sequence[Value]:
    """sort, always stable: by the last key first, then by those that decide before it."""
    axis = n.integer("dimension", -1) % rank(n[0])
    values = list(n.operands)
    for key, down in reversed(sort_keys(g, n)):
        column, order = _ordered(g, values[key], axis, down)
        values = [
            column if i == key else g(GatherElementsOp, v, order, axis=axis) for i, v in enumerate(values)
        ]
    return values


def _ordered(g: Emitter, x: Value, axis: int, down: bool) -> tuple[Value, Value]:
    """x in order, and the places that its elements had."""
    if dtype_of_value(x) == bool:
        column, order = _ordered(g, pointwise(g, CastOp, x, element=element_type("uint8")), axis, down)
        return cast(g, column, element_type(bool)), order
    column, order = g.many(TopKOp, x, k=shape(x)[axis], axis=axis, largest=down)
    return column, order


def top_k(g: Emitter, n: Node) -> Sequence[Value]:
    """chlo.top_k: the largest of the last axis, and their places."""
    k = n.integer("k", n.entries("composite_attributes").get("k"))
    values, places = g.many(TopKOp, n[0], k=k, axis=rank(n[0]) - 1, largest=True)
    return [values, cast(g, places, n.element(1))]


RULES: dict[str, Rule] = {"chlo.top_k": top_k, "sort": sort}
