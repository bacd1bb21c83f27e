"""Signed bytes of activations become unsigned ones: the form that runtimes have kernels for."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import UniformQuantizedType, element_of, shape_of, tensor
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.requantize import NO_HIGH, NO_LOW, scale_of, zero_of

#: Layers whose weights stay signed.
_LAYERS = (QuantizedConvOp, QuantizedFullyConnectedOp)
#: Properties that hold stored integers of the result.
_LIMITS = ("low", "high")
_SHIFT = 128


def _moved(value: SSAValue) -> UniformQuantizedType | None:
    """The unsigned type for signed bytes of one scale."""
    kind = element_of(value)
    if not isinstance(kind, UniformQuantizedType) or kind.axis.data >= 0:
        return None
    if kind.storage.width.data != 8 or not kind.signed:
        return None
    return UniformQuantizedType.of(8, scale_of(kind), zero_of(kind) + _SHIFT, signed=False)


def unsigned_activations(function: FuncOp) -> None:
    """Store q + 128 for every q of such a type, in values, limits and constants.

    Nothing changes where stored integers are seen from outside: at placeholders and bit casts.
    """
    operators = list(function.body.block.ops)
    if any(_exposed(op) for op in operators):
        return
    for op in operators:
        if isinstance(op, GetOp):
            _constant(op)
            continue
        if not isinstance(op, GraphOp):
            continue
        for result in list(op.results):
            kind = _moved(result)
            if kind is None:
                continue
            for name in _LIMITS if not isinstance(op, PadOp) else ("value",):
                _shift(op, name)
            Rewriter.replace_value_with_new_type(result, tensor(shape_of(result), kind))


def _exposed(op: Operation) -> bool:
    if isinstance(op, GetOp | SaveOp):
        seen = op.results if isinstance(op, GetOp) else op.operands
        target: Any = op.target()
        return isinstance(target, PlaceholderOp) and any(_moved(v) is not None for v in seen)
    return isinstance(op, BitCastOp) and any(_moved(v) is not None for v in (*op.operands, *op.results))


def _shift(op: Any, name: str) -> None:
    attribute = op.properties.get(name)
    if attribute is None or getattr(op, name) in (NO_LOW, NO_HIGH):
        return
    op.properties[name] = type(attribute)(getattr(op, name) + _SHIFT, attribute.type)


def _constant(get: GetOp) -> None:
    """A constant's own copy of unsigned bytes."""
    kind, source = _moved(get.result), get.target()
    weights = any(isinstance(u.operation, _LAYERS) and u.index == 1 for u in get.result.uses)
    if kind is None or weights or not isinstance(source, ConstantOp):
        return
    array = source.array()
    assert array is not None
    name = f"{source.sym_name.data}.unsigned"
    constant = ConstantOp.of(name, (array.astype(np.int16) + _SHIFT).astype(np.uint8), _typed(get, kind))
    parent = source.parent
    assert parent is not None
    if not any(isinstance(o, ConstantOp) and o.sym_name.data == name for o in parent.ops):
        parent.insert_op_before(constant, source)
    get.properties["symbol"] = GetOp.of(constant).symbol
    Rewriter.replace_value_with_new_type(get.result, _typed(get, kind))


def _typed(get: GetOp, kind: UniformQuantizedType) -> Any:
    return tensor(shape_of(get.result), kind)
