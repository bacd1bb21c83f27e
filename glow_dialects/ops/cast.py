"""cast: conversion of the element type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.element_types import is_standard
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import bool_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import (
    Array,
    Tensor,
    dtype_of,
    element_of,
    is_float,
    shape_of,
    tensor,
    typed,
)


@graph_op
class CastOp(PureOp):
    """The input with the result's element type (as NumPy's astype; floats truncate towards zero).

    `saturate` matters for float8 results only: values outside the range become the largest
    finite value instead of NaN or infinity (ONNX Cast).
    """

    name = "glow.cast"
    ONNX = "Cast"
    TORCH = "_to_copy"
    STABLEHLO = "convert"
    DATA_PARALLEL = True
    saturate = bool_prop(True)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def check(self) -> None:
        if shape_of(self.input) != shape_of(self.result):
            raise VerifyException(
                f"glow.cast: {self.input.type} and {self.result.type} differ in shape; a cast keeps the shape"
            )
        for value in (self.input, self.result):
            dtype_of(typed(value))  # raises where NumPy has no such type

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        if not is_float(element_of(self.input)) or not is_float(element_of(self.result)):
            return [None]
        return [b(CastOp(dy, results=self.input.type))]

    def reference(self, result: Array, input: Array) -> None:
        result[...] = convert(input, result.dtype, self.saturate)


def convert(array: Array, dtype: np.dtype, saturate: bool = True) -> Array:
    """`array` with another dtype, as glow.cast defines it."""
    if dtype.kind == "b":
        return np.asarray(array.astype(np.float32) != 0 if not is_standard(array.dtype) else array != 0)
    if dtype.name.startswith("float8") and saturate:
        return saturated(array, dtype)
    with np.errstate(all="ignore"):
        if not is_standard(array.dtype) and not is_standard(dtype):
            return array.astype(np.float32).astype(dtype)
        return array.astype(dtype)


def saturated(array: Array, dtype: np.dtype) -> Array:
    """float8 with values outside its range at the largest finite value; NaN stays NaN."""
    limit = float(cast(Any, ml_dtypes.finfo(dtype)).max)
    wide = array.astype(np.float32)
    return np.clip(wide, -limit, limit).astype(dtype)


_KINDS = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")
SAMPLES = (
    *(
        Sample(CastOp, (random(9, dtype=source, low=0, high=9),), results=tensor((9,), target), smooth=False)
        for source in _KINDS
        for target in _KINDS
        if source != target
    ),
    *(
        Sample(
            CastOp, (random(9, low=-3, high=3).astype(source),), results=tensor((9,), target), smooth=False
        )
        for source, target in (
            ("float32", ml_dtypes.bfloat16),
            (ml_dtypes.bfloat16, "float32"),
            (ml_dtypes.bfloat16, "int32"),
            ("int32", ml_dtypes.bfloat16),
            ("float32", ml_dtypes.float8_e4m3fn),
            (ml_dtypes.float8_e5m2, "float32"),
            ("int8", ml_dtypes.int4),
            (ml_dtypes.int4, "float32"),
        )
    ),
    Sample(CastOp, (random(3, 4, low=-5, high=5),), results=tensor((3, 4), "int32"), smooth=False),
    Sample(CastOp, (random(3, 4, low=-5, high=5),), results=tensor((3, 4), "int8"), smooth=False),
    Sample(CastOp, (random(3, 4),), results=tensor((3, 4), "float64"), smooth=False),
    Sample(CastOp, (random(3, 4),), results=tensor((3, 4), "bool"), smooth=False),
    Sample(CastOp, (random(3, 4, dtype="bool"),), results=tensor((3, 4), "float32"), smooth=False),
    Sample(CastOp, (random(3, 4, dtype="int64", low=-9, high=9),), results=tensor((3, 4)), smooth=False),
    Sample(CastOp, (random(3, 4),), results=tensor((3, 4), "float16"), smooth=False),
)
