"""Whatever is computed element by element from one 8-bit value, and stored on 8 bits, is one table.

    quantize(x * dequantize(quantize(sigmoid(x)))) of x = dequantize(q)  ->  lookup(q, table)

Models that other tools quantised are full of these: an activation is several operators there, with
conversions between them, of which some read the same value again.
"""

from __future__ import annotations

from typing import Any

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


def function_of_bytes(op: Any, r: Rewriter) -> SSAValue | None:
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
    open_values: list[SSAValue] = list(op.results)
    while not cone or len(open_values) > 1 or not is_byte(open_values[0]):
        following = _last(open_values, op)
        if following is None or len(cone) == MOST:
            return None
        cone.append(following)
        open_values.remove(following.results[0])
        for value in following.operands:
            if not _is_known(value, following, r) and value not in open_values:
                open_values.append(value)
        if not open_values or any(shape_of(v) != shape_of(op.results[0]) for v in open_values):
            return None
    if all(_is_simple(each) for each in cone):
        return None
    return open_values[0], cone[::-1]


def _is_simple(op: GraphOp) -> bool:
    """Whether no table is worth it: the operator becomes the type and the limits of the one before."""
    return isinstance(op, QuantizeOp | DequantizeOp | RescaleOp) or op.clamp_limits() is not None


def _last(values: list[SSAValue], root: GraphOp) -> GraphOp | None:
    """The operator that makes the last of some values; None where any real one is made otherwise."""
    last: GraphOp | None = None
    for value in values:
        owner = value.owner
        if not isinstance(owner, GraphOp) or not _is_elementwise(owner):
            if not is_byte(value):
                return None
        elif last is None or (owner is not last and last.is_before_in_block(owner)):
            last = owner
    return last


def _is_elementwise(op: GraphOp) -> bool:
    return (op.DATA_PARALLEL or op.PARALLEL_BY_TYPE) and len(op.results) == 1 and op.predicate is None


def _is_known(value: SSAValue, reader: GraphOp, r: Rewriter) -> bool:
    """Whether an operand is one number at compile time, or the table of a lookup."""
    array = r.array(value)
    is_table = isinstance(reader, LookupOp) and value is reader.table
    return array is not None and (array.size == 1 or is_table)


PATTERN = Pattern((QuantizeOp, QuantizedBinaryOp), function_of_bytes)
