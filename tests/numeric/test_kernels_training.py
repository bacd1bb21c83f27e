"""Kernels of training against the cards' references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_runner import Kernel, aligned

from glow_backends.cpu.kernels.conv_gemm import ConvGemmSpec, conv_gemm_scratch_bytes, emit_conv_gemm
from glow_backends.cpu.kernels.conv_panels import conv_panels_scratch_bytes, emit_conv_panels, panels_fit
from glow_backends.cpu.target import host
from glow_dialects.core.sample import random
from glow_dialects.ops.conv import convolve
from glow_dialects.ops.conv_backward_weights import filter_gradient
from glow_dialects.ops.conv_transpose import convolve_transposed

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
)


def spec_of(mode: str, case: dict[str, Any]) -> ConvGemmSpec:
    """A case in one of the three modes."""
    more = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), **case}
    if mode != "forward":
        more["bias"] = False
    return ConvGemmSpec(mode, 3, **more)


@pytest.mark.parametrize("panels", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", ["forward", "data", "weights"])
@pytest.mark.parametrize("case", CASES)
def test_conv(case: dict[str, Any], mode: str, threads: int, panels: bool) -> None:
    """Values of each of the three products in both forms, for shapes with every kind of tail."""
    spec = spec_of(mode, case)
    if panels and not panels_fit(spec, host(threads)):
        pytest.skip("rows of outputs fill no vectors")
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
