"""Constants, and elements moved without a change: reshape, transpose, broadcast, slice, pad, concatenate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_dialects.core.extent import are_equal, is_open, sizes
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.slice import SliceOp
from glow_frontends.graph import Emitter, Value, rank, shape
from glow_frontends.stablehlo.node import Node, Rule
from glow_frontends.stablehlo.values import cast, expand


def constant(g: Emitter, n: Node) -> Value:
    """constant."""
    del g
    return n.array("value")


def reshape(g: Emitter, n: Node) -> Value:
    """reshape."""
    return g.reshape(n[0], n.shape())


def dynamic_reshape(g: Emitter, n: Node) -> Value:
    """dynamic_reshape: the shape is an operand, sizes that are known or open."""
    return g.reshape(n[0], g.ints(n[1], "the shape of dynamic_reshape"))


def transpose(g: Emitter, n: Node) -> Value:
    """transpose."""
    return g.transpose(n[0], n.ints("permutation"))


def broadcast(g: Emitter, n: Node) -> Value:
    """broadcast_in_dim."""
    return in_dimensions(g, n[0], n.ints("broadcast_dimensions"), n.shape())


def dynamic_broadcast(g: Emitter, n: Node) -> Value:
    """dynamic_broadcast_in_dim: the shape is an operand."""
    to = g.ints(n[1], "the shape of dynamic_broadcast_in_dim")
    return in_dimensions(g, n[0], n.ints("broadcast_dimensions"), to)


def in_dimensions(g: Emitter, x: Value, axes: Sequence[int], to: Sequence[int]) -> Value:
    """x with its axes at places of a wider shape, repeated along the others."""
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    x = g.transpose(x, order)
    dims = [1] * len(to)
    for size, axis in zip(shape(x), sorted(axes), strict=True):
        dims[axis] = size
    return expand(g, g.reshape(x, dims), sizes(to))


def iota(g: Emitter, n: Node) -> Value:
    """iota."""
    return _iota(g, n, n.shape())


def dynamic_iota(g: Emitter, n: Node) -> Value:
    """dynamic_iota: the shape is an operand."""
    return _iota(g, n, g.ints(n[0], "the shape of dynamic_iota"))


def _iota(g: Emitter, n: Node, to: Sequence[int]) -> Value:
    axis = n.integer("iota_dimension")
    numbers = cast(g, g.numbers(to[axis]), n.element())
    return in_dimensions(g, numbers, (axis,), to)


def slice_(g: Emitter, n: Node) -> Value:
    """slice."""
    return cut(g, n[0], n.ints("start_indices"), n.ints("limit_indices"), n.ints("strides"))


def real_dynamic_slice(g: Emitter, n: Node) -> Value:
    """real_dynamic_slice: places are operands, sizes that are known or open."""
    starts, ends, steps = (g.ints(v, "a place of real_dynamic_slice") for v in n.operands[1:])
    return cut(g, n[0], starts, ends, steps)


def cut(
    g: Emitter, x: Value, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] | None = None
) -> Value:
    """Elements from `starts` on and before `ends`, each `steps`-th."""
    steps = (1,) * len(starts) if steps is None else steps
    if isinstance(x, np.ndarray) and not is_open([*starts, *ends]):
        return x[tuple(slice(a, z, s) for a, z, s in zip(starts, ends, steps, strict=True))]
    places = zip(starts, ends, steps, shape(x), strict=True)
    if all(are_equal(a, 0) and are_equal(z, size) and s == 1 for a, z, s, size in places):
        return x
    return g(SliceOp, x, starts=tuple(starts), ends=tuple(ends), steps=tuple(steps))


def concatenate(g: Emitter, n: Node) -> Value:
    """concatenate."""
    parts = [v for v in n.operands if shape(v)[n.integer("dimension")] != 0] or n.operands[:1]
    return parts[0] if len(parts) == 1 else g(ConcatOp, parts, axis=n.integer("dimension"))


def pad(g: Emitter, n: Node) -> Value:
    """pad."""
    low, high = n.ints("edge_padding_low"), n.ints("edge_padding_high")
    return padded(g, n[0], n[1], low, high, n.ints("interior_padding"))


def dynamic_pad(g: Emitter, n: Node) -> Value:
    """dynamic_pad: how much is an operand."""
    low, high, inside = (g.ints(v, "the padding of dynamic_pad") for v in n.operands[2:])
    return padded(g, n[0], n[1], low, high, inside)


def padded(
    g: Emitter, x: Value, value: Value, low: Sequence[int], high: Sequence[int], inside: Sequence[int]
) -> Value:
    """x with copies of `value` around and between its elements; less than none are cut off."""
    if any(inside) and all(size > 0 for size in shape(x)):
        steps = [i + 1 for i in inside]
        to = [(size - 1) * step + 1 for size, step in zip(shape(x), steps, strict=True)]
        x = g(InsertOp, expand(g, value, to), x, starts=(0,) * rank(x), steps=tuple(steps))
    starts = [max(-a, 0) for a in low]
    ends = [size - max(-z, 0) for size, z in zip(shape(x), high, strict=True)]
    x = cut(g, x, starts, ends)
    low, high = [max(a, 0) for a in low], [max(z, 0) for z in high]
    if not any([*low, *high]):
        return x
    if isinstance(value, np.ndarray):
        return g(PadOp, x, pads=(*low, *high), mode="constant", value=float(value.reshape(())))
    to = [a + size + z for a, size, z in zip(low, shape(x), high, strict=True)]
    return g(InsertOp, expand(g, value, to), x, starts=tuple(low))


def reverse(g: Emitter, n: Node) -> Value:
    """reverse."""
    return g(FlipOp, n[0], axes=n.ints("dimensions"))


def dimension_size(g: Emitter, n: Node) -> Value:
    """get_dimension_size."""
    return g.size(shape(n[0])[n.integer("dimension")], np.dtype(np.int32))


def first(g: Emitter, n: Node) -> Sequence[Value]:
    """Operations that only tell a compiler something: the operands."""
    del g
    return n.operands[: len(n.op.results)]


RULES: dict[str, Rule] = {
    "broadcast_in_dim": broadcast,
    "concatenate": concatenate,
    "constant": constant,
    "dynamic_broadcast_in_dim": dynamic_broadcast,
    "dynamic_iota": dynamic_iota,
    "dynamic_pad": dynamic_pad,
    "dynamic_reshape": dynamic_reshape,
    "get_dimension_size": dimension_size,
    "iota": iota,
    "optimization_barrier": first,
    "pad": pad,
    "real_dynamic_slice": real_dynamic_slice,
    "reshape": reshape,
    "reverse": reverse,
    "slice": slice_,
    "transpose": transpose,
}
