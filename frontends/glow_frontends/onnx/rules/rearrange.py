"""Rules of scatters, running products and determinants."""

from __future__ import annotations

from math import prod

import numpy as np

from glow_dialects.ops.arithmetic import AddOp, DivOp, ModOp, MulOp, SubOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpLtOp
from glow_dialects.ops.cumprod import CumprodOp
from glow_dialects.ops.logic import OrOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMinOp, ReduceSumOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.unary_math import AbsOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape, uniform
from glow_frontends.graph.axes import axis_of
from glow_frontends.graph.movement import broadcast, cut
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.indexing import in_range, node_label
from glow_frontends.onnx.rules.rule import Versions, per_axis

INT64 = np.dtype(np.int64)
#: NumPy's arrays have fewer dimensions, of which an image has two more.
MOST_AXES = 31


def cumulative_product(g: Emitter, n: Node) -> Value:
    """CumProd."""
    axis = axis_of(g.integer(n[1], "the axis of CumProd"), rank(n[0]))
    return g(CumprodOp, n[0], axis=axis, exclusive=n.flag("exclusive"), reverse=n.flag("reverse"))


def tensor_scatter(g: Emitter, n: Node) -> Value:
    """TensorScatter: an update written along an axis at each sample's own index."""
    past, update, starts = n[0], n[1], n.get(2)
    axis = axis_of(n.integer("axis", -2), rank(past))
    if rank(update) != rank(past):
        raise RuleError(f"an update of rank {rank(update)} for a tensor of rank {rank(past)}")
    length, most = shape(update)[axis], shape(past)[axis]
    steps = [1] * rank(past)
    steps[axis] = length
    places = g.reshape(g.numbers(length), steps)
    if starts is not None:
        rows = g.reshape(cast_to(g, starts, INT64), (shape(past)[0], *(1,) * (rank(past) - 1)))
        places = g(AddOp, rows, places)
    if n.text("mode", "linear") == "circular":
        places = g(ModOp, places, g.like(most, places))
    wide = broadcast(g, places, shape(update))
    return g(ScatterElementsOp, past, wide, update, axis=axis, reduction="none")


def max_unpool(g: Emitter, n: Node) -> Value:
    """MaxUnpool: values put back where the maxima were."""
    x, places = n[0], n[1]
    axes = rank(x) - 2
    kernel = per_axis(n, "kernel_shape", (), axes)
    strides = per_axis(n, "strides", (1,) * axes)
    pads = per_axis(n, "pads", (0,) * 2 * axes)
    inferred = [
        (size - 1) * stride - pads[i] - pads[i + axes] + kernel[i]
        for i, (size, stride) in enumerate(zip(shape(x)[2:], strides, strict=True))
    ]
    dims = (*shape(x)[:2], *inferred)
    target = dims if n.get(2) is None else g.ints(n[2], "the output shape of MaxUnpool")
    flat = prod(shape(x))
    rows = g.reshape(places, (flat, 1))
    bad: Value | None = None
    if isinstance(rows, np.ndarray):
        rows = in_range(g, n, rows, 0, prod(dims) - 1, "an index")
    else:
        outside = g.like(prod(dims), rows)
        bad = g(OrOp, g(CmpLtOp, rows, g.like(0, rows)), g(CmpGeOp, rows, outside))
    if tuple(target) != dims:
        # Indices count elements of the inferred shape, which lies at the target's beginning.
        rows = _moved(g, rows, dims, target)
    zero = uniform(np.zeros((), dtype_of_value(x)), (prod(target),))
    if bad is not None:
        rows = g(SelectOp, bad, g.like(prod(target), rows), rows)
    checked = f"{node_label(g, n)}: an index is not within {'x'.join(map(str, dims))} places."
    y = g(ScatterNdOp, zero, rows, g.reshape(x, (flat,)), reduction="none", checked=checked)
    return g.reshape(y, target)


def _moved(g: Emitter, flat: Value, source: tuple[int, ...], target: tuple[int, ...]) -> Value:
    """Flat indices of one shape as those of another around it."""
    out: Value | None = None
    stride = 1
    for inner, outer in reversed(list(zip(source, target, strict=True))):
        digit = g(ModOp, flat, g.like(inner, flat))
        flat = g(DivOp, flat, g.like(inner, flat))
        part = g(MulOp, digit, g.like(stride, digit))
        out = part if out is None else g(AddOp, out, part)
        stride *= outer
    assert out is not None
    return out


def col2im(g: Emitter, n: Node) -> Value:
    """Col2Im: blocks added up where they overlap."""
    x = n[0]
    image = g.ints(n[1], "the image shape of Col2Im")
    block = g.ints(n[2], "the block shape of Col2Im")
    axes = len(image)
    strides = per_axis(n, "strides", (1,) * axes)
    dilations = per_axis(n, "dilations", (1,) * axes)
    pads = per_axis(n, "pads", (0,) * 2 * axes)
    if len(block) != axes or rank(x) != 3 or not 0 < axes < MOST_AXES:
        raise RuleError(f"an image of {axes} axes, blocks of {len(block)} and columns of rank {rank(x)}")
    if min((*strides, *dilations, *block)) < 1:
        raise RuleError("blocks, strides and dilations are at least 1")
    padded = [s + pads[i] + pads[i + axes] for i, s in enumerate(image)]
    counts = [
        (p - d * (b - 1) - 1) // s + 1 for p, d, b, s in zip(padded, dilations, block, strides, strict=True)
    ]
    if min(counts) < 0 or shape(x)[2] != prod(counts) or shape(x)[1] % prod(block):
        raise RuleError(f"columns of shape {'x'.join(map(str, shape(x)))} for {counts} blocks")
    taps = np.indices(block).reshape(axes, -1, 1) * np.array(dilations).reshape(axes, 1, 1)
    steps = np.indices(counts).reshape(axes, 1, -1) * np.array(strides).reshape(axes, 1, 1)
    places = np.ravel_multi_index(tuple(taps + steps), padded).reshape(-1, 1).astype(np.int64)
    batch = shape(x)[0]
    size = prod(block)
    channels = shape(x)[1] // size
    moved = g.reshape(x, (batch * channels, size * shape(x)[2]))
    zero = uniform(np.zeros((), dtype_of_value(x)), (prod(padded), batch * channels))
    y = g(ScatterNdOp, zero, places, g.transpose(moved, (1, 0)), reduction="add")
    y = g.reshape(g.transpose(y, (1, 0)), (batch, channels, *padded))
    begin = [0, 0, *pads[:axes]]
    return cut(g, y, begin, [batch, channels, *(b + s for b, s in zip(begin[2:], image, strict=True))])


def determinant(g: Emitter, n: Node) -> Value:
    """Det: elimination with the largest pivot of each column."""
    x = n[0]
    size = shape(x)[-1]
    if rank(x) < 2 or shape(x)[-2] != size:
        raise RuleError("square matrices are expected")
    lead = shape(x)[:-2]
    m = g.reshape(x, (prod(lead), size, size))
    batch = shape(m)[0]
    total: Value = uniform(np.ones((), dtype_of_value(x)), (batch,))
    while size > 1:
        column = g.reshape(cut(g, m, [0, 0, 0], [batch, size, 1]), (batch, size))
        which = _largest(g, column)
        rows = g.reshape(which, (batch, size, 1))
        pivot_row = g(ReduceSumOp, g(SelectOp, rows, m, g.like(0, m)), axes=(1,), keepdims=True)
        pivot = g.reshape(cut(g, pivot_row, [0, 0, 0], [batch, 1, 1]), (batch,))
        # The pivot row changes places with the first: the first row moves down, and the sign turns.
        first = cut(g, m, [0, 0, 0], [batch, 1, size])
        swapped = g(SelectOp, rows, broadcast(g, first, shape(m)), m)
        at_top = g.reshape(cut(g, which, [0, 0], [batch, 1]), (batch,))
        sign = g(SelectOp, at_top, g.like(1, pivot), g.like(-1, pivot))
        total = g(MulOp, g(MulOp, total, pivot), sign)
        zero = g(CmpEqOp, pivot, g.like(0, pivot))
        safe = g.reshape(g(SelectOp, zero, g.like(1, pivot), pivot), (batch, 1, 1))
        below = cut(g, swapped, [0, 1, 0], [batch, size, size])
        factor = g(DivOp, cut(g, below, [0, 0, 0], [batch, size - 1, 1]), safe)
        below = g(SubOp, below, g(MulOp, factor, pivot_row))
        m = cut(g, below, [0, 0, 1], [batch, size - 1, size])
        size -= 1
    return g.reshape(g(MulOp, total, g.reshape(m, (batch,))), lead)


def _largest(g: Emitter, column: Value) -> Value:
    """True at the first element of largest magnitude of each row."""
    size = g(AbsOp, column)
    best = g(ReduceMaxOp, size, axes=(1,), keepdims=True)
    places = np.arange(shape(column)[1], dtype=np.int64)[None, :]
    candidates = g(SelectOp, g(CmpEqOp, size, best), places, np.array(shape(column)[1], np.int64))
    return g(CmpEqOp, g(ReduceMinOp, candidates, axes=(1,), keepdims=True), places)


RULES: dict[str, Versions] = {
    "Col2Im": col2im,
    "CumProd": cumulative_product,
    "Det": determinant,
    "MaxUnpool": max_unpool,
    "TensorScatter": tensor_scatter,
}
