"""Rules of pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.arithmetic import ModOp, MulOp
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.max_pool import MaxPoolOp, MaxPoolWithArgmaxOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMeanOp
from glow_frontends.graph import Emitter, Value, rank, shape
from glow_frontends.graph.movement import join, span
from glow_frontends.graph.windows import Window, zeros_around
from glow_frontends.torch.node import Decomposed, Node
from glow_frontends.torch.rules.nn import per_axis

Rule = Callable[..., Any]


def window_of(
    x: Value, count: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Window:
    """The window of a pool; the kernel is the stride where none is given."""
    pads = per_axis(padding, count)
    kernel = per_axis(kernel, count)
    strides = kernel if stride is None or stride == [] else per_axis(stride, count)
    window = Window(kernel, strides, per_axis(dilation, count), (*pads, *pads))
    return window.ceiled(shape(x)[-count:]) if ceil_mode else window


def max_pool(count: int, places: bool) -> Rule:
    """The largest of each window over so many axes, and where in the plane it is."""

    def rule(
        g: Emitter,
        n: Node,
        x: Value,
        kernel: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        window = window_of(x, count, kernel, stride, padding, dilation, ceil_mode)
        options = window.options()
        wide = x if rank(x) == count + 2 else g.reshape(x, (1, *shape(x)))
        fit = (lambda v: v) if wide is x else (lambda v: g.reshape(v, shape(v)[1:]))
        if not places:
            return fit(g(MaxPoolOp, wide, **options))
        if not n.wants(1):
            return [fit(g(MaxPoolOp, wide, **options)), None]
        values, where = g.many(MaxPoolWithArgmaxOp, wide, **options)
        plane = g.size(prod(shape(x)[-count:]), np.dtype(np.int64))
        return [fit(values), fit(g(ModOp, where, plane))]

    return rule


def avg_pool(count: int) -> Rule:
    """The mean of each window over so many axes."""

    def rule(
        g: Emitter,
        n: Node,
        x: Value,
        kernel: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor: int | None = None,
    ) -> Value:
        window = window_of(x, count, kernel, stride, padding, 1, ceil_mode)
        single = rank(x) == count + 1
        x = g.reshape(x, (1, *shape(x))) if single else x
        counted, none = count_include_pad, (0,) * 2 * count
        if divisor is not None:  # every window counts as whole, then as the divisor says
            x, counted = zeros_around(g, x, window.padded()), False
            window = replace(window, pads=none, extra=())
        elif counted and (is_open(window.extra) or any(window.extra)):
            x, window, counted = zeros_around(g, x, window.pads), replace(window, pads=none), False
        y = g(AvgPoolOp, x, count_include_pad=counted, **window.options())
        if divisor is not None:
            y = g(MulOp, y, g.like(prod(window.kernel) / divisor, y))
        return g.reshape(y, shape(y)[1:]) if single else y

    return rule


def _even(x: Value, size: Sequence[Any]) -> tuple[int, ...] | None:
    """The kernel of a pool to a size that divides the axes; None for another."""
    sizes = shape(x)[-len(size) :]
    wanted = [s if t is None else t for s, t in zip(sizes, size, strict=True)]
    if any(not t or s % t != 0 for s, t in zip(sizes, wanted, strict=True)):
        return None
    return tuple(s // t for s, t in zip(sizes, wanted, strict=True))


def _uneven(g: Emitter, x: Value, size: Sequence[Any], kind: type[GraphOp]) -> Value:
    """Reductions of windows of different sizes, axis by axis; a mean of means is one as windows are whole."""
    for place, wanted in enumerate(size):
        axis = rank(x) - len(size) + place
        count = int(shape(x)[axis])
        parts: list[Value] = []
        wanted = count if wanted is None else wanted
        for i in range(wanted):
            part = span(g, x, axis, i * count // wanted, -(-((i + 1) * count) // wanted))
            parts.append(g(kind, part, axes=(axis,), keepdims=True))
        x = join(g, parts, axis)
    return x


def adaptive_avg_pool(count: int) -> Rule:
    """Means of as many windows as wanted."""

    def rule(g: Emitter, n: Node, x: Value, size: Any) -> Value:
        size = per_axis(size, count)
        if all(isinstance(s, int) and s == 1 for s in size):
            return g(ReduceMeanOp, x, axes=tuple(range(rank(x) - count, rank(x))), keepdims=True)
        kernel = _even(x, size)
        if kernel is None:
            return _uneven(g, x, size, ReduceMeanOp)
        return avg_pool(count)(g, n, x, kernel)

    return rule


def adaptive_max_pool(count: int) -> Rule:
    """The largest of as many windows as wanted, and where they are."""

    def rule(g: Emitter, n: Node, x: Value, size: Any) -> Any:
        kernel = _even(x, per_axis(size, count))
        if kernel is None and not n.wants(1):
            return [_uneven(g, x, per_axis(size, count), ReduceMaxOp), None]
        if kernel is None:
            raise Decomposed("indices of the maximum in windows of different sizes")
        return max_pool(count, True)(g, n, x, kernel)

    return rule


RULES: dict[str, Rule] = {
    **{f"max_pool{d}d_with_indices": max_pool(d, True) for d in (2, 3)},
    **{f"max_pool{d}d": max_pool(d, False) for d in (1, 2, 3)},
    "max_pool1d_with_indices": max_pool(1, True),
    **{f"avg_pool{d}d": avg_pool(d) for d in (1, 2, 3)},
    **{f"adaptive_avg_pool{d}d": adaptive_avg_pool(d) for d in (1, 2, 3)},
    **{f"_adaptive_avg_pool{d}d": adaptive_avg_pool(d) for d in (2, 3)},
    **{f"adaptive_max_pool{d}d": adaptive_max_pool(d) for d in (1, 2, 3)},
}
