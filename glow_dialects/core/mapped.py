"""Operators on operands with an additional first axis, for `vmap`.

Of the operands some are mapped: they have an axis of a size more than the operator knows, in front. So have
all results then. What a card says of this is `GraphOp.mapped`; where it says nothing, its decomposition is
mapped, and what has none is written out, once a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.extent import Extent
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.ops import operator_class

#: Parts that an operator without a rule is written out for.
WRITTEN_OUT = 32


class NotMapped(Exception):
    """An operator that cannot be done for all parts at once; the argument is its name."""


def with_axis(kind: Attribute, size: int) -> Attribute:
    """The type with an axis more in front."""
    return tensor((size, *shape_of(kind)), element_of(kind))


def aligned(x: SSAValue, rank: int, b: Builder) -> SSAValue:
    """A mapped value whose parts have axes of size 1 in front until they have `rank` axes: to broadcast."""
    size, *part = shape_of(x)
    return reshaped(x, (size, *(1,) * (rank - len(part)), *part), b)


def whole(x: SSAValue, mapped: bool, size: int, b: Builder) -> SSAValue:
    """The value with the axis in front: one that is not mapped is repeated."""
    if mapped:
        return x
    row = reshaped(x, (1, *shape_of(x)), b)
    return b(operator_class("expand")(row, results=with_axis(x.type, size)))


def reshaped(x: SSAValue, shape: Sequence[int], b: Builder) -> SSAValue:
    """The elements under another shape."""
    kind = tensor(shape, element_of(x))
    return x if x.type == kind else b(operator_class("reshape")(x, results=kind))


def moved(x: SSAValue, source: int, target: int, b: Builder) -> SSAValue:
    """The value with one axis at another place."""
    order = [i for i in range(len(shape_of(x))) if i != source]
    order.insert(target, source)
    if order == sorted(order):
        return x
    return b(operator_class("transpose")(x, permutation=tuple(order)))


def numbers(size: int, b: Builder) -> SSAValue:
    """The numbers of the parts."""
    if isinstance(size, Extent):
        return b(operator_class("iota")(results=tensor((size,), i64)))
    return b.constant(np.arange(size))


def again(
    op: GraphOp, values: Sequence[SSAValue], size: int, b: Builder, **properties: Any
) -> list[SSAValue]:
    """The operator on mapped values, with some properties changed."""
    new = type(op).create(
        operands=list(values),
        result_types=[with_axis(r.type, size) for r in op.results],
        properties={**op.properties, **op.attributes_of(properties)},
    )
    return list(b.insert(new).results)


def by_axes(
    op: GraphOp, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
) -> list[SSAValue] | None:
    """Element by element, or along axes that properties count; None where the card tells neither."""
    if op.regions or op.predicate is not None:
        return None
    if op.DATA_PARALLEL:
        rank = max(len(shape_of(r)) for r in op.results)
        return again(op, [aligned(v, rank, b) if f else v for v, f in zip(x, flags, strict=True)], size, b)
    if not op.AXES:
        return None
    known = {name: getattr(op, name) for name in op.AXES}
    one_more = {n: v + 1 if isinstance(v, int) else tuple(i + 1 for i in v) for n, v in known.items()}
    return again(op, [whole(v, f, size, b) for v, f in zip(x, flags, strict=True)], size, b, **one_more)


def map_ops(
    ops: Iterable[Operation], values: dict[SSAValue, SSAValue], mapped: set[SSAValue], size: int, b: Builder
) -> None:
    """Do operators for all parts; `values` has what stands for values, which are `mapped` or not."""
    for op in ops:
        assert isinstance(op, GraphOp), op.name
        flags = [v in mapped for v in op.operands]
        x = [values.get(v, v) for v in op.operands]
        if True not in flags:
            new = op.clone(values)
            b.insert(new)
            values.update(zip(op.results, new.results, strict=True))
            continue
        results = op.mapped(x, flags, size, b) or _decomposed(op, x, flags, size, b)
        results = results or _written_out(op, x, flags, size, b)
        for old, new in zip(op.results, results, strict=True):
            assert new.type == with_axis(old.type, size), f"{op.name}: {new.type} of parts {old.type}"
        values.update(zip(op.results, results, strict=True))
        mapped.update(op.results)


def _decomposed(
    op: GraphOp, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
) -> list[SSAValue] | None:
    if not op.can_decompose():
        return None
    block = Block(arg_types=[v.type for v in op.operands])
    inner = op.clone(dict(zip(op.operands, block.args, strict=True)))
    block.add_op(inner)
    results = inner.decompose(Builder.at_end(block))
    if results is None:
        return None
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, x, strict=True))
    mapped: set[SSAValue] = {a for a, f in zip(block.args, flags, strict=True) if f}
    map_ops([o for o in block.ops if o is not inner], values, mapped, size, b)
    return [whole(values.get(r, r), r in mapped, size, b) for r in results]


def _written_out(
    op: GraphOp, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
) -> list[SSAValue]:
    if isinstance(size, Extent) or not 0 < size <= WRITTEN_OUT:
        raise NotMapped(op.name.removeprefix("glow."))
    parts: list[list[SSAValue]] = [[] for _ in op.results]
    for i in range(size):
        row = [_part(v, i, b) if f else v for v, f in zip(x, flags, strict=True)]
        done = b.insert(op.clone(dict(zip(op.operands, row, strict=True))))
        for column, result in zip(parts, done.results, strict=True):
            column.append(reshaped(result, (1, *shape_of(result)), b))
    return [b(operator_class("concat")(column, axis=0)) for column in parts]


def _part(x: SSAValue, i: int, b: Builder) -> SSAValue:
    shape = shape_of(x)
    window = operator_class("slice")
    row = b(window.window(x, (i, *(0,) * (len(shape) - 1)), (1, *shape[1:])))  # pyright: ignore
    return reshaped(row, shape[1:], b)
