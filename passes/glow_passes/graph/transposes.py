"""Transposes merge, cancel, become reshapes, and sink below other operators.

Sinking brings the transpose that a model of another layout puts around each convolution next to its
inverse, where both vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.reduce import ReductionOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.driver import Pattern, Rewriter, producer
from glow_passes.graph.match import is_known, users

Permutation = tuple[int, ...]
#: Constants of at most this many elements are transposed to let a transpose pass.
SMALL = 1 << 20


def transpose_of_transpose(op: TransposeOp, r: Rewriter) -> SSAValue | None:
    """transpose(transpose(x)) -> transpose(x), or x."""
    inner = producer(op.input, TransposeOp)
    if inner is None:
        return None
    first, second = inner.permutation, op.permutation
    joined = tuple(first[i] for i in second)
    if joined == tuple(range(len(joined))):
        return inner.input
    return r(TransposeOp(inner.input, permutation=joined))


def transpose_to_reshape(op: TransposeOp, r: Rewriter) -> SSAValue | None:
    """A transpose that moves only dimensions of size 1 is a reshape; of none, nothing."""
    permutation, shape = op.permutation, shape_of(op.input)
    real = [axis for axis in permutation if shape[axis] != 1]
    if real != sorted(real):
        return None
    if op.input.type == op.result.type:
        return op.input
    return r(ReshapeOp(op.input, results=op.result.type))


def _inverse(permutation: Permutation) -> Permutation:
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def _may_pass(value: SSAValue) -> bool:
    """Whether moving the transpose that makes `value` does not leave more transposes behind."""
    return all(
        isinstance(user, TransposeOp | ConcatOp) or (isinstance(user, GraphOp) and type(user).DATA_PARALLEL)
        for user in users(value)
    )


def rebuilt(op: GraphOp, operands: Sequence[SSAValue], shape: Sequence[int]) -> GraphOp:
    """The same operator without predicate on other operands, its result with another shape."""
    kind = tensor(shape, element_of(op.results[0]))
    return type(op).create(operands=operands, result_types=[kind], properties=dict(op.properties))


def below_element_wise(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """f(transpose(x), transpose(y), c) -> transpose(f(x, y, c')), one permutation, c constant."""
    if len(op.results) != 1 or op.predicate is not None:
        return None
    if not any(type(value.owner) is TransposeOp for value in op.operands):
        return None
    permutation: Permutation | None = None
    for value in op.operands:
        owner = value.owner
        if isinstance(owner, TransposeOp):
            if permutation not in (None, owner.permutation) or not _may_pass(value):
                return None
            permutation = owner.permutation
        elif not (is_known(value, r) or prod(shape_of(value)) == 1):
            return None
    shape = shape_of(op.results[0])
    if permutation is None or len(permutation) != len(shape):
        return None
    operands = [_before(value, permutation, r) for value in op.operands]
    if any(value is None for value in operands):
        return None
    inverse = _inverse(permutation)
    inner = rebuilt(op, [v for v in operands if v is not None], [shape[i] for i in inverse])
    return r(TransposeOp(r(inner), permutation=permutation))


def _before(value: SSAValue, permutation: Permutation, r: Rewriter) -> SSAValue | None:
    """`value` before the transpose that all operands go through."""
    owner: Any = value.owner
    if isinstance(owner, TransposeOp):
        return owner.input
    shape = shape_of(value)
    if prod(shape) == 1:
        return value
    array = r.array(value)
    if array is None or array.size > SMALL:
        return None
    full = array.reshape((1,) * (len(permutation) - array.ndim) + array.shape)
    moved = np.ascontiguousarray(full.transpose(_inverse(permutation)))
    return r.weight(moved, value.name_hint or "transposed")


def below_concat(op: ConcatOp, r: Rewriter) -> SSAValue | None:
    """concat(transpose(x), transpose(y)) -> transpose(concat(x, y))."""
    parts: list[Any] = [producer(v, TransposeOp) for v in op.inputs]
    if any(p is None or not _may_pass(p.result) for p in parts):
        return None
    permutation = parts[0].permutation
    if any(p.permutation != permutation for p in parts):
        return None
    joined = r(ConcatOp([p.input for p in parts], axis=permutation[op.axis]))
    return r(TransposeOp(joined, permutation=permutation))


def below_slice(op: SliceOp, r: Rewriter) -> SSAValue | None:
    """slice(transpose(x)) -> transpose(slice(x)): fewer elements are moved."""
    inner = producer(op.input, TransposeOp, single=True)
    if inner is None:
        return None
    permutation = inner.permutation
    inverse = _inverse(permutation)
    bounds: dict[str, Any] = {
        name: tuple(getattr(op, name)[i] for i in inverse) for name in ("starts", "ends", "steps")
    }
    return r(TransposeOp(r(SliceOp(inner.input, **bounds)), permutation=permutation))


def below_reduction(op: ReductionOp, r: Rewriter) -> SSAValue | None:
    """reduce(transpose(x)) -> reduce(x) along the axes' old places, transposed where that matters."""
    inner = producer(op.input, TransposeOp, single=True)
    if inner is None:
        return None
    permutation: Permutation = inner.permutation
    axes: set[int] = {permutation[axis] for axis in op.axes}
    keepdims = op.keepdims
    reduced = r(type(op)(inner.input, axes=tuple(sorted(axes)), keepdims=keepdims))
    if keepdims:
        return r(TransposeOp(reduced, permutation=permutation))
    left = [axis for axis in permutation if axis not in axes]
    order = sorted(left)
    if left == order:
        return reduced
    return r(TransposeOp(reduced, permutation=tuple(order.index(axis) for axis in left)))


PATTERNS = (
    Pattern((TransposeOp,), transpose_of_transpose),
    Pattern((TransposeOp,), transpose_to_reshape),
    Pattern((GraphOp,), below_element_wise, lambda op: op.DATA_PARALLEL),
    Pattern((ConcatOp,), below_concat),
    Pattern((SliceOp,), below_slice),
    Pattern((ReductionOp,), below_reduction),
)
