"""Kernels of training against the cards' references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import Kernel, aligned
from xdsl.ir import Block

from glow_backends.cpu.kernels.conv.conv_gemm import ConvGemmSpec, conv_gemm_scratch_bytes, emit_conv_gemm
from glow_backends.cpu.kernels.conv.conv_panels import conv_panels_scratch_bytes, emit_conv_panels, panels_fit
from glow_backends.cpu.kernels.norm.batch_norm_train import BatchNormTrainSpec, emit_batch_norm_train
from glow_backends.cpu.kernels.pool.pool_backward import PoolBackwardSpec, emit_pool_backward
from glow_backends.cpu.target import host
from glow_dialects.core.sample import random
from glow_dialects.core.types import tensor_of
from glow_dialects.ops.avg_pool import AvgPoolBackwardOp
from glow_dialects.ops.batch_norm import BatchNormBackwardOp, BatchNormTrainOp
from glow_dialects.ops.conv_backward_weights import filter_gradient
from glow_dialects.ops.conv_transpose import convolve_transposed
from glow_dialects.ops.max_pool import MaxPoolBackwardOp
from glow_dialects.ops.windows import convolve

CASES: tuple[dict[str, Any], ...] = (
    {"channels": 1, "size": (28, 28), "out_channels": 6, "kernel": (5, 5), "pads": (2, 2, 2, 2)},
    {"channels": 6, "size": (14, 14), "out_channels": 16, "kernel": (5, 5)},
    {"channels": 20, "size": (9, 7), "out_channels": 33, "kernel": (3, 3), "pads": (1, 1, 1, 1)},
    {"channels": 8, "size": (33, 35), "out_channels": 20, "kernel": (3, 3), "strides": (2, 2)},
    {"channels": 17, "size": (6, 5), "out_channels": 40, "kernel": (1, 1)},
    {"channels": 4, "size": (8, 8), "out_channels": 18, "kernel": (1, 1), "strides": (2, 2)},
    {
        "channels": 6,
        "size": (12, 20),
        "out_channels": 8,
        "kernel": (2, 3),
        "strides": (1, 3),
        "pads": (1, 0, 0, 2),
        "dilations": (2, 2),
        "group": 2,
        "bias": True,
    },
    {"channels": 5, "size": (16, 16), "out_channels": 40, "kernel": (3, 3), "pads": (1, 1, 1, 1)},
    {"channels": 9, "size": (8, 8), "out_channels": 7, "kernel": (3, 3), "pads": (1, 1, 1, 1), "bias": True},
    {
        "channels": 9,
        "size": (8, 8),
        "out_channels": 70,
        "kernel": (3, 3),
        "strides": (2, 2),
        "pads": (1, 1, 1, 1),
    },
    {"channels": 12, "size": (7, 7), "out_channels": 36, "kernel": (1, 1)},
    {"channels": 3, "size": (1, 50), "out_channels": 5, "kernel": (1, 4), "bias": True},
    {
        "channels": 20,
        "size": (1, 1),
        "out_channels": 18,
        "kernel": (1, 3),
        "strides": (1, 2),
        "pads": (0, 1, 0, 1),
    },
    {"channels": 6, "size": (3, 3), "out_channels": 18, "kernel": (3, 3), "strides": (2, 2)},
)


def spec_of(mode: str, case: dict[str, Any]) -> ConvGemmSpec:
    """A case in one of the three modes."""
    more = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), **case}
    if mode != "forward":
        more["bias"] = False
    return ConvGemmSpec(mode, 3, **more)


SPECS = [spec_of(mode, case) for case in CASES for mode in ("forward", "data", "weights")]
FORMS = [
    (spec, panels) for panels in (False, True) for spec in SPECS if not panels or panels_fit(spec, host())
]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("spec", "panels"), FORMS)
def test_conv(spec: ConvGemmSpec, threads: int, panels: bool) -> None:
    """Values of each of the three products in the forms that take it, for shapes with every kind of tail."""
    mode = spec.mode
    x = random(3, spec.channels, *spec.size)
    w = random(spec.out_channels, spec.channels // spec.group, *spec.kernel, seed=1)
    dy = random(3, spec.out_channels, *spec.outputs, seed=2)
    bias = random(spec.out_channels, seed=3) if spec.bias else None
    window = (spec.strides, spec.pads, spec.dilations)
    if mode == "forward":
        inputs, want = [x, w], convolve(x, w, *window, spec.group, bias)
        inputs += [bias] if bias is not None else []
    elif mode == "data":
        inputs, want = [dy, w], convolve_transposed(dy, w, *window, spec.size, spec.group)
    else:
        inputs, want = [x, dy], filter_gradient(x, dy, spec.kernel, *window, spec.group)
    result = aligned(np.full(want.shape, np.nan, np.float32))
    size = (conv_panels_scratch_bytes if panels else conv_gemm_scratch_bytes)(spec, host(threads))
    scratch = aligned(np.full(size // 4, np.nan, np.float32))
    emit = emit_conv_panels if panels else emit_conv_gemm
    Kernel(emit, spec, threads)(result, *(aligned(a) for a in inputs), scratch)
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("mode", ["max", "avg", "counted"])
@pytest.mark.parametrize(
    ("size", "kernel", "strides", "pads", "dilations"),
    [
        ((28, 28), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
        ((10, 36), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
        ((9, 8), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
        ((7, 12), (2, 3), (1, 2), (1, 0, 0, 2), (2, 1)),
        ((4, 5), (4, 5), (1, 1), (0, 0, 0, 0), (1, 1)),
    ],
)
def test_pool_backward(mode: str, size: Any, kernel: Any, strides: Any, pads: Any, dilations: Any) -> None:
    """Gradients of pools, squares of 2 x 2 and whole planes among them."""
    counted = mode == "counted"
    spec = PoolBackwardSpec(
        "max" if mode == "max" else "avg", 6, size, kernel, strides, pads, dilations, counted
    )
    x, dy = random(2, 3, *size), random(2, 3, *spec.outputs, seed=1)
    window = {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations}
    block = Block(arg_types=[tensor_of(x), tensor_of(dy)])
    if mode == "max":
        op: Any = MaxPoolBackwardOp(*block.args, **window)
        arrays = [x, dy]
    else:
        op = AvgPoolBackwardOp(block.args[1], results=block.args[0].type, count_include_pad=counted, **window)
        arrays = [dy]
    (want,) = op.evaluate(arrays)
    result = aligned(np.full(x.shape, np.nan, np.float32))
    Kernel(emit_pool_backward, spec)(result, *(aligned(a) for a in arrays))
    np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("outer", "channels", "inner"), [(4, 3, 49), (5, 7, 1), (2, 3, 200), (3, 2, 16)])
def test_batch_norm_train(outer: int, channels: int, inner: int) -> None:
    """Statistics, results and gradients."""
    x, dy = random(outer, channels, inner), random(outer, channels, inner, seed=1)
    scale, bias = random(channels, seed=2), random(channels, seed=3)
    block = Block(arg_types=[tensor_of(a) for a in (x, scale, bias, dy)])
    op = BatchNormTrainOp(*block.args[:3], epsilon=0.01)
    want = op.evaluate([x, scale, bias])
    made = [aligned(np.full_like(a, np.nan)) for a in want]
    Kernel(emit_batch_norm_train, BatchNormTrainSpec(outer, channels, inner, 0.01))(
        *made, *(aligned(a) for a in (x, scale, bias))
    )
    for got, expected in zip(made, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    back = BatchNormBackwardOp(
        block.args[0], block.args[1], op.mean, op.variance, block.args[3], epsilon=0.01
    )
    want = back.evaluate([x, scale, *want[1:], dy])
    made = [aligned(np.full_like(a, np.nan)) for a in want]
    spec = BatchNormTrainSpec(outer, channels, inner, 0.01, backward=True)
    values = (x, scale, *op.evaluate([x, scale, bias])[1:], dy)
    Kernel(emit_batch_norm_train, spec)(*made, *(aligned(a) for a in values))
    for got, expected in zip(made, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
