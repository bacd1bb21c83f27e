"""dot_general as products of matrices and of stacks of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from glow_dialects.core.extent import Extent
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_frontends.graph import Emitter, Value, rank, shape
from glow_frontends.stablehlo.node import Node, Rule, op_name
from glow_frontends.stablehlo.values import cast


def dot_general(g: Emitter, n: Node) -> Value:
    """dot_general: batch axes first, contracted ones beside each other, the rest one axis."""
    d = n.dimensions("dot_dimension_numbers")
    batches = d["lhs_batching_dimensions"], d["rhs_batching_dimensions"]
    inner = d["lhs_contracting_dimensions"], d["rhs_contracting_dimensions"]
    return contracted(g, n, batches, inner)


def dot(g: Emitter, n: Node) -> Value:
    """dot: the last axis and the first one."""
    return contracted(g, n, ((), ()), ((rank(n[0]) - 1,), (0,)))


def contracted(
    g: Emitter, n: Node, batches: Sequence[Sequence[int]], inner: Sequence[Sequence[int]]
) -> Value:
    """Sums of products over `inner` axes, for each of the `batches`, those and the free axes kept.

    The operands change places where that leaves less to transpose.
    """
    values = [cast(g, v, n.element()) for v in n.operands[:2]]
    sides = [_Side(v, b, k) for v, b, k in zip(values, batches, inner, strict=True)]
    x, y = sides
    swapped = _moved(y, x) + (0 if _is_turned(n) else _most(n.type().get_shape())) < _moved(x, y)
    if swapped:
        x, y = y, x
    batch = [shape(x.value)[a] for a in x.batch]
    rows, columns = x.sizes(), y.sizes()
    depth = prod(shape(x.value)[a] for a in x.inner)
    left = g.reshape(g.transpose(x.value, x.order(False)), (*batch, prod(rows), depth))
    right = g.reshape(g.transpose(y.value, y.order(True)), (*batch, depth, prod(columns)))
    product = g(BatchMatmulOp if batch else MatmulOp, left, right)
    product = g.reshape(product, (*batch, *rows, *columns))
    if not swapped:
        return product
    first, second = len(batch), len(batch) + len(rows)
    return g.transpose(product, (*range(first), *range(second, rank(product)), *range(first, second)))


@dataclass
class _Side:
    """An operand with its batch axes and those that are contracted."""

    value: Value
    batch: Sequence[int]
    inner: Sequence[int]

    @property
    def free(self) -> list[int]:
        """The other axes."""
        return [a for a in range(rank(self.value)) if a not in (*self.batch, *self.inner)]

    def sizes(self) -> list[int]:
        """Of the free axes."""
        return [shape(self.value)[a] for a in self.free]

    def order(self, right: bool) -> tuple[int, ...]:
        """The axes as they stand in the left, or the right operand of a product of matrices."""
        ends = (self.inner, self.free) if right else (self.free, self.inner)
        return (*self.batch, *ends[0], *ends[1])


def _moved(x: _Side, y: _Side) -> int:
    """How many elements have to be transposed for x times y."""
    return sum(
        _most(shape(side.value))
        for side, right in ((x, False), (y, True))
        if isinstance(side.value, SSAValue) and side.order(right) != tuple(range(rank(side.value)))
    )


def _most(dims: Sequence[int]) -> int:
    """How many elements there are, for usual sizes of dimensions that are open."""
    return prod(d.usual if isinstance(d, Extent) else 64 if d < 0 else d for d in dims)


def _is_turned(n: Node) -> bool:
    """Whether the result is only transposed, so that another order of its axes costs nothing."""
    result = n.op.results[0]
    return all(op_name(use.operation) == "stablehlo.transpose" for use in result.uses)


RULES: dict[str, Rule] = {"dot": dot, "dot_general": dot_general}
