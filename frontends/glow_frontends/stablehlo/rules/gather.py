"""gather and dynamic_slice: elements, rows and windows by index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_dialects.core.extent import are_equal
from glow_dialects.core.types import element_type
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MinOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.gather_nd import GatherNdOp
from glow_frontends.graph import Emitter, Value, rank, shape
from glow_frontends.stablehlo.node import Node, Rule
from glow_frontends.stablehlo.rules.places import I64, clamped, tuples, windows
from glow_frontends.stablehlo.rules.shape import cut
from glow_frontends.stablehlo.values import cast


def gather(g: Emitter, n: Node) -> Value:
    """gather."""
    return _gathered(g, n, n.ints("slice_sizes"))


def dynamic_gather(g: Emitter, n: Node) -> Value:
    """dynamic_gather: the sizes of slices are an operand."""
    return _gathered(g, n, g.ints(n[2], "the sizes of dynamic_gather"))


def _gathered(g: Emitter, n: Node, sizes: Sequence[int]) -> Value:
    """Tuples of the indexed axes, which come first; the others follow whole."""
    d = n.dimensions("dimension_numbers")
    x, batching = n[0], d["operand_batching_dims"]
    vector = next(iter(d["index_vector_dim"]), 0)
    indices, lead = tuples(g, n[1], vector, d["start_indices_batching_dims"])
    mapped = (*batching, *d["start_index_map"])
    inner = [sizes[a] for a in mapped]
    indices = clamped(g, indices, [shape(x)[a] - s for a, s in zip(mapped, inner, strict=True)])
    others = [a for a in range(rank(x)) if a not in mapped]
    ends = [sizes[a] if a in others else size for a, size in enumerate(shape(x))]
    x = cut(g, x, (0,) * rank(x), ends)
    if len(mapped) == 1 and inner == [1]:
        rows = g(GatherOp, x, g.reshape(indices, lead), axis=mapped[0])
        front = len([a for a in others if a < mapped[0]])
        where = [*others[:front], *(-1 - i for i in range(len(lead))), *others[front:]]
    else:
        x = g.transpose(x, (*mapped, *others))
        rows = g(GatherNdOp, x, windows(g, indices, inner), batch_dims=0)
        where = [*(-1 - i for i in range(len(lead))), *mapped, *others]
    gone = {*batching, *d["collapsed_slice_dims"]}
    kept = [a for a in range(rank(x)) if a not in gone]
    # Axes of size 1 that are there no more, or that an index took away, change no order.
    here = [a for a in where if a < 0 or a not in gone]
    full = [lead[-1 - a] if a < 0 else sizes[a] for a in here]
    missing = [a for a in kept if a not in here]
    rows = g.reshape(rows, (*full, *(1 for _ in missing)))
    here += missing
    total = len(lead) + len(kept)
    places = iter(range(len(lead)))
    slices = iter(kept)
    order = [here.index(next(slices) if i in d["offset_dims"] else -1 - next(places)) for i in range(total)]
    return g.transpose(rows, order)


def dynamic_slice(g: Emitter, n: Node) -> Value:
    """dynamic_slice: known places are cut, along other axes elements are taken by index."""
    x, sizes = n[0], n.ints("slice_sizes")
    starts, ends = [0] * rank(x), list(shape(x))
    taken: list[tuple[int, Value]] = []
    for axis, (start, size) in enumerate(zip(n.operands[1:], sizes, strict=True)):
        limit = shape(x)[axis] - size
        if are_equal(limit, 0):
            continue
        if isinstance(start, np.ndarray):
            starts[axis] = min(max(int(start), 0), limit)
            ends[axis] = starts[axis] + size
        else:
            taken.append((axis, start_of(g, start, limit)))
    x = cut(g, x, starts, ends)
    for axis, start in taken:
        x = _along(g, x, axis, start, sizes[axis])
    return x


def start_of(g: Emitter, start: Value, limit: int) -> Value:
    """A place as int64 at which a window fits."""
    wide = cast(g, start, element_type(I64))
    low = g(MaxOp, wide, np.zeros((), I64))
    return g(MinOp, low, g.size(limit, I64))


def _along(g: Emitter, x: Value, axis: int, start: Value, size: int) -> Value:
    """`size` elements along an axis from a place on."""
    dims = list(shape(x))
    dims[axis] = size
    if are_equal(size, 1):
        return g.reshape(g(GatherOp, x, start, axis=axis), dims)
    return g(GatherOp, x, g(AddOp, g.numbers(size), start), axis=axis)


RULES: dict[str, Rule] = {"dynamic_gather": dynamic_gather, "dynamic_slice": dynamic_slice, "gather": gather}
