"""Every kernel there is, by the operators whose instructions it computes. Others run by their reference.

A kernel is imported when a program has one of its operators, so that small programs start fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from glow_backends.cpu.calls import CallContext, KernelCall
from glow_backends.cpu.kernel import Kernel, operator_of
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp

#: The kernels of each operator, module and class: the first that matches an instruction takes it. Those of an
#: operator that a pass makes others of (`Kernel.MADE_FROM`), too. A test compares this table with the folder.
KERNELS = {
    "glow.arg_max": "reduction.arg_reduce.ArgReduce",
    "glow.arg_min": "reduction.arg_reduce.ArgReduce",
    "glow.avg_pool": "pool.pool.GlobalPool pool.pool.Pool",
    "glow.avg_pool_backward": "pool.pool_backward.PoolBackward",
    "glow.batch_matmul": ("gemm.rounded.RoundedMatmul gemm.products.Matmul gemm.contractions.PlainMatmul"),
    "glow.batch_norm": "norm.normalize.BatchNorm",
    "glow.batch_norm_backward": "norm.batch_norm_train.BatchNormTrain",
    "glow.batch_norm_train": "norm.batch_norm_train.BatchNormTrain",
    "glow.byte_scale": "reduction.byte_scale.ByteScale",
    "glow.cache_write": "language.cache_write.CacheWrite",
    "glow.cached_attention": "language.cached_attention.CachedAttention",
    "glow.concat": "data.interleave.Interleave data.movement.Concat",
    "glow.conv": "conv.conv_panels.PanelConv conv.conv_gemm.GemmConv conv.conv_generic.PlainConv",
    "glow.conv_backward_weights": "conv.conv_panels.PanelConv conv.conv_gemm.GemmConv",
    "glow.conv_transpose": (
        "conv.conv_panels.PanelConv conv.conv_gemm.GemmConv conv.conv_generic.PlainConvTranspose"
    ),
    "glow.cumsum": "data.scan.Cumsum",
    "glow.depth_to_space": "data.movement.DepthToSpace",
    "glow.dequantize": "pointwise.quantized.QuantizedElementwise",
    "glow.dequantize_blocks": "gemm.gemm_blocks.BlockGemm",
    "glow.dft": "host.HostDft",
    "glow.dropout_train": "pointwise.dropout.Dropout",
    "glow.expand": "data.movement.Expand",
    "glow.expert_matmul": "language.matmul_half.MatmulHalf",
    "glow.flip": "data.movement.Flip",
    "glow.fully_connected": "gemm.rounded.RoundedFullyConnected gemm.products.FullyConnected",
    "glow.gather": "data.indexing.Gather",
    "glow.gather_elements": "data.indexing.GatherElements",
    "glow.gather_nd": "data.indexing.GatherNd",
    "glow.group_norm": "norm.normalize.GroupNorm",
    "glow.gru": "recurrent.recurrent_kernel.Recurrent",
    "glow.insert": "data.movement.Insert",
    "glow.instance_norm": "norm.normalize.GroupNorm",
    "glow.iota": "data.numbers.Iota",
    "glow.layer_norm": "norm.normalize.LayerNorm",
    "glow.literal": "data.movement.Literal",
    "glow.log_softmax": "norm.softmax.Softmax",
    "glow.lookup": "pointwise.lookup.Lookup",
    "glow.lp_normalize": "norm.normalize.LpNormalize",
    "glow.lrn": "norm.normalize.Lrn",
    "glow.lstm": "recurrent.recurrent_kernel.Recurrent",
    "glow.matmul": "gemm.rounded.RoundedMatmul gemm.products.Matmul gemm.contractions.PlainMatmul",
    "glow.matmul_half": "language.matmul_half.MatmulHalf",
    "glow.max_pool": "pool.pool.GlobalPool pool.pool.Pool",
    "glow.max_pool_backward": "pool.pool_backward.PoolBackward",
    "glow.max_pool_with_argmax": "pool.pool_argmax.PoolArgmax",
    "glow.non_max_suppression": "data.suppress.Suppress",
    "glow.non_zero": "data.non_zero.NonZero",
    "glow.one_hot": "data.indexing.OneHot",
    "glow.pad": "data.movement.Pad",
    "glow.quantize": "pointwise.quantized.QuantizedElementwise",
    "glow.quantized_add": "pointwise.quantized.QuantizedElementwise",
    "glow.quantized_fully_connected": (
        "gemm.tile_products.TileFullyConnected gemm.gemm_int8.Int8FullyConnected"
    ),
    "glow.quantized_matmul": "gemm.contractions.ByteMatmul",
    "glow.quantized_mul": "pointwise.quantized.QuantizedElementwise",
    "glow.quantized_sub": "pointwise.quantized.QuantizedElementwise",
    "glow.recurrent_backward": "recurrent.recurrent_train.RecurrentTrain",
    "glow.recurrent_train": "recurrent.recurrent_train.RecurrentTrain",
    "glow.reduce_l1": "reduction.reduce.Reduce",
    "glow.reduce_l2": "reduction.reduce.Reduce",
    "glow.reduce_log_sum": "reduction.reduce.Reduce",
    "glow.reduce_log_sum_exp": "reduction.reduce.Reduce",
    "glow.reduce_max": "reduction.reduce.Reduce",
    "glow.reduce_mean": "reduction.reduce.Reduce",
    "glow.reduce_min": "reduction.reduce.Reduce",
    "glow.reduce_prod": "reduction.reduce.Reduce",
    "glow.reduce_sum": "reduction.reduce.Reduce",
    "glow.reduce_sum_square": "reduction.reduce.Reduce",
    "glow.rescale": "pointwise.quantized.QuantizedElementwise",
    "glow.resize": "data.resize.ResizeCopy data.interpolate.Interpolate data.resize.Resize",
    "glow.rms_norm": "norm.normalize.LayerNorm",
    "glow.rnn": "recurrent.recurrent_kernel.Recurrent",
    "glow.rotary": "language.rotary.Rotary",
    "glow.round_blocks": "language.integer_block_gemm.IntegerBlockGemm language.quantize_rows.RoundBlocks",
    "glow.scatter_elements": "data.indexing.ScatterElements",
    "glow.scatter_nd": "data.indexing.ScatterNd",
    "glow.sizes": "data.numbers.Sizes",
    "glow.slice": "data.movement.Slice",
    "glow.softmax": "norm.softmax.Softmax",
    "glow.space_to_depth": "data.movement.SpaceToDepth",
    "glow.tile": "data.movement.Tile",
    "glow.top_k": "data.top_k.TopK",
    "glow.transpose": "data.movement.Transpose",
    "glow.tree_sums": "data.tree_masks.TreeMasks data.trees.Trees",
    "glow.trilu": "data.scan.Trilu",
    "glow_cpu.attention": "gemm.attention.Attention",
    "glow_cpu.batch_norm_backward": "norm.batch_norm_blocked.BlockedBatchNorm",
    "glow_cpu.batch_norm_train": "norm.batch_norm_blocked.BlockedBatchNorm",
    "glow_cpu.block": "data.blocking.NarrowBlocking data.blocking.Blocking",
    "glow_cpu.block_gemm": "gemm.gemm_blocks.BlockGemm",
    "glow_cpu.conv": (
        "conv.winograd_changing.ChangingWinogradConv "
        "conv.winograd.WinogradConv "
        "conv.depthwise.DepthwiseConv "
        "conv.conv_half.HalfConv "
        "conv.conv_direct.DirectConv"
    ),
    "glow_cpu.conv_weights": "conv.conv_weights.ConvWeights conv.winograd_weights.WinogradWeights",
    "glow_cpu.gemm": "gemm.rounded.RoundedGemm gemm.gemm_half.HalfGemm gemm.products.Gemm",
    "glow_cpu.integer_block_gemm": "language.integer_block_gemm.IntegerBlockGemm",
    "glow_cpu.lrn": "norm.lrn_blocked.BlockedLrn",
    "glow_cpu.pack_filter": "conv.filter_pack.FilterPack",
    "glow_cpu.pairs_conv": "conv.conv_int8.PairsConv",
    "glow_cpu.pairs_fully_connected": "gemm.gemm_int8.PairsFullyConnected",
    "glow_cpu.permute_channels": "data.channels.PermuteChannels",
    "glow_cpu.plane_conv": "conv.conv_plane.PlaneConv",
    "glow_cpu.pool": "pool.pool.GlobalPool pool.pool.Pool",
    "glow_cpu.pool_backward": "pool.pool_backward_blocked.BlockedPoolBackward",
    "glow_cpu.quantize_rows": "language.quantize_rows.QuantizeRows",
    "glow_cpu.quantized_conv": (
        "conv.depthwise_int8.DepthwiseInt8Conv conv.tile_conv.TileConv conv.conv_int8.Int8Conv"
    ),
    "glow_cpu.recurrent": "recurrent.recurrent_kernel.Recurrent",
    "glow_cpu.stack": "pointwise.elementwise.Stack",
    "glow_cpu.unblock": "data.blocking.NarrowBlocking data.blocking.Blocking",
    "glow_instr.copy": "pointwise.elementwise.Copy",
    "glow_instr.start_copy": "pointwise.elementwise.Copy",
}
_ELEMENTWISE = "pointwise.elementwise.Elementwise"


@cache
def kernel(path: str) -> Kernel[Any, Any]:
    """The kernel of a module and class below `kernels`."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"glow_backends.cpu.kernels.{module}"), name)()


def kernels_of(op: GraphOp | InstrOp) -> Iterator[Kernel[Any, Any]]:
    """The kernels for an operator, node or instruction, in order, each imported when it is asked for."""
    others = _ELEMENTWISE if op.DATA_PARALLEL else ""
    return (kernel(path) for path in KERNELS.get(operator_of(op).name, others).split())


def has_kernel(node: GraphOp) -> bool:
    """Whether there is a kernel, or a pass that makes an operator of one, for a node."""
    return any(kernel.supports(node) for kernel in kernels_of(node))


def call_for(op: InstrOp, context: CallContext) -> KernelCall | None:
    """The kernel call of an instruction, or None where there is no kernel for it."""
    calls = (k.call(op, context) for k in kernels_of(op) if operator_of(op) not in k.MADE_FROM)
    return next((call for call in calls if call is not None), None)


def way_of(node: GraphOp) -> str:
    """How a node runs: as a `view` of memory, by a `kernel`, `decomposed` into others, or on the `host`."""
    if node.VIEW:
        return "view"
    if node.INSTR is not None and has_kernel(node):
        return "kernel"
    return "decomposed" if node.can_decompose() else "host"
