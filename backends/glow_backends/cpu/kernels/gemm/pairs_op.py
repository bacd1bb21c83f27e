"""`glow_cpu.pairs_fully_connected`: products of pairs of 16-bit numbers."""

from __future__ import annotations

from glow_dialects.core.graph_op import graph_op
from glow_dialects.ops.quantized_fully_connected import IntegerProductOp


@graph_op
class PairsFullyConnectedOp(IntegerProductOp):
    """quantized_fully_connected of numbers that fit bytes but come in 16 bits, likewise."""

    name = "glow_cpu.pairs_fully_connected"
