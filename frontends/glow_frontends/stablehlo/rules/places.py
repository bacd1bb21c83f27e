"""Index tuples of gathers and scatters: batches as additional indices, windows as separate tuples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_dialects.core.types import element_type
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MinOp
from glow_dialects.ops.concat import ConcatOp
from glow_frontends.graph import Emitter, Value, rank, shape
from glow_frontends.graph.sizes import objects
from glow_frontends.stablehlo.rules.shape import cut
from glow_frontends.stablehlo.values import cast, expand, pointwise

I64 = np.dtype(np.int64)


def tuples(g: Emitter, indices: Value, vector: int, batching: Sequence[int]) -> tuple[Value, tuple[int, ...]]:
    """Indices as int64 [..., depth] with the axis of tuples last, in front of each tuple the places along
    the batching axes of the indices; and the shape in front of the tuples."""
    indices = cast(g, indices, element_type(I64))
    if vector == rank(indices):
        indices = g.reshape(indices, (*shape(indices), 1))
    indices = g.transpose(indices, [*(i for i in range(rank(indices)) if i != vector), vector])
    lead = shape(indices)[:-1]
    if not batching:
        return indices, lead
    places = [a - (a > vector) for a in batching]
    columns = [along(g, lead, a) for a in places]
    return joined(g, [*columns, indices]), lead


def along(g: Emitter, lead: Sequence[int], axis: int) -> Value:
    """[*lead, 1]: the place along an axis."""
    dims = [1] * (len(lead) + 1)
    dims[axis] = lead[axis]
    return expand(g, g.reshape(g.numbers(lead[axis]), dims), (*lead, 1))


def joined(g: Emitter, columns: Sequence[Value]) -> Value:
    """Parts of tuples side by side."""
    return columns[0] if len(columns) == 1 else g(ConcatOp, list(columns), axis=rank(columns[0]) - 1)


def clamped(g: Emitter, indices: Value, most: Sequence[int]) -> Value:
    """Tuples with each place from 0 to the largest at which its window fits."""
    high = g.sizes(objects(most), I64)
    high = expand(g, g.reshape(high, (*(1,) * (rank(indices) - 1), len(most))), shape(indices))
    low = expand(g, np.zeros((1,) * rank(indices), I64), shape(indices))
    return pointwise(g, MinOp, pointwise(g, MaxOp, indices, low), high)


def windows(g: Emitter, indices: Value, sizes: Sequence[int]) -> Value:
    """Tuples [*lead, depth] as [*lead, *sizes, depth]: those of the elements of windows that begin there."""
    wide = [i for i, size in enumerate(sizes) if size != 1]
    if not wide:
        return g.reshape(indices, (*shape(indices)[:-1], *sizes, len(sizes)))
    lead = shape(indices)[:-1]
    full = (*lead, *sizes)
    columns: list[Value] = []
    for i, size in enumerate(sizes):
        start = column(g, indices, i)
        start = expand(g, g.reshape(start, (*lead, *(1,) * len(sizes))), full)
        if size != 1:
            dims = [1] * len(full)
            dims[len(lead) + i] = size
            start = pointwise(g, AddOp, start, expand(g, g.reshape(g.numbers(size), dims), full))
        columns.append(g.reshape(start, (*full, 1)))
    return joined(g, columns)


def column(g: Emitter, indices: Value, index: int) -> Value:
    """[..., 1]: one index of each tuple."""
    dims = shape(indices)
    return cut(g, indices, (*(0,) * (len(dims) - 1), index), (*dims[:-1], index + 1))


def is_known(value: Value) -> bool:
    """Whether the contents are known now."""
    return isinstance(value, np.ndarray)
