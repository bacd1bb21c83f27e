"""Data-dependent lengths: their upper bounds, and tensors with such a length."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.attributes import array_of
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, dtype_of, shape_of, typed
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.compare import CmpLtOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.module import ConstantOp, GetOp, lookup
from glow_dialects.ops.non_zero import NonZeroOp
from glow_dialects.ops.pad import PadOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp
from glow_dialects.ops.slice import SliceOp
from glow_frontends.graph.emitter import Emitter
from glow_frontends.graph.values import MAX_ELEMENTS, BoundedValue, Value, dtype_of_value, rank, shape

#: A number that is known, or the value that holds it at run time.
Number: TypeAlias = int | SSAValue
#: Shapes have no more dimensions.
MOST = 16


def elements(value: Value) -> list[Number]:
    """The integers of a small tensor of rank 0 or 1, each traced to the number that it is a copy of."""
    if isinstance(value, np.ndarray):
        return [int(v) for v in value.reshape(-1)]
    known = _constant(value)
    if known is not None:
        return elements(known)
    match value.owner:
        case ReshapeOp() | CastOp() as op if dtype_of(typed(op.operands[0])).kind in "iu":
            return elements(op.operands[0])
        case ConcatOp() as op:
            return [e for part in op.inputs for e in elements(part)]
        case SliceOp() as op if len(shape_of(op.input)) == 1:
            window = slice(op.starts[0], op.ends[0], op.steps[0])
            return elements(op.input)[window] if op.steps[0] > 0 else [value]
        case _:
            return [value]


def _constant(value: SSAValue) -> Array | None:
    """The contents of a small constant or literal."""
    owner = value.owner
    if isinstance(owner, LiteralOp):
        return array_of(owner.properties["value"], typed(value))
    if isinstance(owner, GetOp) and prod(shape(value)) <= MOST:
        target = lookup(owner, owner.symbol.root_reference.data)
        return target.array() if isinstance(target, ConstantOp) else None
    return None


def upper(g: Emitter, value: Number | Value) -> int | None:
    """A number that none of the integers of a value exceeds, if one is known."""
    if isinstance(value, int):
        return value
    if isinstance(value, np.ndarray):
        return int(value.max()) if value.size and value.size <= MOST else None
    if value in g.limits:
        return g.limits[value]
    known = _constant(value)
    if known is not None:
        return upper(g, known)
    op = value.owner
    if not isinstance(op, GraphOp):
        return None
    if isinstance(op, ReshapeOp | CastOp | SliceOp | ExpandOp):
        return upper(g, op.operands[0])
    if op.name in ("glow.min", "glow.reduce_min"):
        return _least(g, [e for v in op.operands for e in elements(v)])
    if op.name in ("glow.max", "glow.reduce_max", "glow.concat"):
        return _most(g, op.operands)
    if isinstance(op, SelectOp):
        return _most(g, op.operands[1:])
    if op.name == "glow.add":
        parts = [upper(g, v) for v in op.operands]
        return None if None in parts else sum(p for p in parts if p is not None)
    return None


def _least(g: Emitter, values: Sequence[Number]) -> int | None:
    return min((u for u in (upper(g, v) for v in values) if u is not None), default=None)


def _most(g: Emitter, values: Sequence[SSAValue]) -> int | None:
    bounds = [upper(g, v) for v in values]
    return None if None in bounds else max((b for b in bounds if b is not None), default=None)


def shaped(g: Emitter, dims: Value) -> tuple[list[int], int, SSAValue] | None:
    """A computed shape of which one dimension is not known but bounded: the bound's shape, axis, length."""
    numbers = elements(dims)
    open_ = [i for i, d in enumerate(numbers) if not isinstance(d, int)]
    if len(numbers) != prod(shape(dims)) or len(open_) != 1:
        return None
    length = numbers[open_[0]]
    assert isinstance(length, SSAValue)
    bound = upper(g, length)
    if bound is None or rank(length) or dtype_of_value(length) != np.dtype(np.int64):
        return None
    sizes = [d if isinstance(d, int) else bound for d in numbers]
    return (sizes, open_[0], length) if min(sizes) >= 0 and np.prod(sizes) <= MAX_ELEMENTS else None


def there(g: Emitter, bounded: BoundedValue) -> Value:
    """Which places hold something, in a shape that broadcasts to the tensor's."""
    length = shape(bounded.value)[bounded.axis]
    dims = [1] * rank(bounded.value)
    dims[bounded.axis] = length
    (mask,) = g.once(
        ("there", bounded.count, length),
        lambda: [g(CmpLtOp, np.arange(length, dtype=np.int64), bounded.count)],
    )
    return g.reshape(mask, dims)


def filled(g: Emitter, bounded: BoundedValue, number: float) -> Value:
    """The tensor with a number where nothing is; integers take the nearest that they have."""
    kind = dtype_of_value(bounded.value)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        number = int(min(max(number, limits.min), limits.max))
    return g(SelectOp, there(g, bounded), bounded.value, g.like(number, bounded.value))


def joined(g: Emitter, parts: Sequence[Value | BoundedValue], axis: int) -> Value | BoundedValue:
    """A concatenation along the axis of unknown lengths: valid elements are moved together."""
    lengths = [p.count if isinstance(p, BoundedValue) else shape(p)[axis] for p in parts]
    tensors = [p.value if isinstance(p, BoundedValue) else p for p in parts]
    bounds = [shape(t)[axis] for t in tensors]

    def places() -> list[Value]:
        counts = [g.reshape(n, (1,)) if isinstance(n, SSAValue) else np.array([n], np.int64) for n in lengths]
        owner = np.repeat(np.arange(len(bounds)), bounds)
        inside = np.concatenate([np.arange(b, dtype=np.int64) for b in bounds])
        each = g(GatherOp, g(ConcatOp, counts, axis=0), owner, axis=0)
        places, count = g.many(NonZeroOp, g(CmpLtOp, inside, each))
        return [g.reshape(places, (sum(bounds),)), count]

    order, count = g.once(("joined", tuple(lengths), tuple(bounds)), places)
    return g.bounded(g(GatherOp, g(ConcatOp, tensors, axis=axis), order, axis=axis), axis, count)


def chosen(
    g: Emitter, condition: Value, yes: Value | BoundedValue, no: Value | BoundedValue
) -> Value | BoundedValue | None:
    """One of two tensors of which at least one has a length that only the run tells."""
    axis = next(v.axis for v in (yes, no) if isinstance(v, BoundedValue))
    if any(isinstance(v, BoundedValue) and v.axis != axis for v in (yes, no)):
        return None
    tensors = [v.value if isinstance(v, BoundedValue) else v for v in (yes, no)]
    others = [(*shape(t)[:axis], *shape(t)[axis + 1 :]) for t in tensors]
    if others[0] != others[1] or rank(tensors[0]) != rank(tensors[1]):
        return None
    bound = max(shape(t)[axis] for t in tensors)
    wide: list[Value] = []
    for value in tensors:
        pads = [0] * (2 * rank(value))
        pads[rank(value) + axis] = bound - shape(value)[axis]
        wide.append(g(PadOp, value, pads=tuple(pads), mode="constant", value=0.0) if any(pads) else value)
    counts = [
        v.count if isinstance(v, BoundedValue) else np.array(shape(v)[axis], np.int64) for v in (yes, no)
    ]
    return g.bounded(g(SelectOp, condition, *wide), axis, g(SelectOp, condition, *counts))
