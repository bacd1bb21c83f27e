"""Convolutions of bytes: exact against integer NumPy, with and without VNNI."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glow_backends.cpu.emit.integer import Requantize, Residual
from glow_backends.cpu.kernels.conv.conv_int8 import (
    Int8ConvSpec,
    emit_conv_int8,
    pack_channels,
    pack_int8_conv,
)
from glow_backends.cpu.kernels.conv.conv_spec import DirectConvSpec
from glow_backends.cpu.kernels.gemm.contractions import emit_product, folded, product_scratch
from glow_backends.cpu.kernels.gemm.gemm_int8 import Int8GemmSpec, emit_gemm_int8, pack_int8_gemm
from glow_backends.cpu.standalone import StandaloneKernel, aligned
from glow_backends.cpu.target import CpuTarget, host, named
from glow_backends.nests.finish import Finish
from glow_backends.nests.products import Product
from glow_dialects.core.blocks import block_channels, blocked_shape, pad_to, unblock_channels
from glow_dialects.ops.windows import convolve

SPECS = {
    "1x1": DirectConvSpec(2, 32, 64, (7, 9), (1, 1)),
    "1x1-stride": DirectConvSpec(1, 16, 32, (15, 15), (1, 1), (2, 2)),
    "odd-channels": DirectConvSpec(1, 21, 40, (9, 11), (1, 1)),
    "image": DirectConvSpec(1, 3, 32, (20, 20), (7, 7), (2, 2), (3, 3, 3, 3)),
    "3x3": DirectConvSpec(2, 16, 64, (8, 30), (3, 3), pads=(1, 1, 1, 1)),
    "3x3-stride": DirectConvSpec(1, 16, 48, (19, 21), (3, 3), (2, 2), (0, 1, 2, 1)),
    "5x3-dilated": DirectConvSpec(1, 16, 32, (20, 30), (5, 3), (1, 2), (4, 2, 3, 1), (2, 3)),
    "column": DirectConvSpec(1, 32, 48, (50, 1), (5, 1), (2, 1), (2, 0, 1, 0)),
}
TARGETS = {
    "host": host(),
    "no-vnni": replace(host(), has_vnni=False),
    "avx2": named("haswell"),
    "threads": host(3),
}
RNG = np.random.default_rng(0)


def reference(x: np.ndarray, w: np.ndarray, bias: np.ndarray, spec: DirectConvSpec) -> np.ndarray:
    """Exact sums, by float64 products of integers."""
    window = (spec.strides, spec.pads, spec.dilations, spec.group)
    return convolve(x.astype(np.float64), w.astype(np.float64), *window, bias.astype(np.float64))


def run(spec: Int8ConvSpec, target: CpuTarget, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(bytes or floats of the kernel, of the reference)."""
    rng, conv = np.random.default_rng(seed), spec.conv
    x = rng.integers(0, 256, (conv.batch, conv.in_channels, *conv.size)).astype(np.uint8)
    w = rng.integers(-128, 128, (conv.out_channels, conv.in_channels, *conv.kernel)).astype(np.int8)
    bias = rng.integers(-5000, 5000, conv.out_channels).astype(np.int32)
    factor = (rng.random(conv.out_channels) * 2e-3 + 1e-4).astype(np.float32)
    total = reference(x, w, bias, conv).astype(np.float32) * factor.reshape(1, -1, 1, 1)
    q = spec.requantize
    kind = np.float32 if q.real else np.uint8
    want = total if q.real else np.clip(np.rint(total) + np.float32(q.zero), q.low, q.high).astype(kind)
    lanes = target.lanes
    y = aligned(np.zeros(blocked_shape(want.shape, lanes), kind))
    StandaloneKernel(emit_conv_int8, spec, target)(
        y,
        aligned(block_channels(x.astype(np.uint16) if spec.pairs else x, lanes)),
        aligned(pack_int8_conv(w, spec, target)),
        aligned(pack_channels(bias, target)),
        aligned(pack_channels(factor, target)),
    )
    return unblock_channels(y, conv.out_channels), want


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SPECS)
def test_bytes_are_exact(name: str, target: str, pairs: bool) -> None:
    """Words of four bytes, and of two 16-bit numbers."""
    spec = Int8ConvSpec(SPECS[name], Requantize(zero=7, low=7, high=250), pairs=pairs)
    got, want = run(spec, TARGETS[target])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", TARGETS)
def test_real_results_are_exact(target: str) -> None:
    got, want = run(Int8ConvSpec(SPECS["3x3"], Requantize(real=True)), TARGETS[target])
    np.testing.assert_array_equal(got, want)


def test_sums_beyond_the_range_saturate() -> None:
    """Large factors clip to the ends of the range rather than wrap."""
    spec = Int8ConvSpec(DirectConvSpec(1, 16, 16, (4, 4), (1, 1)))
    x = np.full((1, 16, 4, 4), 255, np.uint8)
    for sign, want in ((1, 255), (-1, 0)):
        w = np.full((16, 16, 1, 1), 127 * sign, np.int8)
        y = aligned(np.zeros((1, 1, 4, 4, 16), np.uint8))
        target = TARGETS["host"]
        if target.lanes != 16:
            pytest.skip("written for vectors of 16 lanes")
        StandaloneKernel(emit_conv_int8, spec, target)(
            y,
            aligned(block_channels(x, 16)),
            aligned(pack_int8_conv(w, spec, target)),
            aligned(np.zeros(16, np.int32)),
            aligned(np.full(16, 1e20, np.float32)),
        )
        assert (y == want).all()


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("real", "pairs", "narrow"),
    [
        (False, False, False),
        (True, False, False),
        (False, True, False),
        (True, True, True),
        (False, True, True),
    ],
)
@pytest.mark.parametrize("shape", [(1, 40, 64), (7, 129, 30), (33, 16, 5), (20, 100, 2), (64, 64, 64)])
def test_products_are_exact(
    shape: tuple[int, int, int], real: bool, pairs: bool, narrow: bool, target: str
) -> None:
    """Signed inputs, every rest of rows, columns and depth."""
    m, n, depth = shape
    made = TARGETS[target]
    requantize = Requantize(3, -100, 127, real)
    spec = Int8GemmSpec(m, n, depth, not pairs, requantize.form, pairs, narrow=narrow)
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (m, depth)).astype(np.int8)
    w = rng.integers(-127, 128, (depth, n)).astype(np.int8)
    bias = rng.integers(-3000, 3000, n).astype(np.int32)
    factor = (rng.random(n) * 1e-2 + 1e-4).astype(np.float32)
    total = (x.astype(np.int64) @ w.astype(np.int64) + bias).astype(np.float32) * factor
    want = total if real else np.clip(np.rint(total) + np.float32(3), -100, 127).astype(np.int8)
    sums = (bias - (0 if pairs else 128) * w.astype(np.int32).sum(0)).astype(np.int32)
    width = 8 * made.lanes
    y = aligned(np.zeros((m, n), want.dtype))
    StandaloneKernel(emit_gemm_int8, spec, made)(
        y,
        aligned(x.astype(np.int16) if pairs else x),
        aligned(pack_int8_gemm(w, spec, made)),
        aligned(pad_to(sums, 0, width)),
        aligned(requantize.table(pad_to(factor, 0, width))),
    )
    np.testing.assert_array_equal(y, want)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_residuals_are_added_as_quantized_add_does(target: str) -> None:
    """The bytes of a convolution, and then of its sum with another operand."""
    made, conv = TARGETS[target], SPECS["3x3"]
    plain = Int8ConvSpec(conv, Requantize(zero=7, low=7, high=250))
    own, _ = run(plain, made)
    residual = Residual(7, 0.75, 3, 1.25, 11, 11, 240)
    spec = replace(plain, requantize=replace(plain.requantize, residual=residual))
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (conv.batch, conv.in_channels, *conv.size)).astype(np.uint8)
    w = rng.integers(-128, 128, (conv.out_channels, conv.in_channels, *conv.kernel)).astype(np.int8)
    bias = rng.integers(-5000, 5000, conv.out_channels).astype(np.int32)
    factor = (rng.random(conv.out_channels) * 2e-3 + 1e-4).astype(np.float32)
    other = rng.integers(0, 256, own.shape).astype(np.uint8)
    total = (own.astype(np.float32) - 7) * np.float32(0.75) + (other.astype(np.float32) - 3) * np.float32(
        1.25
    )
    want = np.clip(np.rint(total) + np.float32(11), 11, 240).astype(np.uint8)
    lanes = made.lanes
    y = aligned(np.zeros(blocked_shape(want.shape, lanes), np.uint8))
    StandaloneKernel(emit_conv_int8, spec, made)(
        y,
        aligned(block_channels(x, lanes)),
        aligned(pack_int8_conv(w, spec, made)),
        aligned(pack_channels(bias, made)),
        aligned(pack_channels(factor, made)),
        aligned(block_channels(other, lanes)),
    )
    np.testing.assert_array_equal(unblock_channels(y, conv.out_channels), want)


STACKS = [
    ((7, 30, 129), (), ()),
    ((33, 5, 16), (2,), (2,)),
    ((20, 2, 100), (2, 1), (3,)),
    ((64, 64, 64), (3,), ()),
    ((1, 70, 3), (), (4,)),
]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("signed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("shape", "left", "right"), STACKS)
def test_stacks_of_products_are_exact(
    shape: tuple[int, int, int],
    left: tuple[int, ...],
    right: tuple[int, ...],
    signed: tuple[bool, bool],
    target: str,
) -> None:
    """Neither operand known, both with zero points, batches that broadcast."""
    m, n, depth = shape
    made, rng = TARGETS[target], np.random.default_rng(2)
    requantize = Requantize(3, 5, 250)
    dtypes = [np.int8 if s else np.uint8 for s in signed]
    a = rng.integers(0, 256, (*left, m, depth)).astype(np.uint8).view(dtypes[0])
    b = rng.integers(0, 256, (*right, depth, n)).astype(np.uint8).view(dtypes[1])
    zeros = [-7 if signed[0] else 130, 9 if signed[1] else 100]
    kinds = ["i8" if s else "u8" for s in signed]
    finish = Finish(factor="all", limits=True)
    spec = folded(
        Product(m, n, depth, *kinds, "u8", left, right, a_zero=zeros[0], b_zero=zeros[1], finish=finish)
    )
    total = np.matmul(a.astype(np.int64) - zeros[0], b.astype(np.int64) - zeros[1])
    factor = np.float32(200 / np.abs(total).max())
    want = np.clip(np.rint(total.astype(np.float32) * factor) + np.float32(3), 5, 250).astype(np.uint8)
    y = aligned(np.zeros(want.shape, np.uint8))
    StandaloneKernel(emit_product, spec, made)(
        y,
        aligned(a),
        aligned(b),
        aligned(np.array([factor], np.float32)),
        aligned(requantize.limits),
        aligned(np.zeros(product_scratch(spec, made), np.uint8)),
    )
    np.testing.assert_array_equal(y, want)
