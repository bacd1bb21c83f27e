"""Tensors of one value stay tensors of one value, and scalars where they can."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, dtype_of, element_of, shape_of, tensor, typed
from glow_dialects.ops.elementwise import BinaryOp
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.reduce import ReduceMeanOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.splat import SplatOp
from glow_passes.graph.driver import Pattern, Rewriter, Values
from glow_passes.graph.linear import plain_properties
from glow_passes.graph.match import is_known
from glow_passes.graph.symbols import is_quantized, uniform_value


def _number(value: SSAValue, r: Rewriter) -> float | None:
    return r.uniform(value) if is_known(value, r) else None


def moved_splat(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """reshape(splat), concat(splat, splat), ... -> splat."""
    first = _number(op.operands[0], r)
    if first is None or 0 in shape_of(op.results[0]) or is_quantized(typed(op.results[0])):
        return None
    if any(0 in shape_of(v) for v in op.operands) or any(_number(v, r) != first for v in op.operands[1:]):
        return None
    return r.splat(first, op.results[0])


def computed_splat(op: GraphOp, r: Rewriter) -> Values | None:
    """add(splat, splat) -> splat: one element is computed, not the whole tensor."""
    if not op.operands or len(op.results) != 1:
        return None
    if not all(is_known(v, r) for v in op.operands):
        return None
    if op.predicate is not None or is_quantized(typed(op.results[0])) or 0 in shape_of(op.results[0]):
        return None
    numbers = [_number(v, r) for v in op.operands]
    if any(n is None for n in numbers):
        return None
    result = _one_element(op, [n for n in numbers if n is not None])
    value = uniform_value(result)
    return None if value is None else r.splat(value, op.results[0])


def _one_element(op: GraphOp, numbers: Sequence[float]) -> Array:
    arrays = [np.array(n).astype(dtype_of(v.type)) for n, v in zip(numbers, op.operands, strict=True)]
    alike = [SplatOp(results=tensor((), element_of(v)), value=0.0) for v in op.operands]
    probe = type(op).create(
        operands=[one.results[0] for one in alike],
        result_types=[tensor((), element_of(op.results[0]))],
        properties=dict(op.properties),
    )
    with np.errstate(all="ignore"):
        result = probe.evaluate(arrays)[0]
    probe.erase()
    return result


def shrink_operand(op: BinaryOp | SelectOp, r: Rewriter) -> SSAValue | None:
    """add(x, splat : 8x8) -> add(x, splat : scalar) where x alone has the result's shape."""
    if op.predicate is not None:
        return None
    known = [is_known(v, r) for v in op.operands]
    if not any(known):
        return None
    shape = shape_of(op.result)
    if not any(not k and shape_of(v) == shape for k, v in zip(known, op.operands, strict=True)):
        return None
    operands: list[SSAValue] = []
    for value in op.operands:
        # an exponent or condition may stand alone in shape, the others keep the result's
        number = None if not shape_of(value) else _number(value, r)
        operands.append(value if number is None else r.splat(number, tensor((), element_of(value))))
    if operands == list(op.operands):
        return None
    return r(type(op)(*operands, **plain_properties(op)))


def scalar_literal(op: LiteralOp, r: Rewriter) -> SSAValue | None:
    """literal of equal elements -> splat."""
    number = uniform_value(op.array())
    return None if number is None else r.splat(number, op.result)


PATTERNS = (
    Pattern((LiteralOp,), scalar_literal),
    Pattern((GraphOp,), moved_splat, lambda op: op.MOVES_ELEMENTS),
    Pattern((ReduceMeanOp,), moved_splat),
    Pattern((GraphOp,), computed_splat, lambda op: op.DATA_PARALLEL),
    Pattern((BinaryOp, SelectOp), shrink_operand),
)
