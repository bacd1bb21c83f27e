"""Chains of element-wise operators on one 8-bit value, which become one lookup table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Block, SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import (
    Array,
    UniformQuantizedType,
    dtype_of,
    element_of,
    shape_of,
    tensor,
)
from glow_dialects.ops.quantize import dequantize_array, limits_of
from glow_passes.graph.driver import is_used_once

Contents = Callable[[SSAValue], Array | None]


def variable(op: GraphOp, array: Contents) -> SSAValue | None:
    """The one operand that a result depends on element by element, where the others are numbers."""
    if not op.DATA_PARALLEL or op.predicate is not None or len(op.results) != 1:
        return None
    result = op.results[0]
    known = [array(v) for v in op.operands]
    left = [v for v, a in zip(op.operands, known, strict=True) if a is None]
    if len({id(v) for v in left}) != 1 or any(a is not None and a.size != 1 for a in known):
        return None
    if shape_of(left[0]) != shape_of(result) or element_of(left[0]) != element_of(result):
        return None
    return left[0]


def chain_from(op: GraphOp, array: Contents) -> list[GraphOp]:
    """`op` and the operators after it, each of which alone reads the one before; [] if there is none."""
    if variable(op, array) is None:
        return []
    chain = [op]
    while is_used_once(chain[-1].results[0]):
        use = chain[-1].results[0].first_use
        assert use is not None
        reader = use.operation
        if not isinstance(reader, GraphOp) or variable(reader, array) is not chain[-1].results[0]:
            break
        chain.append(reader)
    return chain


def evaluated(chain: Sequence[GraphOp], x: Array, array: Contents) -> Array:
    """The chain's last result for a vector `x` in place of its first operand, as float32."""
    value = x.astype(np.float32)
    for op in chain:
        arrays: list[Array] = []
        for operand in op.operands:
            known = array(operand)
            arrays.append(value if known is None else np.asarray(known).reshape(()))
        value = applied(op, arrays)
    return np.asarray(value, np.float32)


def applied(op: GraphOp, arrays: Sequence[Array]) -> Array:
    """The result of an operator for `arrays` of any shapes in place of its operands."""
    like = zip(arrays, op.operands, strict=True)
    block = Block(arg_types=[tensor(a.shape, element_of(v)) for a, v in like])
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    probe: Any = type(op).create(
        operands=block.args,
        result_types=[tensor(shape, element_of(op.results[0]))],
        properties=dict(op.properties),
    )
    like = zip(arrays, op.operands, strict=True)
    with np.errstate(all="ignore"):
        (value,) = probe.evaluate([a.astype(dtype_of(v.type)) for a, v in like])
    probe.drop_all_references()
    return value


def stored_values(kind: UniformQuantizedType) -> Array:
    """The real numbers of every stored integer of an 8-bit type, from the smallest on."""
    low, high = limits_of(kind)
    return dequantize_array(np.arange(low, high + 1), kind).astype(np.float32)
