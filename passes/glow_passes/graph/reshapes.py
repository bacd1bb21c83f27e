"""Reshapes merge, vanish, and sink below element-wise operators.

A reshape costs nothing by itself, but one between a matrix product and the activation after it
keeps the two apart.
"""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import shape_of
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.identity import IdentityOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_passes.graph.driver import Pattern, Rewriter, is_used_once, producer
from glow_passes.graph.match import is_known
from glow_passes.graph.transposes import rebuilt


def reshape_of_reshape(op: ReshapeOp, r: Rewriter) -> SSAValue | None:
    """reshape(reshape(x)) -> reshape(x), or x where the shape is x's own."""
    if op.input.type == op.result.type:
        return op.input
    inner = producer(op.input, ReshapeOp)
    if inner is None:
        return None
    if inner.input.type == op.result.type:
        return inner.input
    return r(ReshapeOp(inner.input, results=op.result.type))


def expand_to_reshape(op: ExpandOp, r: Rewriter) -> SSAValue | None:
    """An expansion that adds only dimensions of size 1 is a reshape."""
    if prod(shape_of(op.input)) != prod(shape_of(op.result)):
        return None
    return r(ReshapeOp(op.input, results=op.result.type))


def below_element_wise(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """f(reshape(x), y, c) -> reshape(f(x, reshape(y), c)), y of the result's shape, c a row."""
    if len(op.results) != 1 or isinstance(op, IdentityOp):
        return None
    if op.predicate is not None:
        return None
    shape = shape_of(op.results[0])
    inner: Any = next((o for v in op.operands if (o := _source(v, shape)) is not None), None)
    if inner is None:
        return None
    below = shape_of(inner.input)
    operands = [_before(v, shape, below, r) for v in op.operands]
    if any(v is None for v in operands):
        return None
    result = r(rebuilt(op, [v for v in operands if v is not None], below))
    return r(ReshapeOp(result, results=op.results[0].type))


def _source(value: SSAValue, shape: tuple[int, ...]) -> Any:
    """The reshape that makes `value` for this operator alone, where its input may be a product."""
    inner = producer(value, ReshapeOp)
    if inner is None or not is_used_once(value) or shape_of(value) != shape:
        return None
    owner: Any = inner.input.owner
    return inner if owner.operands else None  # known values are reshaped the other way


def _before(value: SSAValue, shape: tuple[int, ...], below: tuple[int, ...], r: Rewriter) -> SSAValue | None:
    """`value` as an operand beside a tensor of shape `below`, None where that needs a copy."""
    mine = shape_of(value)
    inner = producer(value, ReshapeOp)
    if inner is not None and shape_of(inner.input) == below:
        return inner.input
    if prod(mine) == 1:
        return value if len(mine) <= len(below) else r(ReshapeOp.to(value, ()))
    if mine == shape and (len(below) < len(shape) or is_known(value, r)):
        return r(ReshapeOp.to(value, below))  # towards fewer dimensions only, or it would not end
    # A row that lies along the last dimension of both, such as a bias.
    if any(n != 1 for n in mine[:-1]) or below[-1] != mine[-1]:
        return None
    if len(mine) == 1:
        return value
    if inner is not None and shape_of(inner.input) == mine[-1:]:
        return inner.input
    return r(ReshapeOp.to(value, mine[-1:])) if is_known(value, r) else None


PATTERNS = (
    Pattern((ReshapeOp,), reshape_of_reshape),
    Pattern((ExpandOp,), expand_to_reshape),
    Pattern((GraphOp,), below_element_wise, lambda op: op.DATA_PARALLEL),
)
