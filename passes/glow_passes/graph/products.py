"""glow-products: matrix products in their simplest form, with their biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from glow_dialects.core.types import shape_of
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import BatchMatmulOp, MatmulOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_passes.graph.driver import Pattern, Rewriter, is_used_once, rewrite


def batch_of_one_matrix(op: Any, r: Rewriter) -> SSAValue | None:
    """batch_matmul([.., N, K], [K, M]) -> matmul of [.. * N, K]; the stack is one tall matrix."""
    left, right = shape_of(op.lhs), shape_of(op.rhs)
    if any(n != 1 for n in right[:-2]) or not (len(right) <= len(left) or len(left) == 2):
        return None
    rows = int(np.prod(left[:-1]))
    x = op.lhs if len(left) == 2 else r(ReshapeOp.to(op.lhs, (rows, left[-1])))
    w = op.rhs if len(right) == 2 else r(ReshapeOp.to(op.rhs, right[-2:]))
    product = r(MatmulOp(x, w))
    return product if product.type == op.result.type else r(ReshapeOp(product, results=op.result.type))


def _row(value: SSAValue, columns: int) -> bool:
    """Whether a value is one number a column."""
    shape = shape_of(value)
    return bool(shape) and shape[-1] == columns and all(n == 1 for n in shape[:-1])


def matmul_and_bias(op: Any, r: Rewriter) -> SSAValue | None:
    """matmul(x, w) + b -> fully_connected(x, w, b), b one number a column."""
    for product, bias in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        inner: Any = product.owner
        plain = isinstance(inner, MatmulOp) or (
            isinstance(inner, FullyConnectedOp) and not inner.group("bias")
        )
        if not plain or not is_used_once(product) or product.type != op.result.type:
            continue
        if not _row(bias, shape_of(product)[1]) or inner.group("predicate"):
            continue
        row = bias if len(shape_of(bias)) == 1 else r(ReshapeOp.to(bias, shape_of(bias)[-1:]))
        return r(FullyConnectedOp(inner.operands[0], inner.operands[1], row))
    return None


PATTERNS = (Pattern((BatchMatmulOp,), batch_of_one_matrix),)
#: Makes operators that backends may lack; only before lowering.
RECOGNIZE = (Pattern((AddOp,), matmul_and_bias),)


@dataclass(frozen=True)
class ProductsPass(ModulePass):
    """Stacks of matrices as one matrix where that is possible; matmul and add as fully_connected."""

    name = "glow-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, (*PATTERNS, *RECOGNIZE))
