"""Rules of element type conversion."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import TensorProto

from glow_dialects.core.types import Array, element_type, tensor
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.cast import CastOp
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.tensors import numpy_type
from glow_frontends.onnx.values import Value, dtype_of_value, shape

#: Float types whose conversion saturates at the largest finite value unless told otherwise.
SATURATING = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def cast_to(g: Emitter, value: Value, dtype: np.dtype) -> Value:
    """`value` converted; itself where it has the dtype."""
    source = dtype_of_value(value)
    if source == dtype:
        return value
    if object in (source, dtype):
        return _text_cast(g.known(value, "a conversion of strings"), dtype)
    return g(CastOp, value, results=tensor(shape(value), element_type(dtype)))


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


def convert(g: Emitter, value: Value, dtype: np.dtype, saturate: bool = True) -> Value:
    """Cast's meaning: conversion to an eight-bit float saturates where `saturate`."""
    source = dtype_of_value(value)
    if saturate and dtype.name in SATURATING and source != dtype and source != object:
        largest = float(ml_dtypes.finfo(dtype).max)
        wide = value if source in (np.float32, np.float64) else cast_to(g, value, np.dtype(np.float32))
        value = g(ClipOp, wide, min=-largest, max=largest)
    return cast_to(g, value, dtype)


def cast(g: Emitter, n: Node) -> Value:
    """Cast and CastLike."""
    if n.op == "CastLike":
        to = dtype_of_value(n[1])
    elif n.opset < 6:
        to = numpy_type(TensorProto.DataType.Value(n.text("to").upper()))
    else:
        to = numpy_type(n.integer("to"))
    return convert(g, n[0], to, n.flag("saturate", True))


def bitcast(g: Emitter, n: Node) -> Value:
    """BitCast of known data."""
    return g.known(n[0], "a bit cast").view(numpy_type(n.integer("to")))


RULES: dict[str, Versions] = {"Cast": cast, "CastLike": cast, "BitCast": bitcast}
