"""glow-cpu-pairs: bytes that many products read become 16-bit numbers, of which a processor multiplies pairs.

    quantized_conv(x : u8)  ->  pairs_conv(rescale(x) : u16)

Processors with products of four bytes (VNNI) keep the bytes. Depthwise convolutions and products of a few
rows, which wait for their weights, do so everywhere. Weights that do not fit signed bytes (unsigned ones less
a zero point) are multiplied in pairs everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_backends.cpu.kernels.conv.quantized_ops import PairsConvOp, QuantizedConvOp
from glow_backends.cpu.kernels.gemm.pairs_op import PairsFullyConnectedOp
from glow_backends.cpu.target import named
from glow_dialects.core.types import UniformQuantizedType, present, shape_of, tensor
from glow_dialects.ops.quantize import RescaleOp, is_byte, quantized_type
from glow_dialects.ops.quantized_fully_connected import QuantizedFullyConnectedOp
from glow_dialects.ops.requantize import scale_of, zero_of
from glow_passes.contract import GraphPass
from glow_passes.graph.driver import Pattern, Rewriter, rewrite
from glow_passes.graph.linear import plain_properties

FEW_ROWS = 4
"""Rows below which a product waits for its weights, which are half as many as bytes."""


def conv(every: bool) -> Callable[[Any, Rewriter], SSAValue | None]:
    """quantized_conv(x) -> pairs_conv(rescale(x)), of bytes if `every` one is to be one."""

    def rule(op: QuantizedConvOp, r: Rewriter) -> SSAValue | None:
        depthwise = 1 < op.group == shape_of(op.filter)[0] and shape_of(op.filter)[1] == 1
        if depthwise or op.predicate is not None or not (every or _is_wide(op.filter)):
            return None
        parts = op.filter, op.bias, op.residual
        return r(PairsConvOp(_wide(op.input, r), *parts, results=op.result.type, **plain_properties(op)))

    return rule


def fully_connected(every: bool) -> Callable[[Any, Rewriter], SSAValue | None]:
    """quantized_fully_connected(x) -> pairs_fully_connected(rescale(x)), of constant weights.

    Of bytes if `every` one of many rows is to be one.
    """

    def rule(op: QuantizedFullyConnectedOp, r: Rewriter) -> SSAValue | None:
        known = all(r.array(v) is not None for v in (op.weights, *present(op.bias)))
        wide = _is_wide(op.weights)
        wanted = wide or (every and shape_of(op.input)[0] >= FEW_ROWS)
        signed = quantized_type(op.weights).signed
        if not (known and wanted and signed and is_byte(op.input)) or op.predicate is not None:
            return None
        parts, options = (op.weights, op.bias), plain_properties(op)
        return r(PairsFullyConnectedOp(_wide(op.input, r), *parts, results=op.result.type, **options))

    return rule


def _is_wide(weights: SSAValue) -> bool:
    return quantized_type(weights).storage.width.data == 16


def _wide(x: SSAValue, r: Rewriter) -> SSAValue:
    """The same numbers in 16 bits."""
    kind = quantized_type(x)
    to = UniformQuantizedType.of(16, scale_of(kind), zero_of(kind), kind.signed)
    return r(RescaleOp(x, results=tensor(shape_of(x), to)))


@dataclass(frozen=True)
class CpuPairsPass(GraphPass):
    """Bring bytes to products as 16-bit numbers where pairs of those are multiplied on `cpu`."""

    name = "glow-cpu-pairs"
    cpu: str = "host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        every = not named(self.cpu).has_vnni
        products = Pattern((QuantizedFullyConnectedOp,), fully_connected(every))
        rewrite(op, (Pattern((QuantizedConvOp,), conv(every)), products))
