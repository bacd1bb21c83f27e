"""Reductions over axes, and indices of extreme values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_dialects.core.extent import are_equal, is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.arg_reduce import ArgMaxOp, ArgMinOp
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MinOp, MulOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.iota import IotaOp
from glow_dialects.ops.logic import AndOp, OrOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMinOp, ReduceProdOp, ReduceSumOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_frontends.graph import Emitter, RuleError, Value, dtype_of_value, rank, shape
from glow_frontends.stablehlo.node import Node, Rule
from glow_frontends.stablehlo.rules.regions import is_arg, kind_of, neutral
from glow_frontends.stablehlo.rules.shape import cut
from glow_frontends.stablehlo.values import cast, compact, expand, pointwise

#: The reduction of a kind, and the operator that joins what it gives with a start.
REDUCTIONS: dict[str, tuple[type[GraphOp], type[GraphOp]]] = {
    "add": (ReduceSumOp, AddOp),
    "max": (ReduceMaxOp, MaxOp),
    "min": (ReduceMinOp, MinOp),
    "mul": (ReduceProdOp, MulOp),
    "and": (ReduceMinOp, AndOp),
    "or": (ReduceMaxOp, OrOp),
}


def reduce(g: Emitter, n: Node) -> Sequence[Value]:
    """reduce."""
    count = len(n.operands) // 2
    axes = n.ints("dimensions")
    if count == 2 and len(axes) == 1 and _counts(n[1], axes[0]):
        largest = is_arg(g, n)
        if largest is not None:
            return _places(g, n, axes, largest)
    kind = kind_of(n.block())
    dtype = dtype_of_value(n[0])
    if kind not in REDUCTIONS or (kind in ("and", "or") and dtype != bool):
        return _folded(g, n, axes)
    result = reduced(g, kind, n[0], axes)
    return [started(g, kind, result, n[1])]


def reduced(g: Emitter, kind: str, x: Value, axes: Sequence[int]) -> Value:
    """x reduced over axes, which go."""
    return g(REDUCTIONS[kind][0], x, axes=tuple(axes), keepdims=False) if axes else x


def started(g: Emitter, kind: str, result: Value, start: Value) -> Value:
    """A reduction that begins with a number, which most often changes nothing."""
    if isinstance(start, np.ndarray) and bool((start == neutral(kind, start.dtype)).all()):
        return result
    return pointwise(g, REDUCTIONS[kind][1], result, start)


def _places(g: Emitter, n: Node, axes: Sequence[int], largest: bool) -> list[Value]:
    """The extreme along one axis, and its place: places are numbered by an iota."""
    places = g(ArgMaxOp if largest else ArgMinOp, n[0], axis=axes[0], keepdims=False)
    return [reduced(g, "max" if largest else "min", n[0], axes), cast(g, places, n.element(1))]


def _folded(g: Emitter, n: Node, axes: Sequence[int]) -> list[Value]:
    """A reduction by any function: one half of each axis joined with the other, until one is left."""
    count = len(n.operands) // 2
    values = list(n.operands[:count])
    if is_open([shape(n[0])[a] for a in axes]):
        raise RuleError("a reduction by a function of several operations over a dynamic size")
    for axis in axes:
        while (size := shape(values[0])[axis]) > 1:
            half = size // 2
            parts = [[_part(g, v, axis, k * half, (k + 1) * half) for v in values] for k in range(2)]
            joined = n.region(0, [*parts[0], *parts[1]])
            if size % 2:
                rest = [_part(g, v, axis, 2 * half, size) for v in values]
                joined = [g(ConcatOp, list(pair), axis=axis) for pair in zip(joined, rest, strict=True)]
            values = joined
    to = [s for i, s in enumerate(shape(n[0])) if i not in axes]
    values = [g.reshape(v, to) for v in values]
    return n.region(0, [*values, *(expand(g, v, to) for v in n.operands[count:])])


def _part(g: Emitter, x: Value, axis: int, begin: int, end: int) -> Value:
    """The places from `begin` on and before `end` of an axis."""
    starts, ends = [0] * rank(x), list(shape(x))
    starts[axis], ends[axis] = begin, end
    return cut(g, x, starts, ends)


def _counts(value: Value, axis: int) -> bool:
    """Whether a value holds the place of each element along an axis."""
    size = shape(value)[axis]
    small = compact(value)
    if isinstance(small, np.ndarray):
        return small.size == size and bool(np.array_equal(small.reshape(-1), np.arange(size)))
    only = all(are_equal(d, size if i == axis else 1) for i, d in enumerate(shape(small)))
    while isinstance(small.owner, ReshapeOp | CastOp):
        small = small.owner.input
    return only and isinstance(small.owner, IotaOp)


RULES: dict[str, Rule] = {"reduce": reduce}
