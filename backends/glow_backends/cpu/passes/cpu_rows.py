"""glow-cpu-rows: scatters and gathers of elements whose indices repeat along rows move whole rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.definition import SEGMENTS
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, rewrite

_DEPTH = 6  # element-wise operators looked through


def _is_column(value: SSAValue, count: int, rank: int) -> bool:
    """Whether a value is [count, 1, ..., 1]."""
    shape = shape_of(value)
    return len(shape) == rank and prod(shape) == shape[0] == count


def column_of(value: SSAValue, r: Rewriter, depth: int = _DEPTH) -> SSAValue | None:
    """The column [n, 1, ..., 1] that [n, ...] repeats along its rows, rebuilt where it is computed."""
    shape = shape_of(value)
    count, rank = shape[0], len(shape)
    if _is_column(value, count, rank):
        return value
    owner = value.owner
    if isinstance(owner, ExpandOp):
        return owner.input if _is_column(owner.input, count, rank) else None
    if not isinstance(owner, GraphOp) or not owner.DATA_PARALLEL or not depth:
        return None
    narrow: list[SSAValue] = []
    for operand in owner.operands:
        if shape_of(operand) == shape:
            column = column_of(operand, r, depth - 1)
        else:
            fits = prod(shape_of(operand)) == 1 or _is_column(operand, count, rank)
            column = operand if fits else None
        if column is None:
            return None
        narrow.append(column)
    properties: dict[str, Any] = {n: a for n, a in owner.properties.items() if n != SEGMENTS}
    kind = tensor((count, *(1,) * (rank - 1)), element_of(value))
    return r(type(owner)(*narrow, results=kind, **properties))


def _rows(op: ScatterElementsOp | GatherElementsOp, data: SSAValue, r: Rewriter) -> SSAValue | None:
    """The indices of whole rows of `data`, [n, 1], where these are what the operator moves."""
    shape, size = shape_of(op.indices), shape_of(data)
    if op.axis != 0 or shape[1:] != size[1:] or prod(shape[1:]) < 2:
        return None
    column = column_of(op.indices, r)
    return None if column is None else r(ReshapeOp.to(column, (shape[0], 1)))


def scatter_rows(op: ScatterElementsOp, r: Rewriter) -> Sequence[SSAValue] | None:
    """scatter_elements(x, expand(i), u) {axis = 0} -> scatter_nd(x, i, u)."""
    rows = None if op.predicate is not None else _rows(op, op.data, r)
    if rows is None:
        return None
    return [r(ScatterNdOp(op.data, rows, op.updates, reduction=op.reduction, checked=op.checked))]


def gather_rows(op: GatherElementsOp, r: Rewriter) -> Sequence[SSAValue] | None:
    """gather_elements(x, expand(i)) {axis = 0} -> gather(x, i) {axis = 0}."""
    rows = None if op.predicate is not None else _rows(op, op.data, r)
    if rows is None:
        return None
    flat = r(ReshapeOp.to(rows, shape_of(rows)[:1]))
    return [r(GatherOp(op.data, flat, axis=0, checked=op.checked))]


PATTERNS = (Pattern((ScatterElementsOp,), scatter_rows), Pattern((GatherElementsOp,), gather_rows))


@dataclass(frozen=True)
class CpuRowsPass(GraphPass):
    """scatter_elements(x, expand(i), u) -> scatter_nd(x, i, u): rows are copied and added by vectors."""

    name = "glow-cpu-rows"
    OPTIONAL = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, PATTERNS)
