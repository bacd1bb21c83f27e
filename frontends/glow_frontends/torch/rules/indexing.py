"""Rules of gathering, scattering and selection by index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from glow_dialects.core.extent import is_open
from glow_dialects.core.types import broadcast_shapes
from glow_dialects.ops.arithmetic import AddOp, DivOp, FloorDivOp, MaxOp, MulOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.gather_nd import GatherNdOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, NeedsValue, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.axes import axis_of
from glow_frontends.graph.movement import broadcast, cut, join, known_indices, span, take
from glow_frontends.torch.node import Node, operand
from glow_frontends.torch.rules.shape import bound, diagonal_places

Rule = Callable[..., Any]
INT64, BOOL = np.dtype(np.int64), np.dtype(bool)


def places(g: Emitter, n: Node, indices: Value, limit: int) -> tuple[Value, str | None]:
    """Indices of an axis, and what to call the node where the run finds one out of range.

    Known ones are checked here, and made non-negative.
    """
    indices = cast_to(g, indices, INT64)
    if not isinstance(indices, np.ndarray) or is_open([limit]):
        return indices, n.label
    return known_indices(indices, np.array(limit)), None


def index_select(g: Emitter, n: Node, x: Value, dim: int, indices: Value) -> Value:
    """Slices of an axis."""
    if rank(x) == 0:
        return x
    axis = axis_of(dim, rank(x))
    indices = g.reshape(indices, (prod(shape(indices)),))
    return take(g, x, *_at(places(g, n, indices, shape(x)[axis]), axis))


def _at(pair: tuple[Value, str | None], axis: int) -> tuple[Value, int, str | None]:
    return pair[0], axis, pair[1]


def embedding(g: Emitter, n: Node, weight: Value, indices: Value, *_: Any) -> Value:
    """Rows of a table."""
    return take(g, weight, *_at(places(g, n, indices, shape(weight)[0]), 0))


def _wide(g: Emitter, x: Value) -> Value:
    """A tensor of at least one axis."""
    return g.reshape(x, (1,)) if rank(x) == 0 else x


def gather(g: Emitter, n: Node, x: Value, dim: int, indices: Value, *_: Any) -> Value:
    """One element an index; other axes of the indices may be shorter."""
    dims = shape(indices)
    x, indices = _wide(g, x), _wide(g, indices)
    axis = axis_of(dim, rank(x))
    if 0 in dims:
        return np.zeros(dims, n.dtype)
    most = [s if i == axis else d for i, (s, d) in enumerate(zip(shape(x), shape(indices), strict=True))]
    x = cut(g, x, [0] * rank(x), most)
    indices, checked = places(g, n, indices, shape(x)[axis])
    return g.reshape(g(GatherElementsOp, x, indices, axis=axis, checked=checked), dims)


def _scattered(
    g: Emitter, n: Node, x: Value, dim: int, indices: Value, new: Value, reduction: str = "none"
) -> Value:
    """Elements replaced, or joined; further elements of `new` are left."""
    dims = shape(x)
    x, indices, new = _wide(g, x), _wide(g, indices), _wide(g, new)
    if 0 in shape(indices):
        return g.reshape(x, dims)
    new = cut(g, new, [0] * rank(new), list(shape(indices)))
    axis = axis_of(dim, rank(x))
    indices, checked = places(g, n, indices, shape(x)[axis])
    options: dict[str, Any] = {"axis": axis, "reduction": reduction, "checked": checked}
    return g.reshape(g(ScatterElementsOp, x, indices, cast_to(g, new, dtype_of_value(x)), **options), dims)


_JOINED = {
    None: "none", "sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min",
}  # fmt: skip


def scatter(
    g: Emitter, n: Node, x: Value, dim: int, indices: Value, new: Any, reduce: str | None = None
) -> Value:
    """Elements replaced by those of a tensor, or by one number."""
    if not rank_of(new):
        new = broadcast(g, operand(g, new, n.dtype), shape(indices))
    return _scattered(g, n, x, dim, indices, new, _JOINED[reduce])


def rank_of(x: Any) -> bool:
    """Whether something is a tensor with axes; numbers and scalars are not."""
    return hasattr(x, "type") and rank(x) > 0 or isinstance(x, np.ndarray) and x.ndim > 0


def scatter_add(g: Emitter, n: Node, x: Value, dim: int, indices: Value, new: Value) -> Value:
    """Elements added where indices say."""
    return _scattered(g, n, x, dim, indices, new, "add")


def scatter_reduce(
    g: Emitter,
    n: Node,
    x: Value,
    dim: int,
    indices: Value,
    new: Value,
    reduce: str,
    include_self: bool = True,
) -> Value:
    """Elements joined with those there, or only with each other."""
    kind = n.dtype
    if kind == BOOL:
        raise RuleError("scatter_reduce of booleans is not known here")
    if not include_self:
        neutral = _neutral(reduce, kind)
        x = _scattered(g, n, x, dim, indices, broadcast(g, neutral, shape(indices)))
    if reduce != "mean":
        return _scattered(g, n, x, dim, indices, new, _JOINED[reduce])
    total = _scattered(g, n, x, dim, indices, new, "add")
    ones = broadcast(g, np.ones((), kind), shape(x))
    if not include_self:
        ones = _scattered(g, n, ones, dim, indices, broadcast(g, np.zeros((), kind), shape(indices)))
    counts = _scattered(g, n, ones, dim, indices, broadcast(g, np.ones((), kind), shape(indices)), "add")
    counts = g(MaxOp, counts, g.like(1, counts))
    return g(FloorDivOp if kind.kind in "iu" else DivOp, total, counts)


def index_reduce(
    g: Emitter,
    n: Node,
    x: Value,
    dim: int,
    indices: Value,
    new: Value,
    reduce: str,
    include_self: bool = True,
) -> Value:
    """Slices joined with those there, or only with each other."""
    axis = axis_of(dim, max(1, rank(x)))
    new = _wide(g, new)
    along = [shape(new)[axis] if i == axis else 1 for i in range(rank(new))]
    wide = broadcast(g, g.reshape(indices, along), shape(new))
    return scatter_reduce(g, n, x, dim, wide, new, reduce, include_self)


def _neutral(reduce: str, kind: np.dtype) -> np.ndarray:
    """What changes nothing when it is joined."""
    if reduce in ("sum", "mean", "prod"):
        return np.array(reduce == "prod").astype(kind)
    if kind.kind in "iu":
        return np.array(np.iinfo(kind).max if reduce == "amin" else np.iinfo(kind).min).astype(kind)
    return np.array(np.inf if reduce == "amin" else -np.inf).astype(kind)


def index_add(g: Emitter, n: Node, x: Value, dim: int, indices: Value, new: Value, alpha: Any = 1) -> Value:
    """Slices added where indices say."""
    new = cast_to(g, new, n.dtype)
    new = new if alpha == 1 else g(MulOp, new, g.like(alpha, new))
    return _slices(g, n, x, dim, indices, new, "add")


def index_copy(g: Emitter, n: Node, x: Value, dim: int, indices: Value, new: Value) -> Value:
    """Slices replaced where indices say."""
    return _slices(g, n, x, dim, indices, new, "none")


def _slices(g: Emitter, n: Node, x: Value, dim: int, indices: Value, new: Value, reduction: str) -> Value:
    """Slices of an axis replaced or joined."""
    dims = shape(x)
    x, new = _wide(g, x), _wide(g, new)
    axis = axis_of(dim, rank(x))
    count = prod(shape(indices))
    order = [axis, *(i for i in range(rank(x)) if i != axis)]
    rows, checked = places(g, n, g.reshape(indices, (count, 1)), shape(x)[axis])
    y = g(
        ScatterNdOp,
        g.transpose(x, order),
        rows,
        g.transpose(new, order),
        reduction=reduction,
        checked=checked,
    )
    return g.reshape(g.transpose(y, [order.index(i) for i in range(rank(x))]), dims)


# --- several indices -----------------------------------------------------------------------------
def _axes(g: Emitter, n: Node, x: Value, indices: Sequence[Value | None]) -> list[tuple[int, Value]]:
    """Axes and their indices; masks that are known become the places where they hold."""
    out: list[tuple[int, Value]] = []
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
        elif dtype_of_value(index) in (BOOL, np.dtype(np.uint8)):
            if not isinstance(index, np.ndarray):
                raise NeedsValue(index, "how many elements a mask selects")
            for found in np.nonzero(index):
                out.append((axis, found.astype(np.int64)))
                axis += 1
        else:
            out.append((axis, cast_to(g, index, INT64)))
            axis += 1
    return out


def _tuples(g: Emitter, n: Node, x: Value, pairs: list[tuple[int, Value]]) -> tuple[Value, str | None]:
    """Index tuples, the last axis of the result, of indices that broadcast."""
    common: tuple[int, ...] = ()
    for _, index in pairs:
        common = broadcast_shapes(common, shape(index))
    columns: list[Value] = []
    checked: str | None = None
    for axis, index in pairs:
        index, told = places(g, n, index, shape(x)[axis])
        checked = checked or told
        columns.append(g.reshape(broadcast(g, index, common), (*common, 1)))
    return join(g, columns, len(common)), checked


def _ordered(x: Value, pairs: list[tuple[int, Value]]) -> tuple[list[int], int]:
    """Axes with the indexed ones first, and where what these become is in the result."""
    chosen = [axis for axis, _ in pairs]
    rest = [i for i in range(rank(x)) if i not in chosen]
    adjacent = chosen == list(range(chosen[0], chosen[0] + len(chosen)))
    return [*chosen, *rest], chosen[0] if adjacent else 0


def index(g: Emitter, n: Node, x: Value, indices: Sequence[Value | None]) -> Value:
    """x[i, :, j]: elements or slices by indices that broadcast."""
    pairs = _axes(g, n, x, indices)
    if not pairs:
        return x
    if len(pairs) == 1:
        axis, places_of_axis = pairs[0]
        return take(g, x, *_at(places(g, n, places_of_axis, shape(x)[axis]), axis))
    order, where = _ordered(x, pairs)
    tuples, checked = _tuples(g, n, x, pairs)
    y = g(GatherNdOp, g.transpose(x, order), tuples, batch_dims=0, checked=checked)
    width = rank(tuples) - 1
    if not where:
        return y
    return g.transpose(y, [*range(width, width + where), *range(width), *range(width + where, rank(y))])


def index_put(
    g: Emitter,
    n: Node,
    x: Value,
    indices: Sequence[Value | None],
    new: Value,
    accumulate: bool = False,
    *_: Any,
) -> Value:
    """x[i, :, j] = new, or += new."""
    first = next(i for i in indices if i is not None)
    masks = [i for i in indices if i is not None and dtype_of_value(i) == BOOL]
    if masks and not isinstance(first, np.ndarray):
        return _masked(g, n, x, indices, new, accumulate)
    pairs = _axes(g, n, x, indices)
    order, where = _ordered(x, pairs)
    tuples, checked = _tuples(g, n, x, pairs)
    if 0 in shape(tuples):
        return x
    width, rest = rank(tuples) - 1, [shape(x)[i] for i in order[len(pairs) :]]
    common = shape(tuples)[:-1]
    target = (*rest[:where], *common, *rest[where:])
    new = broadcast(g, cast_to(g, new, n.dtype), target)
    new = g.transpose(new, [*range(where, where + width), *range(where), *range(where + width, len(target))])
    reduction = "add" if accumulate else "none"
    options: dict[str, Any] = {"reduction": reduction, "checked": checked}
    y = g(ScatterNdOp, g.transpose(x, order), tuples, new, **options)
    return g.transpose(y, [order.index(i) for i in range(rank(x))])


def _masked(
    g: Emitter, n: Node, x: Value, indices: Sequence[Value | None], new: Value, accumulate: bool
) -> Value:
    """One value written where a mask holds."""
    if len([i for i in indices if i is not None]) > 1 or any(s != 1 for s in shape(new)):
        raise NeedsValue(None, "how many elements a mask selects")
    before = next(i for i, v in enumerate(indices) if v is not None)
    mask = indices[before]
    assert mask is not None
    dims = (*(1,) * before, *shape(mask), *(1,) * (rank(x) - before - rank(mask)))
    value = g.reshape(cast_to(g, new, n.dtype), ())
    value = g(AddOp, x, value) if accumulate else value
    return g(SelectOp, g.reshape(mask, dims), value, x)


def slice_scatter(
    g: Emitter, n: Node, x: Value, new: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    """A slice of an axis replaced."""
    axis = axis_of(dim, rank(x))
    size = shape(x)[axis]
    first, last = bound(0 if start is None else start, size), bound(size if end is None else end, size)
    if step == 1:
        before, after = span(g, x, axis, 0, first), span(g, x, axis, first + shape(new)[axis], size)
        return join(
            g,
            [before, broadcast(g, cast_to(g, new, n.dtype), shape(new)), after],
            axis,
        )
    if is_open((first, last)):
        raise RuleError("a slice of open bounds and steps is written")
    rows = np.arange(first, last, step).astype(np.int64)
    return _slices(g, n, x, axis, rows, cast_to(g, new, n.dtype), "none")


def select_scatter(g: Emitter, n: Node, x: Value, new: Value, dim: int, place: Any) -> Value:
    """One element of an axis replaced."""
    axis = axis_of(dim, rank(x))
    wide = g.reshape(new, (*shape(new)[:axis], 1, *shape(new)[axis:]))
    first = place + shape(x)[axis] if place < 0 else place
    return slice_scatter(g, n, x, wide, axis, first, first + 1)


def diagonal_scatter(
    g: Emitter, n: Node, x: Value, new: Value, offset: int = 0, first: int = 0, second: int = 1
) -> Value:
    """The elements of a diagonal replaced."""
    a, b = axis_of(first, rank(x)), axis_of(second, rank(x))
    order = [*(i for i in range(rank(x)) if i not in (a, b)), a, b]
    wide = g.transpose(x, order)
    *lead, rows, columns = shape(wide)
    if is_open((rows, columns)):
        raise RuleError("the diagonal of dynamic sizes is written")
    flat = g.reshape(wide, (*lead, rows * columns))
    y = _slices(
        g, n, flat, len(lead), diagonal_places(rows, columns, offset), cast_to(g, new, n.dtype), "none"
    )
    return g.transpose(g.reshape(y, shape(wide)), [order.index(i) for i in range(rank(x))])


def masked_fill(g: Emitter, n: Node, x: Value, mask: Value, value: Any) -> Value:
    """One value where a mask holds."""
    return g(SelectOp, cast_to(g, mask, BOOL), operand(g, value, n.dtype), cast_to(g, x, n.dtype))


def unknown_count(g: Emitter, n: Node, *_: Any) -> Value:
    """What has as many elements as only data tell."""
    raise NeedsValue(None, "the shape of the result")


RULES: dict[str, Rule] = {
    "_unsafe_index": index,
    "_unsafe_index_put": index_put,
    "diagonal_scatter": diagonal_scatter,
    "embedding": embedding,
    "gather": gather,
    "index": index,
    "index_add": index_add,
    "index_copy": index_copy,
    "index_put": index_put,
    "index_reduce": index_reduce,
    "index_select": index_select,
    "masked_fill": masked_fill,
    "masked_select": unknown_count,
    "nonzero": unknown_count,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "scatter_reduce": scatter_reduce,
    "select_scatter": select_scatter,
    "slice_scatter": slice_scatter,
    "unique": unknown_count,
    "unique_consecutive": unknown_count,
    "unique_dim": unknown_count,
}
