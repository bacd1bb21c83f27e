"""Primitives: Python ints stored in int arrays, with an error if the element type is too small."""

from __future__ import annotations

from typing import Any

import numpy as np

from glow_dialects.core.errors import raised
from glow_dialects.fn.domain import Scalar, TensorType, TupleType
from glow_dialects.fn.primitive import Typing
from glow_dialects.fn.primitives.arithmetic import ToInt
from glow_dialects.fn.python_values import alike, is_tuple
from glow_dialects.fn.regions import out_of_bounds
from glow_dialects.fn.unit import limits
from glow_dialects.fn.values import V, is_mapped, parts

_INT = np.dtype(np.int64)


def _limits(dtype: str) -> tuple[int, int] | None:
    """The least and the largest int of an element type; None where all fit, or it is none of ints."""
    if dtype == "bool" or not dtype.startswith(("int", "uint")):
        return None
    return limits([np.dtype(dtype), _INT], [False, True])


def fitted(m: Typing, whole: V, value: V, where: str) -> V:
    """A number that becomes an element of an array, or such a list: the run stops where the array's type
    does not hold it.
    """
    if isinstance(whole.type, TensorType) and isinstance(value.type, TupleType) and not is_mapped(value):
        return m.tuple([fitted(m, whole, item, where) for item in parts(value)])
    if not isinstance(whole.type, TensorType) or not isinstance(value.type, Scalar) or is_mapped(value):
        return value
    if value.type.kind == "float" and whole.type.dtype.startswith(("int", "uint")):
        value = m.scalar(ToInt(), [value], where)
    assert isinstance(value.type, Scalar)
    range_, const = _limits(whole.type.dtype), value.type.const
    if (
        value.type.kind == "int"
        and range_ is not None
        and (const is None or not range_[0] <= const <= range_[1])
    ):
        m.t.within(value.code, *range_)
    return value


def fitting(whole: Any, value: Any, where: str) -> Any:
    """The same in the interpreter: OverflowError, or ValueError for NaN."""
    if not isinstance(whole, np.ndarray) or whole.dtype.kind not in "iu":
        return value
    if is_tuple(value):
        return alike(value, [fitting(whole, item, where) for item in value])
    if type(value) is float:
        try:
            value = int(value)
        except (ValueError, OverflowError) as error:
            raise raised(type(error).__name__, str(error), where) from None
    range_ = _limits(whole.dtype.name)
    if type(value) is int and range_ is not None and not range_[0] <= value <= range_[1]:
        raise out_of_bounds(value, whole.dtype.name, where)
    return value
