"""Kernels for machines that this one is not: code is made for them, whatever their vectors."""

from __future__ import annotations

from typing import Any

import pytest

from glow_backends.cpu.emit.pointwise import Pointwise, Step
from glow_backends.cpu.jit import emit_object, new_module
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.winograd import emit_winograd
from glow_backends.cpu.kernels.conv.winograd_plan import WinogradSpec
from glow_backends.cpu.kernels.data import indexing, layouts
from glow_backends.cpu.kernels.data.channels import PermuteChannelsSpec, emit_permute_channels
from glow_backends.cpu.kernels.data.copy import emit_copy
from glow_backends.cpu.kernels.data.resize import AxisPass, ResizeSpec, emit_resize
from glow_backends.cpu.kernels.data.scan import CumsumSpec, emit_cumsum
from glow_backends.cpu.kernels.data.top_k import TopKSpec, emit_top_k
from glow_backends.cpu.kernels.gemm.gemm_blocks import BlockGemmSpec, emit_gemm_blocks
from glow_backends.cpu.kernels.language.cached_attention import CachedAttentionSpec, emit_cached_attention
from glow_backends.cpu.kernels.language.integer_block_gemm import (
    IntegerBlockGemmSpec,
    emit_integer_block_gemm,
)
from glow_backends.cpu.kernels.language.matmul_half import MatmulHalfSpec, emit_matmul_half
from glow_backends.cpu.kernels.language.quantize_rows import QuantizeRowsSpec, emit_quantize_rows
from glow_backends.cpu.kernels.language.rotary import RotarySpec, emit_rotary
from glow_backends.cpu.kernels.norm.normalize import LayerNormSpec, emit_layer_norm
from glow_backends.cpu.kernels.norm.softmax import SoftmaxSpec, emit_softmax
from glow_backends.cpu.kernels.pointwise.elementwise import ElementwiseSpec, emit_elementwise
from glow_backends.cpu.kernels.pool.pool import emit_pool
from glow_backends.cpu.kernels.pool.pool_spec import PoolSpec
from glow_backends.cpu.kernels.recurrent.recurrent import emit_recurrent
from glow_backends.cpu.kernels.recurrent.recurrent_plan import RecurrentSpec
from glow_backends.cpu.kernels.reduction.arg_reduce import ArgReduceSpec, emit_arg_reduce
from glow_backends.cpu.kernels.reduction.reduce import ReduceSpec, emit_reduce
from glow_backends.cpu.target import named

GELU = Pointwise(1, (Step("gelu", (0,), ("none",)), Step("cast", (1,), (), "f16")), (2,), ("f32",))
LSTM = (("sigmoid", 0.0, 0.0), ("tanh", 0.0, 0.0), ("tanh", 0.0, 0.0))
KERNELS: dict[str, tuple[Any, Any]] = {
    "elementwise": (emit_elementwise, ElementwiseSpec(GELU, (9, 33), ((9, 33),), ("f32",), ("f16",))),
    "transpose": (emit_copy, layouts.transpose_spec((50, 37), (1, 0), 4)),
    "block": (emit_copy, layouts.block_spec((1, 20, 7, 7), 4, 4)),
    "softmax": (emit_softmax, SoftmaxSpec((5, 100), 1)),
    "layer_norm": (emit_layer_norm, LayerNormSpec((5, 100))),
    "few_bits": (emit_gemm_blocks, BlockGemmSpec(3, 50, 90, 4, 32, 8.0)),
    "few_bits_rows": (emit_gemm_blocks, BlockGemmSpec(30, 50, 90, 2, 32, offsets=True)),
    "integers": (emit_integer_block_gemm, IntegerBlockGemmSpec(3, 50, 96, 4, 32, 8.0, half=True)),
    "integers_rows": (emit_integer_block_gemm, IntegerBlockGemmSpec(30, 50, 128, 8, 64, 128.0, offsets=True)),
    "matmul_half": (emit_matmul_half, MatmulHalfSpec(9, 50, 33, "bf16")),
    "quantize_rows": (emit_quantize_rows, QuantizeRowsSpec(6, 32, 8, 8.0)),
    "rotary": (emit_rotary, RotarySpec(1, 3, 2, 20, 9, 7, True)),
    "cached_attention": (
        emit_cached_attention,
        CachedAttentionSpec(2, 3, 6, 2, 2, 70, 20, 24, 0.3, 5, 2.0),
    ),
    "reduce": (emit_reduce, ReduceSpec("log_sum_exp", (5, 9, 100), (1,))),
    "arg_max": (emit_arg_reduce, ArgReduceSpec("arg_max", (5, 100), 1)),
    "pool": (emit_pool, PoolSpec("avg", 4, (13, 13), 1, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1))),
    "pool_channels": (emit_pool, PoolSpec("max", 1, (13, 13), 24, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1))),
    "gather": (indexing.emit_gather, indexing.RowsSpec(2, (9,), 5, 20, "f32", "i64")),
    "top_k": (emit_top_k, TopKSpec(2, 100, 1, 5)),
    "cumsum": (emit_cumsum, CumsumSpec(2, 9, 20)),
    "resize": (
        emit_resize,
        ResizeSpec(2, (AxisPass(5, 9, 18, 1, 2), AxisPass(1, 5, 10, 18, 2)), "f32", True),
    ),
    "lstm": (emit_recurrent, RecurrentSpec("lstm", 3, 2, 20, (False,), (LSTM,))),
    "winograd": (emit_winograd, WinogradSpec(DirectConvSpec(1, 16, 16, (9, 9), (3, 3)))),
    "winograd_strided": (emit_winograd, WinogradSpec(DirectConvSpec(1, 16, 16, (9, 9), (3, 3), (2, 2)))),
    "winograd_line": (emit_winograd, WinogradSpec(DirectConvSpec(1, 16, 16, (1, 40), (1, 5)))),
    "winograd_square": (emit_winograd, WinogradSpec(DirectConvSpec(1, 16, 16, (9, 9), (5, 5)), 2)),
    "shuffle": (emit_permute_channels, PermuteChannelsSpec(1, 9, tuple(range(8))[::-1], 4)),
}


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["haswell", "neoverse-n1"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_code_for_other_machines(kernel: str, cpu: str) -> None:
    """Every kind of kernel verifies and compiles for AVX2 and NEON."""
    emit, spec = KERNELS[kernel]
    target = named(cpu)
    module = new_module(kernel, target)
    emit(module, kernel, spec, target).linkage = "external"
    assert len(emit_object(module, target)) > 500
