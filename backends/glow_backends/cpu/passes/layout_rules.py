"""How each operator is carried over to blocked values: the rule, in its family's folder, of each class.

A rule returns whether it has remembered a blocked (or another plain) form of the results; where it
returns False the operator stays as it is, on plain values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glow_backends.cpu.kernels.conv.layout import adjoint, conv
from glow_backends.cpu.kernels.conv.quantized_layout import conv as quantized_conv
from glow_backends.cpu.kernels.conv.training_layout import conv_weights
from glow_backends.cpu.kernels.norm.layout import batch_norm, batch_norm_backward, batch_norm_train, lrn
from glow_backends.cpu.kernels.pointwise.quantized_layout import bit_cast, elementwise, lookup
from glow_backends.cpu.kernels.pool.layout import pool, pool_backward, reduction
from glow_backends.cpu.kernels.pool.quantized_layout import average
from glow_backends.cpu.kernels.reduction.layout import byte_scale, channel_sum
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops.avg_pool import AvgPoolBackwardOp, AvgPoolOp
from glow_dialects.ops.batch_norm import BatchNormBackwardOp, BatchNormOp, BatchNormTrainOp
from glow_dialects.ops.bit_cast import BitCastOp
from glow_dialects.ops.byte_scale import ByteScaleOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_backward_weights import ConvBackwardWeightsOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.elementwise import BinaryOp, UnaryOp
from glow_dialects.ops.lookup import LookupOp
from glow_dialects.ops.lrn import LrnOp
from glow_dialects.ops.max_pool import MaxPoolBackwardOp, MaxPoolOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp, RescaleOp
from glow_dialects.ops.quantized_arithmetic import QuantizedAddOp, QuantizedMulOp, QuantizedSubOp
from glow_dialects.ops.quantized_avg_pool import QuantizedAvgPoolOp
from glow_dialects.ops.quantized_conv import QuantizedConvOp
from glow_dialects.ops.reduce import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from glow_passes.graph.regions import Region

Rule = Callable[[Any, Region, CpuTarget], bool]


RULES: dict[type[GraphOp], Rule] = {
    BitCastOp: bit_cast,
    ByteScaleOp: byte_scale,
    LookupOp: lookup,
    ConvOp: conv,
    ConvBackwardWeightsOp: conv_weights,
    ConvTransposeOp: adjoint,
    MaxPoolOp: pool,
    AvgPoolOp: pool,
    MaxPoolBackwardOp: pool_backward,
    AvgPoolBackwardOp: pool_backward,
    ReduceMeanOp: reduction,
    ReduceMaxOp: reduction,
    ReduceSumOp: channel_sum,
    BatchNormOp: batch_norm,
    BatchNormTrainOp: batch_norm_train,
    BatchNormBackwardOp: batch_norm_backward,
    LrnOp: lrn,
    QuantizedAvgPoolOp: average,
    QuantizedConvOp: quantized_conv,
    QuantizeOp: elementwise,
    DequantizeOp: elementwise,
    RescaleOp: elementwise,
    QuantizedAddOp: elementwise,
    QuantizedSubOp: elementwise,
    QuantizedMulOp: elementwise,
}

#: The rules whose result is in blocks, whatever the operands are.
STARTS: tuple[Rule, ...] = (conv, adjoint, batch_norm)


def starts_blocks(kind: type[GraphOp]) -> bool:
    """Whether kernels of a class of operators write blocks of channels."""
    return RULES.get(kind) in STARTS


def keeps_blocks(kind: type[GraphOp]) -> bool:
    """Whether kernels of a class between layers read blocks and write such: element-wise ones and pools."""
    return issubclass(kind, BinaryOp | UnaryOp) or RULES.get(kind) is pool
