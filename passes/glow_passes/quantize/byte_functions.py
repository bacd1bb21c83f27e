"""Whatever is computed element by element from one 8-bit value, and stored on 8 bits, is one table.

    quantize(x * dequantize(quantize(sigmoid(x)))) of x = dequantize(q)  ->  lookup(q, table)

Models that other tools quantised are full of these: an activation is several operators there, with
conversions between them, of which some read the same value again.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import (
    Array,
    Tensor,
    dtype_of,
    element_of,
    shape_of,
    tensor,
)
from glow_dialects.ops.lookup import LookupOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp, RescaleOp, is_byte, limits_of, quantized_type
from glow_dialects.ops.quantized_arithmetic import QuantizedBinaryOp
from glow_passes.graph.driver import Pattern, Rewriter
from glow_passes.quantize.elementwise_chains import applied

#: A function of more operators than this is left as it is.
MOST = 32


def function_of_bytes(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """A stored value that depends on one other alone -> lookup(other, table)."""
    result = op.results[0]
    function = _cone(op, r) if is_byte(result) else None
    if function is None:
        return None
    source, cone = function
    low, high = limits_of(quantized_type(source))
    known: dict[SSAValue, Array] = {source: np.arange(low, high + 1).astype(dtype_of(source.type))}
    for each in cone:
        known[each.results[0]] = applied(each, [_array(v, known, r) for v in each.operands])
    kind: Tensor = tensor((256,), element_of(result))
    table = known[result].astype(dtype_of(kind))
    return r(LookupOp(source, r.weight(table, "table", kind)))


def _array(value: SSAValue, known: dict[SSAValue, Array], r: Rewriter) -> Array:
    """A value for every stored integer; one number, or a table, where it is known at compile time."""
    if value in known:
        return known[value]
    array = r.array(value)
    assert array is not None
    array = np.asarray(array)
    return array.reshape(()) if array.size == 1 else array


def _cone(op: GraphOp, r: Rewriter) -> tuple[SSAValue, list[GraphOp]] | None:
    """The nearest stored value that alone decides about a result, and the operators between, in order."""
    cone: list[GraphOp] = []
    result = op.results[0]
    makers: dict[SSAValue, GraphOp | None] = {result: _maker(result)}
    while not cone or len(makers) > 1 or not is_byte(next(iter(makers))):
        open_ops = [maker for maker in makers.values() if maker is not None]
        if not open_ops or len(cone) == MOST:
            return None
        following = r.last(open_ops)
        cone.append(following)
        del makers[following.results[0]]
        for value in following.operands:
            if value in makers or _is_known(value, following, r):
                continue
            makers[value] = _maker(value)
            if shape_of(value) != shape_of(result) or not (makers[value] or is_byte(value)):
                return None
        if not makers:
            return None
    if all(_is_simple(each) for each in cone):
        return None
    return next(iter(makers)), cone[::-1]


def _is_simple(op: GraphOp) -> bool:
    """Whether no table is worth it: the operator becomes the type and the limits of the one before."""
    return isinstance(op, QuantizeOp | DequantizeOp | RescaleOp) or op.clamp_limits() is not None


def _maker(value: SSAValue) -> GraphOp | None:
    """The element-wise operator that makes a value, if one does."""
    op = value.owner
    if not isinstance(op, GraphOp) or len(op.results) != 1 or op.predicate is not None:
        return None
    return op if op.DATA_PARALLEL or op.PARALLEL_BY_TYPE else None


def _is_known(value: SSAValue, reader: GraphOp, r: Rewriter) -> bool:
    """Whether an operand is one number at compile time, or the table of a lookup."""
    array = r.array(value)
    is_table = isinstance(reader, LookupOp) and value is reader.table
    return array is not None and (array.size == 1 or is_table)


PATTERN = Pattern((QuantizeOp, QuantizedBinaryOp), function_of_bytes)
