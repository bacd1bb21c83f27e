"""glow-exact-quantization: quantised operators stay what their definitions say, in float.

    quantize(conv(dequantize(q), dequantize(w)))  stays
    lstm(x, w, r, scales)                         ->  lstm(x, w * input_scales, r * scales)
    product(round_blocks(x), w)                   ->  product(x, w)

It stands in place of glow-match-qdq. What the model itself rounds (`QuantizeLinear`, `DynamicQuantizeLinear`,
results of `QLinear` operators) is rounded; activations that are rounded only so that products are of integers
are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.types import shape_of
from glow_dialects.ops.arithmetic import MulOp
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.round_blocks import RoundBlocksOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, rewrite
from glow_passes.graph.linear import plain_properties


def unrounded(op: RoundBlocksOp, r: Rewriter) -> SSAValue | None:
    """round_blocks(x) -> x."""
    return op.input


def lstm(op: LstmOp, r: Rewriter) -> Sequence[SSAValue] | None:
    """lstm of whole numbers and their scales -> lstm of the real numbers."""
    if op.scales is None and op.input_scales is None:
        return None
    weights, recurrence = (
        _real(w, scales, r) for w, scales in ((op.weights, op.input_scales), (op.recurrence, op.scales))
    )
    others = op.bias, op.lengths, op.initial_state, op.initial_cell, op.peepholes
    properties = {**plain_properties(op), "predicate": op.predicate}
    return r.insert(LstmOp(op.input, weights, recurrence, *others, None, None, **properties)).results


def _real(whole: SSAValue, scales: SSAValue | None, r: Rewriter) -> SSAValue:
    """Weights [D, rows, inputs] times the scales [D, rows] of their rows."""
    if scales is None:
        return whole
    return r(MulOp(whole, r(ReshapeOp.to(scales, (*shape_of(scales), 1)))))


PATTERNS = (Pattern((RoundBlocksOp,), unrounded), Pattern((LstmOp,), lstm))


@dataclass(frozen=True)
class ExactQuantizationPass(GraphPass):
    """Activations that are rounded only for integer products stay float."""

    name = "glow-exact-quantization"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, PATTERNS)
