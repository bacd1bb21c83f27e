"""Rules of element type conversion."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import TensorProto

from glow_dialects.core.types import Array, element_type, tensor
from glow_dialects.ops.arithmetic import MaxOp, MulOp
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpGtOp, CmpLtOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.tensors import numpy_type
from glow_frontends.onnx.values import Value, dtype_of_value, shape

E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)


def cast_to(g: Emitter, value: Value, dtype: np.dtype, saturate: bool = True) -> Value:
    """`value` converted; itself where it has the dtype. float8 results saturate where asked for."""
    source = dtype_of_value(value)
    if source == dtype:
        return value
    if object in (source, dtype):
        return _text_cast(g.known(value, "a conversion of strings"), dtype)
    return g(CastOp, value, results=tensor(shape(value), element_type(dtype)), saturate=saturate)


def _text_cast(array: Array, dtype: np.dtype) -> Array:
    """To and from strings, as ONNX writes numbers."""
    if dtype == object:
        texts = [str(v) if array.dtype.kind != "f" else _number(v) for v in array.reshape(-1)]
        return np.array(texts, dtype=object).reshape(array.shape)
    try:
        numbers = [float(v) for v in array.reshape(-1)]
    except ValueError as error:
        raise RuleError(str(error)) from None
    return np.array(numbers).reshape(array.shape).astype(dtype)


def _number(value: float) -> str:
    text = str(np.float32(value))
    return {"nan": "NaN", "inf": "INF", "-inf": "-INF"}.get(text, text)


def _power_of_two(g: Emitter, value: Value, mode: str) -> Value:
    """`value` as a power of two, of the given rounding, before it becomes a float8_e8m0."""
    wide = cast_to(g, value, np.dtype(np.float32))
    wide = g(MaxOp, wide, g.like(2.0**-127, wide))
    near = cast_to(g, cast_to(g, wide, E8M0), np.dtype(np.float32))
    if mode == "nearest":
        return near
    up = mode == "up"
    wrong = g(CmpLtOp if up else CmpGtOp, near, wide)
    return g(SelectOp, wrong, g(MulOp, near, g.like(2.0 if up else 0.5, near)), near)


def cast(g: Emitter, n: Node) -> Value:
    """Cast and CastLike."""
    if n.op == "CastLike":
        to = dtype_of_value(n[1])
    elif n.opset < 6:
        to = numpy_type(TensorProto.DataType.Value(n.text("to").upper()))
    else:
        to = numpy_type(n.integer("to"))
    value = n[0]
    if to == E8M0 and dtype_of_value(value) != E8M0:
        value = _power_of_two(g, value, n.text("round_mode", "up"))
    return cast_to(g, value, to, n.flag("saturate", True))


def bitcast(g: Emitter, n: Node) -> Value:
    """BitCast: the same bits as another element type."""
    x, to = n[0], numpy_type(n.integer("to"))
    byte = np.dtype(np.uint8)
    if dtype_of_value(x) == np.dtype(bool):
        x = cast_to(g, x, byte)
    if to == np.dtype(bool):
        return cast_to(g, bits_as(g, x, byte), to)
    return bits_as(g, x, to)


def bits_as(g: Emitter, x: Value, to: np.dtype) -> Value:
    """The same bits as another element type of as many."""
    if dtype_of_value(x) == to:
        return x
    return g(BitCastOp, x, results=tensor(shape(x), element_type(to)))


RULES: dict[str, Versions] = {"Cast": cast, "CastLike": cast, "BitCast": bitcast}
