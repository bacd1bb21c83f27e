"""Kernels that compute on 16-bit floats against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
from epilogues import chain

from glow_backends.cpu.calls import Emitter
from glow_backends.cpu.emit.epilogue import Epilogue
from glow_backends.cpu.kernels.conv.blocked_conv import pack_bias
from glow_backends.cpu.kernels.conv.conv_direct import emit_conv_direct, pack_conv
from glow_backends.cpu.kernels.conv.conv_half import emit_conv_half, pack_half_conv
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.conv.depthwise import emit_depthwise, pack_depthwise
from glow_backends.cpu.kernels.conv.winograd import emit_winograd
from glow_backends.cpu.kernels.conv.winograd_plan import WinogradSpec, pack_winograd, winograd_scratch_bytes
from glow_backends.cpu.kernels.gemm.gemm_half import HalfGemmSpec, emit_gemm_half, pack_half_gemm
from glow_backends.cpu.standalone import StandaloneKernel, aligned
from glow_backends.cpu.target import CpuTarget, host
from glow_dialects.core.blocks import block_channels, unblock_channels
from glow_dialects.core.types import Array
from glow_dialects.ops.windows import convolve

DTYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
#: Of results about 1: rounding of the result.
TOLERANCE = {"f16": 2e-3, "bf16": 3e-2}
STEPS = Epilogue(bias=True, program=chain("add", "relu"))


def _target(threads: int = 1) -> CpuTarget:
    if not dict(llvm.get_host_cpu_features()).get("avx512bf16"):
        pytest.skip("this CPU has no avx512bf16")
    return replace(host(threads), has_fp16=False, has_bf16=True)


CONVOLUTIONS = {
    "1x1": DirectConvSpec(2, 32, 64, (7, 9), (1, 1)),
    "1x1-deep": DirectConvSpec(1, 272, 48, (5, 5), (1, 1)),
    "1x1-many": DirectConvSpec(1, 512, 32, (3, 5), (1, 1)),
    "3x3": DirectConvSpec(2, 48, 32, (14, 14), (3, 3), pads=(1, 1, 1, 1)),
    "3x3-short-rows": DirectConvSpec(1, 64, 64, (7, 7), (3, 3), pads=(1, 1, 1, 1)),
    "3x3-stride": DirectConvSpec(1, 32, 40, (15, 15), (3, 3), (2, 2), (1, 1, 1, 1)),
    "5x5": DirectConvSpec(1, 32, 32, (9, 11), (5, 5), pads=(2, 2, 2, 2)),
    "dilated": DirectConvSpec(1, 16, 16, (12, 12), (3, 3), pads=(2, 2, 2, 2), dilations=(2, 2)),
    "few-channels": DirectConvSpec(1, 6, 32, (8, 8), (3, 3), pads=(1, 1, 1, 1)),
    "odd-blocks": DirectConvSpec(1, 22, 24, (9, 11), (1, 1)),
    "groups": DirectConvSpec(1, 64, 64, (6, 6), (3, 3), pads=(1, 1, 1, 1), group=2),
    "narrow-groups": DirectConvSpec(1, 32, 32, (6, 6), (3, 3), pads=(1, 1, 1, 1), group=8),
}


def _data(spec: DirectConvSpec, kind: str) -> tuple[Array, ...]:
    """x, w, bias, residual in the type, sums about 1."""
    rng, inner = np.random.default_rng(0), spec.in_channels // spec.group
    w = rng.standard_normal((spec.out_channels, inner, *spec.kernel)) / np.sqrt(inner * np.prod(spec.kernel))
    x = rng.standard_normal((spec.batch, spec.in_channels, *spec.size))
    residual = rng.standard_normal((spec.batch, spec.out_channels, *spec.out_size))
    bias = rng.standard_normal(spec.out_channels)
    return tuple(a.astype(DTYPES[kind]) for a in (x, w, bias, residual))


def _check(
    emit: Emitter,
    spec: DirectConvSpec | WinogradSpec,
    packed: Callable[[Array], Array],
    kind: str,
    target: CpuTarget,
    plain: bool = False,
    scratch: Sequence[Array] = (),
) -> None:
    """Run a blocked kernel and compare with NumPy."""
    conv = spec.conv if isinstance(spec, WinogradSpec) else spec
    lanes = target.lanes
    x, w, bias, residual = _data(conv, kind)
    wide = [a.astype(np.float64) for a in (x, w, bias, residual)]
    window = (conv.strides, conv.pads, conv.dilations, conv.group)
    want = np.maximum(convolve(wide[0], wide[1], *window, wide[2]) + wide[3], 0)
    held = aligned(x.astype(np.float32) if plain else block_channels(x, lanes))
    y = aligned(np.zeros_like(block_channels(residual, lanes)))
    others = [aligned(pack_bias(bias.astype(np.float32), target)), aligned(block_channels(residual, lanes))]
    StandaloneKernel(emit, spec, target)(y, held, aligned(packed(w)), *others, *scratch)
    have = unblock_channels(y, conv.out_channels).astype(np.float64)
    np.testing.assert_allclose(have, want, atol=TOLERANCE[kind], rtol=TOLERANCE[kind] / 2)


@pytest.mark.slow
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_direct(case: str, kind: str = "bf16") -> None:
    """Pairs of products, bias, residual and relu."""
    target = _target()
    spec = replace(CONVOLUTIONS[case], stored=kind, epilogue=STEPS)
    _check(emit_conv_half, spec, lambda w: pack_half_conv(w, spec, target), kind, target)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_storage_of_other_kernels(kind: str) -> None:
    """f32 arithmetic on 16-bit images: plain input, Winograd tiles, a filter a channel."""
    target = replace(host(), has_fp16=False, has_bf16=False)
    wide = np.float32
    image = DirectConvSpec(1, 3, 24, (12, 12), (3, 3), (2, 2), plain_input=True)
    spec = replace(image, stored=kind, epilogue=STEPS)
    _check(emit_conv_direct, spec, lambda w: pack_conv(w.astype(wide), spec, target), kind, target, True)
    tiles = DirectConvSpec(1, 32, 40, (13, 11), (3, 3), pads=(1, 1, 1, 1), stored=kind, epilogue=STEPS)
    for size in (2, 4):
        winograd = WinogradSpec(tiles, size)
        scratch = [aligned(np.zeros(winograd_scratch_bytes(winograd, target), np.uint8))]

        def packed(w: Array, winograd: WinogradSpec = winograd) -> Array:
            return pack_winograd(w.astype(wide), winograd, target)

        _check(emit_winograd, winograd, packed, kind, target, scratch=scratch)
    own = DirectConvSpec(1, 24, 24, (9, 9), (3, 3), pads=(1, 1, 1, 1), group=24, stored=kind, epilogue=STEPS)
    _check(emit_depthwise, own, lambda w: pack_depthwise(w.astype(wide), own, target), kind, target)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 10, 64), (1, 1000, 2048), (49, 96, 130), (7, 17, 2), (65, 33, 640)]
)
@pytest.mark.parametrize("threads", [1, 3])
def test_product(m: int, n: int, k: int, threads: int, kind: str = "bf16") -> None:
    """x @ w with scale, bias, residual and relu."""
    target, rng = _target(threads), np.random.default_rng(0)
    spec = HalfGemmSpec(m, n, k, kind, replace(STEPS, scale=0.5))
    shapes = ((m, k), (k, n), (m, n))
    x, w, residual = (rng.standard_normal(s).astype(DTYPES[kind]) for s in shapes)
    w = (w.astype(np.float32) / np.sqrt(k)).astype(DTYPES[kind])
    bias = rng.standard_normal(n).astype(np.float32)
    want = x.astype(np.float64) @ w.astype(np.float64) / 2 + bias + residual.astype(np.float64)
    y = aligned(np.zeros((m, n), DTYPES[kind]))
    others = [aligned(a) for a in (x, pack_half_gemm(w, spec, target), bias, residual)]
    StandaloneKernel(emit_gemm_half, spec, target)(y, *others)
    tolerance = TOLERANCE[kind]
    np.testing.assert_allclose(y.astype(np.float64), np.maximum(want, 0), atol=tolerance, rtol=tolerance / 2)
