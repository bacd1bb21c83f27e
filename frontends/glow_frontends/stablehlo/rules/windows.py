"""Reductions over windows: pools, and running sums; the gradient of max pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, SymbolRefAttr
from xdsl.ir import Block

from glow_dialects.core.extent import are_equal, is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import is_float
from glow_dialects.ops.arithmetic import MulOp
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.cumprod import CumprodOp
from glow_dialects.ops.cumsum import CumsumOp
from glow_dialects.ops.max_pool import MaxPoolOp, MaxPoolWithArgmaxOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.unary_math import NegOp
from glow_frontends.graph import Emitter, RuleError, Value, dtype_of_value, rank, shape, type_of
from glow_frontends.stablehlo.node import Node, Rule, op_name
from glow_frontends.stablehlo.rules.reduce import REDUCTIONS, started
from glow_frontends.stablehlo.rules.regions import kind_of
from glow_frontends.stablehlo.rules.shape import cut, padded
from glow_frontends.stablehlo.values import expand, like, pointwise

#: Windows of more elements that no operator takes are refused.
MOST_PLACES = 256


@dataclass
class Window:
    """Sizes, steps, padding (begin and end) and distances of elements, one an axis."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]

    @staticmethod
    def of(n: Node) -> Window:
        """That of an operation."""
        sizes = n.ints("window_dimensions")
        ones = (1,) * len(sizes)
        flat = n.ints("padding", (0,) * 2 * len(sizes))
        pads = tuple(zip(flat[::2], flat[1::2], strict=True))
        strides, dilations = n.ints("window_strides", ones), n.ints("window_dilations", ones)
        return Window(sizes, strides, pads, dilations)

    def axes(self) -> list[int]:
        """The axes along which it does anything."""
        return [
            i
            for i in range(len(self.sizes))
            if self.sizes[i] != 1 or self.strides[i] != 1 or self.pads[i] != (0, 0)
        ]

    def properties(self, axes: Sequence[int]) -> dict[str, Any]:
        """Those of a pool over axes."""
        return {
            "kernel": tuple(self.sizes[a] for a in axes),
            "strides": tuple(self.strides[a] for a in axes),
            "pads": (*(self.pads[a][0] for a in axes), *(self.pads[a][1] for a in axes)),
            "dilations": tuple(self.dilations[a] for a in axes),
        }


def reduce_window(g: Emitter, n: Node) -> Value:
    """reduce_window."""
    if len(n.operands) != 2:
        raise RuleError(f"windows of {len(n.operands) // 2} tensors together")
    return _reduced(g, n, n.block(), Window.of(n), n.ints("base_dilations", (1,) * rank(n[0])))


def dynamic_reduce_window(g: Emitter, n: Node) -> Value:
    """custom_call @stablehlo.dynamic_reduce_window: window and padding are operands."""
    sizes, strides, base, dilations, flat = (g.ints(v, "a window") for v in n.operands[2:])
    pads = tuple(zip(flat[::2], flat[1::2], strict=True))
    called = n.attribute("called_computations")
    if len(n.operands) != 7 or not isinstance(called, ArrayAttr):
        raise RuleError("windows of several tensors together")
    symbol = called.data[0]
    assert isinstance(symbol, SymbolRefAttr)
    block = n.program.function(symbol.root_reference.data)
    return _reduced(g, n, block, Window(sizes, strides, pads, dilations), base)


def _reduced(g: Emitter, n: Node, block: Block, window: Window, base: Sequence[int]) -> Value:
    kind, x = kind_of(block), n[0]
    if any(b != 1 for b in base):
        zeros = (0,) * rank(x)
        x = padded(g, x, n[1], zeros, zeros, [b - 1 for b in base])
    result = _running(g, kind, x, window)
    if result is None:
        result = _pooled(g, kind, x, window)
    return _joined(g, n, block, x, window) if result is None else started(g, kind, result, n[1])


def _running(g: Emitter, kind: str, x: Value, w: Window) -> Value | None:
    """A window over all elements up to each one, or from each one on: a running sum or product."""
    axes = w.axes()
    if len(axes) != 1 or kind not in ("add", "mul"):
        return None
    (axis,) = axes
    size = shape(x)[axis]
    if w.strides[axis] != 1 or w.dilations[axis] != 1 or not are_equal(w.sizes[axis], size):
        return None
    before, after = w.pads[axis]
    backwards = are_equal(before, 0) and are_equal(after, size - 1)
    if not backwards and not (are_equal(before, size - 1) and are_equal(after, 0)):
        return None
    return g(CumsumOp if kind == "add" else CumprodOp, x, axis=axis, reverse=backwards)


def _pooled(g: Emitter, kind: str, x: Value, w: Window) -> Value | None:
    """A window that a pool computes."""
    axes = w.axes()
    floats = is_float(type_of(x).element_type)
    if not axes:
        return x if kind in REDUCTIONS else None
    if min(min(pair) for pair in w.pads) < 0:
        return None
    if kind == "max" and dtype_of_value(x) != bool:
        return over_images(g, MaxPoolOp, x, w, axes)
    if kind == "min" and floats:
        return pointwise(g, NegOp, over_images(g, MaxPoolOp, pointwise(g, NegOp, x), w, axes))
    if kind == "add" and floats:
        pooled = over_images(g, AvgPoolOp, x, w, axes, count_include_pad=True)
        return pointwise(g, MulOp, pooled, like(prod(w.sizes), pooled))
    return None


def over_images(
    g: Emitter, kind: type[GraphOp], x: Value, w: Window, axes: Sequence[int], **more: Any
) -> Value:
    """A pool over some axes: of an image as it lies, or of one that the other axes are the samples of."""
    image = _layout(rank(x), axes)
    if image is not None:
        layout, spatial = image
        return g(kind, x, layout=layout, **w.properties(spatial), **more)
    others = [i for i in range(rank(x)) if i not in axes]
    order = [*others, *axes]
    samples = [shape(x)[i] for i in others]
    flat = g.reshape(g.transpose(x, order), (prod(samples), 1, *(shape(x)[i] for i in axes)))
    pooled = g(kind, flat, layout="NCHW", **w.properties(axes), **more)
    back = g.reshape(pooled, (*samples, *shape(pooled)[2:]))
    return g.transpose(back, [order.index(i) for i in range(rank(x))])


def _layout(rank: int, axes: Sequence[int]) -> tuple[str, tuple[int, ...]] | None:
    """NHWC or NCHW where the axes are those of an image's pixels."""
    if rank < 3:
        return None
    for layout, spatial in (("NHWC", range(1, rank - 1)), ("NCHW", range(2, rank))):
        if set(axes) <= set(spatial):
            return layout, tuple(spatial)
    return None


def _joined(g: Emitter, n: Node, block: Block, x: Value, w: Window) -> Value:
    """Windows of what no pool takes: one shifted copy of the tensor for each place of a window, joined."""
    if is_open(w.sizes) or prod(w.sizes) > MOST_PLACES:
        raise RuleError(f"windows of {prod(w.sizes)} elements of {type_of(x)}, no pool and no running sum")
    low, high = ([pair[i] for pair in w.pads] for i in range(2))
    x = padded(g, x, n[1], low, high, (0,) * rank(x))
    result: Value | None = None
    for place in np.ndindex(*w.sizes):
        begins = [p * d for p, d in zip(place, w.dilations, strict=True)]
        spans = [(k - 1) * d for k, d in zip(w.sizes, w.dilations, strict=True)]
        ends = [b + size - s for b, size, s in zip(begins, shape(x), spans, strict=True)]
        part = cut(g, x, begins, ends, w.strides)
        result = expand(g, n[1], shape(part)) if result is None else result
        (result,) = n.program.run(block, [result, part])
    assert result is not None
    return result


def select_and_scatter(g: Emitter, n: Node) -> Value:
    """select_and_scatter, as the gradient of a max pool is: sums at the largest element of each window."""
    x, source, start = n[0], n[1], n[2]
    selects = [op_name(op) for op in n.block(0).ops][:-1]
    direction = Node(next(iter(n.block(0).ops)), [], n.program).word("comparison_direction")
    if selects != ["stablehlo.compare"] or direction not in ("GE", "GT") or kind_of(n.block(1)) != "add":
        raise RuleError("it selects by other than the largest, or joins by other than a sum")
    w = Window.of(n)
    axes = w.axes()
    if min(min(pair) for pair in w.pads) < 0:
        raise RuleError("its windows leave out elements of the border")
    image = _layout(rank(x), axes)
    if image is None:
        raise RuleError(f"windows over axes {axes} of {rank(x)}, no image")
    places = g.many(MaxPoolWithArgmaxOp, x, layout=image[0], **w.properties(image[1]))[1]
    count = prod(shape(source))
    zeros = expand(g, start, (prod(shape(x)),))
    flat = g(
        ScatterElementsOp,
        zeros,
        g.reshape(places, (count,)),
        g.reshape(source, (count,)),
        axis=0,
        reduction="add",
    )
    return g.reshape(flat, shape(x))


RULES: dict[str, Rule] = {
    "reduce_window": reduce_window,
    "@stablehlo.dynamic_reduce_window": dynamic_reduce_window,
    "select_and_scatter": select_and_scatter,
}
