"""Arithmetic on sizes of tensors that only the run tells: followed while importing, like known arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, dtype_of, is_standard
from glow_dialects.ops.arithmetic import AddOp, DivOp, FloorDivOp, MaxOp, MinOp, ModOp, MulOp, SubOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpGtOp, CmpLeOp, CmpLtOp, CmpNeOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.iota import SizesOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.slice import SliceOp, indices
from glow_dialects.ops.unary_math import NegOp
from glow_frontends.onnx.values import Value, dtype_of_value, shape

#: Types that hold every size.
_WIDE = frozenset({"int32", "int64", "float32", "float64"})
#: Arrays of more numbers are no sizes.
MAX_SIZES = 64


def sizes_of(value: Value) -> Array | None:
    """Whole numbers as an array of objects: a small known array, or sizes that only the run tells."""
    if isinstance(value, SSAValue):
        source = value.owner
        if isinstance(source, ReshapeOp):
            inner = sizes_of(source.input)
            return None if inner is None else inner.reshape(shape(value))
        return source.array() if isinstance(source, SizesOp) else None
    if value.size > MAX_SIZES or not is_standard(value.dtype):
        return None
    if value.dtype.kind == "f" and np.all(np.abs(value) < 2**63) and np.all(value == np.trunc(value)):
        value = value.astype(np.int64)
    return value.astype(object) if value.dtype.kind in "iub" else None


def objects(values: Sequence[int]) -> Array:
    """Whole numbers, extents among them, as an array of objects."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def objects_of(result: Any) -> Array:
    """An array of objects, of what operators on objects give for scalars, too."""
    return np.asarray(result, object) if isinstance(result, np.ndarray) else objects([result]).reshape(())


def on_sizes(
    kind: type[GraphOp],
    values: Sequence[Value],
    results: Attribute | Sequence[Attribute] | None,
    properties: dict[str, Any],
) -> tuple[Array, np.dtype] | None:
    """The result of an operator on sizes, where some of them are open and all are known; and its dtype."""
    rule = _RULES.get(kind)
    if rule is None:
        return None
    arrays = [sizes_of(v) for v in values]
    if any(a is None for a in arrays):
        return None
    dtype = dtype_of_value(values[-1])
    if kind in _WHOLE and dtype.kind == "f":
        return None  # a quotient of real numbers may be no whole number
    if kind is CastOp and dtype_of(cast(Attribute, results)).name not in _WIDE:
        return None
    if isinstance(results, Attribute):
        dtype = dtype_of(results)
    elif kind in _COMPARISONS:
        dtype = np.dtype(bool)
    elif kind is GatherOp:
        dtype = dtype_of_value(values[0])
    return objects_of(rule(properties, *arrays)), dtype


def _quotient(x: int, y: int) -> int:
    """ONNX's division of whole numbers, which rounds to zero."""
    if y < 0:
        x, y = -x, -y
    return x // y if x >= 0 else -(-x // y)


_quotients = np.frompyfunc(_quotient, 2, 1)


#: Operators that give whole numbers for whole numbers in integer types only.
_WHOLE = frozenset({DivOp, FloorDivOp, ModOp})
_Rule = Callable[..., Any]
_COMPARISONS: dict[type[GraphOp], _Rule] = {
    CmpEqOp: lambda _, x, y: x == y,
    CmpNeOp: lambda _, x, y: x != y,
    CmpLtOp: lambda _, x, y: x < y,
    CmpLeOp: lambda _, x, y: x <= y,
    CmpGtOp: lambda _, x, y: x > y,
    CmpGeOp: lambda _, x, y: x >= y,
}
_RULES: dict[type[GraphOp], _Rule] = {
    **_COMPARISONS,
    AddOp: lambda _, x, y: x + y,
    SubOp: lambda _, x, y: x - y,
    MulOp: lambda _, x, y: x * y,
    DivOp: lambda _, x, y: _quotients(x, y),
    FloorDivOp: lambda _, x, y: x // y,
    ModOp: lambda _, x, y: x % y,
    NegOp: lambda _, x: -x,
    MaxOp: lambda _, x, y: np.maximum(x, y),
    MinOp: lambda _, x, y: np.minimum(x, y),
    CastOp: lambda _, x: x,
    SelectOp: lambda _, which, x, y: np.where(which.astype(bool), x, y),
    ConcatOp: lambda p, *parts: np.concatenate(parts, p["axis"]),
    GatherOp: lambda p, x, i: np.take(x, i.astype(np.int64), p.get("axis", 0)),
    SliceOp: lambda p, x: x[indices(p["starts"], p["ends"], p["steps"])],
}
