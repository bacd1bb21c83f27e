"""Data movement: concatenation, slices, repetition, indexing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.extent import is_open
from glow_dialects.core.types import Array, broadcast_shapes, tensor
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.slice import SliceOp
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.errors import RuleError
from glow_frontends.graph.module import check_size
from glow_frontends.graph.values import Value, dtype_of_value, rank, shape, type_of, uniform


def repeated(g: Emitter, value: Array, dims: Sequence[int]) -> Value:
    """A tensor of one value."""
    if not is_open(dims):
        return uniform(value, dims)
    return g(ExpandOp, g.value(value.reshape(())), results=tensor(dims, value.dtype))


def join(g: Emitter, parts: list[Value], axis: int) -> Value:
    """Concatenation of one or more tensors."""
    if len(parts) == 1:
        return parts[0]
    if any(dtype_of_value(p) == object for p in parts):
        return np.concatenate([g.known(p, "a concatenation of strings") for p in parts], axis)
    return g(ConcatOp, parts, axis=axis)


def cut(g: Emitter, x: Value, begin: list[int], end: list[int], step: list[int] | None = None) -> Value:
    """Elements begin, begin + step, ... before end, of each axis."""
    step = step or [1] * len(begin)
    end = [max(e, b) if s > 0 else min(e, b) for b, e, s in zip(begin, end, step, strict=True)]
    if tuple(begin) == (0,) * len(begin) and tuple(end) == shape(x) and all(s == 1 for s in step):
        return x
    if isinstance(x, np.ndarray) and (x.dtype == object or not is_open((*begin, *end))):
        index = [slice(b, e if e >= 0 else None, s) for b, e, s in zip(begin, end, step, strict=True)]
        return np.asarray(x[tuple(index)])
    return g(SliceOp, x, starts=tuple(begin), ends=tuple(end), steps=tuple(step))


def span(g: Emitter, x: Value, axis: int, begin: int, end: int) -> Value:
    """x[begin:end] of an axis."""
    begins, ends = [0] * rank(x), list(shape(x))
    begins[axis], ends[axis] = begin, end
    return cut(g, x, begins, ends)


def element(g: Emitter, x: Value, axis: int, index: int) -> Value:
    """x[index] of an axis, which is gone."""
    dims = list(shape(x))
    del dims[axis]
    return g.reshape(span(g, x, axis, index, index + 1), dims)


def pieces(g: Emitter, x: Value, axis: int, sizes: tuple[int, ...]) -> list[Value]:
    """Consecutive slices of given sizes along an axis."""
    out: list[Value] = []
    start = 0
    for length in sizes:
        out.append(span(g, x, axis, start, start + length))
        start += length
    return out


def broadcast(g: Emitter, x: Value, target: tuple[int, ...]) -> Value:
    """`x` broadcast together with a tensor of shape `target`."""
    try:
        dims = broadcast_shapes(shape(x), target)
    except VerifyException:
        raise RuleError(f"{shape(x)} does not broadcast to {target}") from None
    if any(d < 0 for d in target):
        raise RuleError(f"the target {target} has a negative size")
    if dims == shape(x):
        return x
    check_size(dims)
    return expanded(g, x, dims)


def expanded(g: Emitter, x: Value, dims: Sequence[int]) -> Value:
    """`x` repeated along axes of size 1 and new axes in front."""
    if isinstance(x, np.ndarray) and not is_open(dims):
        return np.broadcast_to(x, tuple(dims))
    return g(ExpandOp, x, results=tensor(dims, type_of(x).element_type))


def known_indices(indices: Array, limits: Array) -> Array:
    """Indices, which may count from the end, as such from 0 on; RuleError where one is out of range."""
    bad = indices[(indices < -limits) | (indices >= limits)]
    if bad.size:
        size = " x ".join(map(str, limits.reshape(-1)))
        raise RuleError(f"index {bad.flat[0]} is out of range for {size} elements")
    return np.where(indices < 0, indices + limits, indices)


def take(g: Emitter, x: Value, indices: Value, axis: int, checked: str | None = None) -> Value:
    """numpy.take; known indices are not negative, others are if `checked` gives the operator a name."""
    if isinstance(x, np.ndarray) and isinstance(indices, np.ndarray):
        return np.asarray(np.take(x, indices, axis))
    if isinstance(indices, np.ndarray) and indices.size == 1:
        place = int(indices.reshape(()))
        dims = (*shape(x)[:axis], *shape(indices), *shape(x)[axis + 1 :])
        return g.reshape(span(g, x, axis, place, place + 1), dims)
    return g(GatherOp, x, indices, axis=axis, checked=checked)
