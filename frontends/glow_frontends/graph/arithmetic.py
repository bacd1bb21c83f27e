"""Arithmetic that frontends share: matrix products, bounds, reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import is_float
from glow_dialects.ops.activation import ClipOp
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MinOp
from glow_dialects.ops.compare import CmpEqOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.reduce import (
    ReduceL1Op,
    ReduceL2Op,
    ReduceLogSumExpOp,
    ReduceLogSumOp,
    ReduceSumOp,
    ReduceSumSquareOp,
)
from glow_frontends.graph.cast import cast_to
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.errors import RuleError
from glow_frontends.graph.movement import take
from glow_frontends.graph.values import Value, dtype_of_value, rank, shape, type_of


def product(g: Emitter, a: Value, b: Value) -> Value:
    """numpy.matmul."""
    if rank(a) == 2 and rank(b) == 2:
        return g(MatmulOp, a, b)
    if rank(a) == 0 or rank(b) == 0:
        raise RuleError("matmul of a scalar")
    left = g.reshape(a, (1, *shape(a))) if rank(a) == 1 else a
    right = g.reshape(b, (*shape(b), 1)) if rank(b) == 1 else b
    y = g(MatmulOp if rank(left) == rank(right) == 2 else BatchMatmulOp, left, right)
    dims = list(shape(y))
    if rank(b) == 1:
        dims.pop()
    if rank(a) == 1:
        dims.pop(-2 if rank(b) != 1 else -1)
    return g.reshape(y, dims)


def clamp(g: Emitter, x: Value, low: Value | None, high: Value | None) -> Value:
    """min(max(x, low), high), as one operator where the bounds are known."""
    limits = [(v.reshape(()) if isinstance(v, np.ndarray) and v.size == 1 else v) for v in (low, high)]
    if is_float(type_of(x).element_type) and all(v is None or isinstance(v, np.ndarray) for v in limits):
        given: dict[str, Any] = {n: v for n, v in zip(("min", "max"), limits, strict=True) if v is not None}
        known: dict[str, Any] = {name: float(bound) for name, bound in given.items()}
        return g(ClipOp, x, **known)
    if low is not None:
        x = g(MaxOp, x, low)
    return x if high is None else g(MinOp, x, high)


def reduce(g: Emitter, kind: type[GraphOp], x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    """A reduction; booleans reduce as integers."""
    if not axes and kind not in (
        ReduceSumSquareOp,
        ReduceL1Op,
        ReduceL2Op,
        ReduceLogSumOp,
        ReduceLogSumExpOp,
    ):
        return x
    if dtype_of_value(x) == np.dtype(bool):
        y = g(kind, cast_to(g, x, np.dtype(np.uint8)), axes=axes, keepdims=keepdims)
        return cast_to(g, y, np.dtype(bool))
    return g(kind, x, axes=axes, keepdims=keepdims)


def not_zero(g: Emitter, x: Value, label: str) -> Value:
    """Divisors that are no whole 0: known ones are checked now, others when the program runs.

    The number of zeros is an index into a table of one.
    """
    text = "a divisor is 0"
    if dtype_of_value(x).kind not in "iu" or 0 in shape(x):
        return x
    if isinstance(x, np.ndarray):
        if not x.all():
            raise RuleError(text)
        return x
    zero = cast_to(g, g(CmpEqOp, x, g.like(0, x)), np.dtype(np.int64))
    found = g(ReduceSumOp, zero, axes=tuple(range(rank(x))), keepdims=False) if rank(x) else zero
    return g(AddOp, x, take(g, g.like(0, x).reshape(1), found, 0, f"{label}: {text}."))
