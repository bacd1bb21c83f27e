"""Expand and tile where the operator after them would broadcast by itself."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import broadcast_shapes, shape_of
from glow_dialects.ops.elementwise import BinaryOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.tile import TileOp
from glow_passes.graph.driver import Pattern, Rewriter, producer


def expand_of_expand(op: ExpandOp, r: Rewriter) -> SSAValue | None:
    """expand(expand(x)) -> expand(x), or x where the shape is x's own."""
    if op.input.type == op.result.type:
        return op.input
    inner = producer(op.input, ExpandOp)
    return None if inner is None else r(ExpandOp(inner.input, results=op.result.type))


def tile_once(op: TileOp, r: Rewriter) -> SSAValue | None:
    """tile(x) by 1 everywhere -> x; by more only along dimensions of size 1 -> expand(x)."""
    if op.input.type == op.result.type:
        return op.input
    pairs = zip(shape_of(op.input), op.repeats, strict=True)
    if all(size == 1 or count == 1 for size, count in pairs):
        return r(ExpandOp(op.input, results=op.result.type))
    return None


def expand_before_broadcast(op: BinaryOp | SelectOp, r: Rewriter) -> SSAValue | None:
    """add(expand(x), y) -> add(x, y) where y broadcasts x to the same shape."""
    if op.predicate is not None:
        return None
    operands = [o.input if (o := _expand(v)) is not None else v for v in op.operands]
    shape = shape_of(op.result)
    for index, value in enumerate(op.operands):
        if operands[index] is value:
            continue
        if broadcast_shapes(*map(shape_of, operands)) == shape:
            break
        operands[index] = value  # this expansion gives the result its shape
    if operands == list(op.operands):
        return None
    expanded: GraphOp = type(op).create(
        operands=operands, result_types=[op.result.type], properties=dict(op.properties)
    )
    return r(expanded)


def _expand(value: SSAValue) -> Any:
    return producer(value, ExpandOp)


PATTERNS = (
    Pattern((ExpandOp,), expand_of_expand),
    Pattern((TileOp,), tile_once),
    Pattern((BinaryOp, SelectOp), expand_before_broadcast),
)
