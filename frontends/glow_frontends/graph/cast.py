"""Conversion of element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from glow_dialects.core.types import Array, element_type, tensor
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.cast import CastOp
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.errors import RuleError
from glow_frontends.graph.values import Value, dtype_of_value, shape

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


def bits_as(g: Emitter, x: Value, to: np.dtype) -> Value:
    """The same bits as another element type of as many."""
    if dtype_of_value(x) == to:
        return x
    return g(BitCastOp, x, results=tensor(shape(x), element_type(to)))
