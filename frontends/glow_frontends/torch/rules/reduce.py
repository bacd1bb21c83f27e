"""Rules of reductions, running sums, sorting and extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any

import numpy as np

from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.arg_reduce import ArgMaxOp, ArgMinOp
from glow_dialects.ops.arithmetic import DivOp, MulOp, PowOp, SubOp
from glow_dialects.ops.compare import CmpEqOp, CmpLeOp, CmpLtOp, CmpNeOp
from glow_dialects.ops.cumprod import CumprodOp
from glow_dialects.ops.cumsum import CumsumOp
from glow_dialects.ops.reduce import (
    ReduceL1Op,
    ReduceL2Op,
    ReduceLogSumExpOp,
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
)
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.top_k import TopKOp
from glow_dialects.ops.unary_math import AbsOp, SqrtOp
from glow_frontends.graph import Emitter, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.arithmetic import reduce
from glow_frontends.graph.axes import axes_of, axis_of
from glow_frontends.graph.movement import element, span
from glow_frontends.torch.node import Decomposed, Node, operand

INT64, BOOL = np.dtype(np.int64), np.dtype(bool)
Rule = Callable[..., Any]
Axes = Sequence[int] | int | None


def axes(x: Value, dim: Axes) -> tuple[int, ...]:
    """Axes from the front; all where none is named. A scalar has none, whatever is named."""
    if rank(x) == 0:
        return ()
    if dim is None or dim == []:
        return tuple(range(rank(x)))
    return axes_of([dim] if isinstance(dim, int) else dim, rank(x))


def reduction(kind: type[GraphOp]) -> Rule:
    """sum, mean, prod, amax and amin, in the result's type."""

    def rule(g: Emitter, n: Node, x: Value, dim: Axes = None, keepdim: bool = False, *_: Any) -> Value:
        return reduce(g, kind, cast_to(g, x, n.dtype), axes(x, dim), bool(keepdim))

    return rule


def total(kind: type[GraphOp]) -> Rule:
    """Reductions of everything, whose further operands say nothing."""
    return lambda g, n, x, *_: reduce(g, kind, cast_to(g, x, n.dtype), axes(x, None), False)


def truth(kind: type[GraphOp]) -> Rule:
    """any and all."""

    def rule(g: Emitter, n: Node, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
        return cast_to(g, reduce(g, kind, cast_to(g, x, BOOL), axes(x, dim), keepdim), n.dtype)

    return rule


def extreme(kind: type[GraphOp], arg: type[GraphOp]) -> Rule:
    """max.dim and min.dim: the values, and where they are."""

    def rule(g: Emitter, n: Node, x: Value, dim: int, keepdim: bool = False) -> list[Value | None]:
        if rank(x) == 0:
            return [x, np.zeros((), np.int64)]
        axis = axis_of(dim, rank(x))
        places = _arg(g, arg, x, axis, keepdim) if n.wants(1) else None
        if not n.wants(0) or dtype_of_value(x) == BOOL:
            return [reduce(g, kind, x, (axis,), keepdim) if n.wants(0) else None, places]
        return [g(kind, x, axes=(axis,), keepdims=keepdim, first=True), places]

    return rule


def _arg(g: Emitter, kind: type[GraphOp], x: Value, axis: int, keepdim: bool) -> Value:
    if dtype_of_value(x) == BOOL:
        x = cast_to(g, x, np.dtype(np.uint8))
    return g(kind, x, axis=axis, keepdims=keepdim)


def arg(kind: type[GraphOp]) -> Rule:
    """argmax and argmin; without an axis of all elements in a row."""

    def rule(g: Emitter, n: Node, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        if rank(x) == 0:
            return np.zeros((), np.int64)
        if dim is None:
            place = _arg(g, kind, g.reshape(x, (prod(shape(x)),)), 0, False)
            return g.reshape(place, (1,) * rank(x)) if keepdim else place
        return _arg(g, kind, x, axis_of(dim, rank(x)), keepdim)

    return rule


def spread(g: Emitter, x: Value, dim: Axes, correction: Any, keepdim: bool) -> tuple[Value, Value]:
    """The variance and the mean over axes."""
    over = axes(x, dim)
    mean, centred = _centred(g, x, over)
    squares = g(MulOp, centred, centred)
    if correction == 0:
        variance = g(ReduceMeanOp, squares, axes=over, keepdims=keepdim) if over else squares
    else:
        sums = g(ReduceSumOp, squares, axes=over, keepdims=keepdim) if over else squares
        variance = g(DivOp, sums, _free(g, x, over, correction))
    if not keepdim and over:
        mean = g.reshape(mean, shape(variance))
    return variance, mean


def _centred(g: Emitter, x: Value, over: tuple[int, ...]) -> tuple[Value, Value]:
    """The mean over axes, and what x is beside it."""
    mean = g(ReduceMeanOp, x, axes=over, keepdims=True) if over else x
    return mean, g(SubOp, x, mean)


def _free(g: Emitter, x: Value, over: tuple[int, ...], correction: Any) -> Value:
    """The degrees of freedom of a variance."""
    correction = 1 if correction is None else correction
    count = prod([shape(x)[a] for a in over])
    if not is_open([count]):
        return g.like(max(0, count - correction), x)
    if isinstance(correction, int):
        return operand(g, count - correction, dtype_of_value(x))
    return g(SubOp, g.size(count, dtype_of_value(x)), g.like(correction, x))


def variance(g: Emitter, n: Node, x: Value, dim: Axes = None, correction: Any = 1, keep: bool = False) -> Any:
    """The variance."""
    return spread(g, x, dim, correction, keep)[0]


def deviation(
    g: Emitter, n: Node, x: Value, dim: Axes = None, correction: Any = 1, keep: bool = False
) -> Value:
    """The standard deviation: as a norm, whose gradient is 0 where all elements are equal."""
    over = axes(x, dim)
    length = g(ReduceL2Op, _centred(g, x, over)[1], axes=over, keepdims=keep)
    return g(DivOp, length, g(SqrtOp, _free(g, x, over, correction)))


def vector_norm(
    g: Emitter, n: Node, x: Value, order: Any = 2, dim: Axes = None, keep: bool = False, *_: Any
) -> Value:
    """(sum |x|^p)^(1/p), of infinite p the largest or smallest |x|, of 0 how many elements are not 0."""
    x, over = cast_to(g, x, n.dtype), axes(x, dim)
    if order in (1, 2):
        return g(ReduceL1Op if order == 1 else ReduceL2Op, x, axes=over, keepdims=keep)
    if order == 0:
        return reduce(g, ReduceSumOp, cast_to(g, g(CmpNeOp, x, g.like(0, x)), n.dtype), over, keep)
    size = g(AbsOp, x)
    if order in (inf, -inf):
        return reduce(g, ReduceMaxOp if order > 0 else ReduceMinOp, size, over, keep)
    total = reduce(g, ReduceSumOp, _power(g, size, order), over, keep)
    return _power(g, total, 1 / order)


def _power(g: Emitter, x: Value, exponent: float) -> Value:
    """x^exponent of x >= 0, whose gradient at 0 is 0 where the power is."""
    if exponent >= 1 or exponent < 0:
        return g(PowOp, x, g.like(exponent, x))
    zero, none = g(CmpEqOp, x, g.like(0, x)), g.like(0, x)
    power = g(PowOp, g(SelectOp, zero, g.like(1, x), x), g.like(exponent, x))
    return g(SelectOp, zero, none, power)


def var_mean(g: Emitter, n: Node, x: Value, dim: Axes = None, correction: Any = 1, keep: bool = False) -> Any:
    """The variance and the mean."""
    return list(spread(g, x, dim, correction, keep))


def log_sum_exp(g: Emitter, n: Node, x: Value, dim: Axes, keepdim: bool = False) -> Value:
    """log(sum(exp(x)))."""
    return g(ReduceLogSumExpOp, cast_to(g, x, n.dtype), axes=axes(x, dim), keepdims=keepdim)


def running(kind: type[GraphOp]) -> Rule:
    """cumsum and cumprod."""

    def rule(g: Emitter, n: Node, x: Value, dim: int, *_: Any) -> Value:
        x = cast_to(g, x, n.dtype)
        if rank(x) == 0:
            return x
        return g(kind, x, axis=axis_of(dim, rank(x)), exclusive=False, reverse=False)

    return rule


def _ranked(g: Emitter, x: Value, k: int, dim: int, largest: bool) -> list[Value]:
    if rank(x) == 0:
        return [x, np.zeros((), np.int64)]
    kind = dtype_of_value(x)
    wide = cast_to(g, x, np.dtype(np.uint8)) if kind == BOOL else x
    values, places = g.many(TopKOp, wide, k=k, axis=axis_of(dim, rank(x)), largest=largest, sorted=True)
    return [cast_to(g, values, kind), places]


def top_k(g: Emitter, n: Node, x: Value, k: int, dim: int = -1, largest: bool = True, *_: Any) -> list[Value]:
    """The k largest or smallest, in order."""
    return _ranked(g, x, k, dim, largest)


def sort(g: Emitter, n: Node, x: Value, dim: int = -1, descending: bool = False) -> list[Value]:
    """All elements of an axis in order, equal ones as they were."""
    return _ranked(g, x, shape(x)[dim] if rank(x) else 1, dim, descending)


def stable_sort(g: Emitter, n: Node, x: Value, stable: Any, dim: int = -1, descending: bool = False) -> Any:
    """The same."""
    return sort(g, n, x, dim, descending)


def _nth(g: Emitter, x: Value, place: int, dim: int, keepdim: bool) -> list[Value]:
    """The element of each row that is at a place when they are sorted, and where it is."""
    if rank(x) == 0:
        return [x, np.zeros((), np.int64)]
    axis = axis_of(dim, rank(x))
    ranked = _ranked(g, x, shape(x)[axis], axis, False)
    return [(span(g, v, axis, place, place + 1) if keepdim else element(g, v, axis, place)) for v in ranked]


def nth(g: Emitter, n: Node, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """kthvalue: the k-th smallest."""
    return _nth(g, x, k - 1, dim, keepdim)


def bucketize(g: Emitter, n: Node, x: Any, edges: Value, int32: bool = False, right: bool = False) -> Value:
    """How many of some rising numbers lie below each element."""
    if rank(edges) != 1:
        raise Decomposed("edges of several axes")
    kind = np.dtype(np.float64)  # in which all of both types are, but for large whole numbers
    x = operand(g, x, kind)
    below = g(CmpLeOp if right else CmpLtOp, cast_to(g, edges, kind), g.reshape(x, (*shape(x), 1)))
    return reduce(g, ReduceSumOp, cast_to(g, below, n.dtype), (rank(x),), False)


def searchsorted(
    g: Emitter,
    n: Node,
    edges: Value,
    x: Any,
    int32: bool = False,
    right: bool = False,
    side: Any = None,
    order: Any = None,
) -> Value:
    """The same, edges first."""
    if order is not None:
        raise Decomposed("edges in an order of their own")
    return bucketize(g, n, x, edges, int32, right or side == "right")


RULES: dict[str, Rule] = {
    "all": truth(ReduceMinOp),
    "amax": reduction(ReduceMaxOp),
    "amin": reduction(ReduceMinOp),
    "any": truth(ReduceMaxOp),
    "argmax": arg(ArgMaxOp),
    "argmin": arg(ArgMinOp),
    "cumprod": running(CumprodOp),
    "cumsum": running(CumsumOp),
    "logsumexp": log_sum_exp,
    "max.default": total(ReduceMaxOp),
    "max.dim": extreme(ReduceMaxOp, ArgMaxOp),
    "bucketize": bucketize,
    "kthvalue": nth,
    "mean": reduction(ReduceMeanOp),
    "mean.default": total(ReduceMeanOp),
    "min.default": total(ReduceMinOp),
    "min.dim": extreme(ReduceMinOp, ArgMinOp),
    "prod.default": total(ReduceProdOp),
    "prod.dim_int": reduction(ReduceProdOp),
    "searchsorted": searchsorted,
    "sort": sort,
    "sort.stable": stable_sort,
    "linalg_vector_norm": vector_norm,
    "std.correction": deviation,
    "sum": reduction(ReduceSumOp),
    "sum.default": total(ReduceSumOp),
    "topk": top_k,
    "var.correction": variance,
    "var_mean.correction": var_mean,
}
