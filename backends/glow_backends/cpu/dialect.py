"""`glow_cpu`: the decisions of the CPU backend, visible in the IR (layout, algorithm, fused epilogue).

Activations are blocked: tensor<N x C/c x H x W x c>, c the vector's lanes, the last block filled up
with channels that nobody reads. Each graph op `glow_cpu.x` has its instruction `glow_cpu_instr.x`.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from glow_backends.cpu.fused_body import YieldOp
from glow_backends.cpu.kernels.conv.conv_ops import ConvOp, PlaneConvOp
from glow_backends.cpu.kernels.conv.quantized_ops import PairsConvOp, QuantizedConvOp
from glow_backends.cpu.kernels.conv.training_ops import ConvWeightsOp, PackFilterOp
from glow_backends.cpu.kernels.data.blocking_ops import BlockOp, UnblockOp
from glow_backends.cpu.kernels.data.channels_op import PermuteChannelsOp
from glow_backends.cpu.kernels.gemm.attention_op import AttentionOp
from glow_backends.cpu.kernels.gemm.block_gemm_op import BlockGemmOp
from glow_backends.cpu.kernels.gemm.gemm_op import GemmOp
from glow_backends.cpu.kernels.gemm.pairs_op import PairsFullyConnectedOp
from glow_backends.cpu.kernels.language.integer_blocks_ops import IntegerBlockGemmOp, QuantizeRowsOp
from glow_backends.cpu.kernels.norm.batch_norm_ops import BatchNormBackwardOp, BatchNormTrainOp
from glow_backends.cpu.kernels.norm.lrn_op import BlockedLrnOp
from glow_backends.cpu.kernels.pointwise.stack_op import StackOp
from glow_backends.cpu.kernels.pool.pool_ops import PoolBackwardOp, PoolOp
from glow_backends.cpu.kernels.recurrent.recurrent_op import CpuRecurrentOp
from glow_backends.cpu.turns.turns_op import TurnsOp
from glow_dialects.core.graph_op import GraphOp

OPERATORS: tuple[type[GraphOp], ...] = (
    BlockOp,
    UnblockOp,
    ConvOp,
    PlaneConvOp,
    PoolOp,
    GemmOp,
    BlockGemmOp,
    QuantizeRowsOp,
    IntegerBlockGemmOp,
    AttentionOp,
    StackOp,
    CpuRecurrentOp,
    PermuteChannelsOp,
    BlockedLrnOp,
    QuantizedConvOp,
    PairsConvOp,
    PairsFullyConnectedOp,
    PackFilterOp,
    ConvWeightsOp,
    BatchNormTrainOp,
    BatchNormBackwardOp,
    PoolBackwardOp,
    TurnsOp,
)


def get_glow_cpu() -> Dialect:
    """Graph level."""
    return Dialect("glow_cpu", [*OPERATORS, YieldOp])


def get_glow_cpu_instr() -> Dialect:
    """Instruction level."""
    return Dialect("glow_cpu_instr", [op.INSTR for op in OPERATORS if op.INSTR is not None])
