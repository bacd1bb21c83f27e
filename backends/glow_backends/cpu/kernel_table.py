"""Every kernel there is, and which of them computes an instruction. Others run by their reference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from glow_backends.cpu.calls import CallContext, KernelCall
from glow_backends.cpu.kernel import Kernel, operator_of
from glow_backends.cpu.kernels.conv.conv_direct import DirectConv
from glow_backends.cpu.kernels.conv.conv_gemm import GemmConv
from glow_backends.cpu.kernels.conv.conv_generic import DoubleMatmul, PlainConv, PlainConvTranspose
from glow_backends.cpu.kernels.conv.conv_half import HalfConv
from glow_backends.cpu.kernels.conv.conv_int8 import Int8Conv, PairsConv
from glow_backends.cpu.kernels.conv.conv_panels import PanelConv
from glow_backends.cpu.kernels.conv.conv_plane import PlaneConv
from glow_backends.cpu.kernels.conv.conv_weights import ConvWeights
from glow_backends.cpu.kernels.conv.depthwise import DepthwiseConv
from glow_backends.cpu.kernels.conv.depthwise_int8 import DepthwiseInt8Conv
from glow_backends.cpu.kernels.conv.filter_pack import FilterPack
from glow_backends.cpu.kernels.conv.winograd import WinogradConv
from glow_backends.cpu.kernels.conv.winograd_changing import ChangingWinogradConv
from glow_backends.cpu.kernels.conv.winograd_weights import WinogradWeights
from glow_backends.cpu.kernels.data.blocking import Blocking, NarrowBlocking
from glow_backends.cpu.kernels.data.channels import PermuteChannels
from glow_backends.cpu.kernels.data.indexing import (
    Gather,
    GatherElements,
    GatherNd,
    OneHot,
    ScatterElements,
    ScatterNd,
)
from glow_backends.cpu.kernels.data.interleave import Interleave
from glow_backends.cpu.kernels.data.movement import (
    Concat,
    DepthToSpace,
    Expand,
    Flip,
    Insert,
    Literal,
    Pad,
    Slice,
    SpaceToDepth,
    Tile,
    Transpose,
)
from glow_backends.cpu.kernels.data.non_zero import NonZero
from glow_backends.cpu.kernels.data.numbers import Iota, Sizes
from glow_backends.cpu.kernels.data.resize import Resize, ResizeCopy
from glow_backends.cpu.kernels.data.scan import Cumsum, Trilu
from glow_backends.cpu.kernels.data.suppress import Suppress
from glow_backends.cpu.kernels.data.top_k import TopK
from glow_backends.cpu.kernels.data.tree_masks import TreeMasks
from glow_backends.cpu.kernels.data.trees import Trees
from glow_backends.cpu.kernels.gemm.attention import Attention
from glow_backends.cpu.kernels.gemm.gemm_blocks import BlockGemm
from glow_backends.cpu.kernels.gemm.gemm_half import HalfGemm
from glow_backends.cpu.kernels.gemm.gemm_int8 import Int8FullyConnected, PairsFullyConnected
from glow_backends.cpu.kernels.gemm.gemm_int8_stack import Int8Matmul
from glow_backends.cpu.kernels.gemm.products import FullyConnected, Gemm, Matmul
from glow_backends.cpu.kernels.host import HostDft
from glow_backends.cpu.kernels.language.cache_write import CacheWrite
from glow_backends.cpu.kernels.language.cached_attention import CachedAttention
from glow_backends.cpu.kernels.language.integer_block_gemm import IntegerBlockGemm
from glow_backends.cpu.kernels.language.matmul_half import MatmulHalf
from glow_backends.cpu.kernels.language.quantize_rows import QuantizeRows, RoundBlocks
from glow_backends.cpu.kernels.language.rotary import Rotary
from glow_backends.cpu.kernels.norm.batch_norm_blocked import BlockedBatchNorm
from glow_backends.cpu.kernels.norm.batch_norm_train import BatchNormTrain
from glow_backends.cpu.kernels.norm.lrn_blocked import BlockedLrn
from glow_backends.cpu.kernels.norm.normalize import BatchNorm, GroupNorm, LayerNorm, LpNormalize, Lrn
from glow_backends.cpu.kernels.norm.softmax import Softmax
from glow_backends.cpu.kernels.pointwise.dropout import Dropout
from glow_backends.cpu.kernels.pointwise.elementwise import Copy, Elementwise, Stack
from glow_backends.cpu.kernels.pointwise.lookup import Lookup
from glow_backends.cpu.kernels.pointwise.quantized import QuantizedElementwise
from glow_backends.cpu.kernels.pool.pool import GlobalPool, Pool
from glow_backends.cpu.kernels.pool.pool_argmax import PoolArgmax
from glow_backends.cpu.kernels.pool.pool_backward import PoolBackward
from glow_backends.cpu.kernels.pool.pool_backward_blocked import BlockedPoolBackward
from glow_backends.cpu.kernels.recurrent.recurrent_kernel import Recurrent
from glow_backends.cpu.kernels.recurrent.recurrent_train import RecurrentTrain
from glow_backends.cpu.kernels.reduction.arg_reduce import ArgReduce
from glow_backends.cpu.kernels.reduction.reduce import Reduce
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.operator import Operator

KERNELS: tuple[Kernel[Any, Any], ...] = (
    ChangingWinogradConv(),
    WinogradConv(),
    DepthwiseConv(),
    HalfConv(),
    DirectConv(),
    PlaneConv(),
    PanelConv(),
    GemmConv(),
    PlainConv(),
    PlainConvTranspose(),
    DepthwiseInt8Conv(),
    Int8Conv(),
    PairsConv(),
    FilterPack(),
    ConvWeights(),
    WinogradWeights(),
    HalfGemm(),
    Gemm(),
    Matmul(),
    FullyConnected(),
    DoubleMatmul(),
    BlockGemm(),
    IntegerBlockGemm(),
    MatmulHalf(),
    QuantizeRows(),
    RoundBlocks(),
    Int8FullyConnected(),
    PairsFullyConnected(),
    Int8Matmul(),
    Attention(),
    CachedAttention(),
    CacheWrite(),
    Rotary(),
    GlobalPool(),
    Pool(),
    PoolArgmax(),
    PoolBackward(),
    BlockedPoolBackward(),
    Softmax(),
    LayerNorm(),
    GroupNorm(),
    BatchNorm(),
    Lrn(),
    LpNormalize(),
    BlockedLrn(),
    BatchNormTrain(),
    BlockedBatchNorm(),
    Recurrent(),
    RecurrentTrain(),
    Reduce(),
    ArgReduce(),
    Transpose(),
    Slice(),
    Tile(),
    Expand(),
    Flip(),
    DepthToSpace(),
    SpaceToDepth(),
    Interleave(),
    Concat(),
    Insert(),
    Pad(),
    Literal(),
    Iota(),
    Sizes(),
    NarrowBlocking(),
    Blocking(),
    PermuteChannels(),
    Gather(),
    GatherNd(),
    GatherElements(),
    ScatterNd(),
    ScatterElements(),
    OneHot(),
    Cumsum(),
    Trilu(),
    TopK(),
    TreeMasks(),
    Trees(),
    NonZero(),
    Suppress(),
    ResizeCopy(),
    Resize(),
    Copy(),
    Stack(),
    QuantizedElementwise(),
    Lookup(),
    Dropout(),
    HostDft(),
)
"""All kernels; of those for one operator the first that matches an instruction takes it."""

_Table = dict[type[Operator], tuple[Kernel[Any, Any], ...]]
_ELEMENTWISE = (Elementwise(),)


def _by_operator(pairs: Iterable[tuple[type[Operator], Kernel[Any, Any]]]) -> _Table:
    table: _Table = {}
    for operator, kernel in pairs:
        table[operator] = (*table.get(operator, ()), kernel)
    return table


_FOR = _by_operator((op, kernel) for kernel in KERNELS for op in kernel.OPS)
_KEPT = _by_operator((op, kernel) for kernel in KERNELS for op in (*kernel.OPS, *kernel.MADE_FROM))


def has_kernel(node: GraphOp) -> bool:
    """Whether there is a kernel, or a pass that makes an operator of one, for a node."""
    others = _ELEMENTWISE if node.DATA_PARALLEL else ()
    return any(kernel.supports(node) for kernel in _KEPT.get(type(node), others))


def call_for(op: InstrOp, context: CallContext) -> KernelCall | None:
    """The kernel call of an instruction, or None where there is no kernel for it."""
    others = _ELEMENTWISE if op.DATA_PARALLEL else ()
    calls = (kernel.call(op, context) for kernel in _FOR.get(operator_of(op), others))
    return next((call for call in calls if call is not None), None)
