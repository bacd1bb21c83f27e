"""Rules of sequences, which exist during import only: lists whose elements are tensors."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from glow_frontends.graph import Emitter, RuleError, Value, dtype_of_value, rank, shape
from glow_frontends.graph.axes import axis_of
from glow_frontends.graph.movement import join, pieces
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.rules.indexing import gathered
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.tensors import numpy_type
from glow_frontends.onnx.values import AnyValue, SequenceValue, StackedValue


def empty(g: Emitter, n: Node) -> SequenceValue:
    """SequenceEmpty."""
    del g
    return SequenceValue([], numpy_type(n.integer("dtype", 1)))


def construct(g: Emitter, n: Node) -> SequenceValue:
    """SequenceConstruct."""
    del g
    items = n.tensors()
    return SequenceValue(list(items), dtype_of_value(items[0]))


def _position(g: Emitter, n: Node, index: int, length: int, what: str) -> int:
    place = g.integer(n[index], what)
    if not -length <= place < max(length, 1):
        raise RuleError(f"position {place} in a sequence of {length}")
    return place % length if place < 0 else place


def at(g: Emitter, n: Node) -> AnyValue:
    """SequenceAt."""
    sequence = n.sequence(0)
    if isinstance(sequence, StackedValue):
        return gathered(g, n, sequence.rows, g.reshape(n[1], ()), 0)
    items = sequence.items
    return items[_position(g, n, 1, len(items), "a position in a sequence")]


def insert(g: Emitter, n: Node) -> SequenceValue:
    """SequenceInsert."""
    sequence, value = n.sequence(0), n[1]
    items = list(sequence.items)
    if n.get(2) is None:
        place = len(items)
    else:
        place = g.integer(n[2], "a position in a sequence")
        if not -len(items) <= place <= len(items):
            raise RuleError(f"position {place} in a sequence of {len(items)}")
    items.insert(place, value)
    return SequenceValue(items, sequence.dtype or dtype_of_value(value))


def erase(g: Emitter, n: Node) -> SequenceValue:
    """SequenceErase."""
    items = list(n.sequence(0).items)
    place = -1 if n.get(1) is None else _position(g, n, 1, len(items), "a position in a sequence")
    del items[place]
    return SequenceValue(items, n.sequence(0).dtype)


def length(g: Emitter, n: Node) -> Value:
    """SequenceLength."""
    sequence = n.sequence(0)
    if isinstance(sequence, StackedValue):
        return g.size(shape(sequence.rows)[0], np.dtype(np.int64))
    return np.array(len(sequence.items), np.int64)


def concat(g: Emitter, n: Node) -> Value:
    """ConcatFromSequence, along an axis or a new one."""
    sequence = n.sequence(0)
    if isinstance(sequence, StackedValue):
        return _joined(g, n, sequence.rows)
    items = [_tensor(i) for i in sequence.items]
    if not items:
        raise RuleError("a concatenation of no tensors")
    if n.flag("new_axis"):
        axis = axis_of(n.integer("axis"), rank(items[0]) + 1)
        items = [g.reshape(i, (*shape(i)[:axis], 1, *shape(i)[axis:])) for i in items]
        return join(g, items, axis)
    return join(g, items, axis_of(n.integer("axis"), rank(items[0])))


def _joined(g: Emitter, n: Node, rows: Value) -> Value:
    """Rows side by side, along an axis of theirs or a new one."""
    new = n.flag("new_axis")
    axis = axis_of(n.integer("axis"), rank(rows) - (not new))
    order = [*range(1, rank(rows))]
    order.insert(axis, 0)
    turned = g.transpose(rows, order)
    if new:
        return turned
    dims = shape(turned)
    return g.reshape(turned, (*dims[:axis], dims[axis] * dims[axis + 1], *dims[axis + 2 :]))


def _tensor(value: AnyValue) -> Value:
    if not isinstance(value, np.ndarray | SSAValue):
        raise RuleError("a sequence in a sequence")
    return value


def split(g: Emitter, n: Node) -> SequenceValue:
    """SplitToSequence: into ones, equal chunks, or given sizes.

    `keepdims` is for ones only, also those of a given chunk of 1: PyTorch's exporter relies on it.
    """
    x = n[0]
    axis = axis_of(n.integer("axis", 0), rank(x))
    total = shape(x)[axis]
    lengths = n.get(1)
    ones = lengths is None
    if lengths is None:
        sizes = (1,) * total
    elif rank(lengths) == 0:
        chunk = g.integer(lengths, "the chunk of SplitToSequence")
        if chunk < 1:
            raise RuleError(f"chunks of {chunk}")
        ones = chunk == 1
        sizes = tuple(min(chunk, total - i) for i in range(0, total, chunk))
    else:
        sizes = g.ints(lengths, "the sizes of SplitToSequence")
    parts = pieces(g, x, axis, sizes)
    if ones and not n.flag("keepdims", True):
        dims = (*shape(x)[:axis], *shape(x)[axis + 1 :])
        parts = [g.reshape(p, dims) for p in parts]
    return SequenceValue(list(parts), dtype_of_value(x))


def map_(g: Emitter, n: Node) -> list[SequenceValue]:
    """SequenceMap: the body on each element, unrolled."""
    del g
    body = n.graph("body")
    first = n.sequence(0)
    rows: list[list[AnyValue]] = []
    for index in range(len(first.items)):
        values: list[AnyValue] = []
        for position in range(len(n.inputs)):
            value = n.any_input(position)
            if isinstance(value, SequenceValue):
                if index >= len(value.items):
                    raise RuleError(f"sequences of {len(first.items)} and {len(value.items)} elements")
                value = value.items[index]
            if value is None:
                raise RuleError(f"input {position} is missing")
            values.append(value)
        rows.append(n.scope.subgraph(body, values))
    columns = [[row[i] for row in rows] for i in range(len(body.output))]
    kinds = [numpy_type(o.type.tensor_type.elem_type) for o in body.output]
    return [SequenceValue(c, k) for c, k in zip(columns, kinds, strict=True)]


RULES: dict[str, Versions] = {
    "SequenceEmpty": empty,
    "SequenceConstruct": construct,
    "SequenceAt": at,
    "SequenceInsert": insert,
    "SequenceErase": erase,
    "SequenceLength": length,
    "ConcatFromSequence": concat,
    "SplitToSequence": split,
    "SequenceMap": map_,
}
