"""dot_general as products of matrices and of stacks of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_frontends.onnx.emitter import Emitter
from glow_frontends.onnx.values import Value, rank, shape
from glow_frontends.stablehlo.node import Node, Rule
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
    """Sums of products over `inner` axes, for each of the `batches`, those and the free axes kept."""
    element = n.element()
    x, y = (cast(g, v, element) for v in n.operands[:2])
    batch = [shape(x)[a] for a in batches[0]]
    free = [
        [a for a in range(rank(v)) if a not in (*b, *k)]
        for v, b, k in zip((x, y), batches, inner, strict=True)
    ]
    rows, columns = [shape(x)[a] for a in free[0]], [shape(y)[a] for a in free[1]]
    depth = prod(shape(x)[a] for a in inner[0])
    x = g.reshape(g.transpose(x, (*batches[0], *free[0], *inner[0])), (*batch, prod(rows), depth))
    y = g.reshape(g.transpose(y, (*batches[1], *inner[1], *free[1])), (*batch, depth, prod(columns)))
    product = g(BatchMatmulOp if batch else MatmulOp, x, y)
    return g.reshape(product, (*batch, *rows, *columns))


RULES: dict[str, Rule] = {"dot": dot, "dot_general": dot_general}
