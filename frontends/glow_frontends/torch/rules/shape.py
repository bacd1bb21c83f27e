"""Rules of shapes and structure: elements moved, repeated, joined, cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from glow_dialects.core.extent import is_open
from glow_dialects.core.types import Array
from glow_dialects.ops.depth_to_space import DepthToSpaceOp
from glow_dialects.ops.flip import FlipOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.tile import TileOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape
from glow_frontends.graph.axes import axes_of, axis_of
from glow_frontends.graph.movement import cut, element, expanded, join, pieces, take
from glow_frontends.torch.node import Decomposed, Node, number

Rule = Callable[..., Any]


def reshape(g: Emitter, n: Node, x: Value, size: Sequence[int]) -> Value:
    """view and its kin; one size may be -1."""
    dims = list(size)
    unknown = [i for i, d in enumerate(dims) if not is_open([d]) and d == -1]
    if unknown:
        rest = prod([d for i, d in enumerate(dims) if i != unknown[0]])
        dims[unknown[0]] = prod(shape(x)) // rest if is_open([rest]) or rest else 0
    return g.reshape(x, dims)


def flatten(g: Emitter, n: Node, x: Value, start: int = 0, end: int = -1) -> Value:
    """Axes joined to one."""
    dims = shape(x)
    first, last = (axis_of(a, max(1, rank(x))) for a in (start, end))
    return g.reshape(x, (*dims[:first], prod(dims[first : last + 1]), *dims[last + 1 :]))


def permute(g: Emitter, n: Node, x: Value, dims: Sequence[int]) -> Value:
    """Axes in another order."""
    return g.transpose(x, axes_of(dims, rank(x))) if rank(x) else x


def transpose(g: Emitter, n: Node, x: Value, first: int, second: int) -> Value:
    """Two axes exchanged."""
    if rank(x) == 0:
        return x
    order = list(range(rank(x)))
    a, b = axis_of(first, rank(x)), axis_of(second, rank(x))
    order[a], order[b] = b, a
    return g.transpose(x, order)


def turned(g: Emitter, n: Node, x: Value) -> Value:
    """t: a matrix turned."""
    return g.transpose(x, (1, 0)) if rank(x) == 2 else x


def unsqueeze(g: Emitter, n: Node, x: Value, dim: int) -> Value:
    """An axis of size 1 more."""
    axis = axis_of(dim, rank(x) + 1)
    return g.reshape(x, (*shape(x)[:axis], 1, *shape(x)[axis:]))


def squeeze(g: Emitter, n: Node, x: Value, dim: Any = None) -> Value:
    """Axes of size 1 gone: those that are named, or all."""
    dims = shape(x)
    named = range(rank(x)) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {axis_of(a, max(1, rank(x))) for a in named}
    fixed = [not (i in gone and not is_open([d]) and d == 1) for i, d in enumerate(dims)]
    return g.reshape(x, [d for d, kept in zip(dims, fixed, strict=True) if kept])


def expand(g: Emitter, n: Node, x: Value, size: Sequence[int], *_: Any) -> Value:
    """Broadcast; -1 keeps a size."""
    before = len(size) - rank(x)
    dims = [shape(x)[i - before] if not is_open([d]) and d == -1 else d for i, d in enumerate(size)]
    return x if tuple(dims) == shape(x) else expanded(g, x, dims)


def repeat(g: Emitter, n: Node, x: Value, repeats: Sequence[int]) -> Value:
    """Axes repeated as a whole, new ones in front."""
    x = g.reshape(x, (*(1,) * (len(repeats) - rank(x)), *shape(x)))
    if all(not is_open([r]) and r == 1 for r in repeats):
        return x
    return g(TileOp, x, repeats=tuple(repeats))


def concat(g: Emitter, n: Node, parts: Sequence[Value], dim: int = 0) -> Value:
    """cat, which leaves out empty tensors of one axis."""
    most = max(rank(p) for p in parts)
    parts = [cast_to(g, p, n.dtype) for p in parts if rank(p) == most or shape(p) != (0,)]
    return join(g, parts, axis_of(dim, most))


def stack(g: Emitter, n: Node, parts: Sequence[Value], dim: int = 0) -> Value:
    """Tensors along a new axis."""
    wide = [unsqueeze(g, n, cast_to(g, p, n.dtype), dim) for p in parts]
    return join(g, wide, axis_of(dim, rank(wide[0])))


def slice_(
    g: Emitter, n: Node, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    """Every so many elements of an axis, bounds as in Python."""
    axis = axis_of(dim, rank(x))
    size = shape(x)[axis]
    first, last = bound(0 if start is None else start, size), bound(size if end is None else end, size)
    begin, ends, steps = [0] * rank(x), list(shape(x)), [1] * rank(x)
    begin[axis], ends[axis], steps[axis] = first, _most(first, last), step
    return cut(g, x, begin, ends, steps)


def bound(place: int, size: int) -> int:
    """A bound within an axis, which may count from its end."""
    if not is_open((place, size)):
        return min(max(place + size if place < 0 else place, 0), size)
    if not is_open([place]) and place >= 1 << 62:
        return size
    place = place + size if place < 0 else place
    return 0 if place < 0 else size if place > size else place


def _most(first: int, last: int) -> int:
    return first if last < first else last


def select(g: Emitter, n: Node, x: Value, dim: int, index: Any) -> Value:
    """One element of an axis, which is gone."""
    axis = axis_of(dim, rank(x))
    if not isinstance(index, int) and not is_open([index]):
        return take(g, x, g.reshape(index, ()), axis, n.label)
    place = index + shape(x)[axis] if index < 0 else index
    return element(g, x, axis, place)


def split(g: Emitter, n: Node, x: Value, sizes: Any, dim: int = 0) -> list[Value]:
    """split: pieces of a size, or of several."""
    axis = axis_of(dim, rank(x))
    if not isinstance(sizes, list):
        whole = int(shape(x)[axis]) if isinstance(sizes, int) else shape(x)[axis]
        count = len(n.meta)
        sizes = [sizes] * (count - 1) + [whole - sizes * (count - 1)] if count > 1 else [whole]
    return pieces(g, x, axis, tuple(sizes))


def chunk(g: Emitter, n: Node, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    """At most so many pieces of equal sizes."""
    size = shape(x)[axis_of(dim, rank(x))]
    return split(g, n, x, -(-size // chunks) if is_open([size]) else max(1, -(-size // chunks)), dim)


def unbind(g: Emitter, n: Node, x: Value, dim: int = 0) -> list[Value]:
    """The elements of an axis."""
    return [select(g, n, x, dim, i) for i in range(int(shape(x)[axis_of(dim, rank(x))]))]


def flip(g: Emitter, n: Node, x: Value, dims: Sequence[int]) -> Value:
    """Axes backwards."""
    axes = axes_of(dims, max(1, rank(x)))
    return g(FlipOp, x, axes=axes) if axes and rank(x) else x


def roll(g: Emitter, n: Node, x: Value, shifts: Any, dims: Any = ()) -> Value:
    """Elements moved along axes, those that leave at one end coming back at the other."""
    shifts, dims = ([v] if isinstance(v, int) else list(v) for v in (shifts, dims))
    if not dims:
        flat = g.reshape(x, (prod(shape(x)),))
        return g.reshape(roll(g, n, flat, shifts, [0]), shape(x))
    for shift, dim in zip(shifts, dims, strict=True):
        axis = axis_of(dim, rank(x))
        size = shape(x)[axis]
        if not is_open([size]) and size == 0:
            continue
        first = (size - shift) % size if not is_open([size]) else size - shift if shift > 0 else -shift
        x = join(g, pieces(g, x, axis, (first, size - first))[::-1], axis)
    return x


def pad(g: Emitter, n: Node, x: Value, pads: Sequence[int], value: Any = 0, mode: str = "constant") -> Value:
    """Elements added at the borders, the last axis first; negative numbers cut."""
    count = rank(x)
    begins, ends = [0] * count, [0] * count
    for index in range(len(pads) // 2):
        begins[count - 1 - index], ends[count - 1 - index] = pads[2 * index], pads[2 * index + 1]
    low = [-b if b < 0 else 0 for b in begins]
    high = [d + e if e < 0 else d for d, e in zip(shape(x), ends, strict=True)]
    x = cut(g, x, low, high)
    added = [v if v > 0 else 0 for v in (*begins, *ends)]
    if not is_open(added) and not any(added):
        return x
    fill = number(g, value, "the value of a pad")
    if dtype_of_value(x) == np.dtype(bool):
        wide = g(PadOp, cast_to(g, x, np.dtype(np.uint8)), pads=tuple(added), mode=mode, value=float(fill))
        return cast_to(g, wide, np.dtype(bool))
    return g(PadOp, x, pads=tuple(added), mode=mode, value=float(fill))


def padding(mode: str) -> Rule:
    """Padding by the elements at the border."""
    return lambda g, n, x, pads: pad(g, n, x, pads, 0, mode)


def any_pad(
    g: Emitter, n: Node, x: Value, pads: Sequence[int], mode: str = "constant", value: Any = None
) -> Value:
    """pad of a mode."""
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return pad(g, n, x, pads, 0 if value is None else value, modes[mode])


def pixel_shuffle(g: Emitter, n: Node, x: Value, factor: int) -> Value:
    """Channels to pixels."""
    *lead, channels, height, width = shape(x)
    y = g(DepthToSpaceOp, g.reshape(x, (prod(lead), channels, height, width)), block=factor, mode="CRD")
    return g.reshape(y, (*lead, *shape(y)[1:]))


def diagonal(g: Emitter, n: Node, x: Value, offset: int = 0, first: int = 0, second: int = 1) -> Value:
    """The elements of a diagonal, as the last axis."""
    a, b = axis_of(first, rank(x)), axis_of(second, rank(x))
    rows, columns = shape(x)[a], shape(x)[b]
    if is_open((rows, columns)):
        raise Decomposed("the diagonal of dynamic sizes")
    x = g.transpose(x, [*(i for i in range(rank(x)) if i not in (a, b)), a, b])
    lead = shape(x)[:-2]
    return take(g, g.reshape(x, (*lead, rows * columns)), diagonal_places(rows, columns, offset), len(lead))


def diagonal_places(rows: int, columns: int, offset: int) -> Array:
    """Where the elements of a diagonal are in a matrix whose rows lie in a row."""
    count = np.arange(max(0, min(rows + min(offset, 0), columns - max(offset, 0))), dtype=np.int64)
    return (count + max(-offset, 0)) * columns + count + max(offset, 0)


def unfold(g: Emitter, n: Node, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows over an axis, their elements as the last axis."""
    if rank(x) == 0:
        return g.reshape(x, (1,)) if size else x
    axis = axis_of(dim, rank(x))
    count = shape(x)[axis]
    if is_open([count]):
        raise Decomposed("windows over a dynamic size")
    places = np.arange(0, count - size + 1, step)[:, None] + np.arange(size)
    y = take(g, x, places.astype(np.int64), axis)
    return g.transpose(y, [*(i for i in range(rank(y)) if i != axis + 1), axis + 1])


def as_strided(
    g: Emitter, n: Node, x: Value, size: Sequence[int], stride: Sequence[int], offset: Any = None
) -> Value:
    """Elements at steps of the memory, which is the tensor's own where it is not a view."""
    known = n.metas[0]
    if is_open((*size, *stride, *shape(x))) or not known.is_contiguous() or known.storage_offset():
        raise RuleError("a view by strides of dynamic sizes, or of another view")
    places = np.full((), offset or 0, np.int64)
    for count, step in zip(size, stride, strict=True):
        places = places[..., None] + np.arange(count) * step
    return take(g, g.reshape(x, (prod(shape(x)),)), places, 0)


RULES: dict[str, Rule] = {
    "_reshape_alias": lambda g, n, x, size, *_: reshape(g, n, x, size),
    "_unsafe_view": reshape,
    "as_strided": as_strided,
    "as_strided_copy": as_strided,
    "cat": concat,
    "chunk": chunk,
    "constant_pad_nd": pad,
    "diagonal": diagonal,
    "diagonal_copy": diagonal,
    "expand": expand,
    "expand_copy": expand,
    "flatten": flatten,
    "flip": flip,
    "narrow": lambda g, n, x, dim, start, length: slice_(g, n, x, dim, start, start + length),
    "pad": any_pad,
    "permute": permute,
    "permute_copy": permute,
    "pixel_shuffle": pixel_shuffle,
    **{f"reflection_pad{d}d": padding("reflect") for d in (1, 2, 3)},
    **{f"replication_pad{d}d": padding("edge") for d in (1, 2, 3)},
    "repeat": repeat,
    "reshape": reshape,
    "roll": roll,
    "select": select,
    "select_copy": select,
    "slice": slice_,
    "slice_copy": slice_,
    "split": split,
    "split_with_sizes": split,
    "split_with_sizes_copy": split,
    "squeeze": squeeze,
    "squeeze_copy": squeeze,
    "stack": stack,
    "t": turned,
    "transpose": transpose,
    "transpose_copy": transpose,
    "unbind": unbind,
    "unfold": unfold,
    "unfold_copy": unfold,
    "unsqueeze": unsqueeze,
    "unsqueeze_copy": unsqueeze,
    "view": reshape,
    "view_copy": reshape,
}
