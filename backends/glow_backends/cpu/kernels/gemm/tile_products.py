"""Products of bytes with known weights on tile instructions."""

from __future__ import annotations

import numpy as np

from glow_backends.cpu.calls import CallContext, Operand, shape, table
from glow_backends.cpu.emit.packing import bias_of, factors_of
from glow_backends.cpu.kernels.gemm.contractions import Contraction, schedule_of
from glow_backends.cpu.kernels.gemm.gemm_int8 import in_bytes, requantize_to
from glow_backends.nests.finish import Finish
from glow_backends.nests.products import Product, pack_columns
from glow_dialects.core.types import element_of, present
from glow_dialects.ops.quantize import quantized_type
from glow_dialects.ops.quantized_fully_connected import IntegerProductOp, QuantizedFullyConnectedOp
from glow_dialects.ops.requantize import zero_of


class TileFullyConnected(Contraction[IntegerProductOp]):
    """A product of bytes with constant weights and bias, on tiles."""

    OPS = (QuantizedFullyConnectedOp,)

    def match(self, op: IntegerProductOp, context: CallContext) -> Product | None:
        source, weights = quantized_type(op.input), quantized_type(op.weights)
        constants = [context.constant(v) for v in (op.weights, *present(op.bias))]
        requantize = requantize_to(op.result, op.low, op.high)
        bytes_only = in_bytes(source) and in_bytes(weights) and weights.signed
        if not context.target.has_amx or not bytes_only or requantize is None:
            return None
        if any(c is None for c in constants) or 0 in (*shape(op.input), *shape(op.weights)):
            return None
        (rows, depth), columns = shape(op.input), shape(op.weights)[1]
        finish = Finish(True, "" if requantize.sums else "column", not (requantize.sums or requantize.real))
        out = "i32" if requantize.sums else "f32" if requantize.real else "i8"
        kind = "i8" if source.signed else "u8"
        p = Product(rows, columns, depth, kind, "i8", out, packed=True, finish=finish)
        return p if schedule_of(p, context.target).unit.is_tile else None

    def operands(self, op: IntegerProductOp, spec: Product, context: CallContext) -> list[Operand | None]:
        source, weights, to = quantized_type(op.input), quantized_type(op.weights), element_of(op.result)
        array, s = context.constant(op.weights), schedule_of(spec, context.target)
        biases = [context.constant(v) for v in present(op.bias)]
        requantize = requantize_to(op.result, op.low, op.high)
        assert array is not None and requantize is not None
        bias = bias_of(array.T, biases[0] if biases else None, zero_of(source))
        how = f"panels|{s.instruction} {s.lanes} {s.columns}"
        known: list[Operand | None] = [
            op.result,
            op.input,
            context.pack(op.weights, how, lambda w: pack_columns(w, s)),
            table("sums", bias),
        ]
        if spec.finish.factor:
            known.append(table("factor", np.array(factors_of(weights, source, to, spec.n))))
        if spec.finish.limits:
            known.append(table("limits", requantize.limits))
        return known
