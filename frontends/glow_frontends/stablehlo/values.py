"""Broadcast values, kept unexpanded as long as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.extent import are_equal
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import broadcast_shapes, tensor
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.expand import ExpandOp
from glow_frontends.graph import Emitter, Value, dtype_of_value, is_uniform, shape, type_of
from glow_frontends.graph.movement import expanded


def same(x: Sequence[int], y: Sequence[int]) -> bool:
    """Whether two shapes are equal for all sizes that are open."""
    return len(x) == len(y) and all(are_equal(a, b) for a, b in zip(x, y, strict=True))


def compact(value: Value) -> Value:
    """A value with size 1 wherever it only repeats itself; a scalar where it is one number."""
    if isinstance(value, SSAValue):
        return value.owner.input if isinstance(value.owner, ExpandOp) else value
    if is_uniform(value):
        return np.asarray(value[(0,) * value.ndim])
    sizes = zip(value.shape, value.strides, strict=True)
    return value[tuple(slice(0, 1) if stride == 0 and n > 1 else slice(None) for n, stride in sizes)]


def expand(g: Emitter, value: Value, to: Sequence[int]) -> Value:
    """A value repeated along axes of size 1, and along new axes in front; costs nothing by itself."""
    return value if same(shape(value), to) else expanded(g, value, to)


def pointwise(
    g: Emitter, kind: type[GraphOp], *values: Value, element: Attribute | None = None, **properties: Any
) -> Value:
    """An element-wise operator on values of one shape: computed once where all of them repeat themselves."""
    full = broadcast_shapes(*map(shape, values))
    small = [compact(v) for v in values]
    results = None if element is None else tensor(broadcast_shapes(*map(shape, small)), element)
    return expand(g, g(kind, *small, results=results, **properties), full)


def cast(g: Emitter, value: Value, element: Attribute) -> Value:
    """A value as another element type."""
    if type_of(value).element_type == element:
        return value
    return pointwise(g, CastOp, value, element=element)


def like(number: float | int | bool, value: Value) -> Value:
    """A number in the element type of a value."""
    return np.array(number).astype(dtype_of_value(value))
