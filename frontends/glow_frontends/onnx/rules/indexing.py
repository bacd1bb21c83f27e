"""Rules of gathering, scattering and selection by index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.location import names
from glow_dialects.core.types import tensor
from glow_dialects.ops.arithmetic import AddOp, MaxOp, MinOp, SubOp
from glow_dialects.ops.compare import CmpEqOp, CmpGeOp, CmpLeOp, CmpLtOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.gather_nd import GatherNdOp
from glow_dialects.ops.iota import IotaOp
from glow_dialects.ops.reduce import ReduceMaxOp
from glow_dialects.ops.scatter_elements import ScatterElementsOp
from glow_dialects.ops.scatter_nd import ScatterNdOp
from glow_dialects.ops.select import SelectOp
from glow_frontends.graph import Emitter, RuleError, Value, cast_to, dtype_of_value, rank, shape, type_of
from glow_frontends.graph.axes import axis_of, ranked
from glow_frontends.graph.emitter import MAX_FOLDED
from glow_frontends.graph.module import check_size
from glow_frontends.graph.movement import cut, known_indices, take
from glow_frontends.graph.sizes import objects, objects_of
from glow_frontends.onnx.model import label
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.tensors import numpy_type

INT64 = np.dtype(np.int64)


def node_label(g: Emitter, n: Node) -> str:
    """What to call a node in errors of a run: one without a name in a body, by the node that has the body."""
    own = label(n.proto)
    around = "" if n.proto.name else "".join(names(g.builder.location)[-1:])
    return f"{n.op} '{own}'" if around in ("", own) else f"{n.op} within '{around}'"


def non_negative(g: Emitter, indices: Value, limit: int) -> Value:
    """Indices with negative ones counted from the end, for what takes no others; known ones are checked."""
    if isinstance(indices, np.ndarray):
        if indices.size and (indices.min() < -limit or indices.max() >= limit):
            raise RuleError(f"an index is out of range for {limit} elements")
        return np.where(indices < 0, indices + indices.dtype.type(limit), indices)
    below = g(CmpLtOp, indices, g.like(0, indices))
    return g(SelectOp, below, g(AddOp, indices, g.like(limit, indices)), indices)


def indices_of(g: Emitter, n: Node, indices: Value, limits: Sequence[int]) -> tuple[Value, str | None]:
    """Indices that a gather or scatter takes, and what to call it where the run finds one out of range.

    `limits`: the sizes of the axes that index tuples (the last axis of `indices`), or single indices, go
    into. Known indices are checked here, and made non-negative. In a branch that is computed but perhaps
    not taken they may be anything: they are brought into range. Places that are not there (see `bounds`)
    are nobody's mistake either.
    """
    most = objects([limits[0]]).reshape(()) if len(limits) == 1 else objects(limits)
    if not is_open(limits):
        most = most.astype(dtype_of_value(indices))
    if isinstance(indices, np.ndarray):
        moved = known_indices(indices, most)
        return g.sizes(moved, indices.dtype) if is_open(limits) else moved, None
    if g.scope.guessing:
        last, first = (g.sizes(objects_of(m), dtype_of_value(indices)) for m in (most - 1, -most))
        return g(MaxOp, g(MinOp, indices, last), first), None
    return indices, None if n.padded else node_label(g, n)


def in_range(g: Emitter, n: Node, x: Value, low: int, high: int, what: str) -> Value:
    """Integers that lie between two bounds: known ones are checked now, others when the program runs."""
    text = f"{what} is not within {low} to {high}"
    if isinstance(x, np.ndarray):
        if x.size and (x.min() < low or x.max() > high):
            raise RuleError(text)
        return x
    if g.scope.guessing or n.padded:
        return g(MaxOp, g(MinOp, x, g.like(high, x)), g.like(low, x))
    place = g(SubOp, cast_to(g, x, INT64), np.array(low, np.int64))
    span, kind = high - low + 1, dtype_of_value(x)
    if is_open((span,)):
        beyond = g.size(span, INT64)
        values = g(AddOp, g(IotaOp, results=tensor((span,), kind)), np.array(low, kind))
    else:
        beyond, values = g.like(span, place), np.arange(low, high + 1, dtype=kind)
    place = g(SelectOp, g(CmpLtOp, place, g.like(0, place)), beyond, place)
    return take(g, values, place, 0, f"{node_label(g, n)}: {text}.")


def divisors(g: Emitter, n: Node, x: Value) -> Value:
    """What integers are divided by: an error where one is 0, now or when the program runs."""
    text = "a divisor is 0"
    if dtype_of_value(x).kind not in "iu" or 0 in shape(x) or g.scope.guessing or n.padded:
        return x
    if isinstance(x, np.ndarray):
        if not x.all():
            raise RuleError(text)
        return x
    zero = cast_to(g, g(CmpEqOp, x, g.like(0, x)), INT64)
    found = g(ReduceMaxOp, zero, axes=tuple(range(rank(x))), keepdims=False) if rank(x) else zero
    return g(AddOp, x, take(g, g.like(0, x).reshape(1), found, 0, f"{node_label(g, n)}: {text}."))


def gather(g: Emitter, n: Node) -> Value:
    """Gather slices along an axis; one known index is a slice."""
    axis = axis_of(n.integer("axis", 0), rank(n[0]))
    return gathered(g, n, n[0], n[1], axis)


def gathered(g: Emitter, n: Node, x: Value, indices: Value, axis: int) -> Value:
    """numpy.take for a node, with indices that are checked."""
    places, checked = indices_of(g, n, indices, [shape(x)[axis]])
    return take(g, x, places, axis, checked)


def gather_elements(g: Emitter, n: Node) -> Value:
    """GatherElements."""
    axis = axis_of(n.integer("axis", 0), rank(n[0]))
    indices, checked = indices_of(g, n, n[1], [shape(n[0])[axis]])
    return g(GatherElementsOp, n[0], indices, axis=axis, checked=checked)


def gather_nd(g: Emitter, n: Node) -> Value:
    """GatherND."""
    x, batch = n[0], n.integer("batch_dims", 0)
    indices, checked = indices_of(g, n, n[1], _reached(x, n[1], batch))
    return g(GatherNdOp, x, indices, batch_dims=batch, checked=checked)


def _reached(x: Value, indices: Value, batch: int = 0) -> tuple[int, ...]:
    """The axes of `x` that index tuples go into, the first being `batch`."""
    length = ranked(indices, 1)[-1]
    ranked(x, batch + length)
    return shape(x)[batch : batch + length]


def scatter_elements(g: Emitter, n: Node) -> Value:
    """ScatterElements, and Scatter of opset 9."""
    axis = axis_of(n.integer("axis", 0), rank(n[0]))
    indices, checked = indices_of(g, n, n[1], [shape(n[0])[axis]])
    reduction = n.text("reduction", "none")
    return g(ScatterElementsOp, n[0], indices, n[2], axis=axis, reduction=reduction, checked=checked)


def scatter_nd(g: Emitter, n: Node) -> Value:
    """ScatterND."""
    indices, checked = indices_of(g, n, n[1], _reached(n[0], n[1]))
    return g(ScatterNdOp, n[0], indices, n[2], reduction=n.text("reduction", "none"), checked=checked)


def one_hot(g: Emitter, n: Node) -> Value:
    """OneHot of a known depth, or one that follows from sizes, between two values."""
    indices, depth, pair = n[0], g.integer(n[1], "the depth of OneHot"), n[2]
    if depth < 1:
        raise RuleError(f"the depth {depth} is not positive")
    check_size([depth], MAX_FOLDED)
    axis = axis_of(n.integer("axis", -1), rank(indices) + 1)
    if dtype_of_value(indices) != np.dtype(np.int64):
        indices = cast_to(g, indices, np.dtype(np.int64))
    below = g(CmpLtOp, indices, g.like(0, indices))
    whole = g.reshape(cast_to(g, n[1], np.dtype(np.int64)), ())
    indices = g(SelectOp, below, g(AddOp, indices, whole), indices)
    dims = list(shape(indices))
    dims.insert(axis, 1)
    ones = [1] * len(dims)
    ones[axis] = depth
    mask = g(CmpEqOp, g.reshape(indices, dims), g.reshape(g.numbers(depth), ones))
    off = g.reshape(cut(g, pair, [0], [1]), ())
    on = g.reshape(cut(g, pair, [1], [2]), ())
    return g(SelectOp, mask, on, off)


def trilu(g: Emitter, n: Node) -> Value:
    """Trilu: the upper or lower triangle, the rest 0."""
    x = n[0]
    k = 0 if n.get(1) is None else g.integer(n[1], "the diagonal of Trilu")
    mask = _diagonal(g, CmpGeOp if n.flag("upper", True) else CmpLeOp, ranked(x, 2), k)
    return g(SelectOp, mask, x, g.like(0, x))


def _diagonal(g: Emitter, kind: type[GraphOp], dims: Sequence[int], k: int) -> Value:
    """How the columns of matrices compare with their rows, `k` added."""
    columns, rows = (g(IotaOp, results=tensor((count,), "int64")) for count in (dims[-1], dims[-2]))
    return g(kind, columns, g(AddOp, g.reshape(rows, (dims[-2], 1)), np.array(k)))


def eye_like(g: Emitter, n: Node) -> Value:
    """EyeLike: known where shapes are."""
    kind = numpy_type(n.integer("dtype")) if n.has("dtype") else dtype_of_value(n[0])
    if rank(n[0]) != 2:
        raise RuleError(f"a tensor of rank {rank(n[0])}, expected a matrix")
    return cast_to(g, _diagonal(g, CmpEqOp, shape(n[0]), n.integer("k", 0)), kind)


def reverse_sequence(g: Emitter, n: Node) -> Value:
    """ReverseSequence: gathered at computed positions."""
    x, lengths = n[0], n[1]
    time, batch = (axis_of(n.integer(f"{name}_axis", i), rank(x)) for i, name in enumerate(("time", "batch")))
    steps = g.reshape(g.numbers(shape(x)[time]), (shape(x)[time], 1))
    lengths = in_range(g, n, lengths, 0, shape(x)[time], "a length")
    rows = g.reshape(lengths, (1, shape(x)[batch]))
    mirrored = g(SubOp, g(SubOp, rows, g.like(1, rows)), steps)
    positions = g(SelectOp, g(CmpLtOp, steps, rows), mirrored, steps)
    order = (time, batch, *(i for i in range(rank(x)) if i not in (time, batch)))
    moved = g.transpose(x, order)
    tail = shape(moved)[2:]
    wide = g.reshape(positions, (*shape(positions), *(1,) * len(tail)))
    wide = g(ExpandOp, wide, results=tensor(shape(moved), type_of(wide).element_type))
    out = g(GatherElementsOp, moved, wide, axis=0)
    return g.transpose(out, tuple(order.index(i) for i in range(rank(x))))


RULES: dict[str, Versions] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "OneHot": one_hot,
    "Trilu": trilu,
    "EyeLike": eye_like,
    "ReverseSequence": reverse_sequence,
}
