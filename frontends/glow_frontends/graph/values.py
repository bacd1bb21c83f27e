"""Tensors during import: a known array, or a value of the graph, possibly with a data-dependent length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.types import Array, Tensor, dtype_of, shape_of, tensor, typed

#: A tensor: known now (an array) or only at run time (an SSA value).
Value: TypeAlias = Array | SSAValue

#: Refuse tensors of more elements than this: no machine holds them, and sizes must fit in int64.
MAX_ELEMENTS = 1 << 36


@dataclass(eq=False)
class BoundedValue:
    """A tensor whose length along `axis` only the run tells: the first `count` (i64) places of `value`."""

    value: SSAValue
    axis: int
    count: SSAValue


def shape(value: Value) -> tuple[int, ...]:
    """The static shape."""
    return shape_of(value) if isinstance(value, SSAValue) else tuple(value.shape)


def rank(value: Value) -> int:
    """The number of dimensions."""
    return len(shape(value))


def dtype_of_value(value: Value) -> np.dtype:
    """The NumPy dtype; `object` for strings."""
    return dtype_of(value.type) if isinstance(value, SSAValue) else value.dtype


def type_of(value: Value) -> Tensor:
    """The tensor type; a VerifyException for strings, which no compiled tensor holds."""
    if isinstance(value, SSAValue):
        return typed(value)
    try:
        return tensor(value.shape, value.dtype)
    except UnsupportedError as error:
        raise VerifyException(str(error)) from None


def is_uniform(array: Array) -> bool:
    """Whether the array visibly repeats one element (stride 0 everywhere), whatever its size."""
    return array.size > 0 and all(s == 0 or n == 1 for n, s in zip(array.shape, array.strides, strict=True))


def uniform(value: Array, shape: Sequence[int]) -> Array:
    """A tensor of one value that occupies one element of memory."""
    return np.broadcast_to(np.asarray(value).reshape(()), tuple(shape))
