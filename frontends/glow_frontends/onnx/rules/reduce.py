"""Rules of reductions and arg-reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.arg_reduce import ArgMaxOp, ArgMinOp
from glow_dialects.ops.arithmetic import MinOp, MulOp
from glow_dialects.ops.cumsum import CumsumOp
from glow_dialects.ops.reduce import (
    ReduceL1Op,
    ReduceL2Op,
    ReduceLogSumExpOp,
    ReduceLogSumOp,
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
    ReduceSumSquareOp,
)
from glow_dialects.ops.top_k import TopKOp
from glow_dialects.ops.unary_math import AbsOp, LogOp
from glow_frontends.graph import BoundedValue, Emitter, RuleError, Value, rank, shape
from glow_frontends.graph.arithmetic import reduce
from glow_frontends.graph.axes import axes_of, axis_of
from glow_frontends.graph.counts import upper
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.indexing import in_range
from glow_frontends.onnx.rules.rule import Rule, Versions


def reduction(kind: type[GraphOp]) -> Rule:
    """ReduceXxx: axes by attribute, or by input in later versions."""

    def rule(g: Emitter, n: Node) -> Value:
        x = n[0]
        axes = n.integers("axes")
        axes_input = n.get(1)
        if axes_input is not None:
            axes = g.ints(axes_input, "the axes of a reduction")
        if not axes:
            if n.integer("noop_with_empty_axes", 0) == 1:
                return _pointwise(g, kind, x)
            axes = range(rank(x))
        return reduce(g, kind, x, axes_of(tuple(axes), rank(x)), keeps(n))

    return rule


def keeps(n: Node) -> bool:
    """Whether a reduction keeps its axes: only 1 says so."""
    return n.integer("keepdims", 1) == 1


def _pointwise(g: Emitter, kind: type[GraphOp], x: Value) -> Value:
    """A reduction over no axes: the function of each element alone."""
    if kind is ReduceSumSquareOp:
        return g(MulOp, x, x)
    if kind in (ReduceL1Op, ReduceL2Op):
        return g(AbsOp, x)
    if kind is ReduceLogSumOp:
        return g(LogOp, x)
    return x


def arg(kind: type[GraphOp]) -> Rule:
    """ArgMax and ArgMin."""
    return lambda g, n: g(
        kind,
        n[0],
        axis=axis_of(n.integer("axis", 0), rank(n[0])),
        keepdims=keeps(n),
        select_last_index=n.flag("select_last_index"),
    )


def first_of(g: Emitter, x: Value, k: Value, axis: int, **options: Any) -> list[Value | BoundedValue]:
    """TopK of a k that only the run tells: as many as it can be, and how many it is."""
    most = shape(x)[axis]
    bound = upper(g, k)
    every = g.many(TopKOp, x, k=most if bound is None else max(0, min(most, bound)), axis=axis, **options)
    count = g(MinOp, k, np.array(shape(every[0])[axis], np.int64))
    return [g.bounded(v, axis, count) for v in every]


def top_k(g: Emitter, n: Node) -> list[Value | BoundedValue]:
    """TopK: k is an attribute before opset 10; where the run computes it, everything is sorted."""
    x = n[0]
    axis = axis_of(n.integer("axis", -1), rank(x))
    options: dict[str, Any] = {
        "axis": axis,
        "largest": n.flag("largest", True),
        "sorted": n.flag("sorted", True),
    }
    if n.opset >= 10 and isinstance(n[1], SSAValue):
        k = in_range(g, n, g.reshape(n[1], ()), 0, shape(x)[axis], "k")
        bound = upper(g, n[1])
        if bound is not None and isinstance(k, SSAValue):
            g.limits[k] = bound
        return first_of(g, x, k, **options)
    k = n.integer("k") if n.opset < 10 else g.integer(n[1], "k of TopK")
    if not 0 <= k <= shape(x)[axis]:
        raise RuleError(f"the {k} largest of {shape(x)[axis]} elements")
    return list(g.many(TopKOp, x, k=k, **options))


def cumulative(g: Emitter, n: Node) -> Value:
    """CumSum."""
    axis = axis_of(g.integer(n[1], "the axis of CumSum"), rank(n[0]))
    return g(CumsumOp, n[0], axis=axis, exclusive=n.flag("exclusive"), reverse=n.flag("reverse"))


REDUCTIONS: dict[str, type[GraphOp]] = {
    "ReduceSum": ReduceSumOp,
    "ReduceMean": ReduceMeanOp,
    "ReduceMax": ReduceMaxOp,
    "ReduceMin": ReduceMinOp,
    "ReduceProd": ReduceProdOp,
    "ReduceSumSquare": ReduceSumSquareOp,
    "ReduceL1": ReduceL1Op,
    "ReduceL2": ReduceL2Op,
    "ReduceLogSum": ReduceLogSumOp,
    "ReduceLogSumExp": ReduceLogSumExpOp,
}

RULES: dict[str, Versions] = {
    **{name: reduction(kind) for name, kind in REDUCTIONS.items()},
    "ArgMax": arg(ArgMaxOp),
    "ArgMin": arg(ArgMinOp),
    "TopK": top_k,
    "CumSum": cumulative,
}
