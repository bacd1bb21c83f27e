"""Long sums of parts as one operator: gradients of slices and of weights used many times."""

from __future__ import annotations

from collections import Counter

from xdsl.ir import SSAValue

from glow_dialects.core.types import shape_of
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.driver import Pattern, Rewriter, producer
from glow_passes.graph.match import terms

#: Products that are worth one product of joined factors.
MANY = 3


def _leaves(op: AddOp) -> list[SSAValue]:
    """The terms of a tree of sums; nothing where one of them is broadcast."""
    addends = terms(op)
    return addends if all(v.type == op.result.type for v in addends) else []


def inserts_as_concat(op: AddOp, r: Rewriter) -> SSAValue | None:
    """insert(0, a) + insert(0, b) + ... -> concat(a, b, ...) where the parts cover an axis."""
    leaves = _leaves(op)
    parts: list[tuple[int, SSAValue]] = []
    axes: set[int] = set()
    whole = shape_of(op.result)
    for leaf in leaves:
        inner = producer(leaf, InsertOp, single=True)
        if inner is None or r.uniform(inner.big) != 0 or any(s != 1 for s in inner.strides()):
            return None
        part = shape_of(inner.small)
        cut = [i for i, (have, want) in enumerate(zip(part, whole, strict=True)) if have != want]
        if len(cut) != 1:
            return None
        axes.add(cut[0])
        parts.append((inner.starts[cut[0]], inner.small))
    if len(axes) != 1:
        return None
    (axis,) = axes
    parts.sort(key=lambda p: p[0])
    end = 0
    for start, value in parts:
        if start != end:
            return None
        end += shape_of(value)[axis]
    return r(ConcatOp([v for _, v in parts], axis=axis)) if end == whole[axis] else None


def products_as_one(op: AddOp, r: Rewriter) -> SSAValue | None:
    """a @ b + c @ d + e @ f -> [a c e] @ [b d f], where that saves memory traffic."""
    leaves = _leaves(op)
    products: list[MatmulOp] = []
    others: list[SSAValue] = []
    for leaf in leaves:
        inner = producer(leaf, MatmulOp, single=True)
        if inner is None or inner.predicate is not None:
            others.append(leaf)
        else:
            products.append(inner)
    if len(products) < MANY:
        return None
    rows, columns = shape_of(op.result)
    depth = sum(shape_of(m.lhs)[1] for m in products)
    if depth * (rows + columns) >= len(products) * rows * columns:
        return None  # the factors are larger than the products
    flipped = [producer(m.lhs, TransposeOp) for m in products]
    if all(t is not None for t in flipped):
        tall = r(ConcatOp([t.operands[0] for t in flipped if t is not None], axis=0))
        left = r(TransposeOp(tall, permutation=(1, 0)))
    else:
        left = r(ConcatOp([m.lhs for m in products], axis=1))
    total = r(MatmulOp(left, r(ConcatOp([m.rhs for m in products], axis=0))))
    for other in others:
        total = r(AddOp(total, other))
    return total


def _row_of(value: SSAValue) -> tuple[SSAValue, int] | None:
    """(tensor, row) of a matrix that is one row of a tensor of three axes."""
    shaped = producer(value, ReshapeOp)
    if shaped is None:
        return None
    cut = producer(shaped.operands[0], SliceOp)
    if cut is None:
        return None
    whole, part = shape_of(cut.operands[0]), shape_of(cut.result)
    if part != (1, *whole[1:]) or shape_of(value) != whole[1:]:
        return None
    return cut.operands[0], cut.starts[0]


def rows_times_matrix(op: MatmulOp, r: Rewriter) -> SSAValue | None:
    """x[0] @ w, x[1] @ w, ... -> rows of one product of all rows of x with w."""
    row = _row_of(op.lhs)
    if row is None or op.predicate is not None:
        return None
    whole, index = row
    count, height, depth = shape_of(whole)
    users = [u.operation for u in op.rhs.uses]
    mine = [m for m in users if isinstance(m, MatmulOp)]
    rows = Counter(row[1] for row in (_row_of(m.lhs) for m in mine) if row and row[0] is whole)
    merged = any(_reshaped(m.lhs) is whole for m in mine)
    if not merged and (len(rows) < MANY or 2 * len(rows) < count):
        return None
    flat = r(ReshapeOp.to(whole, (count * height, depth)))
    product = r(MatmulOp(flat, op.rhs))
    columns = shape_of(op.rhs)[1]
    starts, ends = (index * height, 0), ((index + 1) * height, columns)
    return r(SliceOp(product, starts=starts, ends=ends, steps=(1, 1)))


def _reshaped(value: SSAValue) -> SSAValue | None:
    """What a value is a reshape of."""
    shaped = producer(value, ReshapeOp)
    return None if shaped is None else shaped.operands[0]


PATTERNS = (
    Pattern((AddOp,), inserts_as_concat),
    Pattern((AddOp,), products_as_one),
    Pattern((MatmulOp,), rows_times_matrix),
)
