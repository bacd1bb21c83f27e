"""glow-quantize-dynamic: products with 8-bit weights, their inputs quantised row by row as they come.

    matmul(x, w)  ->  quantized_fully_connected(round(x / s), w') * s,   s = max |x| of each row / 127

No profile is needed: each row's scale is computed when it is there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import UniformQuantizedType, element_of, present, shape_of, tensor
from glow_dialects.ops.arithmetic import AddOp, DivOp, MaxOp, MulOp
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.fully_connected import FullyConnectedOp
from glow_dialects.ops.matmul import MatmulOp
from glow_dialects.ops.quantize import quantize_array
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.reduce import ReduceMaxOp
from glow_dialects.ops.unary_math import AbsOp, RoundOp
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, rewrite
from glow_passes.graph.match import is_known
from glow_passes.quantize.schema import symmetric_type

#: Stored integers of a row, before its scale.
UNIT = UniformQuantizedType.of(8, 1.0)
LARGEST = 127.0
#: Rows that are zero everywhere keep a scale above 0.
SMALLEST = 1e-30


def dynamic_product(op: GraphOp, r: Rewriter) -> SSAValue | None:
    """fully_connected(x, w, b) with constant weights -> integers times the scales of rows."""
    x, w = op.operands[0], op.operands[1]
    if element_of(x) != f32 or op.predicate is not None or is_known(x, r) or not is_known(w, r):
        return None
    weights = r.array(w)
    if weights is None or not np.isfinite(weights).all():
        return None
    kind = symmetric_type(weights, 1)
    stored = quantize_array(weights.astype(np.float64), kind).astype(np.int8)
    largest = r(ReduceMaxOp(r(AbsOp(x)), axes=(1,), keepdims=True))
    scale = r(MulOp(r(MaxOp(largest, r.scalar(SMALLEST, x))), r.scalar(1 / LARGEST, x)))
    shape = shape_of(x)
    rounded = r(CastOp(r(RoundOp(r(DivOp(x, scale)))), results=tensor(shape, "int8")))
    integers = r(BitCastOp(rounded, results=tensor(shape, UNIT)))
    packed = r.weight(stored, w.name_hint or "weights", tensor(weights.shape, kind))
    total = r(QuantizedFullyConnectedOp(integers, packed, None, results=op.results[0].type))
    real = r(MulOp(total, scale))
    for bias in present(op.bias) if isinstance(op, FullyConnectedOp) else ():
        real = r(AddOp(real, bias))
    return real


@dataclass(frozen=True)
class QuantizeDynamicPass(GraphPass):
    """Fully connected layers and products with constant weights on 8 bits, without a profile."""

    name = "glow-quantize-dynamic"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, (Pattern((FullyConnectedOp, MatmulOp), dynamic_product),))
